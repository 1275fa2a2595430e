// Tests large text and binary dumps on the live system. A dump can be read in any order while other
// CPUs allocate. Only root can read it.
#include <algorithm>
#include <atomic>
#include <string_view>

#include "abi/tracedump.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/not_roots.h"
#include "intern/dump_reserve.h"
#include "intern/page_buffer.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "lib/words.h"
#include "ns/namespace.h"
#include "tests/dump_text.h"
#include "tests/team.h"
#include "trace/trace.h"

namespace {

constexpr size_t kLeaked = 100'000;
constexpr size_t kDepths = 20;
constexpr size_t kRing = 100;

[[gnu::noinline]] void* ktest_leak_at(kmem_cache* cache, size_t depth) {
  void* object = depth > 0 ? ktest_leak_at(cache, depth - 1) : kmem_cache_alloc(cache, KM_SLEEP);
  keep_frame();
  return object;
}

// A traced cache with kLeaked objects from kDepths stacks.
class LeakyCache {
 public:
  LeakyCache()
      : cache_(kmem_cache_create("ktest_large", 64, 0, 0, nullptr, nullptr, nullptr, nullptr)) {
    EXPECT(cache_ && objects_.reserve(kLeaked).ok());
    EXPECT(trace_command(cache_, "start").ok());
    for (size_t i = 0; i < kLeaked; i++) EXPECT((objects_[i] = ktest_leak_at(cache_, i % kDepths)));
  }
  ~LeakyCache() {
    for (size_t i = 0; i < kLeaked; i++) kmem_cache_free(cache_, objects_[i]);
    EXPECT(trace_command(cache_, "stop\nreset").ok());
    kmem_cache_destroy(cache_);
  }
  LeakyCache(const LeakyCache&) = delete;
  LeakyCache& operator=(const LeakyCache&) = delete;
  operator kmem_cache*() const { return cache_; }

  uint64_t allocations() const {
    struct kmem_cache_stats stats;
    kmem_cache_stats(cache_, &stats);
    return stats.allocations;
  }

 private:
  kmem_cache* cache_;
  PageBuffer<void*> objects_;
};

// Allocates and frees on all CPUs but the first, until its destructor runs.
class Churn {
 public:
  explicit Churn(kmem_cache* cache) : cache_(cache), team_(work, this) {
    for (unsigned cpu = 1; cpu < cpu_count(); cpu++) team_.add(CpuId{cpu});
  }
  ~Churn() {
    stop_ = true;
    team_.join();
  }

 private:
  static void work(void* argument) {
    auto& self = *static_cast<Churn*>(argument);
    void* ring[kRing] = {};
    for (size_t i = 0; !self.stop_; i = (i + 1) % kRing) {
      kmem_cache_free(self.cache_, ring[i]);
      ring[i] = kmem_cache_alloc(self.cache_, KM_SLEEP);
    }
    for (void* object : ring) kmem_cache_free(self.cache_, object);
  }

  kmem_cache* cache_;
  std::atomic<bool> stop_{false};
  Team team_;
};

// Returns the bytes that base_arena has handed out, without trace memory. (Trace memory is left out
// because a trace's table keeps its pages after the records are removed.)
uint64_t bytes_in_use() {
  kmem_reap();
  struct arena_stats stats;
  arena_stats(base_arena, &stats);
  return stats.allocated_bytes - trace_memory_used();
}
// Tolerance for idle objects in the slabs of all caches.
constexpr uint64_t kSlack = 256 * 1024;

uint64_t number_after(std::string_view text, std::string_view key) {
  uint64_t value = UINT64_MAX;
  const size_t at = text.find(key);
  if (at != std::string_view::npos) {
    text.remove_prefix(at + key.size());
    take_number(text, 10, &value);
  }
  return value;
}

// Waits until other CPUs have made `more` allocations.
void wait_for_allocations(const LeakyCache& cache, uint64_t more) {
  const uint64_t before = cache.allocations();
  while (cpu_count() > 1 && cache.allocations() < before + more) task_yield();
}

// The sums of a text dump, read from its first byte to its last.
struct TextSums {
  explicit TextSums(TraceDump* dump) {
    read_lines(dump, [this](std::string_view text) { line(text); });
  }

  uint64_t live = 0, stacks = 0;  // numbers in the header
  bool identities = false;
  uint64_t objects = 0, groups = 0;  // counted in the body

