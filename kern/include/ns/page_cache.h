// The page cache: pages of mapped and executed files. The theory is in src/ns/page_cache.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// Implemented by a device with cached files: transfers that bypass the cache, otherwise as the
// device's read and write.
class PageSource {
 public:
  virtual Result<size_t> read_source(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // EIO here: the files cannot be written to.
  virtual Result<size_t> write_source(Chan& chan, const char* buffer, size_t size, uint64_t offset);

 protected:
  ~PageSource() = default;
};

// --- For devices, in their overrides of Device's functions. May sleep, no lock held.

// Device::map. ENOMEM, and the errors of stat.
Result<void> page_cache_map(Chan& chan, PageSource& source, bool writes);
// Device::page.
Result<FilePage> page_cache_page(Chan& chan, PageSource& source, uint64_t index);
// Device::read of a file that may have pages in the cache.
Result<size_t> page_cache_read(Chan& chan, PageSource& source, char* buffer, size_t size,
                               uint64_t offset);
// Device::write. The caller handles O_APPEND.
Result<size_t> page_cache_write(Chan& chan, PageSource& source, const char* buffer, size_t size,
                                uint64_t offset);
// Device::truncate; cut(argument) truncates the file on the device.
Result<void> page_cache_truncate(Chan& chan, PageSource& source, uint64_t size,
                                 Result<void> (*cut)(void* argument), void* argument);
// Device::sync_pages.
Result<void> page_cache_sync(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
// A new file gets this qid path: removes the pages of an earlier file with the path from the cache.
void page_cache_forget(const Device& device, uint64_t path);

// --- For others.

// A channel ends. Context as Chan::destroy.
void page_cache_drop(Chan& chan);
inline void page_cache_leave(Chan& chan) {
  if (chan.cached.load(std::memory_order_relaxed)) page_cache_drop(chan);
}
// Schedules another write-back through `chan`, whose last shared map is gone. The first one was
// given up because nobody waits for it any more.
void page_cache_sync_later(Ref<Chan> chan);
// Writes back all changed pages. May sleep.
void page_cache_sync_all();
// When out of memory: writes back, and takes pages out of address spaces. True if an allocation
// should be tried again. May sleep; no lock held.
bool page_cache_relieve();
// The number of pages in the cache, and of those that are mapped.
struct PageCacheCounts {
  uint64_t pages, mapped;
};
PageCacheCounts page_cache_counts();

// Sets up the page cache. Once, at boot, when tasks can be made.
void page_cache_init();
