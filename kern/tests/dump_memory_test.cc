// Tests dumps while all memory is in use. The dumps have many objects, from more stacks than the
// reserve for dumps (intern/dump_reserve.h) has room for, and other CPUs allocate and free
// meanwhile.
//
// `dump_records=N` on the kernel command line sets the number of objects; the default is small.
#include <algorithm>
#include <atomic>
#include <string_view>

#include "abi/tracedump.h"
#include "arena.h"
#include "core/cpu.h"
#include "core/ktest.h"
#include "core/log.h"
#include "core/not_roots.h"
#include "intern/dump_reserve.h"
#include "intern/page_buffer.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "lib/string.h"
#include "lib/units.h"
#include "slab.h"
#include "tests/dump_text.h"
#include "tests/team.h"
#include "trace/trace.h"

namespace {

constexpr uint32_t kStackBits = 10, kStacks = 1 << kStackBits;

// These functions allocate an object from one of kStacks different stacks: each bit of `which`
// selects one caller.
[[gnu::noinline]] void* ktest_take_by_zero(kmem_cache* cache, uint32_t which, uint32_t levels);
[[gnu::noinline]] void* ktest_take_by_one(kmem_cache* cache, uint32_t which, uint32_t levels);
void* take_by(kmem_cache* cache, uint32_t which, uint32_t levels) {
  if (levels == 0) return kmem_cache_alloc(cache, KM_ATOMIC);
  return (which & 1) != 0 ? ktest_take_by_one(cache, which >> 1, levels - 1)
                          : ktest_take_by_zero(cache, which >> 1, levels - 1);
}
void* ktest_take_by_zero(kmem_cache* cache, uint32_t which, uint32_t levels) {
  void* const object = take_by(cache, which, levels);
  keep_frame();
  return object;
}
void* ktest_take_by_one(kmem_cache* cache, uint32_t which, uint32_t levels) {
  void* const object = take_by(cache, which, levels);
  keep_frame();
  return object;
}

// Objects of a traced cache. Each contains its own number.
class Outstanding {
 public:
  explicit Outstanding(uint64_t count)
      : cache_(kmem_cache_create("ktest_full", 16, 0, 0, nullptr, nullptr, nullptr, nullptr)),
        count_(count) {
    EXPECT(cache_ && objects_.reserve(count).ok() && shown_.reserve(count / 64 + 1).ok());
    EXPECT(trace_command(cache_, "start").ok());
    for (uint64_t i = 0; i < count; i++) {
      void* const object = take_by(cache_, static_cast<uint32_t>(i % kStacks), kStackBits);
      EXPECT(object);
      objects_[i] = static_cast<uint64_t*>(object);
      if (object) *objects_[i] = i;
    }
  }
  ~Outstanding() {
    for (uint64_t i = 0; i < count_; i++) kmem_cache_free(cache_, objects_[i]);
    EXPECT(trace_command(cache_, "stop\nreset").ok());
    kmem_cache_destroy(cache_);
  }
  Outstanding(const Outstanding&) = delete;
  Outstanding& operator=(const Outstanding&) = delete;
  operator kmem_cache*() const { return cache_; }
  uint64_t count() const { return count_; }

  void show_none() { std::fill_n(shown_.data(), count_ / 64 + 1, 0); }
  // Notes that a dump shows the object at this address. Ignores objects of Churn. False if the dump
  // has shown the object before.
  bool show(uint64_t address) {
    const uint64_t number = *reinterpret_cast<const volatile uint64_t*>(address);
    if (number >= count_ || reinterpret_cast<uint64_t>(objects_[number]) != address) return true;
    const uint64_t bit = uint64_t{1} << number % 64;
    const bool again = (shown_[number / 64] & bit) != 0;
    shown_[number / 64] |= bit;
    return !again;
  }
  uint64_t shown() const {
    uint64_t count = 0;
    for (uint64_t i = 0; i < count_; i++) count += shown_[i / 64] >> i % 64 & 1;
    return count;
  }

 private:
  kmem_cache* cache_;
  const uint64_t count_;
  PageBuffer<uint64_t*> objects_;
  PageBuffer<uint64_t> shown_;
};

// Allocates and frees on all CPUs but the first, as memory permits, until its destructor runs.
class Churn {
 public:
  explicit Churn(kmem_cache* cache) : cache_(cache), team_(work, this) {
    for (unsigned cpu = 1; cpu < cpu_count(); cpu++) team_.add(CpuId{cpu});
    while (running_ < cpu_count() - 1) task_yield();
  }
  ~Churn() {
    stop_ = true;
    team_.join();
  }
  // Waits until the tasks on the other CPUs have made progress.
  void wait_for_some() const {
    const uint64_t before = frees_;
    while (cpu_count() > 1 && frees_ < before + 1000) task_yield();
  }

