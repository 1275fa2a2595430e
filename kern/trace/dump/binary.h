// The binary dump: snapshots of all traces, in the format of abi/tracedump.h.
//
// One pass over the snapshots collects the stacks and contexts of the records, and the sums for the
// headers. The layout of the sections follows from the counts of stacks, contexts and records. The
// bytes are made while they are read, item by item, from any offset on. Records are read from the
// snapshots again, slice by slice. So a reader that goes backwards begins a new walk. The dump
// takes memory for each stack, context and program, not for each record. When there is no memory
// for a stack or context, its records have 0 in the place of its number, and the header counts
// these records.
//
// The snapshots stay open until the dump is closed. So the numbers of stacks and contexts in their
// records stay valid. If traces count frees, finish() also copies the counts, with the numbers of
// the stacks that have freed. From then on retain() retains these.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "abi/tracedump.h"
#include "intern/context_table.h"
#include "intern/page_buffer.h"
#include "intern/stack_table.h"
#include "trace/dump/set_impl.h"
#include "trace/dump/text_impl.h"
#include "trace/record/snapshot.h"

class TraceBinary {
 public:
  struct Facts {
    uint64_t time;  // nanoseconds since boot
    uint64_t memory_limit, memory_used;
    uint32_t commands = 0;  // trace_commands_done; 0 in a dump of a probe session
    std::span<const uint8_t> build_id;
  };
  // The memory that the constructor gets, in bytes: for sources, stacks, contexts, programs and
  // counts of frees.
  static constexpr size_t kSourceRoom = 44 * 1024, kStackRoom = 44 * 1024, kContextRoom = 20 * 1024,
                          kProgramRoom = 8 * 1024, kFreeRoom = 4 * 1024;
  static constexpr size_t kRoom =
      kSourceRoom + kStackRoom + kContextRoom + kProgramRoom + kFreeRoom;

  // `memory`: kRoom bytes, aligned to pages. `stacks` and `contexts` must outlive this object.
  TraceBinary(std::span<std::byte> memory, const StackTable& stacks, const ContextTable& contexts);
  TraceBinary(const TraceBinary&) = delete;
  TraceBinary& operator=(const TraceBinary&) = delete;
  ~TraceBinary() { clear(); }

  // Empties the dump, and makes room for `sources` traces. Called before the first add(), and again
  // to start anew. ENOMEM. May sleep.
  Result<void> begin(uint32_t sources);
  // Adds a trace, and chooses its table for a snapshot (TraceSnapshot::choose). The caller has made
  // room (begin()), and has set name, state, object_size and objects in `header`. `kind` and
  // `flags`: ABI_TRACEDUMP_*.
  void add(const TraceHeader& header, uint32_t kind, uint32_t flags, TraceTable& table);
  // Opens the snapshots. Called after the last add(). Errors as for TraceSnapshot::open().
  Result<void> open();
  // Collects stacks, contexts, sums and counts of frees, and determines the layout of the file.
  // Called after open(). If a trace counts frees, the caller is a user of the shared tables, whose
  // retain() calls this object's. May sleep.
  void finish(const Facts& facts);
  // If the dump has counts of frees, calls retained.stack() for each stack of the dump. Does
  // nothing before the end of finish(). May be called at any time.
  template <typename Retained>
  void retain(Retained& retained) const;

  uint64_t size() const { return header_.size; }
  // Reads the file from `offset` on, and returns the number of bytes; 0 at the end of the file. One
  // reader at a time. May sleep.
  size_t read(char* buffer, size_t size, uint64_t offset);

 private:
  struct Source {
    TraceHeader header;
    uint32_t kind;
    uint32_t flags;
    uint32_t stacks = 0;      // number of different kernel stacks in the records
    uint64_t records_at = 0;  // offset of the section of records in the file
    TraceSnapshot snapshot{};
  };
  struct Section {
    uint64_t offset;  // offset of the section's header in the file
    abi_tracedump_section header;
  };
  // An item of a DumpSet whose key is an id, StackId or ContextId.
  template <typename Id>
  struct Identified {
    using Key = Id;
    explicit Identified(Id its_id) : id(its_id) {}
    static uint64_t hash(Id id) { return number_of(id) * 0x9e3779b97f4a7c15; }
    bool is(Id other) const { return id == other; }
    Id key() const { return id; }

