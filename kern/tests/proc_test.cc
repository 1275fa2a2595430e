// Tests of address spaces and program loading: sharing, copying, errors. No program runs. Each test
// also checks that everything is freed at the end.

#include <string_view>

#include "abi/start.h"
#include "core/ktest.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "pages.h"
#include "proc/address_space.h"
#include "proc/process_impl.h"
#include "slab.h"
#include "tests/cache_stats.h"

namespace {

constexpr uint64_t kBase = 0x10000000;
constexpr uint32_t kReadWrite = ABI_PROT_READ | ABI_PROT_WRITE;

// Checks that a test leaks no object and no page of an address space. These pages come from the
// cache page_4096, as do the pages of slabs and magazines.
class NothingLost {
 public:
  NothingLost() { count(before_); }
  ~NothingLost() {
    uint64_t after[kCaches];
    count(after);
    for (size_t i = 0; i < kCaches; i++) {
      if (after[i] != before_[i])
        klog("%s: %lu live before, %lu after", kNames[i], before_[i], after[i]);
      EXPECT(after[i] == before_[i]);
    }
  }

 private:
  static constexpr size_t kCaches = 5;
  static constexpr const char* kNames[kCaches] = {"address_space", "vm_region", "chan", "process",
                                                  "page_4096"};
  static void count(uint64_t* counts) {
    // page_4096 also serves slabs. So the test runs twice: the second run finds the slabs of the
    // other caches in place.
    for (size_t i = 0; i < kCaches; i++) counts[i] = live_objects(kNames[i]);
  }
  uint64_t before_[kCaches];
};

// Runs the test once, so that the caches get their slabs. Then runs it again and compares the
// counts.
template <typename Test>
void twice(Test test) {
  test();
  const NothingLost check;
  test();
}

Ref<AddressSpace> new_space() {
  Result<Ref<AddressSpace>> space = AddressSpace::create();
  EXPECT(space);
  return space.take();
}

uint64_t word_at(AddressSpace& space, uint64_t address) {
  uint64_t word = ~uint64_t{0};
  EXPECT(space.read(address, &word, sizeof(word)) == sizeof(word));
  return word;
}
void set_word(AddressSpace& space, uint64_t address, uint64_t word) {
  EXPECT(space.write(address, &word, sizeof(word)));
}
}  // namespace

KTEST(proc_pages_come_when_used) {
  twice([] {
    const Ref<AddressSpace> space = new_space();
    EXPECT(space->add_region(kBase, kBase + 64 * kPageSize, kReadWrite));
    EXPECT(space->resident_bytes() == 0);
    EXPECT(space->fault(kBase + 5 * kPageSize + 7, FaultAccess::kRead));
    EXPECT(space->resident_bytes() == kPageSize);
    EXPECT(word_at(*space, kBase + 5 * kPageSize) == 0);
    uint64_t word;
    EXPECT(space->read(kBase, &word, sizeof(word)) == 0);
    EXPECT(fails_with(Errno::EFAULT, space->fault(kBase - 1, FaultAccess::kRead)));
    EXPECT(fails_with(Errno::EFAULT, space->fault(kBase + 64 * kPageSize, FaultAccess::kRead)));
    EXPECT(fails_with(Errno::EFAULT, space->fault(kBase, FaultAccess::kExecute)));
    // Write across several pages.
    char text[3 * kPageSize];
    memset(text, 'x', sizeof(text));
    EXPECT(space->write(kBase + 100, text, sizeof(text)));
    EXPECT(space->resident_bytes() == 5 * kPageSize);
  });
}

KTEST(proc_fork_shares_until_written) {
  twice([] {
    const Ref<AddressSpace> parent = new_space();
    EXPECT(parent->add_region(kBase, kBase + 8 * kPageSize, kReadWrite));
    for (uint64_t i = 0; i < 4; i++) set_word(*parent, kBase + i * kPageSize, i);
    Result<Ref<AddressSpace>> first = parent->fork(), second = parent->fork();
    EXPECT(first && second);
    if (!first || !second) return;
    AddressSpace& child = **first;
    set_word(child, kBase, 100);
    set_word(*parent, kBase + kPageSize, 200);
    set_word(**second, kBase + 5 * kPageSize, 300);
    EXPECT(word_at(*parent, kBase) == 0 && word_at(child, kBase) == 100 &&
           word_at(**second, kBase) == 0);
    EXPECT(word_at(*parent, kBase + kPageSize) == 200 && word_at(child, kBase + kPageSize) == 1);
    EXPECT(word_at(**second, kBase + kPageSize) == 1);
    uint64_t word;
    EXPECT(child.read(kBase + 5 * kPageSize, &word, sizeof(word)) == 0);
    // After the other two spaces are gone, the parent writes to its pages without copying them.
    second->reset();
    first->reset();
    set_word(*parent, kBase + 2 * kPageSize, 400);
    EXPECT(word_at(*parent, kBase + 2 * kPageSize) == 400 &&
           parent->resident_bytes() == 4 * kPageSize);
  });
}

