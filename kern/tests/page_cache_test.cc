// The page cache on a device of the test: sharing, write-back, error reports and reaping.
#include <algorithm>
#include <atomic>

#include "arch/x86_64/interrupts.h"
#include "core/ktest.h"
#include "core/user_memory.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "ns/page_cache.h"
#include "pages.h"
#include "proc/address_space.h"
#include "slab.h"
#include "tests/team.h"

namespace {

constexpr uint64_t kBase = 0x10000000, kPages = 8;
constexpr uint32_t kReadWrite = ABI_PROT_READ | ABI_PROT_WRITE;

// A device with one file. The test checks the file's bytes, and can make writes to the file fail.
class TestDevice final : public Device, public PageSource {
 public:
  constexpr TestDevice() : Device("maptest") {}

  Result<Ref<Chan>> walk(Chan&, std::string_view, const Credentials&) override {
    return Errno::ENOENT;
  }
  Result<void> stat(Chan& chan, abi_stat& stat) override {
    fill_stat(stat, chan.qid.path, ABI_S_IFREG | 0644, size);
    stat.mtime = {time, 0};
    return {};
  }
  Result<Ref<Chan>> open(Ref<Chan> chan, uint32_t, const Credentials&) override { return chan; }
  Result<size_t> read(Chan& chan, char* buffer, size_t bytes, uint64_t offset) override {
    return page_cache_read(chan, *this, buffer, bytes, offset);
  }
  Result<size_t> write(Chan& chan, const char* buffer, size_t bytes, uint64_t offset) override {
    return page_cache_write(chan, *this, buffer, bytes, offset);
  }
  Result<void> truncate(Chan& chan, uint64_t to, const Credentials&) override {
    const auto cut = [](void* argument) {
      auto& device = *static_cast<TestDevice*>(argument);
      const Guard guard(device.lock_);
      if (device.wanted < device.size)
        memset(device.bytes + device.wanted, 0, device.size - device.wanted);
      device.size = device.wanted;
      return Result<void>();
    };
    wanted = to;
    return page_cache_truncate(chan, *this, to, cut, this);
  }
  Result<void> map(Chan& chan, bool writes) override { return page_cache_map(chan, *this, writes); }
  Result<FilePage> page(Chan& chan, uint64_t index) override {
    return page_cache_page(chan, *this, index);
  }
  Result<void> sync_pages(Chan& chan, uint64_t offset, uint64_t count, SyncErrors errors) override {
    return page_cache_sync(chan, offset, count, errors);
  }
  Result<size_t> read_source(Chan&, char* buffer, size_t count, uint64_t offset) override {
    reads++;
    const Guard guard(lock_);
    if (offset >= size) return size_t{0};
    count = std::min(count, size - offset);
    memcpy(buffer, bytes + offset, count);
    return count;
  }
  Result<size_t> write_source(Chan&, const char* buffer, size_t count, uint64_t offset) override {
    writes++;
    if (const Errno error = fails; error != Errno{}) return error;
    const Guard guard(lock_);
    EXPECT(offset + count <= sizeof(bytes));
    memcpy(bytes + offset, buffer, count);
    size = std::max(size, offset + count);
    return count;
  }

  // Replaces the device's file with another one. Each byte of the new file is the number of its
  // page.
  void renew() {
    number_++;
    for (size_t i = 0; i < sizeof(bytes); i++) bytes[i] = static_cast<char>(i / kPageSize);
    size = sizeof(bytes);
    time++;
    reads = writes = 0;
    fails = Errno{};
  }
  Ref<Chan> open_file() {
    Ref<Chan> chan = Chan::create(this, {.path = number_, .version = 0, .directory = false}).take();
    chan->is_open = true;
    chan->open_flags = ABI_O_RDWR;
    return chan;
  }

  char bytes[kPages * kPageSize] = {};
  size_t size = 0, wanted = 0;
  int64_t time = 0;
  std::atomic<unsigned> reads{0}, writes{0};
  std::atomic<Errno> fails{Errno{}};

