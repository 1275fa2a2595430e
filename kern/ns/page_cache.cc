// The page cache: all users of a page of a file share one page of memory.
//
// The device reads a page into the cache on the first access to a map of the file. The map may be
// the text of a program. Address spaces map the cached page itself, so ten processes of one program
// share its text. A shared map has its own permissions. A private map is read-only until a write
// copies the page. The device's read() and write() use pages that are in the cache, so they see the
// same bytes as maps do; other bytes go directly to or from the device. write() changes the device
// first, then the cached page.
//
// A file is identified by device and qid path, and has a digital search tree (Knuth, vol. 3, 6.3)
// of its pages by index. After the first use, a channel points to its file in the cache
// (Chan::cached). A file and its pages stay in the cache when the last channel is freed.
//
// Pages and address spaces. Page::mappings counts the page tables that contain a page, plus the
// page's temporary users ("pins"). Pins are taken under page_cache_lock, which also guards the
// decision to free a page without mappings. An address space adds mappings without this lock, but
// only to pages that already have another mapping (fork) or a pin (fault). So no page in use is
// freed.
//
// Changes. A truncation or a write increments CachedFile::changes. A truncation does this before it
// removes pages from address spaces. A page fault looks a page up, locks its address space, and
// then compares the count with the count at the look-up. If the two counts differ, the fault starts
// again. A page is also read from the device again if the count has changed during the read.
//
// Writing back (page_cache_sync.cc). The processor marks written pages in the page tables. When a
// map is removed, or a file is synced, the mark moves to the page itself (kPageDirty). Dirty pages
// are written back by msync, fsync and close, when a map is removed (munmap, exec, exit, kill), by
// the task "page_cache" when memory is low, and before power-off. One write-back or truncation of a
// file runs at a time (sync_lock). An error is stored in the CachedFile until msync, fsync or close
// reports it; the page counts as written nevertheless. If a process is killed while it waits for
// the device to write, the CachedFile keeps a channel of the process (CachedFile::late), and the
// task tries again.
//
// Changes from outside of this system are noticed after the file is opened again: at the first map
// through the opened channel, or at the first read of a file that is in the cache. The cache then
// compares the modification time and size that the device reports with the stored ones. If the
// values differ, the cache drops the file's pages; existing maps keep the old pages. A file with
// writable shared maps keeps its pages in any case, because they may have changes that are not on
// the device.
//
// Memory. Each reap (kmem_set_reaper) frees pages that are clean and not mapped. A reap of the
// surplus (KMEM_REAP_SURPLUS) keeps pages that were used since the last reap. A reap takes only a
// spinlock, so any allocation that may sleep can reap. If a page fault gets no memory,
// page_cache_relieve() writes back dirty pages and unmaps pages of files; pages in segments of
// programs stay mapped. A process is killed only if this frees too few pages. Writing back
// allocates nothing.
//
// Lock order: sync_lock, then the locks of address spaces, then page_cache_lock, which is held for
// one walk down a tree (64 steps) or for some pages of a list.
#include "ns/page_cache.h"

#include <algorithm>

#include "kmalloc.h"
#include "lib/string.h"
#include "ns/page_cache_impl.h"
#include "pages.h"
#include "proc/address_space.h"
#include "slab.h"

constinit Spinlock page_cache_lock{LockRank::kPageCache};
constinit AllFiles page_cache_files;
constinit std::atomic<uint32_t> page_cache_writers{0};

