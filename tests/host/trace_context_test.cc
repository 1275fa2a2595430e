#include <asm/prctl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/trap.h"
#include "store/context.h"
#include "store/current_context.h"
#include "store/shared_tables.h"

StackTable trace_stacks;
ContextTable trace_contexts;

namespace {

// As a hook asks.
CurrentContext current_context() {
  uint32_t remembered;
  if (!trace_remembered_context(this_cpu(), &remembered)) return trace_find_context();
  EXPECT_TRUE(trace_contexts.valid(remembered));
  return {.id = remembered};
}

int pages_out = 0;
bool no_pages = false;

// What the rest of the kernel would say.
std::vector<uint64_t> user_frames;
int walks = 0;
int programs_asked = 0;
std::string program_path;
const uint8_t kBuildIdBytes[] = {1, 2, 3};
const char* interrupt = "uart0";

TraceProgram program_of(const TaskHead&) {
  programs_asked++;
  return {.path = program_path, .build_id = kBuildIdBytes};
}

}  // namespace

size_t walk_user_stack(uint64_t* program_counters, size_t max) {
  walks++;
  const size_t count = std::min(max, user_frames.size());
  std::copy_n(user_frames.begin(), count, program_counters);
  return count;
}
const char* interrupt_name(uint8_t) {
  return interrupt;
}

void trace_memory_prepare() {}
void* trace_page_take() {
  if (no_pages) return nullptr;
  pages_out++;
  return memset(aligned_alloc(kPageSize, kPageSize), 0xa5, kPageSize);
}
void trace_page_free(void* page) {
  pages_out--;
  free(page);
}
void trace_page_return(void* page) {
  trace_page_free(page);
}

namespace {

// No other user stack of this size finds room without a page.
void fill_stack_page() {
  std::vector<uint64_t> frames = user_frames;
  do frames[0]++;
  while (trace_stacks.intern(StackKind::kUser, frames.data(), frames.size()) != 0);
}

class TraceContextTest : public testing::Test {
 protected:
  void SetUp() override {
    cpu_.self = &cpu_;
    cpu_.current = &task_;
    ASSERT_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, &cpu_), 0);
    ASSERT_TRUE(trace_stacks.open().ok());
    ASSERT_TRUE(trace_contexts.open().ok());
    strcpy(task_.name, "sh");
    task_.pid = 12;
    task_.process = reinterpret_cast<Process*>(&task_);
    user_frames = {0x401000, 0x402000};
    walks = programs_asked = 0;
    program_path = "/bin/sh";
    interrupt = "uart0";
    trace_register_program_provider(program_of);
    return_to_user();
  }
  void TearDown() override {
    no_pages = false;
    trace_contexts.clear();
    trace_stacks.clear();
    EXPECT_EQ(pages_out, 0);
  }

  void return_to_user() { task_.trace_call = kTraceFromUser; }
  static const ContextTable::Context& context() {
    return *trace_contexts.get(current_context().id);
  }

  Cpu cpu_ = {};
  TaskHead task_ = {};
};

TEST_F(TraceContextTest, AProcessHasItsProgramAndTheUserStackOfTheCall) {
  const ContextTable::Context& at = context();
  EXPECT_EQ(at.base->kind, ContextKind::kProcess);
  EXPECT_EQ(at.base->pid, 12u);
  EXPECT_STREQ(at.base->name, "sh");
  EXPECT_STREQ(at.base->path, "/bin/sh");
  EXPECT_EQ(at.base->build_id_size, 3);
  EXPECT_EQ(at.base->build_id[2], 3);
  const StackTable::View stack = trace_stacks.view(at.user_stack);
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack.kind(), StackKind::kUser);
  EXPECT_EQ(stack[0], 0x401000u);
  EXPECT_EQ(stack[1], 0x402000u);
}

TEST_F(TraceContextTest, TheUserStackIsWalkedOnceForEachCall) {
  const uint32_t first = current_context().id;
  for (int i = 0; i < 10; i++) EXPECT_EQ(current_context().id, first);
  EXPECT_EQ(walks, 1);
  user_frames = {0x403000};
  EXPECT_EQ(current_context().id, first) << "until it returns to user mode";
  return_to_user();
  const uint32_t second = current_context().id;
  EXPECT_NE(second, first);
  EXPECT_EQ(current_context().id, second);
  EXPECT_EQ(walks, 2);
  EXPECT_EQ(trace_contexts.get(first)->base, trace_contexts.get(second)->base);
  return_to_user();
  user_frames = {0x401000, 0x402000};
  EXPECT_EQ(current_context().id, first);
  EXPECT_EQ(programs_asked, 1);
}

TEST_F(TraceContextTest, ExecMakesAnotherProgram) {
  const ContextTable::Context& before = context();
  strcpy(task_.name, "cat");
  program_path = "/bin/cat";
  trace_program_changed(task_);
  const ContextTable::Context& during = context();
  EXPECT_STREQ(during.base->path, "/bin/cat");
  EXPECT_STREQ(before.base->path, "/bin/sh");
  EXPECT_EQ(during.user_stack, 0u) << "the registers are the old program's";
  EXPECT_EQ(context().id, during.id);
  EXPECT_EQ(walks, 1);
  return_to_user();
  EXPECT_NE(context().user_stack, 0u);
  EXPECT_EQ(context().base, during.base);
  EXPECT_EQ(walks, 2);
}

