// Finds objects that nothing can reach any more.
//
// The allocator knows every live object. An object without a pointer to it from memory in use is
// lost: nobody can free it any more. To find such objects, all CPUs stop, and everything that can
// be reached from the roots is noted as reached. The other live objects are the answer. No tracing
// is needed before.
//
// Files
//   stop     stops all CPUs where their interrupts are on
//   objects  puts the live objects into the index, from the allocator's own structures
//   index    leads from an address to its object; has a state byte for each object
//   roots    static data, stacks with saved registers, page tables, and registered providers
//   visitor  forwards the reports of providers and walkers to a search
//   ranges   all words that are scanned, with their owners
//   reached  finds all objects that can be reached from given words
//   heads    finds the unreached objects that keep all other unreached objects
//   paths    finds the shortest path from a root to an object
//   holders  finds the words that point to an object
//   groups   the unreached objects, grouped by stack, cache and arena
//   survey   stops all CPUs, builds the index, and searches from the roots
//   look     makes a survey and fills the groups
//   circles  finds circles among tasks that wait for locks
//   deadlock finds such circles in the kernel, with the stacks of their tasks
//   describe describes an address; origin: prints the allocation of an object
//   whatis   the answer of #mem/whatis: description, holders and path
//   reach    the report: this file
// Index, ranges, reached, heads, circles, paths and holders do not depend on the kernel: a program
// that reads a core can use them.
//
// The search is conservative: a word in scanned memory is taken for a pointer to a live object if
// its value is an address anywhere in that object. So an object in use is always reached, as long
// as a word with its address is somewhere in scanned memory. Three cases need care:
//   - An owner that stores an address in another form (physical, packed, complemented) registers a
//     walker for its objects, or a provider of roots (reach/reach.h).
//   - While the allocator allocates or frees an object, the object's address is in a register or on
//     a stack. Or the object lies in a magazine or slab that is in transit itself, between parts of
//     the allocator. A magazine or slab is scanned only while it is in transit, because otherwise
//     it also holds stale addresses, and addresses of objects of other owners.
//   - The memory of a program is in use but never scanned, because the kernel stores no pointers
//     there.
// On the other hand, a lost object is taken for reached while a stale word with its address
// remains: in a part of a stack that has not been overwritten, or in memory that was allocated and
// not yet filled. Such words disappear sooner or later, so a second look is worthwhile.
//
// An unreached object cannot be reached later, since nobody can find it. If a second look finds it
// reached nevertheless (`returned` in the report), there are two explanations. Either the first
// look missed a pointer to the object, which is a bug; or the object was freed by its address, as
// #debug does, and allocated again.
//
// While CPUs are stopped nothing is allocated and no sleeping lock is taken. No spinlock is held
// then, since a CPU that holds a spinlock has interrupts off and does not stop. Memory for a look
// comes from the tracer (trace_copy_alloc), whose arena is not indexed. A look needs 4 bytes for
// each page frame, 64 for each slab or segment of an arena, and 1 for each object. Cost: about 80
// instructions for an object of 64 bytes with one pointer.
//
// Looks are serialised by a sleeping lock.
#include <algorithm>
#include <array>
#include <atomic>
#include <new>

#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/sleep.h"
#include "core/symbols.h"
#include "intern/stack_table.h"
#include "intern/trace_memory.h"
#include "kmalloc.h"
#include "reach/deadlock_impl.h"
#include "reach/look_impl.h"
#include "reach/reach.h"
#include "reach/writer_impl.h"

using reach::Deadlocks, reach::Findings, reach::Group, reach::Groups, reach::Tally, reach::Writer;

class ReachReport {
 public:
  size_t size = 0;
  char text[];
};