KTEST(proc_unmap_cuts_regions) {
  twice([] {
    const Ref<AddressSpace> space = new_space();
    Result<uint64_t> at = space->map_anonymous(0, 16 * kPageSize, kReadWrite, false);
    EXPECT(at);
    const uint64_t base = *at;
    for (uint64_t i = 0; i < 16; i++) set_word(*space, base + i * kPageSize, i);
    EXPECT(space->unmap(base + 4 * kPageSize, 4 * kPageSize));
    EXPECT(space->resident_bytes() == 12 * kPageSize);
    EXPECT(fails_with(Errno::EFAULT, space->fault(base + 4 * kPageSize, FaultAccess::kRead)));
    EXPECT(fails_with(Errno::EFAULT, space->fault(base + 8 * kPageSize - 1, FaultAccess::kRead)));
    EXPECT(word_at(*space, base + 3 * kPageSize) == 3 &&
           word_at(*space, base + 8 * kPageSize) == 8);
    // Map a fixed range over both edges of the hole.
    Result<uint64_t> middle =
        space->map_anonymous(base + 2 * kPageSize, 8 * kPageSize, ABI_PROT_READ, true);
    EXPECT(middle && *middle == base + 2 * kPageSize && space->resident_bytes() == 8 * kPageSize);
    EXPECT(fails_with(Errno::EFAULT, space->fault(base + 5 * kPageSize, FaultAccess::kWrite)));
    EXPECT(space->fault(base + 5 * kPageSize, FaultAccess::kRead));
    EXPECT(word_at(*space, base + kPageSize) == 1 && word_at(*space, base + 10 * kPageSize) == 10);
    EXPECT(fails_with(Errno::EINVAL, space->unmap(base + 1, kPageSize)));
    EXPECT(fails_with(Errno::EINVAL, space->unmap(base, UINT64_MAX)));
    EXPECT(space->unmap(base, 16 * kPageSize) && space->resident_bytes() == 0);
  });
}

KTEST(proc_protect_cuts_and_joins_regions) {
  twice([] {
    const Ref<AddressSpace> space = new_space();
    const uint64_t end = kBase + 8 * kPageSize;
    EXPECT(space->add_region(kBase, end, kReadWrite));
    for (uint64_t i = 0; i < 8; i++) set_word(*space, kBase + i * kPageSize, 10 + i);
    const uint64_t regions = live_objects("vm_region");
    EXPECT(space->protect(kBase + 2 * kPageSize, 2 * kPageSize, ABI_PROT_READ));
    EXPECT(space->protect(kBase + 6 * kPageSize, 1, 0));
    EXPECT(live_objects("vm_region") == regions + 4);
    const auto may = [&](uint64_t page, FaultAccess access) {
      return space->fault(kBase + page * kPageSize, access).ok();
    };
    EXPECT(may(1, FaultAccess::kWrite) && may(4, FaultAccess::kWrite));
    EXPECT(may(2, FaultAccess::kRead) && !may(2, FaultAccess::kWrite) &&
           !may(3, FaultAccess::kWrite) && !may(3, FaultAccess::kExecute));
    EXPECT(!may(6, FaultAccess::kRead) && !may(6, FaultAccess::kWrite) &&
           may(7, FaultAccess::kWrite));
    EXPECT(space->resident_bytes() == 8 * kPageSize);  // inaccessible pages stay resident
    {
      const Ref<AddressSpace> child = space->fork().take();
      EXPECT(fails_with(Errno::EFAULT, child->fault(kBase + 6 * kPageSize, FaultAccess::kRead)));
      EXPECT(child->protect(kBase + 6 * kPageSize, kPageSize, kReadWrite));
      EXPECT(word_at(*child, kBase + 6 * kPageSize) == 16);
      set_word(*child, kBase + 6 * kPageSize, 0);
    }
    EXPECT(space->protect(kBase, 8 * kPageSize, ABI_PROT_READ | ABI_PROT_EXEC));
    EXPECT(may(6, FaultAccess::kExecute) && !may(0, FaultAccess::kWrite));
    EXPECT(live_objects("vm_region") == regions);
    EXPECT(space->protect(kBase, 8 * kPageSize, kReadWrite));
    for (uint64_t i = 0; i < 8; i++) {
      EXPECT(word_at(*space, kBase + i * kPageSize) == 10 + i);
      set_word(*space, kBase + i * kPageSize, i);
    }
    EXPECT(fails_with(Errno::EINVAL, space->protect(kBase + 1, kPageSize, kReadWrite)));
    EXPECT(fails_with(Errno::EINVAL, space->protect(kBase, UINT64_MAX, kReadWrite)));
    EXPECT(fails_with(Errno::ENOMEM, space->protect(kBase, 9 * kPageSize, ABI_PROT_READ)));
    EXPECT(fails_with(Errno::ENOMEM, space->protect(kBase - kPageSize, 2 * kPageSize, 0)));
    EXPECT(space->unmap(kBase + 4 * kPageSize, kPageSize));
    EXPECT(fails_with(Errno::ENOMEM, space->protect(kBase, 8 * kPageSize, 0)));
    EXPECT(may(0, FaultAccess::kWrite));  // the failed call has changed nothing
    // Unmapping works for any protection.
    EXPECT(space->protect(kBase, 4 * kPageSize, 0) && space->unmap(kBase, 8 * kPageSize));
    EXPECT(space->resident_bytes() == 0 && live_objects("vm_region") == regions - 1);
  });
}

