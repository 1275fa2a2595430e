// Shared by the files of the page cache. The theory is in page_cache.cc.
#pragma once

#include <atomic>

#include "arch/x86_64/paging.h"
#include "core/sleep.h"
#include "core/spinlock.h"
#include "lib/list.h"
#include "lib/units.h"
#include "ns/page_cache.h"
#include "pages.h"

// A page of a file, in the file's tree and list and in the list of all pages.
struct CachedPage {
  CachedFile* file = nullptr;
  uint64_t index = 0;
  char* bytes = nullptr;  // address in the direct map
  CachedPage* below[2] = {};
  ListNode in_file, in_all;
  bool used = true;  // the page was used since the last reap
};

// A file's version, as its device reports it: a different version means a changed file.
struct FileVersion {
  int64_t seconds = 0, nanoseconds = 0;
  uint64_t size = 0;
  bool operator==(const FileVersion&) const = default;
};

struct CachedFile {
  using Pages = List<CachedPage, &CachedPage::in_file>;
  const Device* device = nullptr;
  uint64_t path = 0;  // path of the qid
  PageSource* source = nullptr;
  std::atomic<uint64_t> changes{0};  // FilePage::changes points to it
  Mutex sync_lock{LockRank::kPageSync};

  // Under page_cache_lock.
  CachedPage* tree = nullptr;
  Pages pages;
  uint64_t page_count = 0;
  uint64_t size = 0;  // bytes
  FileVersion version;
  // `channels`: number of attached channels and of holds (CachedFileHold). `writers`: number of
  // attached channels with writes_pages.
  uint32_t channels = 0, writers = 0;
  Errno error{};           // valid if `has_error`: the last error of a write-back
  bool has_error = false;  // `error` has not been reported yet
  bool found = true;       // a look-up finds the file; otherwise only its channels reach it
  // A writable channel from page_cache_sync_later(), or empty. The task "page_cache" will write the
  // file's dirty pages through this channel.
  HeldRef<Chan> late;
  ListNode in_bucket, in_all;
};

extern Spinlock page_cache_lock;

using AllFiles = List<CachedFile, &CachedFile::in_all>;
extern AllFiles page_cache_files GUARDED_BY(page_cache_lock);

extern std::atomic<uint32_t> page_cache_writers;  // the sum of the files' `writers`

inline PhysAddr physical_of(const CachedPage& page) {
  return direct_map_phys(page.bytes);
}
inline std::atomic<uint32_t>& mappings_of(const CachedPage& page) {
  return page_of(page.bytes)->mappings;
}

CachedPage* cached_page_find(CachedFile& file, uint64_t index) REQUIRES(page_cache_lock);
// Decrements `channels`, which the caller has incremented. Destroys the file if the cache has no
// more use for it.
void cached_file_release(CachedFile& file);
// If the file of a channel is cached, holds a reference to the CachedFile until the end of the
// scope.
class CachedFileHold {
 public:
  explicit CachedFileHold(const Chan& chan);
  ~CachedFileHold() {
    if (file_) cached_file_release(*file_);
  }
  CachedFileHold(const CachedFileHold&) = delete;
  CachedFileHold& operator=(const CachedFileHold&) = delete;
  CachedFile* get() const { return file_; }

 private:
  CachedFile* file_ = nullptr;
};
// Sets `version` of the CachedFile to the version that the device reports now.
void cached_file_refresh(CachedFile& file, Chan& chan);
// Frees pages that are clean and that no address space maps. With `all`, frees pages that were used
// since the last call, too. Returns the number of freed pages.
uint64_t cached_pages_reap(bool all);
// Starts the task that writes pages back, and sets the reaper. Called once, at boot.
void page_cache_sync_init();