namespace {

using Bucket = List<CachedFile, &CachedFile::in_bucket>;
constexpr size_t kBuckets = 128;
// Bounds for one hold of page_cache_lock. At most kReapBatch pages are removed to be freed, a reap
// examines at most kReapLook pages, and a read looks up at most kReadLook pages. Each of these
// three takes about 3,000 instructions.
constexpr unsigned kReapBatch = 8, kReapLook = 32, kReadLook = 64;

constinit ObjectCache<CachedFile> file_cache;
constinit ObjectCache<CachedPage> page_cache;
constinit Bucket buckets[kBuckets] GUARDED_BY(page_cache_lock);
using AllPages = List<CachedPage, &CachedPage::in_all>;
constinit AllPages all_pages GUARDED_BY(page_cache_lock);
constinit uint64_t page_count GUARDED_BY(page_cache_lock) = 0;

// Returns the index of the first page that lies entirely after the first `size` bytes.
uint64_t pages_for(uint64_t size) {
  return align_up(size, kPageSize) / kPageSize;
}

Bucket& bucket_of(const Device& device, uint64_t path) REQUIRES(page_cache_lock) {
  return buckets[(path * 31 + device.id()) % kBuckets];
}

CachedFile* find_file(const Device& device, uint64_t path) REQUIRES(page_cache_lock) {
  for (CachedFile& file : bucket_of(device, path))
    if (file.device == &device && file.path == path) return &file;
  return nullptr;
}

CachedPage** link_of(CachedFile& file, uint64_t index) REQUIRES(page_cache_lock) {
  CachedPage** link = &file.tree;
  for (unsigned level = 0; *link && (*link)->index != index; level++)
    link = &(*link)->below[index >> level & 1];
  return link;
}

void enter(CachedFile& file, CachedPage& page) REQUIRES(page_cache_lock) {
  *link_of(file, page.index) = &page;
  file.pages.push_back(page);
  file.page_count++;
  all_pages.push_back(page);
  page_count++;
}

// Removes the page from its file's tree and from all lists. In the tree, any leaf below the page
// takes its place.
void take_out(CachedPage& page) REQUIRES(page_cache_lock) {
  CachedFile& file = *page.file;
  CachedPage** const link = link_of(file, page.index);
  CachedPage** leaf = link;
  while ((*leaf)->below[0] || (*leaf)->below[1]) leaf = &(*leaf)->below[(*leaf)->below[0] ? 0 : 1];
  CachedPage* const last = std::exchange(*leaf, nullptr);
  if (last != &page) {
    std::copy(page.below, page.below + 2, last->below);
    *link = last;
  }
  CachedFile::Pages::remove(page);
  AllPages::remove(page);
  file.page_count--;
  page_count--;
}

// Frees a page that is in no tree or list.
void give_up(CachedPage& page) {
  mappings_of(page).fetch_and(~kPageDirty, std::memory_order_relaxed);
  page_leaves_file(physical_of(page));
  page_cache.destroy(&page);
}

// Hides the file from find_file().
void hide(CachedFile& file) REQUIRES(page_cache_lock) {
  if (!std::exchange(file.found, false)) return;
  file.in_bucket.unlink();
}

bool is_wanted(const CachedFile& file) REQUIRES(page_cache_lock) {
  return file.channels > 0 || file.late || (file.found && (file.page_count > 0 || file.has_error));
}

// If the file is unwanted, removes it from all lists and returns true; the caller then destroys the
// file.
bool take_out_unwanted(CachedFile& file) REQUIRES(page_cache_lock) {
  if (is_wanted(file)) return false;
  hide(file);
  file.in_all.unlink();
  return true;
}

// Destroys a file that is in no list any more. Its pages are still in `all_pages`.
void destroy(CachedFile* file) {
  if (!file) return;
  for (;;) {
    CachedPage* page = nullptr;
    {
      const Guard guard(page_cache_lock);
      page = file->pages.front();
      if (page) take_out(*page);
    }
    if (!page) break;
    give_up(*page);
  }
  file_cache.destroy(file);
}

Result<FileVersion> version_of(Chan& chan) {
  abi_stat stat;
  TRY(chan.device->stat(chan, stat));
  return FileVersion{stat.mtime.sec, stat.mtime.nsec, stat.size};
}

// A new page, not yet in the cache; the destructor frees it unless use() was called.
class SparePage {
 public:
  static Result<SparePage> make() {
    CachedPage* const page = TRY(page_cache.make(KM_SLEEP));
    Result<PhysAddr> memory = page_alloc(KM_SLEEP);
    if (!memory) {
      page_cache.destroy(page);
      return memory.error();
    }
    page->bytes = static_cast<char*>(direct_map(*memory));
    mappings_of(*page).store(kPageOfFile, std::memory_order_relaxed);
    return SparePage(page);
  }
  SparePage(SparePage&& other) noexcept : page_(std::exchange(other.page_, nullptr)) {}
  ~SparePage() {
    if (page_) give_up(*page_);
  }
  CachedPage* operator->() const { return page_; }
  CachedPage& use() { return *std::exchange(page_, nullptr); }