KTEST(proc_unmap_gives_tables_back) {
  twice([] {
    const Ref<AddressSpace> space = new_space();
    constexpr uint64_t kApart = uint64_t{1} << 30;  // bytes that one page directory maps
    constexpr uint64_t kPlaces = 20;
    EXPECT(space->map_anonymous(kBase, 2 * kPageSize, kReadWrite, true));
    set_word(*space, kBase, 1);
    const uint64_t before = live_objects("page_4096");
    for (uint64_t i = 1; i <= kPlaces; i++) {
      EXPECT(space->map_anonymous(kBase + i * kApart, 2 * kPageSize, kReadWrite, true));
      set_word(*space, kBase + i * kApart, i);
      set_word(*space, kBase + i * kApart + kPageSize, i + 100);
    }
    // Each mapping takes two pages, a page table, and a page directory.
    EXPECT(live_objects("page_4096") >= before + 4 * kPlaces);
    for (uint64_t i = 1; i <= kPlaces; i++)
      EXPECT(space->unmap(kBase + i * kApart, kPageSize) &&
             word_at(*space, kBase + i * kApart + kPageSize) == i + 100);
    EXPECT(live_objects("page_4096") >= before + 3 * kPlaces);
    EXPECT(space->unmap(kBase + kApart, kPlaces * kApart));
    EXPECT(live_objects("page_4096") == before);
    EXPECT(word_at(*space, kBase) == 1);
    // When the heap shrinks, its page tables are freed, too.
    EXPECT(space->unmap(kBase, 2 * kPageSize));
    const uint64_t empty = live_objects("page_4096");
    EXPECT(space->add_stack_and_heap());
    const uint64_t start = space->move_break(0);
    EXPECT(space->move_break(start + kPageSize) == start + kPageSize);
    set_word(*space, align_down(start, kPageSize), 1);
    EXPECT(live_objects("page_4096") > empty && space->move_break(start) == start);
    EXPECT(live_objects("page_4096") == empty);
  });
}

KTEST(proc_break_moves) {
  twice([] {
    const Ref<AddressSpace> space = new_space();
    EXPECT(space->add_region(kBase, kBase + kPageSize, kReadWrite));
    EXPECT(space->add_stack_and_heap());
    const uint64_t start = space->move_break(0);
    EXPECT(start == kBase + kPageSize);
    EXPECT(space->move_break(start + 10000) == start + 10000);
    set_word(*space, start + 9000, 1);
    EXPECT(space->move_break(start + 100) == start + 100 && space->resident_bytes() == 0);
    EXPECT(fails_with(Errno::EFAULT, space->fault(start + kPageSize, FaultAccess::kRead)));
    EXPECT(space->move_break(start + 10000) == start + 10000 &&
           space->fault(start + 9000, FaultAccess::kRead));
    EXPECT(word_at(*space, start + 9000) == 0);
    EXPECT(space->move_break(start - 1) == start + 10000 &&
           space->move_break(UINT64_MAX) == start + 10000);
    // Another mapping limits the heap.
    EXPECT(space->map_anonymous(start + 16 * kPageSize, kPageSize, kReadWrite, true));
    EXPECT(space->move_break(start + 20 * kPageSize) == start + 10000);
    EXPECT(space->move_break(start + 16 * kPageSize) == start + 16 * kPageSize);
    // The whole stack can be used, but nothing below it.
    EXPECT(space->fault(kStackTop - 1, FaultAccess::kWrite) &&
           space->fault(kStackTop - kStackSize, FaultAccess::kWrite));
    EXPECT(
        fails_with(Errno::EFAULT, space->fault(kStackTop - kStackSize - 1, FaultAccess::kWrite)));
  });
}