 private:
  Spinlock lock_{LockRank::kDevice};
  uint64_t number_ = 0;
};

constinit TestDevice device;

// Makes an address space that maps the file at kBase.
Ref<AddressSpace> space_with(const Ref<Chan>& file, bool shared) {
  Ref<AddressSpace> space = AddressSpace::create().take();
  EXPECT(device.map(*file, shared));
  EXPECT(space->map(kBase, kPages * kPageSize, kReadWrite, true,
                    {.file = file, .offset = 0, .shared = shared, .may_write = true}));
  space->announce();
  return space;
}

char byte_in(AddressSpace& space, uint64_t at) {
  char byte = '?';
  EXPECT(space.fault(kBase + at, FaultAccess::kRead));
  EXPECT(space.read(kBase + at, &byte, 1) == 1);
  return byte;
}
// Writes as a program does, so that the processor sets the dirty bit in the page tables.
// AddressSpace::write would not set it.
void write_in(AddressSpace& space, uint64_t at, char byte) {
  EXPECT(space.fault(kBase + at, FaultAccess::kWrite));
  const PreemptOff preempt_off;
  {
    const InterruptsOff off;
    space.activate();
  }
  EXPECT(copy_to_user(kBase + at, &byte, 1));
  const InterruptsOff off;
  AddressSpace::activate_none();
}
char byte_read(Chan& file, uint64_t at) {
  char byte = '?';
  const Result<size_t> got = device.read(file, &byte, 1, at);
  EXPECT(got);
  return byte;
}
uint64_t pages_cached() {
  return page_cache_counts().pages;
}
Result<void> sync(Chan& file) {
  return device.sync_pages(file, 0, UINT64_MAX, SyncErrors::kTell);
}

}  // namespace

KTEST(page_cache_one_page_for_all) {
  device.renew();
  kmem_reap();
  const uint64_t before = pages_cached();
  {
    const Ref<Chan> file = device.open_file(), other = device.open_file();
    const Ref<AddressSpace> first = space_with(file, true), second = space_with(other, true),
                            own = space_with(file, false);
    for (uint64_t i = 0; i < kPages; i++) {
      EXPECT(byte_in(*first, i * kPageSize) == static_cast<char>(i));
      EXPECT(byte_in(*second, i * kPageSize) == static_cast<char>(i));
      EXPECT(byte_in(*own, i * kPageSize) == static_cast<char>(i));
    }
    EXPECT(device.reads == kPages && pages_cached() == before + kPages);
    EXPECT(own->resident_bytes() == kPages * kPageSize && own->own_bytes() == 0);
    write_in(*first, 5, 'w');
    EXPECT(byte_in(*second, 5) == 'w' && byte_in(*own, 5) == 'w' && byte_read(*other, 5) == 'w');
    write_in(*own, 6, 'o');
    EXPECT(own->resident_bytes() == kPages * kPageSize && own->own_bytes() == kPageSize);
    EXPECT(byte_in(*second, 6) == 0 && byte_in(*own, 6) == 'o' && byte_in(*own, 5) == 'w');
    EXPECT(device.write(*file, "xyz", 3, kPageSize - 1));
    EXPECT(byte_in(*first, kPageSize) == 'y' && byte_in(*second, kPageSize - 1) == 'x');
    EXPECT(device.bytes[kPageSize - 1] == 'x' && device.bytes[5] == 0);
  }
  EXPECT(device.bytes[5] == 'w');  // the unmap has written page 0
  EXPECT(pages_cached() == before + kPages);
  // The pages stay in the cache until memory is needed.
  const Ref<Chan> file = device.open_file();
  EXPECT(byte_in(*space_with(file, false), 7) == 0 && device.reads == kPages);
  kmem_reap();
  EXPECT(pages_cached() == before);
}

KTEST(page_cache_reap_takes_what_nobody_needs) {
  device.renew();
  kmem_reap();
  const uint64_t before = pages_cached();
  const Ref<Chan> file = device.open_file();
  {
    const Ref<AddressSpace> space = space_with(file, true);
    for (uint64_t i = 0; i < kPages; i++) byte_in(*space, i * kPageSize);
    EXPECT(space->unmap(kBase, 4 * kPageSize));
    kmem_reap();
    EXPECT(pages_cached() == before + kPages - 4);  // only the mapped pages stay
    write_in(*space, 5 * kPageSize, 'd');
    device.fails = Errno::EINTR;  // as if the writer had been killed: the page stays dirty
    EXPECT(!sync(*file));
    device.fails = Errno{};
    AddressSpace::unmap_file_pages();
    kmem_reap();
    EXPECT(pages_cached() == before + 1);  // only the dirty page stays
    EXPECT(byte_in(*space, 5 * kPageSize) == 'd' && sync(*file) &&
           device.bytes[5 * kPageSize] == 'd');
    AddressSpace::unmap_file_pages();
    kmem_reap();
    EXPECT(pages_cached() == before && byte_in(*space, 5 * kPageSize) == 'd');
  }
  kmem_reap();
  EXPECT(pages_cached() == before);
}

