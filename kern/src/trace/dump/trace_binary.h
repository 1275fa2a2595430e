// The binary dump: copies of all traces, laid out as abi/tracedump.h says.
//
// Only the records are copied. Where each section lies follows from how much there is of everything
// when the copies are made; the bytes themselves are made while they are read, item by item, from
// any place on. Stacks and contexts are those of the shared tables, which keep those that the copies
// name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "abi/tracedump.h"
#include "store/context_table.h"
#include "store/page_buffer.h"
#include "store/stack_table.h"
#include "trace/dump/trace_copy.h"
#include "trace/dump/trace_text.h"

class TraceBinary {
 public:
  struct Moment {
    uint64_t time;  // nanoseconds since boot
    uint64_t memory_limit, memory_used;
    uint32_t commands = 0;  // of traces, done since boot; probes have none
    std::span<const uint8_t> build_id;
  };

  // The tables must keep their numbers as long as it is used.
  TraceBinary(const StackTable& stacks, const ContextTable& contexts)
      : stacks_(&stacks), contexts_(&contexts) {}
  TraceBinary(const TraceBinary&) = delete;
  TraceBinary& operator=(const TraceBinary&) = delete;
  ~TraceBinary();

  // Copies one trace. `header`: all but the counters and what they count, which are put in; the
  // caller adds `untracked` to what is returned. `kind` and `flags`: ABI_TRACEDUMP_*. ENOMEM. May
  // sleep.
  Result<TraceHeader*> add(const TraceHeader& header, uint32_t kind, uint32_t flags,
                           TraceTable& table, uint64_t (*now)());
  // After the last: how the file looks is settled. ENOMEM. May sleep.
  Result<void> finish(const Moment& moment);

  uint64_t size() const { return header_.size; }
  // Bytes of the file from `offset` on; 0 at its end. Several may read at once.
  size_t read(char* buffer, size_t size, uint64_t offset) const;

 private:
  struct Source {
    TraceHeader header;
    uint32_t kind;
    uint32_t flags;
    TraceCopy copy;
  };
  struct Section {
    uint64_t offset;  // of its header
    abi_tracedump_section header;
  };
  struct Stack {
    uint32_t id;
    uint64_t first_frame;
  };
  // A part of the file, and where in its section it begins.
  struct Piece {
    static constexpr size_t kMax = StackTable::kMaxFrames * sizeof(uint64_t);
    uint64_t offset;
    size_t size;
    alignas(8) char bytes[kMax];

    template <typename Item>
    void set(uint64_t index, const Item& item);
  };
  static_assert(sizeof(abi_tracedump_source) <= Piece::kMax);

  // Strings lie at fixed distances: "" first, then the names of sources, then name and path of each
  // program that a context of the dump has.
  static constexpr uint32_t kStringRoom = 72;
  static_assert(sizeof(TraceHeader::name) <= kStringRoom &&
                sizeof(ContextTable::Program::name) <= kStringRoom &&
                sizeof(ContextTable::Program::path) <= kStringRoom);
  uint32_t source_name(uint32_t index) const { return (1 + index) * kStringRoom; }
  uint32_t program_name(uint32_t number) const {
    return (1 + source_count_ + 2 * number) * kStringRoom;
  }
  const char* string_at(uint32_t number) const;

  Result<void> collect_contexts();
  Result<void> collect_stacks();
  Result<void> lay_out();
  void add_section(uint32_t tag, uint32_t item_size, uint64_t count, uint32_t source = 0);
  // The piece at `offset` of the file, which is not behind its end.
  void make_piece(uint64_t offset, Piece& piece) const;
  void make_item(const Section& section, uint64_t offset, Piece& piece) const;
  abi_tracedump_source source_item(uint32_t index) const;
  abi_tracedump_context context_item(uint32_t index) const;
  abi_tracedump_stack stack_item(uint32_t index) const;
  abi_tracedump_record record_item(const Source& source, uint32_t index) const;
  void make_frames(uint64_t offset, Piece& piece) const;

  const StackTable* stacks_;
  const ContextTable* contexts_;
  abi_tracedump_header header_ = {};
  PageBuffer<Source*> sources_;
  uint32_t source_count_ = 0;
  PageBuffer<Section> sections_;
  uint32_t section_count_ = 0;
  PageBuffer<Stack> stack_list_;  // ids ascending
  uint32_t stack_count_ = 0;
  uint64_t frame_count_ = 0;
  PageBuffer<uint32_t> context_list_;  // ids ascending
  uint32_t context_count_ = 0;
  PageBuffer<const ContextTable::Program*> programs_;  // ascending
  uint32_t program_count_ = 0;
};
