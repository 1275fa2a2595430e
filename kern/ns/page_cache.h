// The page cache: pages of mapped and executed files. The theory is in ns/page_cache.cc.
#pragma once

#include <cstddef>
#include <cstdint>

#include "lib/result.h"
#include "ns/device.h"

// Implemented by a device with cached files. These functions do what the device's read and write
// do, but bypass the cache.
class PageSource {
 public:
  virtual Result<size_t> read_source(Chan& chan, char* buffer, size_t size, uint64_t offset) = 0;
  // EIO by default: the files cannot be written to.
  virtual Result<size_t> write_source(Chan& chan, const char* buffer, size_t size, uint64_t offset);

 protected:
  ~PageSource() = default;
};

// --- For devices, in their overrides of Device's functions. These functions may sleep; no lock is
// held.

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
// Called when a new file gets this qid path. If an earlier file had the same path, removes its
// pages from the cache.
void page_cache_forget(const Device& device, uint64_t path);

// --- For the rest of the kernel.

// page_cache_leave() is called when a channel is being freed (Chan::destroy). It calls
// page_cache_drop() if the channel's file is cached.
void page_cache_drop(Chan& chan);
inline void page_cache_leave(Chan& chan) {
  if (chan.cached.load(std::memory_order_relaxed)) page_cache_drop(chan);
}
// Makes the page cache's task write back the file through `chan`, again and again until the device
// answers. Called after a writable shared map has been removed, if the map's own write-back ended
// without an answer of the device (EINTR, ETIMEDOUT).
void page_cache_sync_later(Ref<Chan> chan);
// Writes back all changed pages of all files. May sleep.
void page_cache_sync_all();
// Called when out of memory. First frees clean pages that are not mapped. If these are few, writes
// back changed pages, removes pages of files from address spaces (but not the segments of
// programs), and frees clean pages again. True if an allocation should be tried again. May sleep;
// no lock held.
bool page_cache_relieve();
// `pages`: the number of pages in the cache. `mapped`: the number of these pages that are mapped.
struct PageCacheCounts {
  uint64_t pages, mapped;
};
PageCacheCounts page_cache_counts();

// Sets up the page cache. Called once, at boot, when tasks can be made.
void page_cache_init();
