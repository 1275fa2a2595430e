// Tests traces of references. While a class of references is traced, each live reference that was
// taken since the start has a record with the stack that took it, even after the reference was
// moved. When a reference is dropped, its record is removed.
#include <algorithm>
#include <array>
#include <atomic>
#include <optional>

#include "core/errstr.h"
#include "core/ktest.h"
#include "core/ref.h"
#include "intern/page_buffer.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "ns/namespace.h"
#include "tests/counted.h"
#include "tests/dump_text.h"
#include "tests/ns_world.h"
#include "tests/team.h"
#include "tests/trace_records.h"
#include "trace/trace.h"

namespace {

[[gnu::noinline]] Ref<Counted> ktest_takes_reference(const Ref<Counted>& ref) {
  Ref<Counted> copy(ref);
  keep_frame();
  return copy;
}

}  // namespace

KTEST(ref_trace_has_a_record_of_each_reference) {
  const Traced traced;
  const unsigned before = Counted::destroyed;
  {
    Ref<Counted> one = Counted::make(), other = Counted::make();
    std::array<Ref<Counted>, 10> copies;
    for (Ref<Counted>& copy : copies) copy = ktest_takes_reference(one);
    EXPECT(one->ref_count() == 11 && records_of(kind(), one.get()) == 11);
    EXPECT(records_of(kind(), other.get()) == 1);
    EXPECT(TraceSource(kind()).live() == 12 && counters_of(kind()).bytes == 0);
    {
      const DumpText text(kind());
      EXPECT(text.has("\n10 references from stack\n\tktest_takes_reference+0x"));
      EXPECT(!text.has(" size "));
    }
    // Every way of assigning keeps the records right.
    copies[0] = copies[1];
    copies[1] = std::move(copies[2]);
    Ref<Counted>& same = copies[3];
    copies[3] = same;
    copies[3] = std::move(same);
    std::swap(copies[4], other);
    EXPECT(one->ref_count() + copies[4]->ref_count() == 11);
    EXPECT(records_of(kind(), one.get()) == one->ref_count());
    EXPECT(records_of(kind(), copies[4].get()) == copies[4]->ref_count());
    copies[5].reset();
    EXPECT(records_of(kind(), one.get()) == one->ref_count());
  }
  const TraceCounters counters = counters_of(kind());
  EXPECT(counters.live == 0 && counters.unmatched == 0 && TraceSource(kind()).live() == 0);
  EXPECT(Counted::destroyed == before + 2);
}

// release() and adopt() change neither the count nor the records.
KTEST(ref_trace_goes_with_a_reference_that_is_released) {
  const Traced traced;
  Ref<Counted> one = Counted::make();
  const uint64_t seen = counters_of(kind()).seen;
  HeldRef<Counted> held = ktest_takes_reference(one).release();
  EXPECT(held && held.number != 0);
  EXPECT(counters_of(kind()).seen == seen + 1 && records_of(kind(), one.get()) == 2);
  Ref<Counted> again = Ref<Counted>::adopt(std::exchange(held, {}));
  EXPECT(counters_of(kind()).seen == seen + 1 && records_of(kind(), one.get()) == 2);
  Ref<Counted> tried = Ref<Counted>::try_take(*one);
  EXPECT(tried && records_of(kind(), one.get()) == 3);
}

// Dropping a reference that was taken during one trace does not remove a record of another trace.
KTEST(ref_trace_knows_references_from_before) {
  Ref<Counted> one = Counted::make(), untraced(one);
  std::optional<Ref<Counted>> first, stopped;
  {
    const Traced traced;
    first.emplace(one);
    EXPECT(records_of(kind(), one.get()) == 1);
    EXPECT(trace_command(kind(), "stop").ok());
    stopped.emplace(one);
    EXPECT(records_of(kind(), one.get()) == 1);
    EXPECT(trace_command(kind(), "start").ok());
  }
  {
    const Traced traced;
    Ref<Counted> second(one);
    EXPECT(records_of(kind(), one.get()) == 1);
    first.reset();
    EXPECT(records_of(kind(), one.get()) == 1 && counters_of(kind()).unmatched == 1);
    stopped.reset();
    untraced.reset();
    EXPECT(records_of(kind(), one.get()) == 1 && counters_of(kind()).unmatched == 1);
    EXPECT(trace_command(kind(), "reset").ok());  // the running trace is empty, and goes on
    const Ref<Counted> third = ktest_takes_reference(one);
    second.reset();
    EXPECT(third->ref_count() == 2);
    EXPECT(records_of(kind(), one.get()) == 1 && counters_of(kind()).unmatched == 2);
  }
  EXPECT(trace_memory_used() == 0);
}