namespace {

// The pause between two looks. During the pause other tasks overwrite stale words on their stacks.
constexpr Nanoseconds kBetween{100'000'000};

constinit Mutex looking{LockRank::kReach};
constinit std::atomic<unsigned> looks{1};

void write_keeps(Writer& to, const Tally& keeps) {
  if (keeps.objects > 0) to.print(" keeps %lu bytes in %lu objects", keeps.bytes, keeps.objects);
}

void write_heads(Writer& to, const Groups& groups, const Group& group) {
  to.print("\n%lu bytes in %lu objects of %s%s", group.own.bytes, group.own.objects, group.name,
           group.stays ? " declared to stay" : "");
  write_keeps(to, group.keeps);
  to.print(group.frames > 0 ? " from stack\n" : "\n");
  for (const uint32_t frame : groups.frames_of(group)) {
    char symbol[200];
    symbol_format(symbol, sizeof(symbol), StackTable::unpacked(frame));
    to.print("\t%s\n", symbol);
  }
}

void write_shown(Writer& to, const Group& group) {
  const auto shown = std::min<uint64_t>(group.own.objects, Group::kShown);
  for (uint64_t i = 0; i < shown; i++) {
    const Group::Head& head = group.shown[i];
    to.print("\t0x%lx size %lu", head.address, head.bytes);
    write_keeps(to, head.keeps);
    to.print("\n");
  }
  if (shown < group.own.objects) to.print("\t… %lu more\n", group.own.objects - shown);
}

bool more(const Group& a, const Group& b) {
  return a.own.bytes + a.keeps.bytes > b.own.bytes + b.keeps.bytes;
}

// Writes the groups of heads, most bytes first, each with the objects that its heads keep.
// Numbers of groups in the order of the report.
using GroupOrder = std::array<uint16_t, Groups::kMost>;

void write_groups(Writer& to, const Groups& groups, GroupOrder& order) {
  const std::span<const Group> all = groups.all();
  for (size_t i = 0; i < all.size(); i++) order[i] = static_cast<uint16_t>(i);
  std::sort(order.begin(), order.begin() + all.size(), [&](uint16_t a, uint16_t b) {
    return more(all[a], all[b]) || (!more(all[b], all[a]) && a < b);
  });
  for (size_t i = 0; i < all.size(); i++) {
    const Group& group = all[order[i]];
    if (group.holder != 0) continue;
    write_heads(to, groups, group);
    for (size_t j = 0; j < all.size(); j++) {
      const Group& kept = all[order[j]];
      if (kept.holder == order[i] + 1u)
        to.print("\tkeeps %lu bytes in %lu objects of %s\n", kept.own.bytes, kept.own.objects,
                 kept.name);
    }
    write_shown(to, group);
  }
}

void write_frames(Writer& to, const char* before, std::span<const uint64_t> frames) {
  for (const uint64_t frame : frames) {
    char symbol[200];
    symbol_format(symbol, sizeof(symbol), frame);
    to.print("%s%s\n", before, symbol);
  }
}

void write_deadlocks(Writer& to, const Deadlocks& deadlocks) {
  if (deadlocks.circles == 0) return;
  to.print("deadlocks %lu tasks %lu\n", deadlocks.circles, deadlocks.tasks);
  for (const Deadlocks::Circle& circle : deadlocks.shown()) {
    to.print("\n%lu tasks wait for each other's locks\n", circle.size);
    for (const Deadlocks::Member& member : deadlocks.members_of(circle)) {
      to.print("\ttask %u %s", member.id, member.name);
      if (member.pid != 0) to.print(" of pid %u", member.pid);
      to.print(" waits for the lock 0x%lx %s of task %u\n", member.lock,
               lock_rank_name(member.rank), member.owner);
      write_frames(to, "\t\t", std::span(member.frames).first(member.frame_count));
    }
    if (circle.shown < circle.size) to.print("\t… %lu more tasks\n", circle.size - circle.shown);
  }
  if (deadlocks.shown().size() < deadlocks.circles)
    to.print("\n… %lu more circles\n", deadlocks.circles - deadlocks.shown().size());
}

void write_report(Writer& to, const Findings& findings, const Deadlocks& deadlocks,
                  GroupOrder& order, unsigned made) {
  const Groups& groups = *findings.groups;
  const Tally unreached = groups.unreached();
  to.print(
      "unreachable objects %lu bytes %lu heads %lu live %lu looks %u returned %lu stopped_us %lu\n",
      unreached.objects, unreached.bytes, groups.heads(), findings.live, made, findings.returned,
      findings.microseconds);
  if (const Tally rest = groups.not_shown(); rest.objects > 0)
    to.print("not shown %lu bytes in %lu objects\n", rest.bytes, rest.objects);
  for (uint64_t i = 0; i < std::min<uint64_t>(findings.returned, Findings::kReturnedShown); i++) {
    const Findings::Returned& returned = findings.returned_shown[i];
    to.print("returned 0x%lx of %s\n", returned.address, returned.name);
  }
  write_deadlocks(to, deadlocks);
  write_groups(to, groups, order);
}

// All results of a report; too large for a stack.
struct Found {
  Findings objects;
  Deadlocks deadlocks;
  GroupOrder order;  // for write_report()
};

Result<ReachReport*> text_of(Found& found, unsigned made) {
  Writer measure(nullptr, 0);
  write_report(measure, found.objects, found.deadlocks, found.order, made);
  const size_t size = measure.length() + 1;
  void* const memory = kmalloc(sizeof(ReachReport) + size, KM_SLEEP);
  if (!memory) return Errno::ENOMEM;
  auto* const report = new (memory) ReachReport;
  Writer writer(report->text, size);
  write_report(writer, found.objects, found.deadlocks, found.order, made);
  report->size = writer.length();
  return report;
}

Result<ReachReport*> make(Found& found) {
  const unsigned wanted = looks.load(std::memory_order_relaxed);
  for (unsigned made = 0; made < wanted; made++) {
    if (made > 0) TRY(task_sleep_until(monotonic_now() + kBetween));
    TRY(reach::look(found.objects));
  }
  TRY(reach::look_for_deadlocks(found.deadlocks));
  return text_of(found, wanted);
}

}  // namespace

Result<void> reach_set_looks(unsigned wanted) {
  if (wanted < 1 || wanted > kReachMaxLooks) return Errno::EINVAL;
  looks.store(wanted, std::memory_order_relaxed);
  return {};
}

Result<ReachReport*> reach_report_make() {
  const MutexGuard guard(looking);
  void* const memory = trace_copy_alloc(sizeof(Found));
  if (!memory) return fail(Errno::ENOMEM, "no memory for the results");
  auto* const found = new (memory) Found;
  Result<ReachReport*> report = make(*found);
  found->~Found();
  trace_copy_free(memory, sizeof(Found));
  return report;
}

std::string_view reach_report_text(const ReachReport* report) {
  return {report->text, report->size};
}

void reach_report_free(ReachReport* report) {
  kfree(report);
}
