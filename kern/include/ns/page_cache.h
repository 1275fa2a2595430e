// The page cache: pages of mapped and executed files. The theory is in src/ns/page_cache.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// Implemented by a device with cached files: these functions bypass the cache, and otherwise do
// what the device's read and write do.
class PageSource {
 public:
  virtual Result<size_t> read_source(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // EIO by default: the files cannot be written to.
  virtual Result<size_t> write_source(Chan& chan, const char* buffer, size_t size, uint64_t offset);

 protected:
  ~PageSource() = default;
};

// --- For devices, in their overrides of Device's functions. May sleep, no lock held.

// Implements Device::map. ENOMEM, and the errors of stat.
Result<void> page_cache_map(Chan& chan, PageSource& source, bool writes);
// Implements Device::page.
Result<FilePage> page_cache_page(Chan& chan, PageSource& source, uint64_t index);
// Implements Device::read for a file that may have pages in the cache.
Result<size_t> page_cache_read(Chan& chan, PageSource& source, char* buffer, size_t size,
                               uint64_t offset);
// Implements Device::write. The caller handles O_APPEND.
Result<size_t> page_cache_write(Chan& chan, PageSource& source, const char* buffer, size_t size,
                                uint64_t offset);
// Implements Device::truncate; cut(argument) truncates the file on the device.
Result<void> page_cache_truncate(Chan& chan, PageSource& source, uint64_t size,
                                 Result<void> (*cut)(void* argument), void* argument);
// Implements Device::sync_pages.
Result<void> page_cache_sync(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors);
// Called when a new file gets this qid path: removes the pages of an earlier file with the same
// path from the cache.
void page_cache_forget(const Device& device, uint64_t path);

// --- For the rest of the kernel.

// Called when a channel ends, in the context of Chan::destroy.
void page_cache_drop(Chan& chan);
inline void page_cache_leave(Chan& chan) {
  if (chan.cached.load(std::memory_order_relaxed)) page_cache_drop(chan);
}
// Lets the page cache's task write back the file through `chan`, repeatedly until the device
// answers. For a shared writable map that is gone, if the write-back at its end was given up
// without the device's answer (EINTR, ETIMEDOUT).
void page_cache_sync_later(Ref<Chan> chan);
// Writes back all changed pages. May sleep.
void page_cache_sync_all();
// When out of memory: frees clean pages that are not mapped. If these are few, writes back changed
// pages, takes pages of files out of address spaces, and frees again. True if an allocation should
// be tried again. May sleep; no lock held.
bool page_cache_relieve();
// The number of pages in the cache, and of those that are mapped.
struct PageCacheCounts {
  uint64_t pages, mapped;
};
PageCacheCounts page_cache_counts();

// Sets up the page cache. Once, at boot, when tasks can be made.
void page_cache_init();