    Id id;
  };
  struct Stack : Identified<StackId> {
    using Identified::Identified;
    // During collection: one plus the index of the last source that has this stack, or 0. Later:
    // number of the stack's first frame in the section of frames.
    uint32_t source_or_frame = 0;
  };
  struct Context : Identified<ContextId> {
    using Identified::Identified;
    uint32_t program = 0;  // number of the context's program in `programs_`
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
  // How many objects of a source that one stack had allocated another stack has freed.
  struct FreesBy {
    struct Key {
      StackCounts::Key stacks;
      uint32_t source;
    };
    explicit FreesBy(const Key& key) : key_(key) {}
    static uint64_t hash(const Key& key) {
      return (key.stacks.word() + key.source) * 0x9e3779b97f4a7c15;
    }
    bool is(const Key& other) const {
      return key_.stacks.word() == other.stacks.word() && key_.source == other.source;
    }
    const Key& key() const { return key_; }
    abi_tracedump_frees item() const;

    uint64_t count = 0;

   private:
    Key key_;
  };
  // The position of the reader in the records: a slice of a source's snapshot.
  struct RecordCursor {
    uint32_t source;
    TraceSnapshot::Walk walk;  // uses slice_
    std::span<const TraceRecord> slice;
    uint64_t first;  // index of the slice's first record in the source
  };
  // A range of bytes of the file, with its offset from the start of the file or of a section.
  struct Extent {
    static constexpr size_t kMax = StackTable::kMaxFrames * sizeof(uint64_t);
    uint64_t offset;
    size_t size;
    alignas(8) char bytes[kMax];

    template <typename Item>
    void set(uint64_t index, const Item& item);
  };
  static_assert(sizeof(abi_tracedump_source) <= Extent::kMax);

  // The section of strings. Each string takes kStringRoom bytes. The strings are "", then the names
  // of the sources, then for each program its name and its path.
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
  bool add_stack(StackId id, uint32_t source);
  bool add_user_stack(StackId id);
  bool add_context(ContextId id);
  void collect_frees();
  void count_frees(const FreesBy::Key& key, uint64_t frees);
  void lay_out();
  void add_section(uint32_t tag, uint32_t item_size, uint64_t count);
  abi_tracedump_section records_section(uint32_t source) const;
  // Makes the extent at `offset` of the file. The offset is before the end of the file and not in a
  // record.
  void make_extent(uint64_t offset, Extent& extent) const;
  void make_item(const Section& section, uint64_t offset, Extent& extent) const;
  abi_tracedump_source source_item(uint32_t index) const;
  abi_tracedump_context context_item(uint32_t index) const;
  abi_tracedump_stack stack_item(uint32_t index) const;
  void make_frames(uint64_t offset, Extent& extent) const;

  // The index of the source to whose section of records `offset` belongs. The section's header
  // belongs to the section.
  uint32_t source_at(uint64_t offset) const;
  // Reads from `offset` on within the records of one slice; 0 if `offset` is not in a record.
  size_t read_records(char* buffer, size_t size, uint64_t offset);
  void go_to(uint32_t source, uint64_t index);
  abi_tracedump_record record_item(const Source& source, const TraceRecord& record);

  const StackTable& stack_table_;
  const ContextTable& context_table_;
  abi_tracedump_header header_ = {};
  Source* sources_;
  uint32_t source_room_;
  uint32_t source_count_ = 0;
  PageBuffer<std::byte> more_sources_;
  static constexpr uint32_t kSections = 6;  // sections without records
  Section sections_[kSections];
  uint32_t section_count_ = 0;
  DumpSet<Stack> stacks_;
  DumpSet<Context> contexts_;
  DumpSet<Program> programs_;
  DumpSet<FreesBy> frees_;             // after finish() in the order of the file
  std::atomic<bool> finished_{false};  // the end of finish() sets it
  uint64_t frame_count_ = 0;
  std::optional<RecordCursor> cursor_;
  TraceSnapshot::Slice slice_;  // for walks over the snapshots, one at a time
  Extent extent_;               // for read()
};

template <typename Retained>
void TraceBinary::retain(Retained& retained) const {
  if (!finished_.load(std::memory_order_acquire) || frees_.size() == 0) return;
  for (const Stack& stack : stacks_.items()) retained.stack(stack.id);
}