TEST_F(TraceContextTest, WhatWasNeverInUserModeHasNoUserStack) {
  task_.trace_call = 0;
  EXPECT_EQ(context().user_stack, 0u);
  EXPECT_EQ(context().base->pid, 12u);
  task_.trace_call = kTraceFromUser;
  task_.process = nullptr;  // it is ending
  EXPECT_EQ(context().user_stack, 0u);
  task_.pid = 0;
  trace_program_changed(task_);
  EXPECT_EQ(context().base->kind, ContextKind::kKernelTask);
  EXPECT_STREQ(context().base->path, "");
  EXPECT_EQ(walks, 0);
  cpu_.current = nullptr;
  EXPECT_STREQ(context().base->name, "boot");
}

TEST_F(TraceContextTest, AnInterruptIsNobodyElses) {
  const uint32_t task = current_context().id;
  cpu_.interrupt_depth = 1;
  cpu_.interrupt_vector = kVectorIrqBase + 4;
  const ContextTable::Context& serial = context();
  EXPECT_EQ(serial.base->kind, ContextKind::kInterrupt);
  EXPECT_STREQ(serial.base->name, "uart0");
  EXPECT_EQ(serial.user_stack, 0u);
  EXPECT_EQ(trace_current_pid(), 0u);
  interrupt = "disk";
  EXPECT_STREQ(context().base->name, "disk");
  // An exception is what ran.
  cpu_.interrupt_vector = kVectorPageFault;
  EXPECT_EQ(current_context().id, task);
  EXPECT_EQ(trace_current_pid(), 12u);
  EXPECT_EQ(walks, 1);
}

TEST_F(TraceContextTest, NumbersFromAnEarlierTraceAreNotUsed) {
  const uint32_t first = current_context().id;
  cpu_.interrupt_depth = 1;
  cpu_.interrupt_vector = kVectorIrqBase;
  const uint32_t irq = current_context().id;
  trace_contexts.clear();
  trace_stacks.clear();
  EXPECT_EQ(current_context().id, 0u) << "nothing is traced";
  ASSERT_TRUE(trace_stacks.open().ok());
  ASSERT_TRUE(trace_contexts.open().ok());
  EXPECT_GT(current_context().id, irq);
  cpu_.interrupt_depth = 0;
  EXPECT_GT(current_context().id, first);
  EXPECT_STREQ(context().base->path, "/bin/sh");
  EXPECT_EQ(walks, 2);
}

TEST_F(TraceContextTest, AUserStackThatIsLostLeavesTheBase) {
  task_.trace_call = 0;
  const uint32_t base = current_context().id;
  return_to_user();
  no_pages = true;
  fill_stack_page();
  for (int i = 0; i < 3; i++) {
    const CurrentContext now = current_context();
    EXPECT_EQ(now.id, base);
    EXPECT_EQ(now.user_stack, UserStack::kLost);
  }
  EXPECT_EQ(walks, 1) << "it is not tried again in this call";
  no_pages = false;
  EXPECT_EQ(current_context().user_stack, UserStack::kLost);
  return_to_user();
  EXPECT_EQ(current_context().user_stack, UserStack::kWhole);
  EXPECT_NE(context().user_stack, 0u);
}

TEST_F(TraceContextTest, ABaseThatIsLostIsTriedAgain) {
  no_pages = true;
  EXPECT_EQ(current_context().id, 0u);
  EXPECT_EQ(current_context().id, 0u);
  EXPECT_EQ(current_context().user_stack, UserStack::kWhole) << "it counts as a lost context";
  EXPECT_EQ(walks, 0);
  no_pages = false;
  EXPECT_NE(current_context().id, 0u);
}

TEST_F(TraceContextTest, DeepStacksAreCut) {
  user_frames.assign(kUserStackDepth, 0x401000);
  const uint32_t whole = current_context().id;
  EXPECT_EQ(trace_stacks.view(context().user_stack).size(), kUserStackDepth);
  EXPECT_EQ(current_context().user_stack, UserStack::kWhole);
  for (const size_t depth : {kUserStackDepth + 1, size_t{100}}) {
    user_frames.assign(depth, 0x401000);
    return_to_user();
    walks = 0;
    for (int i = 0; i < 3; i++) {
      const CurrentContext now = current_context();
      EXPECT_EQ(now.user_stack, UserStack::kCut) << "each time";
      EXPECT_EQ(now.id, whole) << "what is there of it is the same";
    }
    EXPECT_EQ(walks, 1);
  }
  // A number from before the tables were emptied.
  trace_contexts.clear();
  trace_stacks.clear();
  ASSERT_TRUE(trace_stacks.open().ok());
  ASSERT_TRUE(trace_contexts.open().ok());
  EXPECT_GT(current_context().id, whole);
  EXPECT_EQ(current_context().user_stack, UserStack::kCut);
  EXPECT_EQ(walks, 2);
  // Another program, which has not been in user mode.
  trace_program_changed(task_);
  EXPECT_EQ(current_context().user_stack, UserStack::kWhole);
  user_frames.resize(3);
  return_to_user();
  EXPECT_EQ(current_context().user_stack, UserStack::kWhole);
  EXPECT_EQ(trace_stacks.view(context().user_stack).size(), 3u);
}

TEST_F(TraceContextTest, ADeepStackThatIsLostIsNotCutToo) {
  task_.trace_call = 0;
  static_cast<void>(current_context());
  return_to_user();
  no_pages = true;
  user_frames.resize(1);
  fill_stack_page();
  user_frames.assign(100, 0x401000);
  for (int i = 0; i < 2; i++) {
    const CurrentContext now = current_context();
    EXPECT_EQ(now.user_stack, UserStack::kLost);
  }
}

}  // namespace
