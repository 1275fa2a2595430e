// The page cache: pages of files that are mapped, or run. The theory is in src/ns/page_cache.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// A device with cached files: transfers that know nothing of the cache. As the
// device's read, write and truncate.
class PageSource {
 public:
  virtual Result<size_t> read_source(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // EIO here: the files cannot be written to.
  virtual Result<size_t> write_source(Chan& chan, const char* buffer, size_t size, uint64_t offset);

 protected:
  ~PageSource() = default;
};

// --- For devices, in what they override. May sleep, no lock held.

// Device::map. ENOMEM, and what stat gives.
Result<void> page_cache_map(Chan& chan, PageSource& source, bool writes);
// Device::page.
Result<FilePage> page_cache_page(Chan& chan, PageSource& source, uint64_t index);
// Device::read of a file that may have pages in the cache.
Result<size_t> page_cache_read(Chan& chan, PageSource& source, char* buffer, size_t size,
                               uint64_t offset);
// Device::write. O_APPEND is the caller's affair.
Result<size_t> page_cache_write(Chan& chan, PageSource& source, const char* buffer, size_t size,
                                uint64_t offset);
// Device::truncate: cut(argument) does it.
Result<void> page_cache_truncate(Chan& chan, PageSource& source, uint64_t size,
                                 Result<void> (*cut)(void* argument), void* argument);
// Device::sync_pages.
Result<void> page_cache_sync(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
// A file with this qid path is a new one: nothing in the cache is of it.
void page_cache_forget(const Device& device, uint64_t path);

// --- For others.

// A channel goes. As Chan::destroy.
void page_cache_drop(Chan& chan);
inline void page_cache_leave(Chan& chan) {
  if (chan.cached.load(std::memory_order_relaxed)) page_cache_drop(chan);
}
// A write-back through `chan`, whose last shared map is gone, was given up because nobody waits for
// it any more: it is tried again later.
void page_cache_sync_later(Ref<Chan> chan);
// Writes back all that has been changed. May sleep.
void page_cache_sync_all();
// Memory is out, and the caller holds no lock: writes back, and takes pages out of address spaces.
// True if it helped enough to try again. May sleep.
bool page_cache_relieve();
// Pages in the cache, and those of them that some address space maps.
struct PageCacheCounts {
  uint64_t pages, mapped;
};
PageCacheCounts page_cache_counts();

// Once, at boot, when tasks can be made.
void page_cache_init();
