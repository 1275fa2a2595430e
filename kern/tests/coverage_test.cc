// Tests the references to coverage maps. Open files have such references, and so have tasks that
// record in a map. While the references are traced, each has a record, even under load on all CPUs.
// Needs the kernel with #coverage (configs/debug.config).
#include "sched/coverage.h"

#ifdef CONFIG_COVERAGE
#include <array>
#include <atomic>

#include "core/ktest.h"
#include "ns/namespace.h"
#include "tests/ns_world.h"
#include "tests/team.h"
#include "tests/trace_records.h"

namespace {

TraceSource maps() {
  return &ref_class(RefKind::kCoverageMap);
}

CoverageMap& map_of(const Ref<Chan>& file) {
  return *static_cast<CoverageMap*>(file->state);
}

bool is_recorded(const CoverageMap& map) {
  return records_of(maps(), &map) == map.ref_count();
}

void command(const Ref<Chan>& file, std::string_view word) {
  EXPECT(file->device->write(*file, word.data(), word.size(), 0).ok());
}

// Tasks open maps, share them, and record in their own maps and in each other's. Then they end.
struct Storm {
  static constexpr unsigned kPlaces = 6, kRounds = 200, kTasks = 12;
  TestNamespace names;
  Spinlock lock{LockRank::kDevice};
  std::array<Ref<Chan>, kPlaces> files GUARDED_BY(lock);
  std::atomic<unsigned> next{1};

  Ref<Chan> open() {
    Result<Ref<Chan>> file = path_open(names.context(), "#coverage/places", ABI_O_RDWR, 0);
    EXPECT(file.ok());
    return file.take();
  }
  void run() {
    uint64_t random = next.fetch_add(1) * 0x9e3779b97f4a7c15;
    for (unsigned i = 0; i < kRounds; i++) {
      random ^= random << 13, random ^= random >> 7, random ^= random << 17;
      Ref<Chan> file;
      if (random % 4 == 0) file = open();
      if (random % 8 == 1) coverage_use(nullptr);
      {
        const Guard guard(lock);
        Ref<Chan>& place = files[random / 8 % kPlaces];
        if (file) {
          std::swap(file, place);
        } else {
          file = place;
        }
      }
      if (!file) continue;
      command(file, random / 64 % 4 == 0 ? "stop" : "start");
      char places[64];
      EXPECT(file->device->read(*file, places, sizeof(places), 0).ok());
    }
  }
  // Counts the references to the maps of the remaining files, after all tasks have ended. Expects
  // that each of these maps is recorded.
  uint64_t references() {
    lock.not_needed();
    uint64_t sum = 0;
    for (const Ref<Chan>& file : files) {
      if (!file) continue;
      EXPECT(is_recorded(map_of(file)));
      sum += map_of(file).ref_count();
    }
    return sum;
  }
};

}  // namespace

KTEST(coverage_maps_have_as_many_records_as_references) {
  const uint64_t before = maps().live();
  EXPECT(trace_command(maps(), "start").ok());
  {
    Storm storm;
    Team team([](void* argument) { static_cast<Storm*>(argument)->run(); }, &storm);
    for (unsigned i = 0; i < Storm::kTasks; i++) team.add();
    team.join();
    task_drain_dead();
    EXPECT(storm.references() > 0);
    EXPECT(counters_of(maps()).live == storm.references());
    // This task begins to record in a map, whose file is closed at once. So only the task has a
    // reference to the map. Then the task changes to another map, whose file stays open. The task
    // and the file have a reference to this map.
    command(storm.open(), "start");
    EXPECT(counters_of(maps()).live == storm.references() + 1);
    const Ref<Chan> mine = storm.open();
    command(mine, "start");
    EXPECT(map_of(mine).ref_count() == 2 && is_recorded(map_of(mine)));
    EXPECT(counters_of(maps()).live == storm.references() + 2);
    EXPECT(maps().live() == before + storm.references() + 2);
    command(mine, "stop");
  }
  const TraceCounters counters = counters_of(maps());
  EXPECT(counters.recorded > Storm::kTasks * Storm::kRounds / 2);
  EXPECT(counters.live == 0 && counters.unmatched == 0 && counters.dropped == 0);
  EXPECT(maps().live() == before);
  EXPECT(trace_command(maps(), "stop\nreset").ok());
}
#endif  // CONFIG_COVERAGE
