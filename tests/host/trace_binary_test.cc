#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "trace/dump/binary.h"
#include "trace_tables.h"
#include "trace_world.h"

namespace {

constexpr uint64_t kMillisecond = 1'000'000;
uint64_t clock_now = 1000;

// Reads a binary dump, whose format abi/tracedump.h specifies.
struct Reader {
  explicit Reader(const std::string& file) {
    memcpy(&header, file.data(), sizeof(header));
    EXPECT_EQ(memcmp(header.magic, ABI_TRACEDUMP_MAGIC, sizeof(header.magic)), 0);
    EXPECT_EQ(header.version, unsigned{ABI_TRACEDUMP_VERSION});
    EXPECT_EQ(header.size, file.size());
    size_t at = header.header_size;
    for (uint32_t i = 0; i < header.sections; i++) {
      abi_tracedump_section section;
      memcpy(&section, &file[at], sizeof(section));
      at += header.section_header_size;
      EXPECT_EQ(at % 8, 0u);
      EXPECT_LE(section.count * section.item_size, section.size);
      const char* begin = &file[at];
      switch (section.tag) {
        case ABI_TRACEDUMP_SOURCES:
          take(sources, section, begin);
          break;
        case ABI_TRACEDUMP_CONTEXTS:
          take(contexts, section, begin);
          break;
        case ABI_TRACEDUMP_STACKS:
          take(stacks, section, begin);
          break;
        case ABI_TRACEDUMP_FRAMES:
          take(frames, section, begin);
          break;
        case ABI_TRACEDUMP_STRINGS:
          strings.assign(begin, section.count);
          break;
        case ABI_TRACEDUMP_RECORDS:
          take(records[section.source], section, begin);
          break;
        case ABI_TRACEDUMP_FREES:
          take(frees, section, begin);
          break;
        default:
          ADD_FAILURE() << "tag " << section.tag;
      }
      at += section.size;
    }
    EXPECT_EQ(at, file.size());
  }

  template <typename Item>
  static void take(std::vector<Item>& items, const abi_tracedump_section& section,
                   const char* begin) {
    ASSERT_EQ(section.item_size, sizeof(Item));
    items.resize(section.count);
    if (section.count > 0) memcpy(items.data(), begin, section.count * sizeof(Item));
  }
  std::string string(uint32_t offset) const { return strings.c_str() + offset; }
  std::vector<uint64_t> frames_of(uint32_t id) const {
    for (const auto& stack : stacks) {
      if (stack.id == id)
        return {&frames[stack.first_frame], &frames[stack.first_frame] + stack.frames};
    }
    ADD_FAILURE() << "no stack " << id;
    return {};
  }
  const abi_tracedump_context& context(uint32_t id) const {
    for (const auto& context : contexts) {
      if (context.id == id) return context;
    }
    ADD_FAILURE() << "no context " << id;
    return contexts[0];
  }

  abi_tracedump_header header;
  std::vector<abi_tracedump_source> sources;
  std::vector<abi_tracedump_context> contexts;
  std::vector<abi_tracedump_stack> stacks;
  std::vector<uint64_t> frames;
  std::string strings;
  std::map<uint32_t, std::vector<abi_tracedump_record>> records;
  std::vector<abi_tracedump_frees> frees;
};

// Sorts the records of a dump by stack, then by time. The order of records in a dump is undefined.
std::vector<abi_tracedump_record> by_stack_and_time(std::vector<abi_tracedump_record> records) {
  std::sort(records.begin(), records.end(), [](const auto& a, const auto& b) {
    return a.stack != b.stack ? a.stack < b.stack : a.time < b.time;
  });
  return records;
}

class TraceBinaryTest : public TraceTables<2> {
 protected:
  void SetUp() override {
    TraceTables::SetUp();
    clock_now = 1000;
  }
  void TearDown() override {
    TraceWorld::fail_blocks(0);
    binary_.reset();
    TraceTables::TearDown();
  }