 private:
  void line(std::string_view text) {
    if (text.starts_with("seen ")) {
      live = number_after(text, " live ");
      stacks = number_after(text, " stacks ");
      identities = number_after(text, "seen ") == number_after(text, " recorded ") +
                                                      number_after(text, " dropped ") +
                                                      number_after(text, " filtered ") &&
                   number_after(text, " recorded ") ==
                       number_after(text, " freed ") + number_after(text, " cleared ") + live;
    } else if (text.ends_with(" allocations from stack")) {
      objects += number_after(text, " bytes in ");
      groups++;
    }
  }
};

// The sums of one trace in a binary dump. Finds sections by seeking, as a program would.
struct BinarySums {
  BinarySums(TraceBinaryDump* dump, std::string_view name) : dump_(dump) {
    abi_tracedump_header header;
    get(0, header);
    EXPECT(memcmp(header.magic, ABI_TRACEDUMP_MAGIC, sizeof(header.magic)) == 0);
    EXPECT(header.build_id_size == 20);
    uint64_t strings = 0, sources = 0, source_count = 0;
    uint64_t at = header.header_size;
    for (uint32_t i = 0; i < header.sections; i++) {
      abi_tracedump_section section;
      get(at, section);
      at += header.section_header_size;
      if (section.tag == ABI_TRACEDUMP_STRINGS) strings = at;
      if (section.tag == ABI_TRACEDUMP_SOURCES) {
        sources = at;
        source_count = section.count;
      }
      if (section.tag == ABI_TRACEDUMP_RECORDS && is(sources, section.source, strings, name))
        add(at, section);
      at += section.size;
    }
    EXPECT(at == header.size && source_count > 0);
  }

  abi_tracedump_source source = {};
  uint64_t objects = 0;

 private:
  template <typename T>
  void get(uint64_t offset, T& item) {
    EXPECT(trace_binary_read(dump_, reinterpret_cast<char*>(&item), sizeof(item), offset) ==
           sizeof(item));
  }
  bool is(uint64_t sources, uint32_t index, uint64_t strings, std::string_view name) {
    abi_tracedump_source candidate;
    get(sources + index * sizeof(candidate), candidate);
    char text[KMEM_CACHE_NAME_MAX];
    get(strings + candidate.name, text);
    if (text != name) return false;
    source = candidate;
    return true;
  }
  void add(uint64_t at, const abi_tracedump_section& section) {
    NOT_ROOTS static abi_tracedump_record records[500];
    for (uint64_t i = 0; i < section.count; i += std::size(records)) {
      const uint64_t n = std::min<uint64_t>(std::size(records), section.count - i);
      EXPECT(trace_binary_read(dump_, reinterpret_cast<char*>(records), n * sizeof(records[0]),
                               at + i * sizeof(records[0])) == n * sizeof(records[0]));
      for (uint64_t r = 0; r < n; r++) {
        EXPECT(records[r].object != 0 && records[r].size == 64 && records[r].stack != 0);
      }
    }
    objects = section.count;
  }

  TraceBinaryDump* dump_;
};

constexpr size_t kMaxStacks = kDepths + kMaxCpus + 1;  // includes the stacks of the churn

}  // namespace

KTEST(tracedump_text_of_100000_objects_while_others_allocate) {
  const LeakyCache cache;
  { const Churn warm_up(cache); }
  const uint64_t in_use = bytes_in_use();
  {
    const Churn churn(cache);
    const uint64_t before = cache.allocations();
    Result<TraceDump*> dump = trace_dump_open(TraceSource(cache));
    EXPECT(dump.ok());
    if (!dump) return;
    EXPECT(bytes_in_use() <= in_use + kDumpWorkspace + kSlack);
    const TextSums sums(*dump);
    wait_for_allocations(cache, 1000);
    trace_dump_close(*dump);
    EXPECT(cpu_count() == 1 || cache.allocations() > before);
    EXPECT(sums.identities);
    EXPECT(sums.live >= kLeaked && sums.live <= kLeaked + kMaxCpus * kRing);
    EXPECT(sums.objects == sums.live);
    EXPECT(sums.groups == sums.stacks && sums.stacks >= kDepths && sums.stacks <= kMaxStacks);
  }
  EXPECT(bytes_in_use() <= in_use + kSlack);
}