 private:
  explicit SparePage(CachedPage* page) : page_(page) {}
  CachedPage* page_;
};

// Returns the file of a channel, and attaches the channel to it. If the cache does not have the
// file, creates it; returns nullptr if `only_if_there` is true.
Result<CachedFile*> attach(Chan& chan, PageSource& source, bool only_if_there) {
  if (CachedFile* const file = chan.cached.load(std::memory_order_acquire)) return file;
  if (only_if_there) {
    const Guard guard(page_cache_lock);
    if (!find_file(*chan.device, chan.qid.path)) return nullptr;
  }
  const FileVersion version = TRY(version_of(chan));
  CachedFile* made = nullptr;
  if (!only_if_there) {
    made = TRY(file_cache.make(KM_SLEEP));
    made->device = chan.device;
    made->path = chan.qid.path;
    made->source = &source;
    made->version = version;
    made->size = version.size;
  }
  CachedFile *file = nullptr, *stale = nullptr;
  {
    const Guard guard(page_cache_lock);
    file = chan.cached.load(std::memory_order_relaxed);
    if (!file) {
      file = find_file(*chan.device, chan.qid.path);
      if (file && !(file->version == version) && file->writers == 0 && !file->late) {
        hide(*file);
        if (take_out_unwanted(*file)) stale = file;
        file = nullptr;
      }
      if (!file && made) {
        file = std::exchange(made, nullptr);
        bucket_of(*chan.device, chan.qid.path).push_back(*file);
        page_cache_files.push_back(*file);
      }
      if (file) {
        file->channels++;
        chan.cached.store(file, std::memory_order_release);
      }
    }
  }
  destroy(stale);
  if (made) file_cache.destroy(made);
  return file;
}

// The file ends after `size` bytes. Zeroes the rest of the cached page in which the file ends,
// because the rest becomes visible if the file grows.
void clear_tail(CachedFile& file, uint64_t size) REQUIRES(page_cache_lock) {
  if (size % kPageSize == 0) return;
  if (CachedPage* const page = cached_page_find(file, size / kPageSize))
    memset(page->bytes + size % kPageSize, 0, kPageSize - size % kPageSize);
}

// Updates the cache after `size` bytes of `data` have been written to the file at `offset`.
void written(CachedFile& file, const char* data, size_t size, uint64_t offset) {
  for (size_t done = 0; done < size;) {
    const uint64_t at = offset + done;
    const size_t in_page = at % kPageSize, part = std::min(size - done, kPageSize - in_page);
    const Guard guard(page_cache_lock);
    if (done == 0 && offset > file.size) clear_tail(file, file.size);
    if (CachedPage* const page = cached_page_find(file, at / kPageSize)) {
      memcpy(page->bytes + in_page, data + done, part);
      // A running write-back may have the old bytes, so the page must be written again.
      if (file.writers > 0 || file.late)
        mappings_of(*page).fetch_or(kPageDirty, std::memory_order_relaxed);
    }
    done += part;
    file.size = std::max(file.size, offset + done);
    file.changes.fetch_add(1, std::memory_order_relaxed);
  }
}

// Sets the file's cached size, in bytes, and removes the pages after it. Under sync_lock.
void resize(CachedFile& file, uint64_t size) {
  const uint64_t first = pages_for(size);
  {
    const Guard guard(page_cache_lock);
    file.changes.fetch_add(1, std::memory_order_relaxed);
    clear_tail(file, std::min(size, file.size));
    file.size = size;
  }
  CachedFile::Pages gone;
  for (uint64_t left = UINT64_MAX; left > 0;) {
    const Guard guard(page_cache_lock);
    left = std::min(left, file.page_count);
    for (unsigned i = 0; i < kReapBatch && left > 0; i++, left--) {
      CachedPage& page = *file.pages.pop_front();
      file.pages.push_back(page);
      if (page.index < first) continue;
      take_out(page);
      gone.push_back(page);
    }
  }
  AddressSpace::unmap_file({file.device, file.path, &file}, first);
  while (CachedPage* const page = gone.pop_front()) give_up(*page);
}

}  // namespace