  void record(size_t table, uint64_t object, uint64_t size, StackId stack, ContextId context,
              uint64_t time, StackId user_stack = StackId::kNone) {
    TraceTables::record(table, object, size, stack, context, {time}, CpuId{3}, user_stack);
  }
  // Makes a dump of `sources` tables. Calls the argument `open` after TraceBinary::open() and
  // before finish(), so that a test can make the allocations of finish() fail.
  Result<void> take(unsigned sources = 2, uint64_t sample = 0, void (*open)() = nullptr) {
    binary_.reset();
    memset(memory_, 0xa5, sizeof(memory_));  // undefined contents, as in the kernel
    binary_ = std::make_unique<TraceBinary>(memory_, stacks_, contexts_);
    TRY(binary_->begin(sources));
    for (unsigned i = 0; i < sources; i++) {
      TraceHeader header = {};
      snprintf(header.name, sizeof(header.name), i == 0 ? "pipe" : "page");
      header.state = {
          .phase = i == 0 ? TracePhase::kStopped : TracePhase::kRunning, .options = {}, .mark = 7};
      if (i == 1)
        header.state.options = {
            .depth = 8, .min_size = 10, .max_size = 4096, .pid = 12, .sample = sample};
      header.object_size = 64;
      // All live objects, whether they have a record or not.
      header.objects = 100 + 2 * tables_[i % 2]->counters().live;
      binary_->add(header, i == 0 ? ABI_TRACEDUMP_CACHE : ABI_TRACEDUMP_ARENA,
                   i == 0 ? ABI_TRACEDUMP_ZOMBIE : 0, *tables_[i]);
    }
    TRY(binary_->open());
    if (open) open();
    binary_->finish({.time = clock_now * kMillisecond + 5,
                     .memory_limit = 65536,
                     .memory_used = 8192,
                     .commands = 34,
                     .build_id = kBuildId});
    return {};
  }
  // Makes a table count frees, as `start frees` does.
  void count_frees(size_t table) {
    ASSERT_TRUE(trace_users_add(tables_[table]->names()).ok());
    ASSERT_TRUE(tables_[table]->make_free_counts());
    tables_[table]->set_options({.frees = true});
  }
  // Allocates and frees `objects` objects.
  void come_and_go(size_t table, StackId allocated_by, StackId freed_by, unsigned objects) {
    for (unsigned i = 0; i < objects; i++) {
      record(table, 0x900'0000, 8, allocated_by, ContextId::kNone, clock_now);
      tables_[table]->forget(0xffff800009000000, CpuId{i % 5}, freed_by);
    }
  }
  std::string read(size_t piece = 1 << 20) {
    std::string all, buffer(piece, 0);
    while (const size_t got = binary_->read(buffer.data(), piece, all.size()))
      all.append(buffer, 0, got);
    return all;
  }

  static constexpr uint8_t kBuildId[] = {1, 2, 3, 4, 5};
  alignas(kPageSize) std::byte memory_[TraceBinary::kRoom];
  std::unique_ptr<TraceBinary> binary_;
};

TEST_F(TraceBinaryTest, HasEverything) {
  const ContextId shell = contexts_.intern(ContextKind::kProcess, 12, "sh");
  const ContextId timer = contexts_.intern(ContextKind::kInterrupt, 0, "timer");
  const ContextId reaper = contexts_.intern(ContextKind::kKernelTask, 0, "reaper");
  const StackId small = stack({0x10, 0x20}), large = stack({0x30}), gone = stack({0x40});
  clock_now = 5'000'000'000;  // more than 32 bits of milliseconds
  record(0, 0x1000, 10, small, shell, clock_now - 100);
  tables_[0]->set_mark(7);
  record(0, 0x2000, 20, small, timer, clock_now - 200);
  tables_[0]->note_not_leak(0xffff800000002000);
  record(0, 0x3000, 100, large, reaper, clock_now);
  record(0, 0x4000, 100, gone, reaper, clock_now);
  record(
      0, 0x5000, 1, StackId::kNone, ContextId::kNone,
      clock_now - 4'294'967'000);  // since this time, the clock's low 32 bits have wrapped around
  tables_[0]->forget(0xffff800000004000, CpuId{0});
  tables_[0]->forget(0xffff800000006000, CpuId{0});
  tables_[1]->filter(CpuId{0});
  record(1, 0x8000, 4096, small, shell, clock_now);
  ASSERT_TRUE(take().ok());
  const Reader dump(read());

  EXPECT_EQ(dump.header.time, clock_now * kMillisecond + 5);
  EXPECT_EQ(dump.header.memory_limit, 65536u);
  EXPECT_EQ(dump.header.memory_used, 8192u);
  EXPECT_EQ(dump.header.commands, 34u);
  ASSERT_EQ(dump.header.build_id_size, sizeof(kBuildId));
  EXPECT_EQ(memcmp(dump.header.build_id, kBuildId, sizeof(kBuildId)), 0);

  ASSERT_EQ(dump.sources.size(), 2u);
  const abi_tracedump_source &cache = dump.sources[0], &arena = dump.sources[1];
  EXPECT_EQ(dump.string(cache.name), "pipe");
  EXPECT_EQ(dump.string(arena.name), "page");
  EXPECT_EQ(cache.kind, unsigned{ABI_TRACEDUMP_CACHE});
  EXPECT_EQ(arena.kind, unsigned{ABI_TRACEDUMP_ARENA});
  EXPECT_EQ(cache.state, unsigned{ABI_TRACEDUMP_STOPPED});
  EXPECT_EQ(arena.state, unsigned{ABI_TRACEDUMP_RUNNING});
  EXPECT_EQ(cache.flags, unsigned{ABI_TRACEDUMP_ZOMBIE});
  EXPECT_EQ(cache.object_size, 64u);
  EXPECT_EQ(cache.max_size, UINT64_MAX);
  EXPECT_EQ(cache.mark, 7u);
  EXPECT_EQ(cache.stacks, 2u);
  EXPECT_EQ(cache.seen, 5u);
  EXPECT_EQ(cache.recorded, 5u);
  EXPECT_EQ(cache.freed, 1u);
  EXPECT_EQ(cache.live, 4u);
  EXPECT_EQ(cache.bytes, 131u);
  EXPECT_EQ(cache.untracked, 104u);
  EXPECT_EQ(cache.unmatched, 1u);
  EXPECT_EQ(cache.stacks_lost, 1u);
  EXPECT_EQ(cache.contexts_lost, 1u);
  EXPECT_EQ(cache.estimated_bytes, 131u);
  EXPECT_EQ(cache.estimated_objects, 4u);
  EXPECT_EQ(arena.depth, 8u);
  EXPECT_EQ(arena.min_size, 10u);
  EXPECT_EQ(arena.max_size, 4096u);
  EXPECT_EQ(arena.pid, 12u);
  EXPECT_EQ(arena.filtered, 1u);
  EXPECT_EQ(arena.seen, 2u);

  EXPECT_EQ(dump.stacks.size(), 2u) << "the one of an object that was freed is not there";
  EXPECT_EQ(
      dump.frames_of(number_of(small)),
      (std::vector<uint64_t>{StackTable::kKernelBase + 0x10, StackTable::kKernelBase + 0x20}));
  EXPECT_EQ(dump.frames_of(number_of(large)),
            (std::vector<uint64_t>{StackTable::kKernelBase + 0x30}));

  ASSERT_EQ(dump.records.at(0).size(), 4u);
  const auto records = by_stack_and_time(dump.records.at(0));
  EXPECT_EQ(records[0].stack, 0u);
  EXPECT_EQ(records[0].context, 0u);
  EXPECT_EQ(records[0].time, (clock_now - 4'294'967'000) * kMillisecond);
  EXPECT_EQ(records[1].object, 0xffff800000002000u);
  EXPECT_EQ(records[1].size, 20u);
  EXPECT_EQ(records[1].time, (clock_now - 200) * kMillisecond);
  EXPECT_EQ(records[1].mark, 7u);
  EXPECT_EQ(records[1].cpu, 3u);
  EXPECT_EQ(records[1].flags, unsigned{ABI_TRACEDUMP_NOT_LEAK});
  EXPECT_EQ(records[2].flags, 0u);
  EXPECT_EQ(records[2].mark, 0u);
  EXPECT_EQ(dump.context(records[1].context).kind, unsigned{ABI_TRACEDUMP_IRQ});
  EXPECT_EQ(dump.string(dump.context(records[1].context).name), "timer");
  EXPECT_EQ(dump.context(records[2].context).pid, 12u);
  EXPECT_EQ(dump.string(dump.context(records[2].context).name), "sh");
  EXPECT_EQ(dump.string(dump.context(records[2].context).path), "");
  EXPECT_EQ(dump.context(records[3].context).kind, unsigned{ABI_TRACEDUMP_TASK});
  ASSERT_EQ(dump.records.at(1).size(), 1u);
  EXPECT_EQ(dump.records.at(1)[0].size, 4096u);
}

TEST_F(TraceBinaryTest, ContextsHaveProgramsAndRecordsUserStacks) {
  const std::vector<uint64_t> frames = {0x401000, 0x7fff00001234};
  const StackId user = stacks_.intern(StackKind::kUser, frames.data(), frames.size());
  const std::vector<uint8_t> build_id = {9, 8, 7};
  contexts_.intern(ContextKind::kProcess, 1, "init",
                   {.path = "/bin/init", .build_id = {}});  // no record has this context
  const TraceProgram program = {.path = "/bin/sh", .build_id = build_id};
  const ContextId shell = contexts_.intern(ContextKind::kProcess, 12, "sh", program);
  contexts_.intern(ContextKind::kProcess, 13, "cat", {.path = "/bin/cat", .build_id = {}});
  const ContextId child = contexts_.intern(ContextKind::kProcess, 14, "sh", program);
  const StackId kernel = stack({0x10});
  stack({0x20});  // no record has this stack
  record(1, 0x3000, 10, kernel, child, 3);
  record(1, 0x1000, 10, kernel, shell, 1, user);
  record(1, 0x2000, 10, kernel, child, 2, user);
  ASSERT_TRUE(take().ok());
  const Reader dump(read());
  ASSERT_EQ(dump.contexts.size(), 2u) << "those that are named";
  for (const ContextId id : {shell, child}) {
    const abi_tracedump_context& context = dump.context(number_of(id));
    EXPECT_EQ(dump.string(context.name), "sh");
    EXPECT_EQ(dump.string(context.path), "/bin/sh");
    EXPECT_EQ(context.pid, id == shell ? 12u : 14u);
    ASSERT_EQ(context.build_id_size, build_id.size());
    EXPECT_EQ(memcmp(context.build_id, build_id.data(), build_id.size()), 0);
  }
  EXPECT_EQ(dump.context(number_of(shell)).name, dump.context(number_of(child)).name)
      << "a program's texts come once";
  // All three records have the stack `kernel`. Two of them also have the stack `user`.
  ASSERT_EQ(dump.stacks.size(), 2u);
  for (const auto& stack : dump.stacks) {
    EXPECT_EQ(stack.kind, stack.id == number_of(user) ? unsigned{ABI_TRACEDUMP_USER}
                                                      : unsigned{ABI_TRACEDUMP_KERNEL});
  }
  EXPECT_EQ(dump.frames_of(number_of(user)), frames);
  EXPECT_EQ(dump.sources[1].stacks, 1u);
  const auto records = by_stack_and_time(dump.records.at(1));
  ASSERT_EQ(records.size(), 3u);
  for (size_t i = 0; i < 3; i++) {
    EXPECT_EQ(records[i].stack, number_of(kernel));
    EXPECT_EQ(records[i].user_stack, i < 2 ? number_of(user) : 0);
    EXPECT_EQ(records[i].time, (i + 1) * 1'000'000);
    EXPECT_EQ(records[i].cpu, 3u);
  }
}

TEST_F(TraceBinaryTest, SampledTracesSayWhatTheyStandFor) {
  for (uint64_t i = 0; i < 10; i++)
    record(1, 0x1000 + 64 * i, 64, stack({0x10}), ContextId::kNone, 0);
  ASSERT_TRUE(take(2, 512).ok());
  const Reader dump(read());
  EXPECT_EQ(dump.sources[1].sample, 512u);
  EXPECT_EQ(dump.sources[1].bytes, 640u);
  // At this sampling rate, each record of 64 bytes represents 1 / (1 - e^(-64/512)) = 8.5104
  // objects.
  EXPECT_EQ(dump.sources[1].estimated_objects, 85u);
  EXPECT_EQ(dump.sources[1].estimated_bytes, 5447u);
}

TEST_F(TraceBinaryTest, NothingTracedIsAWholeFileToo) {
  ASSERT_TRUE(take(0).ok());
  const Reader dump(read());
  EXPECT_TRUE(dump.sources.empty());
  EXPECT_TRUE(dump.stacks.empty());
  EXPECT_EQ(dump.strings[0], 0);
}

TEST_F(TraceBinaryTest, ReadsTheSameInPiecesOfAnySizeAndFromAnywhere) {
  std::mt19937 random(1);
  for (uint32_t i = 0; i < 3000; i++) {
    std::vector<uint64_t> frames(random() % 65);
    for (uint64_t& frame : frames) frame = random() % 3;
    record(i % 2, 0x1000 + i * 64, random() % 100, stack(frames),
           contexts_.intern(ContextKind::kProcess, i % 100 + 1, "a name of some length"), i % 1000);
  }
  ASSERT_TRUE(take().ok());
  const std::string whole = read();
  const Reader dump(whole);
  EXPECT_EQ(dump.contexts.size(), 100u);
  for (const auto& stack : dump.stacks) dump.frames_of(stack.id);
  for (const size_t piece : {1, 7, 39, 40, 41, 511, 100'000})
    EXPECT_TRUE(read(piece) == whole) << piece;
  char buffer[1000];
  for (int i = 0; i < 3000; i++) {
    const size_t offset = random() % (whole.size() + 10), size = random() % sizeof(buffer);
    const size_t got = binary_->read(buffer, size, offset);
    EXPECT_TRUE(std::string(buffer, got) ==
                (offset < whole.size() ? whole.substr(offset, size) : ""))
        << offset;
  }
  EXPECT_EQ(binary_->read(buffer, sizeof(buffer), UINT64_MAX), 0u);
}

// Objects, stacks and contexts that are recorded after take() do not appear in the dump. Objects
// that are freed after take() stay in it.
TEST_F(TraceBinaryTest, IsOfTheMomentOfTheCopy) {
  const ContextId context = contexts_.intern(ContextKind::kProcess, 1, "sh");
  for (uint32_t i = 0; i < 500; i++) record(0, 0x1000 + i * 64, 1, stack({i % 7}), context, 0);
  ASSERT_TRUE(take().ok());
  const std::string before = read();
  for (uint32_t i = 0; i < 400; i++) tables_[0]->forget(0xffff800000001000 + i * 64, CpuId{0});
  for (uint32_t i = 0; i < 900; i++) {
    record(1, 0x1000 + i * 64, 1, stack({1000 + i}),
           contexts_.intern(ContextKind::kProcess, i, "other"), 0);
  }
  EXPECT_TRUE(read() == before);
}

// If a dump gets no memory for its tables of stacks and contexts, it has only the stacks and
// contexts that fit into its own buffer. It counts the records whose stack or context is missing.
TEST_F(TraceBinaryTest, WithoutMemoryItNamesWhatFits) {
  constexpr uint32_t kRecords = 20'000;
  for (uint32_t i = 0; i < kRecords; i++) {
    char name[16];
    snprintf(name, sizeof(name), "p%u", i % 1000);
    const uint64_t frame = 0x400000 + i % 3000;
    const StackId user = stacks_.intern(StackKind::kUser, &frame, 1);
    record(i % 2, 0x1000 + i * 64, 1, stack({i % 5000}),
           contexts_.intern(ContextKind::kProcess, i % 4000 + 1, name), i, user);
  }
  ASSERT_TRUE(take(2, 0, [] { TraceWorld::fail_blocks(100); }).ok());
  const Reader dump(read());
  std::map<uint32_t, unsigned> kinds;
  for (const auto& stack : dump.stacks) kinds[stack.id] = stack.kind;
  std::map<uint32_t, std::string> programs;
  for (const auto& context : dump.contexts) programs[context.id] = dump.string(context.name);
  uint64_t stackless = 0, contextless = 0;
  for (uint32_t i = 0; i < 2; i++) {
    std::map<uint32_t, int> named;
    ASSERT_EQ(dump.records.at(i).size(), kRecords / 2);
    for (const auto& record : dump.records.at(i)) {
      stackless += record.stack == 0 || record.user_stack == 0;
      contextless += record.context == 0;
      if (record.stack != 0) {
        EXPECT_EQ(kinds.at(record.stack), unsigned{ABI_TRACEDUMP_KERNEL});
        named[record.stack]++;
      }
      if (record.user_stack != 0) {
        EXPECT_EQ(kinds.at(record.user_stack), unsigned{ABI_TRACEDUMP_USER});
      }
      const uint64_t number = (record.object - 0xffff800000001000) / 64;
      if (record.context != 0) {
        EXPECT_EQ(programs.at(record.context), "p" + std::to_string(number % 1000));
      }
    }
    EXPECT_EQ(dump.sources[i].stacks, named.size());
  }
  EXPECT_EQ(dump.header.stacks_unnamed, stackless);
  EXPECT_EQ(dump.header.contexts_unnamed, contextless);
  EXPECT_GT(stackless, 0u);
  EXPECT_GT(contextless, 0u);
  EXPECT_LT(stackless, kRecords);
  EXPECT_LT(contextless, kRecords);
  // With enough memory, the dump has all stacks and contexts.
  TraceWorld::fail_blocks(0);
  ASSERT_TRUE(take().ok());
  const Reader whole(read());
  EXPECT_EQ(whole.header.stacks_unnamed + whole.header.contexts_unnamed, 0u);
  EXPECT_EQ(whole.stacks.size(), 8000u);
  EXPECT_EQ(whole.contexts.size(), 4000u);
}

// The dump has the counts of frees of each trace that counts them, for the stacks of its records.
// The stacks that have freed are no stacks of the source. The dump retains their numbers.
TEST_F(TraceBinaryTest, HasWhoFrees) {
  count_frees(0);
  const StackId leaks = stack({0x10}), never_freed = stack({0x20}), gone = stack({0x30}),
                destroy = stack({0x40, 0x50}), reset = stack({0x60});
  for (size_t table = 0; table < 2; table++) {
    record(table, 0x1000, 10, leaks, ContextId::kNone, 1);
    record(table, 0x2000, 10, never_freed, ContextId::kNone, 1);
    come_and_go(table, leaks, destroy, 3);
    come_and_go(table, leaks, reset, 7);
    come_and_go(table, leaks, leaks, 2);
    come_and_go(table, leaks, StackId::kNone, 4);
    come_and_go(table, gone, stack({0x70}), 5);
  }
  ASSERT_TRUE(take().ok());
  const std::string whole = read();
  const Reader dump(whole);
  EXPECT_EQ(dump.sources[0].flags, unsigned{ABI_TRACEDUMP_ZOMBIE | ABI_TRACEDUMP_COUNTS_FREES});
  EXPECT_EQ(dump.sources[1].flags, 0u);
  EXPECT_EQ(dump.sources[0].stacks, 2u);
  EXPECT_EQ(dump.sources[1].stacks, 2u);
  EXPECT_EQ(dump.header.frees_uncounted, 4u);
  std::vector<std::vector<uint64_t>> frees;
  for (const auto& item : dump.frees)
    frees.push_back({item.source, item.stack, item.freed_by, item.count});
  EXPECT_EQ(frees, (std::vector<std::vector<uint64_t>>{
                       {0, number_of(leaks), number_of(reset), 7},
                       {0, number_of(leaks), number_of(destroy), 3},
                       {0, number_of(leaks), number_of(leaks), 2},
                   }));
  EXPECT_EQ(dump.stacks.size(), 4u);
  EXPECT_EQ(
      dump.frames_of(number_of(destroy)),
      (std::vector<uint64_t>{StackTable::kKernelBase + 0x40, StackTable::kKernelBase + 0x50}));
  for (const size_t piece : {1, 7, 23, 24, 25}) EXPECT_TRUE(read(piece) == whole) << piece;

  struct {
    void stack(StackId id) { stacks.insert(id); }
    std::set<StackId> stacks;
  } retained;
  binary_->retain(retained);
  EXPECT_EQ(retained.stacks, (std::set{leaks, never_freed, destroy, reset}));
}

// If a trace ends after its snapshot is opened, the numbers in its counts may be those of other
// stacks. So the dump does not have these counts, and does not claim to.
TEST_F(TraceBinaryTest, HasNoFreesOfATraceThatHasEnded) {
  static TraceTable* ending;
  count_frees(0);
  record(0, 0x1000, 10, stack({0x10}), ContextId::kNone, 1);
  come_and_go(0, stack({0x10}), stack({0x40}), 3);
  ending = tables_[0];
  ASSERT_TRUE(take(2, 0, [] { trace_users_drop(ending->names()); }).ok());
  const Reader dump(read());
  EXPECT_TRUE(dump.frees.empty());
  EXPECT_EQ(dump.stacks.size(), 1u);
  EXPECT_EQ(dump.sources[0].flags, unsigned{ABI_TRACEDUMP_ZOMBIE});
}

// Without memory, the dump has the counts that fit into its own buffer, and counts the other frees.
TEST_F(TraceBinaryTest, WithoutMemoryItHasTheFreesThatFit) {
  constexpr unsigned kFreers = 3000;
  count_frees(0);
  const StackId leaks = stack({0x10});
  record(0, 0x1000, 10, leaks, ContextId::kNone, 1);
  for (unsigned i = 0; i < kFreers; i++) come_and_go(0, leaks, stack({0x20, i}), 1 + i % 3);
  for (const bool enough : {false, true}) {
    TraceWorld::fail_blocks(0);
    void (*open)() = nullptr;
    if (!enough) open = [] { TraceWorld::fail_blocks(100); };
    ASSERT_TRUE(take(2, 0, open).ok());
    const Reader dump(read());
    uint64_t sum = 0;
    std::set<uint32_t> freed_by;
    for (const auto& item : dump.frees) {
      EXPECT_EQ(dump.frames_of(item.freed_by).size(), 2u);
      EXPECT_TRUE(freed_by.insert(item.freed_by).second);
      sum += item.count;
    }
    EXPECT_EQ(sum + dump.header.frees_uncounted, 2u * kFreers);
    EXPECT_EQ(dump.header.frees_uncounted == 0, enough);
    EXPECT_GT(dump.frees.size(), 50u);
  }
}

}  // namespace
