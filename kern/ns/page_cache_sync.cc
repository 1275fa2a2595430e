// Writes back pages that were changed through maps. The theory is in page_cache.cc.
#include <algorithm>

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "ns/page_cache.h"
#include "ns/page_cache_impl.h"
#include "pages.h"
#include "proc/address_space.h"
#include "sched/task.h"
#include "slab.h"
#include "trace/trace.h"

namespace {

constexpr unsigned kLook = 64;    // most pages or files checked in one hold of page_cache_lock
constexpr uint64_t kEnough = 64;  // number of freed pages that justifies retrying an allocation
// If a device did not answer, the task tries again after this pause.
constexpr Nanoseconds kAgain{5'000'000'000};

constinit WaitQueue task_wait;
constinit bool task_wanted GUARDED_BY(page_cache_lock) = false;

bool can_write(const Chan& chan) {
  return chan.is_open && (chan.open_flags & ABI_O_ACCMODE) != ABI_O_RDONLY;
}

// True if `error` means that a call of a device ended before the device answered. The page must
// then be written again.
bool is_given_up(Errno error) {
  return error == Errno::EINTR || error == Errno::ETIMEDOUT;
}

// A pinned page that must be written. `offset` and `size` give the part of the file in bytes.
struct Dirty {
  char* bytes = nullptr;
  uint64_t offset = 0;
  size_t size = 0;
};

// Goes once through the pages of a file with indices in [first, end).
class DirtyPages {
 public:
  DirtyPages(CachedFile& file, uint64_t first, uint64_t end)
      : file_(file), first_(first), end_(end) {}
  // Gets the next dirty page, which counts as clean from now on; `bytes` is nullptr at the end.
  Dirty next() {
    while (left_ > 0) {
      const Guard guard(page_cache_lock);
      left_ = std::min(left_, file_.page_count);
      for (unsigned i = 0; i < kLook && left_ > 0; i++) {
        left_--;
        CachedPage& page = *file_.pages.pop_front();
        file_.pages.push_back(page);
        const uint64_t offset = page.index * kPageSize;
        if (page.index < first_ || page.index >= end_ ||
            !(mappings_of(page).load(std::memory_order_relaxed) & kPageDirty))
          continue;
        mappings_of(page).fetch_and(~kPageDirty, std::memory_order_acquire);
        if (offset >= file_.size) continue;
        mappings_of(page).fetch_add(1, std::memory_order_relaxed);
        return {page.bytes, offset, std::min<size_t>(kPageSize, file_.size - offset)};
      }
    }
    return {};
  }

 private:
  CachedFile& file_;
  const uint64_t first_, end_;
  uint64_t left_ = UINT64_MAX;
};

Result<void> write_page(CachedFile& file, Chan& writer, const Dirty& page) {
  for (size_t done = 0; done < page.size;) {
    const size_t put = TRY(
        file.source->write_source(writer, page.bytes + done, page.size - done, page.offset + done));
    if (put == 0) return Errno::EIO;
    done += put;
  }
  return {};
}

// Writes back the dirty pages with indices in [first, end). Uses the channel `through` if it is
// open for writing, otherwise a channel of a writable map. `through` may be nullptr. EINTR and
// ETIMEDOUT of the device are returned; its other errors are stored in CachedFile::error.
Result<void> write_back(CachedFile& file, Chan* through, uint64_t first, uint64_t end) {
  Ref<Chan> other;  // destroyed after the lock is released
  const MutexGuard guard(file.sync_lock);
  other = AddressSpace::collect_written({file.device, file.path, &file}, first, end);
  Chan* const writer = through && can_write(*through) ? through : other.get();
  if (!writer) return {};
  DirtyPages pages(file, first, end);
  bool any = false;
  Result<void> result;
  for (Dirty page = pages.next(); page.bytes && result; page = result ? pages.next() : Dirty{}) {
    const Result<void> written = write_page(file, *writer, page);
    if (!written) {
      if (is_given_up(written.error())) {
        page_of(page.bytes)->mappings.fetch_or(kPageDirty, std::memory_order_relaxed);
        result = written;
      } else {
        const Guard guard(page_cache_lock);
        file.error = written.error();
        file.has_error = true;
      }
    }
    page_unmapped(direct_map_phys(page.bytes));
    any = true;
  }
  if (any) cached_file_refresh(file, *writer);
  return result;
}

Result<void> tell_error(CachedFile& file) {
  const Guard guard(page_cache_lock);
  if (!std::exchange(file.has_error, false)) return {};
  return file.error;
}

// Calls visit(file) for each file whose pages a process may have changed through a map. The file is
// held during the call.
template <typename Visit>
void for_each_written(Visit visit) {
  CachedFile* held = nullptr;
  for (;;) {
    CachedFile* next = nullptr;
    bool is_written = false;
    {
      const Guard guard(page_cache_lock);
      next = held ? page_cache_files.next(*held) : page_cache_files.front();
      for (unsigned i = 0; next; i++) {
        is_written = next->writers > 0 || next->late;
        if (is_written || i == kLook - 1) break;
        next = page_cache_files.next(*next);
      }
      if (next) next->channels++;
    }
    if (held) cached_file_release(*held);
    held = next;
    if (!held) return;
    if (is_written) visit(*held);
  }
}

void write_back_all() {
  for_each_written([](CachedFile& file) {
    Ref<Chan> late;
    {
      const Guard guard(page_cache_lock);
      if (file.late) late = Ref<Chan>(file.late.object);
    }
    if (!write_back(file, late.get(), 0, UINT64_MAX) || !late) return;
    HeldRef<Chan> done;
    {
      const Guard guard(page_cache_lock);
      if (file.late.object == late.get()) std::swap(done, file.late);
    }
    Ref<Chan>::adopt(done).reset();
  });
}

void call_task() {
  const Guard guard(page_cache_lock);
  task_wanted = true;
  task_wait.wake_all();
}

void task_main(void*) {
  for (;;) {
    {
      const Guard guard(page_cache_lock);
      task_wait.wait_uninterruptible(page_cache_lock,
                                     []() REQUIRES(page_cache_lock) { return task_wanted; });
      task_wanted = false;
    }
    write_back_all();
    bool is_late = false;
    for_each_written([&](CachedFile& file) {
      const Guard guard(page_cache_lock);
      is_late |= static_cast<bool>(file.late);
    });
    if (!is_late) continue;
    static_cast<void>(task_sleep_until(monotonic_now() + kAgain));
    call_task();
  }
}

void reap(enum kmem_reap_extent extent) {
  cached_pages_reap(extent != KMEM_REAP_SURPLUS);
  // A reap of the surplus is a sign of low memory. So this reap starts a write-back, to have clean
  // pages in time.
  if (extent == KMEM_REAP_SURPLUS && page_cache_writers.load(std::memory_order_relaxed) > 0)
    call_task();
}

}  // namespace

Result<void> page_cache_sync(Chan& chan, uint64_t offset, uint64_t size, SyncErrors errors) {
  const CachedFileHold hold(chan);
  if (!hold.get()) return {};
  const uint64_t end = size > UINT64_MAX - offset - kPageSize
                           ? UINT64_MAX
                           : align_up(offset + size, kPageSize) / kPageSize;
  TRY(write_back(*hold.get(), &chan, offset / kPageSize, end));
  return errors == SyncErrors::kTell ? tell_error(*hold.get()) : Result<void>();
}

void page_cache_sync_later(Ref<Chan> chan) {
  const CachedFileHold hold(*chan);
  if (!hold.get()) return;
  {
    const Guard guard(page_cache_lock);
    if (!hold.get()->late) hold.get()->late = chan.release();
  }
  call_task();
}

void page_cache_sync_all() {
  write_back_all();
}

bool page_cache_relieve() {
  uint64_t freed = cached_pages_reap(true);
  if (freed >= kEnough) return true;
  write_back_all();
  AddressSpace::unmap_file_pages();
  freed += cached_pages_reap(true);
  return freed >= kEnough;
}

// Called by the command `settle` of the tracer (trace_register_settle). Frees unmapped pages,
// because they must not count as leaked objects of the test that read them.
void settle() {
  cached_pages_reap(true);
}

void page_cache_sync_init() {
  auto task = task_create("page_cache", task_main, nullptr);
  if (!task) panic("no memory for the page cache's task");
  task_start(*task);
  kmem_set_reaper(reap);
  trace_register_settle(settle);
}