// The physical address of a futex in a shared page identifies the futex. So unmap_file_pages()
// skips every page in which a task has used a futex.
KTEST(page_cache_keeps_pages_with_futexes) {
  device.renew();
  kmem_reap();
  const uint64_t before = pages_cached();
  {
    const Ref<AddressSpace> space = space_with(device.open_file(), true);
    for (uint64_t i = 0; i < kPages; i++) byte_in(*space, i * kPageSize);
    constexpr uint64_t kFutex = kBase + 3 * kPageSize + 8;
    Result<PhysAddr> first = space->physical(kFutex);
    EXPECT(first);
    AddressSpace::unmap_file_pages();
    kmem_reap();
    EXPECT(pages_cached() == before + 1);
    Result<PhysAddr> second = space->physical(kFutex);
    EXPECT(second && second->value == first->value);
  }
  kmem_reap();
  EXPECT(pages_cached() == before);
}

KTEST(page_cache_tells_errors_once) {
  device.renew();
  const Ref<Chan> file = device.open_file(), other = device.open_file();
  Ref<AddressSpace> space = space_with(file, true);
  write_in(*space, 1, 'a');
  write_in(*space, kPageSize, 'b');
  device.fails = Errno::ENOSPC;
  Result<void> synced = sync(*file);
  EXPECT(!synced && synced.error() == Errno::ENOSPC);
  EXPECT(sync(*file) && device.bytes[1] == 0);
  // Unmapping a file cannot report an error. The next sync reports it, on any channel of the file.
  write_in(*space, 2, 'c');
  space.reset();
  device.fails = Errno{};
  synced = sync(*other);
  EXPECT(!synced && synced.error() == Errno::ENOSPC && sync(*other));
  // The error does not stop later writes. The page that could not be written is written after its
  // next change.
  space = space_with(file, true);
  write_in(*space, 3, 'd');
  EXPECT(sync(*file) && device.bytes[3] == 'd' && device.bytes[1] == 'a');
  space.reset();
  kmem_reap();
}

KTEST(page_cache_tries_again_later) {
  device.renew();
  {
    const Ref<Chan> file = device.open_file();
    Ref<AddressSpace> space = space_with(file, true);
    write_in(*space, 1, 'l');
    device.fails = Errno::ETIMEDOUT;
    space.reset();
  }
  EXPECT(device.bytes[1] == 0);
  device.fails = Errno{};
  page_cache_sync_all();
  EXPECT(device.bytes[1] == 'l');
  kmem_reap();
}

KTEST(page_cache_sees_changes_by_others) {
  device.renew();
  {
    const Ref<Chan> file = device.open_file();
    const Ref<AddressSpace> old = space_with(file, false);
    EXPECT(byte_in(*old, 0) == 0);
    device.bytes[0] = 'n';
    device.time++;
    const Ref<Chan> later = device.open_file();
    const Ref<AddressSpace> now = space_with(later, false);
    EXPECT(byte_in(*now, 0) == 'n' && byte_in(*old, 0) == 0);
    EXPECT(byte_read(*later, 0) == 'n' && byte_read(*file, 0) == 0);
  }
  {
    // If a file has a writable mapping, a change on the device does not replace the cached pages.
    const Ref<Chan> file = device.open_file();
    const Ref<AddressSpace> writer = space_with(file, true);
    write_in(*writer, 0, 'w');
    device.time++;
    const Ref<Chan> later = device.open_file();
    EXPECT(byte_in(*space_with(later, false), 0) == 'w');
  }
  kmem_reap();
}

KTEST(page_cache_cut) {
  device.renew();
  const Ref<Chan> file = device.open_file();
  Ref<AddressSpace> space = space_with(file, true);
  for (uint64_t i = 0; i < kPages; i++) write_in(*space, i * kPageSize + 100, 'x');
  EXPECT(device.truncate(*file, 2 * kPageSize + 50, {}));
  EXPECT(byte_in(*space, 2 * kPageSize + 49) == 2 && byte_in(*space, 2 * kPageSize + 100) == 0);
  const Result<void> beyond = space->fault(kBase + 3 * kPageSize, FaultAccess::kRead);
  EXPECT(!beyond && beyond.error() == Errno::ENXIO);
  EXPECT(sync(*file) && device.size == 2 * kPageSize + 50);
  EXPECT(device.truncate(*file, 4 * kPageSize, {}) && byte_in(*space, 3 * kPageSize + 100) == 0);
  space.reset();
  EXPECT(device.size == 4 * kPageSize && device.bytes[kPageSize + 100] == 'x' &&
         device.bytes[3 * kPageSize + 100] == 0);
  kmem_reap();
}

