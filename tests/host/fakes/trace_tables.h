// A fixture with tables of stacks, contexts and records, for the tests of dumps.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "intern/context_table.h"
#include "intern/stack_table.h"
#include "trace/record/table.h"
#include "trace_world.h"

template <size_t kTables>
class TraceTables : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(stacks_.open().ok());
    ASSERT_TRUE(contexts_.open().ok());
    for (TraceTable*& table : tables_) {
      table = TraceTable::create(64);
      ASSERT_NE(table, nullptr);
    }
  }
  // A test frees its dump before.
  void TearDown() override {
    for (TraceTable* table : tables_) TraceTable::destroy(table);
    stacks_.clear();
    contexts_.clear();
    EXPECT_EQ(TraceWorld::pages_out(), 0u);
    EXPECT_EQ(TraceWorld::blocks_out(), 0u);
  }

  // Stores a kernel stack; `offsets` are those of its addresses in the kernel.
  StackId stack(std::vector<uint64_t> offsets) {
    for (uint64_t& offset : offsets) offset += StackTable::kKernelBase;
    return stacks_.intern(StackKind::kKernel, offsets.data(), offsets.size());
  }
  void record(size_t table, uint64_t object, uint64_t size, StackId stack, ContextId context,
              Milliseconds time, CpuId cpu, StackId user_stack = StackId::kNone) {
    tables_[table]->record({.object = 0xffff800000000000 + object,
                            .size = size,
                            .stack = stack,
                            .user_stack = user_stack,
                            .context = context,
                            .time = time,
                            .cpu = cpu,
                            .truncated = false});
  }

  StackTable stacks_;
  ContextTable contexts_;
  TraceTable* tables_[kTables] = {};
};
