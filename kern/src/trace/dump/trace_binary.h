// The binary dump: snapshots of all traces, in the format of abi/tracedump.h.
//
// One pass over the snapshots collects the stacks and contexts of the records and the sums for the
// headers, which determine the layout of the sections. The bytes are made while they are read, item
// by item, from any offset on. Records are read from the snapshots again, slice by slice, so a
// reader that goes backwards begins a new walk. This takes memory for each stack, context and
// program, not for each record. When there is no memory for more of these, records name 0 instead,
// and the header has the number of such records.
//
// The snapshots stay open until the dump is closed, and hold its numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "abi/tracedump.h"
#include "store/context_table.h"
#include "store/page_buffer.h"
#include "store/stack_table.h"
#include "trace/dump/dump_set.h"
#include "trace/dump/last_pair.h"
#include "trace/dump/trace_text.h"
#include "trace/snapshot.h"

class TraceBinary {
 public:
  struct Moment {
    uint64_t time;  // nanoseconds since boot
    uint64_t memory_limit, memory_used;
    uint32_t commands = 0;  // of traces, since boot; probes have none
    std::span<const uint8_t> build_id;
  };
  // Bytes of its memory: for sources, for stacks, for contexts, for programs.
  static constexpr size_t kSourceRoom = 48 * 1024, kStackRoom = 44 * 1024, kContextRoom = 20 * 1024,
                          kProgramRoom = 8 * 1024;
  static constexpr size_t kRoom = kSourceRoom + kStackRoom + kContextRoom + kProgramRoom;

  // `memory`: kRoom bytes, aligned to pages. The tables must keep their numbers while this is used.
  TraceBinary(std::span<std::byte> memory, const StackTable& stacks, const ContextTable& contexts);
  TraceBinary(const TraceBinary&) = delete;
  TraceBinary& operator=(const TraceBinary&) = delete;
  ~TraceBinary() { clear(); }

  // Makes room for so many traces; also restarts. First. ENOMEM. May sleep.
  Result<void> begin(uint32_t sources);
  // Adds a trace (TraceSnapshot::choose), within the room. `header`: everything except the counters
  // and their sums. `kind` and `flags`: ABI_TRACEDUMP_*.
  void add(const TraceHeader& header, uint32_t kind, uint32_t flags, TraceTable& table);
  // Opens the snapshots, after the last add(). Errors of TraceSnapshot::open().
  Result<void> open();
  // Determines the layout of the file, after open(). May sleep.
  void finish(const Moment& moment);

  uint64_t size() const { return header_.size; }
  // Reads the file from `offset` on; 0 at its end. One reader at a time. May sleep.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  struct Source {
    TraceHeader header;
    uint32_t kind;
    uint32_t flags;
    uint32_t stacks = 0;      // number of different stacks of its records
    uint64_t records_at = 0;  // offset of its section in the file
    TraceSnapshot snapshot{};
  };
  struct Section {
    uint64_t offset;  // of its header
    abi_tracedump_section header;
  };
  struct Stack {
    using Key = uint32_t;
    explicit Stack(uint32_t its_id) : id(its_id) {}
    static uint64_t hash(uint32_t id) { return id * 0x9e3779b97f4a7c15; }
    bool is(uint32_t other) const { return id == other; }
    uint32_t key() const { return id; }

    uint32_t id;
    // During collection, the last source that has named it, from 1; then the number of its first
    // frame.
    uint32_t source_or_frame = 0;
  };
  struct Context {
    using Key = uint32_t;
    explicit Context(uint32_t its_id) : id(its_id) {}
    static uint64_t hash(uint32_t id) { return Stack::hash(id); }
    bool is(uint32_t other) const { return id == other; }
    uint32_t key() const { return id; }

    uint32_t id;
    uint32_t program = 0;  // number of the program
  };
  struct Program {
    using Key = const ContextTable::Program*;
    explicit Program(Key program) : its(program) {}
    static uint64_t hash(Key program) {
      return reinterpret_cast<uintptr_t>(program) * 0x9e3779b97f4a7c15;
    }
    bool is(Key other) const { return its == other; }
    Key key() const { return its; }

    Key its;
  };
  // The position in the records: a slice of a source's snapshot.
  struct RecordCursor {
    uint32_t source;
    TraceSnapshot::Walk walk;
    std::span<const TraceRecord> slice;
    uint64_t first;  // index of the slice's first record in the source
  };
  // A range of bytes of the file, and its offset in its section.
  struct Extent {
    static constexpr size_t kMax = StackTable::kMaxFrames * sizeof(uint64_t);
    uint64_t offset;
    size_t size;
    alignas(8) char bytes[kMax];

    template <typename Item>
    void set(uint64_t index, const Item& item);
  };
  static_assert(sizeof(abi_tracedump_source) <= Extent::kMax);

  // Strings lie at fixed distances: "" first, then the names of sources, then name and path of each
  // program of the dump's contexts.
  static constexpr uint32_t kStringRoom = 72;
  static_assert(sizeof(TraceHeader::name) <= kStringRoom &&
                sizeof(ContextTable::Program::name) <= kStringRoom &&
                sizeof(ContextTable::Program::path) <= kStringRoom);
  uint32_t source_name(uint32_t index) const { return (1 + index) * kStringRoom; }
  uint32_t program_name(uint32_t number) const {
    return (1 + source_count_ + 2 * number) * kStringRoom;
  }
  const char* string_at(uint32_t number) const;

  void clear();
  void collect(uint32_t source);
  bool add_stack(const StackTable::Pair& pair, uint32_t source);
  bool add_context(uint32_t id);
  void lay_out();
  void add_section(uint32_t tag, uint32_t item_size, uint64_t count);
  abi_tracedump_section records_section(uint32_t source) const;
  // The extent at `offset` of the file, which is before its end and not in a record.
  void make_extent(uint64_t offset, Extent& extent) const;
  void make_item(const Section& section, uint64_t offset, Extent& extent) const;
  abi_tracedump_source source_item(uint32_t index) const;
  abi_tracedump_context context_item(uint32_t index) const;
  abi_tracedump_stack stack_item(uint32_t index) const;
  void make_frames(uint64_t offset, Extent& extent) const;

  // The source whose section of records, including the header, contains `offset`.
  uint32_t source_at(uint64_t offset) const;
  // Reads from `offset` on within the records of one slice; 0 if there are no records.
  size_t read_records(char* buffer, size_t size, uint64_t offset);
  void go_to(uint32_t source, uint64_t index);
  abi_tracedump_record record_item(const Source& source, const TraceRecord& record);

  const StackTable& stack_table_;
  const ContextTable& context_table_;
  LastPair pairs_{stack_table_};
  abi_tracedump_header header_ = {};
  Source* sources_;
  uint32_t source_room_;
  uint32_t source_count_ = 0;
  PageBuffer<std::byte> more_sources_;
  static constexpr uint32_t kSections = 5;  // without those of records
  Section sections_[kSections];
  uint32_t section_count_ = 0;
  DumpSet<Stack> stacks_;
  DumpSet<Context> contexts_;
  DumpSet<Program> programs_;
  uint64_t frame_count_ = 0;
  std::optional<RecordCursor> cursor_;
};