Result<size_t> PageSource::write_source(Chan&, const char*, size_t, uint64_t) {
  return Errno::EIO;
}

CachedFileHold::CachedFileHold(const Chan& chan) {
  const Guard guard(page_cache_lock);
  file_ = chan.cached.load(std::memory_order_relaxed);
  if (!file_) file_ = find_file(*chan.device, chan.qid.path);
  if (file_) file_->channels++;
}

void cached_file_release(CachedFile& file) {
  {
    const Guard guard(page_cache_lock);
    file.channels--;
    if (!take_out_unwanted(file)) return;
  }
  destroy(&file);
}

CachedPage* cached_page_find(CachedFile& file, uint64_t index) {
  return *link_of(file, index);
}

void cached_file_refresh(CachedFile& file, Chan& chan) {
  Result<FileVersion> version = version_of(chan);
  if (!version) return;  // the next open will find that the file has changed
  const Guard guard(page_cache_lock);
  file.version = *version;
}

Result<void> page_cache_map(Chan& chan, PageSource& source, bool writes) {
  CachedFile* const file = TRY(attach(chan, source, false));
  if (!writes) return {};
  const Guard guard(page_cache_lock);
  if (chan.writes_pages.exchange(true)) return {};
  file->writers++;
  page_cache_writers.fetch_add(1, std::memory_order_relaxed);
  return {};
}

Result<FilePage> page_cache_page(Chan& chan, PageSource& source, uint64_t index) {
  CachedFile& file = *TRY(attach(chan, source, false));
  const uint64_t offset = index * kPageSize;
  for (;;) {
    uint64_t change = 0, size = 0;
    {
      const Guard guard(page_cache_lock);
      change = file.changes.load(std::memory_order_relaxed);
      if (CachedPage* const page = cached_page_find(file, index)) {
        page->used = true;
        if (!page_mapped(physical_of(*page))) return Errno::ENOSPC;
        return FilePage{physical_of(*page), &file.changes, change};
      }
      size = file.size;
    }
    if (offset >= size) {
      // The file may have grown on its device without the cache's knowledge, for example because
      // the host has appended to it.
      const FileVersion version = TRY(version_of(chan));
      if (offset >= version.size) return Errno::ENXIO;
      const Guard guard(page_cache_lock);
      file.size = std::max(file.size, version.size);
    }
    SparePage fresh = TRY(SparePage::make());
    size_t filled = 0;
    while (filled < kPageSize) {
      Result<size_t> got =
          source.read_source(chan, fresh->bytes + filled, kPageSize - filled, offset + filled);
      if (!got) return got.error() == Errno::EINTR ? Errno::EINTR : Errno::EIO;
      if (*got == 0) break;
      filled += *got;
    }
    if (filled == 0) return Errno::ENXIO;
    memset(fresh->bytes + filled, 0, kPageSize - filled);
    const Guard guard(page_cache_lock);
    if (file.changes.load(std::memory_order_relaxed) != change || cached_page_find(file, index))
      continue;
    CachedPage& page = fresh.use();
    page.file = &file;
    page.index = index;
    enter(file, page);
    mappings_of(page).fetch_add(1, std::memory_order_relaxed);
    return FilePage{physical_of(page), &file.changes, change};
  }
}

Result<size_t> page_cache_read(Chan& chan, PageSource& source, char* buffer, size_t size,
                               uint64_t offset) {
  CachedFile* const file = TRY(attach(chan, source, true));
  if (!file) return source.read_source(chan, buffer, size, offset);
  size_t done = 0;
  while (done < size) {
    const uint64_t at = offset + done;
    const size_t in_page = at % kPageSize;
    CachedPage* page = nullptr;
    const char* bytes = nullptr;
    size_t part = 0;
    {
      const Guard guard(page_cache_lock);
      page = cached_page_find(*file, at / kPageSize);
      if (page && at >= file->size) break;
      if (page) {
        part = std::min({size - done, kPageSize - in_page, file->size - at});
        page->used = true;
        mappings_of(*page).fetch_add(1, std::memory_order_relaxed);
        bytes = page->bytes;
      } else {  // not cached: read up to the next cached page
        part = std::min(size - done, kPageSize - in_page);
        const size_t most = std::min(size - done, kReadLook * kPageSize - in_page);
        while (part < most && !cached_page_find(*file, (at + part) / kPageSize))
          part = std::min(most, part + kPageSize);
      }
    }
    if (page) {
      memcpy(buffer + done, bytes + in_page, part);
      page_unmapped(direct_map_phys(bytes));
      done += part;
      continue;
    }
    Result<size_t> got = source.read_source(chan, buffer + done, part, at);
    if (!got) return done > 0 ? Result<size_t>(done) : got.error();
    done += *got;
    if (*got < part) break;
  }
  return done;
}