// Makes random changes to an address space and compares its contents with a model: an array with
// the expected contents of each page.
KTEST(proc_random_changes_against_a_model) {
  twice([] {
    constexpr uint64_t kPages = 40;
    // For each page: 0 = unmapped, 1 = zeros, otherwise the first word of the page.
    uint64_t model[kPages];
    memset(model, 0, sizeof(model));
    Ref<AddressSpace> space = new_space();
    for (unsigned step = 0; step < 3000; step++) {
      const uint64_t page = ktest_random() % kPages;
      const uint64_t count = 1 + ktest_random() % (kPages - page);
      switch (ktest_random() % 6) {
        case 0:
          EXPECT(space->unmap(kBase + page * kPageSize, count * kPageSize));
          for (uint64_t i = page; i < page + count; i++) model[i] = 0;
          break;
        case 1:
          EXPECT(
              space->map_anonymous(kBase + page * kPageSize, count * kPageSize, kReadWrite, true));
          for (uint64_t i = page; i < page + count; i++) model[i] = 1;
          break;
        case 2: {
          Result<Ref<AddressSpace>> copy = space->fork();
          EXPECT(copy);
          // Go on with the parent or the child.
          if (copy && ktest_random() % 2) space = copy.take();
          break;
        }
        default: {
          const uint64_t word = 2 + ktest_random() % 1000;
          const bool written = space->write(kBase + page * kPageSize, &word, sizeof(word)).ok();
          EXPECT(written == (model[page] != 0));
          if (written) model[page] = word;
        }
      }
      for (uint64_t i = 0; i < kPages; i += 7) {
        uint64_t word = 0;
        const bool there = space->fault(kBase + i * kPageSize, FaultAccess::kRead).ok();
        EXPECT(there == (model[i] != 0));
        if (there) {
          space->read(kBase + i * kPageSize, &word, sizeof(word));
          EXPECT(word == (model[i] == 1 ? 0 : model[i]));
        }
      }
    }
  });
}

KTEST(proc_load_and_let_go) {
  Result<Ref<Namespace>> ns = namespace_create();
  EXPECT(ns);
  if (!ns) return;
  const PathContext context{.ns = ns->get(), .cwd = {}, .who = {}};
  twice([&] {
    Arguments arguments;
    EXPECT(arguments.add("first") && arguments.add("second") && arguments.add("X=y"));
    arguments.arguments = 2;
    arguments.environment = 1;
    auto loaded = Scratch<LoadedProgram>::make();
    EXPECT(loaded);
    LoadedProgram* const program = &**loaded;
    const Result<void> loads = program_load(context, "/bin/init", arguments, *program);
    EXPECT(loads);
    if (loads) {
      AddressSpace& space = *program->space;
      char text[13];
      EXPECT(space.read(space.arguments_start, text, sizeof(text)) == sizeof(text) &&
             space.arguments_size == sizeof(text));
      EXPECT(memcmp(text, "first\0second", sizeof(text)) == 0);
      const uint64_t stack = program->frame.rsp;
      EXPECT(stack % 16 == 0 && word_at(space, stack) == 2);
      EXPECT(word_at(space, stack + 8) == space.arguments_start &&
             word_at(space, stack + 16) == space.arguments_start + 6);
      EXPECT(word_at(space, stack + 24) == 0 &&
             word_at(space, stack + 32) == space.arguments_start + 13);
      EXPECT(word_at(space, stack + 40) == 0);
      uint64_t entry = 0, page_size = 0, at = stack + 48;
      for (; word_at(space, at) != ABI_AT_NULL && at < stack + 512; at += 16) {
        if (word_at(space, at) == ABI_AT_ENTRY) entry = word_at(space, at + 8);
        if (word_at(space, at) == ABI_AT_PAGESZ) page_size = word_at(space, at + 8);
      }
      EXPECT(word_at(space, at) == ABI_AT_NULL && entry == program->frame.rip &&
             page_size == kPageSize);
      EXPECT(space.fault(program->frame.rip, FaultAccess::kExecute));
      EXPECT(fails_with(Errno::EFAULT, space.fault(program->frame.rip, FaultAccess::kWrite)));
    }
    EXPECT(fails_with(Errno::ENOENT, program_load(context, "/bin/missing", arguments, *program)));
    EXPECT(fails_with(Errno::EACCES, program_load(context, "/bin", arguments, *program)));
  });
}

KTEST(proc_discard_of_a_half_made_process) {
  twice([] {
    Result<Process*> process = process_create();
    EXPECT(process);
    if (!process) return;
    (*process)->space = new_space();
    EXPECT((*process)->space->add_stack_and_heap() &&
           (*process)->space->fault(kStackTop - 1, FaultAccess::kWrite));
    Result<FdTable*> fds = fd_table_create();
    EXPECT(fds);
    if (fds) (*process)->fds = *fds;
    EXPECT(thread_create(**process, {}));
    process_discard(*process);
  });
}