KTEST(ref_trace_takes_the_options_that_have_a_meaning) {
  for (const char* command : {"start sample=512", "start min=1", "start max=100", "check", "refs"})
    EXPECT(trace_command(kind(), command).error() == Errno::EINVAL);
  {
    const Traced traced(kind(), "start depth=2 pid=77");
    const Ref<Counted> one = Counted::make(), other = ktest_takes_reference(one);
    EXPECT(other->ref_count() == 2);
    const TraceCounters counters = counters_of(kind());
    EXPECT(counters.filtered == 2 && counters.recorded == 0);
  }
  // In a command for all sources, `start` does not trace references, and `refs` traces nothing but
  // references.
  EXPECT(trace_command_all("start").ok() && !trace_table_of(kind()));
  EXPECT(trace_command_all("stop\nreset\nrefs depth=5").ok() && trace_table_of(kind()));
  EXPECT(!trace_table_of(TraceSource::find("chan")));
  EXPECT(trace_command_all("refs").error() == Errno::EBUSY);
  EXPECT(trace_command_all("refs sample=512").error() == Errno::EINVAL);
  EXPECT(trace_command_all("stop\nreset").ok() && !trace_table_of(kind()));
  EXPECT(trace_memory_used() == 0);
}

// Traces all classes of references while a file is created, opened and removed. Each reference to
// the open channel and to the file's node has a record.
KTEST(ref_trace_counts_as_the_objects_do) {
  EXPECT(trace_command_all("refs").ok());
  {
    TestNamespace names;
    const uint64_t live = TraceSource(&ref_class(RefKind::kChan)).live();
    const uint64_t recorded = counters_of(&ref_class(RefKind::kChan)).live;
    {
      Result<Ref<Chan>> file =
          path_open(names.context(), "#tmp/ktest_ref", ABI_O_CREAT | ABI_O_RDWR, 0600);
      EXPECT(file.ok());
      if (file) {
        EXPECT(records_of(&ref_class(RefKind::kChan), file->get()) == (*file)->ref_count());
        Ref<Chan> other(*file);
        EXPECT(records_of(&ref_class(RefKind::kChan), file->get()) == (*file)->ref_count());
        // The directory and the channel each hold one reference to the node.
        EXPECT(records_of(&ref_class(RefKind::kTmpNode), (*file)->state) == 2);
      }
    }
    EXPECT(path_remove(names.context(), "#tmp/ktest_ref", false).ok());
    EXPECT(TraceSource(&ref_class(RefKind::kChan)).live() == live);
    EXPECT(counters_of(&ref_class(RefKind::kChan)).live == recorded);
    EXPECT(counters_of(&ref_class(RefKind::kTmpNode)).live == 0);
    EXPECT(counters_of(&ref_class(RefKind::kNamespace)).live == 1);
  }
  for (unsigned i = 0; const RefClass* const kind = ref_class_at(i); i++) {
    const TraceCounters counters = counters_of(const_cast<RefClass*>(kind));
    EXPECT(counters.unmatched == 0 && counters.dropped == 0);
  }
  EXPECT(trace_command_all("stop\nreset").ok());
}

namespace {

// Tasks that exchange references, while the trace starts and stops.
struct Exchange {
  static constexpr unsigned kPlaces = 16, kRounds = 20'000;
  Ref<Counted> object;
  Spinlock lock{LockRank::kDevice};
  std::array<Ref<Counted>, kPlaces> places GUARDED_BY(lock);
  std::atomic<unsigned> next{1};

  void run() {
    uint64_t random = next.fetch_add(1) * 0x9e3779b97f4a7c15;
    for (unsigned i = 0; i < kRounds; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      Ref<Counted> mine;
      if (random & 1) mine = object;
      const Guard guard(lock);
      std::swap(mine, places[random / 2 % kPlaces]);
    }
  }
  void clear() {
    std::array<Ref<Counted>, kPlaces> old;
    const Guard guard(lock);
    std::swap(old, places);
  }
};

}  // namespace

KTEST(ref_trace_survives_starts_and_stops_under_load) {
  Exchange exchange;
  exchange.object = Counted::make();
  Team team([](void* argument) { static_cast<Exchange*>(argument)->run(); }, &exchange);
  for (unsigned i = 0; i < 4; i++) team.add();
  for (unsigned i = 0; i < 30; i++) {
    EXPECT(trace_command(kind(), "start").ok());
    if (i % 3 == 0) task_yield();
    const TraceCounters counters = counters_of(kind());
    EXPECT(counters.seen == counters.recorded + counters.dropped + counters.filtered);
    EXPECT(trace_command(kind(), i % 2 == 0 ? "stop\nreset" : "stop").ok());
  }
  EXPECT(trace_command(kind(), "reset\nstart").ok());
  team.join();
  exchange.clear();
  EXPECT(counters_of(kind()).live == 0);
  EXPECT(exchange.object->ref_count() == 1 && kind().live() == 1);
  EXPECT(trace_command(kind(), "stop\nreset").ok());
  EXPECT(trace_memory_used() == 0);
}