Result<size_t> page_cache_write(Chan& chan, PageSource& source, const char* buffer, size_t size,
                                uint64_t offset) {
  if (CachedFile* const file = TRY(attach(chan, source, true)))
    file->changes.fetch_add(1, std::memory_order_relaxed);
  const size_t done = TRY(source.write_source(chan, buffer, size, offset));
  const CachedFileHold hold(chan);
  if (!hold.get()) return done;
  written(*hold.get(), buffer, done, offset);
  cached_file_refresh(*hold.get(), chan);
  return done;
}

Result<void> page_cache_truncate(Chan& chan, PageSource& source, uint64_t size,
                                 Result<void> (*cut)(void* argument), void* argument) {
  CachedFile* const file = TRY(attach(chan, source, true));
  if (!file) {
    TRY(cut(argument));
    const CachedFileHold hold(chan);
    if (!hold.get()) return {};
    MutexGuard guard(hold.get()->sync_lock);
    resize(*hold.get(), size);
    return {};
  }
  const MutexGuard guard(file->sync_lock);
  file->changes.fetch_add(1, std::memory_order_relaxed);
  TRY(cut(argument));
  resize(*file, size);
  cached_file_refresh(*file, chan);
  return {};
}

void page_cache_forget(const Device& device, uint64_t path) {
  CachedFile* stale = nullptr;
  {
    const Guard guard(page_cache_lock);
    if (CachedFile* const file = find_file(device, path)) {
      hide(*file);
      if (take_out_unwanted(*file)) stale = file;
    }
  }
  destroy(stale);
}

void page_cache_drop(Chan& chan) {
  CachedFile& file = *chan.cached.load(std::memory_order_relaxed);
  if (chan.writes_pages) {
    const Guard guard(page_cache_lock);
    file.writers--;
    page_cache_writers.fetch_sub(1, std::memory_order_relaxed);
  }
  cached_file_release(file);
}

uint64_t cached_pages_reap(bool all) {
  uint64_t freed = 0;
  for (uint64_t left = UINT64_MAX; left > 0;) {
    AllPages gone;
    AllFiles empty;
    {
      const Guard guard(page_cache_lock);
      left = std::min(left, page_count);
      unsigned taken = 0;
      for (unsigned i = 0; i < kReapLook && taken < kReapBatch && left > 0; i++, left--) {
        CachedPage& page = *all_pages.pop_front();
        all_pages.push_back(page);
        const bool used = std::exchange(page.used, false);
        if ((mappings_of(page).load(std::memory_order_acquire) & ~kPageNamed) != kPageOfFile ||
            (used && !all))
          continue;
        CachedFile& file = *page.file;
        take_out(page);
        gone.push_back(page);
        taken++;
        if (take_out_unwanted(file)) empty.push_back(file);
      }
    }
    while (CachedPage* const page = gone.pop_front()) {
      give_up(*page);
      freed++;
    }
    while (CachedFile* const file = empty.pop_front()) destroy(file);
  }
  return freed;
}

PageCacheCounts page_cache_counts() {
  PageCacheCounts counts{};
  for (uint64_t left = UINT64_MAX; left > 0;) {
    const Guard guard(page_cache_lock);
    if (left == UINT64_MAX) counts.pages = page_count;
    left = std::min(left, page_count);
    for (unsigned i = 0; i < kReapLook && left > 0; i++, left--) {
      CachedPage& page = *all_pages.pop_front();
      all_pages.push_back(page);
      counts.mapped += (mappings_of(page).load(std::memory_order_relaxed) & kPageMappings) > 0;
    }
  }
  return counts;
}

void page_cache_init() {
  file_cache.init("cached_file");
  page_cache.init("cached_page");
  page_cache_sync_init();
}