// A truncation unmaps all pages and leaves their page table empty. Another CPU may still cache the
// way to this table. So unmapping the range must make that CPU forget it before the table is freed.
KTEST(page_cache_table_of_a_cut_file_is_flushed) {
  device.renew();
  const Ref<Chan> file = device.open_file();
  const Ref<AddressSpace> space = space_with(file, true);
  struct User {
    AddressSpace* space;
    std::atomic<bool> is_active{false}, end{false};
  } user{space.get()};
  Team team(
      [](void* argument) {
        auto& self = *static_cast<User*>(argument);
        const PreemptOff preempt_off;
        {
          const InterruptsOff off;
          self.space->activate();
        }
        self.is_active = true;
        while (!self.end) cpu_relax();
        const InterruptsOff off;
        AddressSpace::activate_none();
      },
      &user);
  const CpuId me = current_task()->cpu;
  const CpuId other{(number_of(me) + 1) % cpu_count()};
  EXPECT(byte_in(*space, 0) == 0);
  EXPECT(device.truncate(*file, 0, {}));
  if (other == me) return;
  team.add(other);
  while (!user.is_active) cpu_relax();
  const uint64_t before = PageTables::flushes(other);
  EXPECT(space->unmap(kBase, kPages * kPageSize));
  EXPECT(PageTables::flushes(other) == before + 1);
  user.end = true;
  team.join();
}

// A page's count of mappings shares its word with flags, and does not run into them.
KTEST(page_cache_a_page_has_a_limit_of_mappings) {
  device.renew();
  const Ref<Chan> file = device.open_file();
  const Ref<AddressSpace> first = space_with(file, true), second = space_with(file, true);
  EXPECT(byte_in(*first, 0) == 0);
  const PhysAddr page = device.page(*file, 0).take().physical;
  std::atomic<uint32_t>& mappings = page_of(page)->mappings;
  page_unmapped(page);
  EXPECT(mappings == (kPageOfFile | 1));
  mappings = kPageOfFile | (kMostMappings - 1);
  EXPECT(byte_in(*second, 0) == 0 && mappings == (kPageOfFile | kMostMappings));
  Result<void> fault = space_with(file, false)->fault(kBase, FaultAccess::kRead);
  EXPECT(!fault && fault.error() == Errno::ENOSPC && mappings == (kPageOfFile | kMostMappings));
  Result<Ref<AddressSpace>> forked = first->fork();
  EXPECT(!forked && forked.error() == Errno::ENOMEM);
  EXPECT(mappings == (kPageOfFile | kMostMappings));
  mappings = kPageOfFile | 2;
  EXPECT(first->fork());  // the child ends at once
  EXPECT(mappings == (kPageOfFile | 2));
}

// Tasks read mappings of the file, write and truncate the file, sync, unmap pages and reap, all at
// once. Each byte that is read from a mapping is 0, or was written by a task, or belongs to the
// original file. At the end all cached pages can be reaped.
KTEST(page_cache_all_at_once) {
  device.renew();
  kmem_reap();
  const uint64_t before = pages_cached();
  struct State {
    Ref<Chan> file = device.open_file();
    std::atomic<unsigned> next{0};
  } state;
  Team team(
      [](void* argument) {
        State& all = *static_cast<State*>(argument);
        const unsigned me = all.next++;
        const Ref<Chan> file = device.open_file();
        const Ref<AddressSpace> space = space_with(file, me % 2);
        static char whole[4][kPageSize];
        for (unsigned round = 0; round < 200; round++) {
          const uint64_t page = ktest_random() % kPages;
          switch (ktest_random() % 8) {
            case 0:
              EXPECT(device.truncate(*file, page * kPageSize, {}));
              break;
            case 1:
              AddressSpace::unmap_file_pages();
              break;
            case 2:
              kmem_reap();
              break;
            case 3:
              EXPECT(sync(*file));
              break;
            case 4:
              memset(whole[me], 'a' + static_cast<int>(me), kPageSize);
              EXPECT(device.write(*file, whole[me], kPageSize, page * kPageSize));
              break;
            default: {
              const Result<void> result =
                  space->fault(kBase + page * kPageSize, FaultAccess::kRead);
              EXPECT(result || result.error() == Errno::ENXIO);
              char found = 0;
              if (space->read(kBase + page * kPageSize + 77, &found, 1) == 1)
                EXPECT(found == 0 || (found >= 'a' && found < 'e') ||
                       found == static_cast<char>(page));
            }
          }
        }
      },
      &state);
  for (unsigned i = 0; i < 4; i++) team.add();
  team.join();
  state.file.reset();
  page_cache_sync_all();
  kmem_reap();
  EXPECT(pages_cached() == before);
}
