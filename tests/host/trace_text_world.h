// The fixture of the tests of trace/dump/text_impl.h. It has a trace table for a cache `pipe`,
// functions that make records in the table, and functions that make a dump of the table as text.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "trace/dump/text_impl.h"
#include "trace_tables.h"
#include "trace_world.h"

class TraceTextTest : public TraceTables<1> {
 protected:
  void TearDown() override {
    TraceWorld::fail_blocks(0);
    TraceWorld::before_blocks(nullptr);
    text_.reset();
    TraceTables::TearDown();
  }

  void record(uint64_t object, uint64_t size, StackId stack, ContextId context, uint64_t time,
              StackId user_stack = StackId::kNone) {
    TraceTables::record(0, object, size, stack, context, {time}, CpuId{1}, user_stack);
  }
  void begin() {
    text_.reset();
    text_ = std::make_unique<TraceText>(workspace(), stacks_, contexts_);
    TraceHeader& header = text_->header;
    snprintf(header.name, sizeof(header.name), "pipe");
    header.state = {.phase = TracePhase::kStopped, .options = {}, .mark = table_->mark()};
    header.object_size = 64;
    header.objects = 12 + table_->counters().live;
  }
  void take() {
    ASSERT_TRUE(text_->snapshot().open(*table_).ok());
    text_->make({now_});
  }
  std::string read(size_t piece = 4096) {
    std::string all;
    std::string buffer(piece, 0);
    while (const size_t got = text_->read(buffer.data(), piece, all.size()))
      all.append(buffer, 0, got);
    return all;
  }
  std::string dump() {
    begin();
    take();
    return read();
  }
  // Makes the same dump as dump(), but all allocations of memory for the dump fail.
  std::string dump_without_memory() {
    begin();
    EXPECT_TRUE(text_->snapshot().open(*table_).ok());
    TraceWorld::fail_blocks(100);
    text_->make({now_});
    const std::string text = read();
    TraceWorld::fail_blocks(0);
    return text;
  }

  // Adds to `places` a reference, with `stack` as the stack of the code that took the reference.
  // The reference lies `offset` bytes after the start of a pipe object. If `offset` is 0, the
  // reference was found nowhere.
  static void add_place(RefPlaces& places, StackId stack, uint64_t offset) {
    const uint64_t number = places.all().size() + 1;
    places.add(number, 0xffff800000001000 + number, stack, RefKind::kTest);
    if (offset == 0) return;
    places.find(number)->place = {RefPlaces::Where::kObject, places.add_name(1, "pipe"), 0,
                                  0xffff800000500000 + offset, 0xffff800000500000};
  }

  // Returns room for a dump. Its contents are undefined, as in the kernel.
  std::span<std::byte> workspace() {
    memset(memory_, 0xa5, sizeof(memory_));
    return memory_;
  }

  uint64_t now_ = 1000;  // milliseconds
  TraceTable*& table_ = tables_[0];
  alignas(kPageSize) std::byte memory_[TraceText::kRoom];
  std::unique_ptr<TraceText> text_;
};