 private:
  static void work(void* argument) {
    auto& self = *static_cast<Churn*>(argument);
    void* ring[64] = {};
    for (size_t i = 0; !self.stop_; i = (i + 1) % std::size(ring)) {
      if (ring[i]) {
        kmem_cache_free(self.cache_, ring[i]);
        self.frees_++;
      }
      ring[i] = kmem_cache_alloc(self.cache_, KM_ATOMIC);
      if (i == 0) self.running_++;
    }
    for (void* object : ring) {
      if (object) kmem_cache_free(self.cache_, object);
    }
  }

  kmem_cache* cache_;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> running_{0}, frees_{0};
  Team team_;
};

// Takes all memory, and sets the limit of trace memory to the amount in use.
class FullMemory {
 public:
  FullMemory() {
    trace_memory_set_limit(trace_memory_used());
    kmem_reap();
    for (arena* from : {base_arena, page_arena}) {
      for (size_t size = kLargest; size >= kPageSize; size /= 2) {
        while (void* const memory = arena_alloc(from, size, KM_ATOMIC)) {
          auto* const block = static_cast<Block*>(memory);
          *block = {blocks_, from, size};
          blocks_ = block;
        }
      }
    }
  }
  // Also takes memory that others have freed since the constructor ran. Stops when the tracer
  // cannot allocate `size` bytes any more.
  void leave_no_room(size_t size) {
    while (void* const memory = trace_copy_alloc(size)) {
      *static_cast<Block*>(memory) = {blocks_, nullptr, size};
      blocks_ = static_cast<Block*>(memory);
    }
  }
  ~FullMemory() {
    while (blocks_) {
      const Block block = *blocks_;
      if (block.from)
        arena_free(block.from, blocks_, block.size);
      else
        trace_copy_free(blocks_, block.size);
      blocks_ = block.next;
    }
  }
  FullMemory(const FullMemory&) = delete;
  FullMemory& operator=(const FullMemory&) = delete;

 private:
  static constexpr size_t kLargest = 64 * 1024 * 1024;
  struct Block {
    Block* next;
    arena* from;
    size_t size;
  };
  Block* blocks_ = nullptr;
};

// The contents of a text dump, read from its first byte to its last.
struct TextDump {
  TextDump(TraceDump* dump, Outstanding& outstanding) : outstanding_(outstanding) {
    read_lines(dump, [this](std::string_view text) { line(text); });
  }

  uint64_t live = 0, bytes = 0, stacks = 0, unattributed = 0;  // numbers in the header
  bool identities = false;
  uint64_t objects = 0, group_bytes = 0, groups = 0, shown = 0, again = 0;  // counted in the body

 private:
  void line(std::string_view text) {
    if (text.starts_with("seen ")) {
      live = number_after(text, " live ");
      bytes = number_after(text, " bytes ");
      stacks = number_after(text, " stacks ");
      if (text.find(" unattributed ") != std::string_view::npos)
        unattributed = number_after(text, " unattributed ");
      identities = identities_hold(text);
    } else if (text.ends_with(" allocations from stack")) {
      objects += number_after(text, " bytes in ");
      group_bytes += number_after(text, "");
      groups++;
    } else if (text.starts_with("\t0x")) {
      shown++;
      again += !outstanding_.show(number_after(text, "\t0x", 16));
    }
  }

  Outstanding& outstanding_;
};

// The contents of a binary dump of one trace.
struct BinaryDump {
  BinaryDump(TraceBinaryDump* dump, Outstanding& outstanding) : dump_(dump) {
    get(0, header);
    uint64_t at = header.header_size;
    for (uint32_t i = 0; i < header.sections; i++) {
      abi_tracedump_section section;
      get(at, section);
      at += header.section_header_size;
      if (section.tag == ABI_TRACEDUMP_SOURCES) {
        EXPECT(section.count == 1);
        get(at, source);
      }
      if (section.tag == ABI_TRACEDUMP_RECORDS) read_records(at, section, outstanding);
      at += section.size;
    }
    EXPECT(at == header.size);
  }

  abi_tracedump_header header;
  abi_tracedump_source source = {};
  uint64_t objects = 0, bytes = 0, unnamed = 0, again = 0;