namespace {

// Reads and closes an open dump of `cache`. Returns the number of allocations that the trace has
// seen.
uint64_t read_binary(TraceBinaryDump* dump, const LeakyCache& cache) {
  const BinarySums sums(dump, kmem_cache_name(cache));
  const abi_tracedump_source& source = sums.source;
  EXPECT(source.seen == source.recorded + source.dropped + source.filtered);
  EXPECT(source.recorded == source.freed + source.cleared + source.live);
  EXPECT(source.live >= kLeaked && source.live <= kLeaked + kMaxCpus * kRing);
  EXPECT(sums.objects == source.live && source.bytes == 64 * source.live);
  EXPECT(source.stacks >= kDepths && source.stacks <= kMaxStacks);
  trace_binary_close(dump);
  return source.seen;
}

struct SecondReader {
  const LeakyCache& cache;
  std::atomic<bool> opened{false};
  std::atomic<uint64_t> seen{0};

  static void read(void* argument) {
    auto& self = *static_cast<SecondReader*>(argument);
    Result<TraceBinaryDump*> dump = trace_binary_open();
    self.opened = true;
    EXPECT(dump.ok());
    if (dump) self.seen = read_binary(*dump, self.cache);
  }
};

}  // namespace

KTEST(tracedump_binary_of_100000_objects_while_others_allocate) {
  const LeakyCache cache;
  { const Churn warm_up(cache); }
  const uint64_t in_use = bytes_in_use();
  {
    const Churn churn(cache);
    const uint64_t before = cache.allocations();
    Result<TraceBinaryDump*> first = trace_binary_open();
    EXPECT(first.ok());
    if (!first) return;
    // A second reader waits until the first one closes.
    SecondReader second{cache};
    Team team(SecondReader::read, &second);
    team.add();
    wait_for_allocations(cache, 1000);
    EXPECT(bytes_in_use() <= in_use + 2 * kDumpWorkspace + kSlack);
    EXPECT(!second.opened);
    const uint64_t seen = read_binary(*first, cache);
    team.join();
    EXPECT(second.opened && second.seen >= seen);
    EXPECT(cpu_count() == 1 || (cache.allocations() > before && second.seen > seen));
  }
  EXPECT(bytes_in_use() <= in_use + kSlack);
}

// A cache that was destroyed with live objects has no file of its own, but the binary dump includes
// it.
KTEST(tracedump_has_what_was_destroyed) {
  kmem_cache* cache = kmem_cache_create("ktest_gone", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache && trace_command(cache, "start").ok());
  if (!cache) return;
  void* object = ktest_leak_at(cache, 3);
  kmem_cache_destroy(cache);
  Result<TraceBinaryDump*> dump = trace_binary_open();
  EXPECT(dump.ok());
  if (dump) {
    const BinarySums sums(*dump, "ktest_gone");
    EXPECT(sums.objects == 1 && sums.source.flags == ABI_TRACEDUMP_ZOMBIE &&
           sums.source.state == ABI_TRACEDUMP_RUNNING);
    trace_binary_close(*dump);
  }
  kmem_cache_free(cache, object);
  // The next creation or destruction of a cache frees the destroyed one.
  kmem_cache_destroy(kmem_cache_create("ktest_next", 64, 0, 0, nullptr, nullptr, nullptr, nullptr));
  EXPECT(trace_memory_used() == 0);
}

KTEST(tracedump_is_roots_and_is_only_read) {
  Result<Ref<Namespace>> ns = namespace_create();
  EXPECT(ns.ok());
  if (!ns) return;
  const auto open = [&](uint32_t uid, uint32_t flags) {
    return path_open({.ns = ns->get(), .cwd = {}, .who = {uid, uid}}, "#mem/tracedump", flags, 0);
  };
  EXPECT(open(1000, ABI_O_RDONLY).error() == Errno::EACCES);
  {
    // Root may open the file in any mode, but writing fails, and so does reading from a file opened
    // for writing only.
    Result<Ref<Chan>> chan = open(0, ABI_O_RDWR);
    char byte = 0;
    EXPECT(chan.ok() && (*chan)->device->write(**chan, &byte, 1, 0).error() == Errno::EACCES);
    Result<Ref<Chan>> for_writing = open(0, ABI_O_WRONLY);
    EXPECT(for_writing.ok() &&
           (*for_writing)->device->read(**for_writing, &byte, 1, 0).error() == Errno::EACCES);
  }
  EXPECT(trace_memory_used() == 0);
}