 private:
  template <typename T>
  void get(uint64_t offset, T& item) {
    EXPECT(trace_binary_read(dump_, reinterpret_cast<char*>(&item), sizeof(item), offset) ==
           sizeof(item));
  }
  void read_records(uint64_t at, const abi_tracedump_section& section, Outstanding& outstanding) {
    NOT_ROOTS static abi_tracedump_record records[500];
    for (uint64_t i = 0; i < section.count; i += std::size(records)) {
      const uint64_t n = std::min<uint64_t>(std::size(records), section.count - i);
      EXPECT(trace_binary_read(dump_, reinterpret_cast<char*>(records), n * sizeof(records[0]),
                               at + i * sizeof(records[0])) == n * sizeof(records[0]));
      for (const abi_tracedump_record& record : std::span(records, n)) {
        objects++;
        bytes += record.size;
        unnamed += record.stack == 0;
        again += !outstanding.show(record.object);
      }
    }
  }

  TraceBinaryDump* dump_;
};

// A task that opens a dump on request. It must be created before memory is full, since its stack
// takes memory.
class Reader {
 public:
  explicit Reader(kmem_cache* cache) : cache_(cache), team_(work, this) {
    team_.add();
    while (!began_) task_yield();
  }
  ~Reader() {
    go_ = true;
    team_.join();
  }
  void go() { go_ = true; }
  bool opened() const { return opened_; }

 private:
  static void work(void* argument) {
    auto& self = *static_cast<Reader*>(argument);
    self.began_ = true;
    while (!self.go_) task_yield();
    Result<TraceDump*> dump = trace_dump_open(TraceSource(self.cache_));
    self.opened_ = true;
    EXPECT(dump.ok());
    if (dump) trace_dump_close(*dump);
  }

  kmem_cache* cache_;
  std::atomic<bool> began_{false}, go_{false}, opened_{false};
  Team team_;
};

void read_dumps(Outstanding& objects) {
  task_drain_dead();  // the stacks of earlier tests' tasks would come back while memory is full
  Reader second(objects);
  const Churn churn(objects);
  {
    FullMemory full;
    churn.wait_for_some();
    full.leave_no_room(kDumpWorkspace);
    Result<TraceDump*> text = trace_dump_open(TraceSource(objects));
    EXPECT(text.ok());
    if (!text) return;
    objects.show_none();
    second.go();
    const TextDump said(*text, objects);
    churn.wait_for_some();
    // The second open waits until the first dump is closed: the first dump holds the reserve and
    // the snapshot.
    EXPECT(!second.opened());
    trace_dump_close(*text);
    EXPECT(said.identities);
    EXPECT(said.live >= objects.count() && said.live <= objects.count() + kMaxCpus * 64);
    EXPECT(said.objects == said.live && said.group_bytes == said.bytes);
    // The reserve has no room for all stacks. The dump counts the objects of the missing stacks as
    // unattributed, in a group of their own.
    EXPECT(said.unattributed > 0 && said.unattributed < said.live);
    EXPECT(said.stacks > 100 && said.stacks < kStacks && said.groups == said.stacks + 1);
    EXPECT(said.shown >= said.stacks && said.again == 0);

    Result<TraceBinaryDump*> binary = trace_binary_open();
    EXPECT(binary.ok());
    if (!binary) return;
    objects.show_none();
    const BinaryDump read(*binary, objects);
    EXPECT(read.source.seen == read.source.recorded + read.source.dropped + read.source.filtered);
    EXPECT(read.source.recorded == read.source.freed + read.source.cleared + read.source.live);
    EXPECT(read.objects == read.source.live && read.bytes == read.source.bytes);
    EXPECT(read.again == 0 && objects.shown() == objects.count());
    EXPECT(read.header.stacks_unnamed == 0 && read.unnamed == 0);
    trace_binary_close(*binary);
  }
  // Memory is free again, so the dump has a group for each stack.
  Result<TraceDump*> text = trace_dump_open(TraceSource(objects));
  EXPECT(text.ok());
  if (!text) return;
  objects.show_none();
  const TextDump said(*text, objects);
  trace_dump_close(*text);
  EXPECT(said.identities && said.unattributed == 0 && said.again == 0);
  EXPECT(said.stacks >= kStacks && said.groups == said.stacks && said.objects == said.live);
}

}  // namespace

KTEST(dump_when_memory_is_full) {
  const uint64_t limit = trace_memory_limit();
  trace_memory_set_limit(UINT64_MAX);
  {
    Outstanding objects(ktest_option("dump_records", 20'000));
    read_dumps(objects);
  }
  trace_memory_set_limit(limit);
}
