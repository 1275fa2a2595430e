#include <asm/prctl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/trap.h"
#include "core/log.h"
#include "intern/context.h"
#include "intern/current_context.h"
#include "intern/shared_tables.h"
#include "intern/stack_hints_impl.h"
#include "intern/trace_memory.h"

StackTable trace_stacks;
ContextTable trace_contexts;

namespace {

// Gets the current context in the same way as a hook: from the task if the task has it cached.
CurrentContext current_context() {
  const Cpu& cpu = this_cpu();
  if (cpu.current && !trace_in_interrupt(cpu) &&
      trace_contexts.remembers(cpu.current->trace_context)) {
    EXPECT_TRUE(trace_contexts.recall(cpu.current->trace_context) != ContextId::kNone);
    if (cpu.current->trace_call != TraceCaller::kUnknown)
      return {trace_contexts.recall(cpu.current->trace_context), cpu.current->trace_call};
  }
  return trace_find_context();
}
StackId user_stack() {
  return stack_in(current_context().caller);
}

int pages_out = 0;
bool no_pages = false;

// The stack of the fake program, and the kernel stack with the registers saved at the system call.
std::vector<uint64_t> user_memory;
struct {
  uint64_t below[512];
  TrapFrame frame;
} kernel_stack;

// Makes the fake program's stack. frames[0] is the instruction pointer. Each other element of
// `frames` is a return address in a stack frame. The first stack frame is at word `at` of
// user_memory.
void set_user_stack(const std::vector<uint64_t>& frames, size_t at = 4) {
  user_memory.assign(4096, 0x5a5a);
  kernel_stack.frame = {};
  kernel_stack.frame.vector = kVectorSystemCall;
  kernel_stack.frame.rip = frames[0];
  kernel_stack.frame.rsp = reinterpret_cast<uint64_t>(&user_memory[at - 2]);
  uint64_t* next = &kernel_stack.frame.rbp;
  for (size_t i = 1; i < frames.size(); i++, at += 3) {
    *next = reinterpret_cast<uint64_t>(&user_memory[at]);
    user_memory[at + 1] = frames[i];
    next = &user_memory[at];
  }
  *next = 0;
}

// The state of the fake kernel functions. `walks` counts the calls of walk_user_stack(), and
// `programs_asked` counts the calls of program_of(). interrupt_name() returns `interrupt`.
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
  program_counters[0] = entry_address(kernel_stack.frame);
  uint64_t frame = kernel_stack.frame.rbp;
  size_t n = 1;
  for (; n < max; n++) {
    if (frame == 0) break;
    const auto* words = reinterpret_cast<const uint64_t*>(frame);
    program_counters[n] = words[1];
    frame = words[0];
  }
  return n;
}
const char* interrupt_name(uint8_t) {
  return interrupt;
}

PagePool<size_t{kPagesPerHook} * kMaxCpus + kSparePages> trace_page_pool;
std::atomic<uint32_t> trace_pool_reserve{0};
void trace_memory_prepare() {}
uint64_t trace_memory_limit() {
  return uint64_t{1} << 20;
}
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
void* trace_block_take(size_t size) {
  if (no_pages) return nullptr;
  pages_out++;
  return memset(aligned_alloc(kPageSize, size), 0xa5, size);
}
void trace_block_free(void* block, size_t) {
  trace_page_free(block);
}
void panic(const char* pattern, ...) {
  fputs(pattern, stderr);
  abort();
}

namespace {

// Fills the stack table until a user stack of `size` frames needs a new page. Call while no_pages
// is set.
void fill_stack_page(size_t size) {
  std::vector<uint64_t> frames(size, 0x700000);
  do frames[0]++;
  while (trace_stacks.intern(StackKind::kUser, frames.data(), frames.size()) != StackId::kNone);
}

// Runs each test with and without the CPU's hints (stack_hints_impl.h).
class TraceContextTest : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    cpu_.self = &cpu_;
    cpu_.current = &task_;
    cpu_.kernel_stack = reinterpret_cast<uint64_t>(&kernel_stack + 1);
    ASSERT_EQ(syscall(SYS_arch_prctl, ARCH_SET_GS, &cpu_), 0);
    ASSERT_TRUE(trace_stacks.open().ok());
    ASSERT_TRUE(trace_contexts.open().ok());
    if (GetParam()) stack_hints_open(1);
    strcpy(task_.name, "sh");
    task_.pid = 12;
    task_.process = reinterpret_cast<Process*>(&task_);
    set_user_stack({0x401000, 0x402000});
    walks = programs_asked = 0;
    program_path = "/bin/sh";
    interrupt = "uart0";
    trace_register_program_provider(program_of);
    return_to_user();
  }
  void TearDown() override {
    no_pages = false;
    close();
    EXPECT_EQ(pages_out, 0);
  }
  static void close() {
    stack_hints_close();
    trace_contexts.clear();
    trace_stacks.clear();
  }
  static void open_again() {
    ASSERT_TRUE(trace_stacks.open().ok());
    ASSERT_TRUE(trace_contexts.open().ok());
    if (GetParam()) stack_hints_open(1);
  }

  // Makes two system calls with the same user stack and returns the stack's number. If the CPU has
  // hints, one of them names the stack from then on.
  StackId meet() {
    for (int i = 0; i < 2; i++) {
      return_to_user();
      EXPECT_NE(user_stack(), StackId::kNone);
    }
    walks = 0;
    return user_stack();
  }
  void return_to_user() { task_.trace_call = TraceCaller::kUnknown; }
  static const ContextTable::Context& context() {
    return *trace_contexts.get(current_context().id);
  }

  Cpu cpu_ = {};
  TaskHead task_ = {};
};

TEST_P(TraceContextTest, AProcessHasItsProgramAndTheUserStackOfTheCall) {
  const ContextTable::Context& at = context();
  EXPECT_EQ(at.kind, ContextKind::kProcess);
  EXPECT_EQ(at.pid, 12u);
  EXPECT_STREQ(at.program->name, "sh");
  EXPECT_STREQ(at.program->path, "/bin/sh");
  EXPECT_EQ(at.program->build_id_size, 3);
  EXPECT_EQ(at.program->build_id[2], 3);
  const StackTable::View stack = trace_stacks.view(user_stack());
  ASSERT_EQ(stack.size(), 2u);
  EXPECT_EQ(stack.kind(), StackKind::kUser);
  EXPECT_EQ(stack[0], 0x401000u);
  EXPECT_EQ(stack[1], 0x402000u);
}

TEST_P(TraceContextTest, TheUserStackIsAskedForOnceInEachCall) {
  const ContextId context = current_context().id;
  const StackId first = user_stack();
  for (int i = 0; i < 10; i++) EXPECT_EQ(user_stack(), first);
  EXPECT_EQ(walks, 1);
  set_user_stack({0x403000, 0x402000});
  EXPECT_EQ(user_stack(), first) << "until it returns to user mode";
  return_to_user();
  const StackId second = user_stack();
  EXPECT_NE(second, first);
  EXPECT_EQ(user_stack(), second);
  EXPECT_EQ(walks, 2);
  set_user_stack({0x401000, 0x402000});
  for (int i = 0; i < 10; i++) {
    return_to_user();
    EXPECT_EQ(user_stack(), first);
  }
  EXPECT_EQ(walks, GetParam() ? 2 : 12) << "what has come before is compared";
  EXPECT_EQ(programs_asked, 1);
  EXPECT_EQ(current_context().id, context) << "the user stack makes no other";
  EXPECT_EQ(trace_contexts.size(), 1u);
}

TEST_P(TraceContextTest, AnotherProcessHasTheSameUserStack) {
  const ContextId context = current_context().id;
  const StackId stack = meet();
  TaskHead other = task_;
  other.pid = 13;
  other.trace_context = 0;
  other.trace_call = TraceCaller::kUnknown;
  cpu_.current = &other;
  EXPECT_NE(current_context().id, context);
  EXPECT_EQ(user_stack(), stack);
  EXPECT_EQ(walks, GetParam() ? 0 : 1);
}

TEST_P(TraceContextTest, WhatIsRememberedIsWhatAWalkWouldFind) {
  std::vector<uint64_t> frames = {0x401000};
  for (uint64_t i = 1; i < kUserStackDepth; i++) {
    frames.push_back(0x402000 + i * 16);
    // Change the stack in one frame, in one of two ways: change the frame's return address, or move
    // the frame to other memory with another return address. Frame 0 is in the registers: instead
    // of these two changes, set rbp to 0 or change rip.
    for (size_t change = 0; change <= i; change++) {
      for (const bool moved : {false, true}) {
        set_user_stack(frames);
        const StackId before = meet();
        uint64_t& rbp = kernel_stack.frame.rbp;
        if (change == 0) {
          moved ? kernel_stack.frame.rip++ : rbp = 0;
        } else if (moved) {
          // Move the frame to unused memory, with another return address.
          const size_t at = 4 + (change - 1) * 3;
          user_memory[2000] = user_memory[at];
          user_memory[2001] = user_memory[at + 1] + 1;
          (change == 1 ? rbp : user_memory[at - 3]) =
              reinterpret_cast<uint64_t>(&user_memory[2000]);
        } else {
          user_memory[4 + (change - 1) * 3 + 1] += uint64_t{1} << 32;
        }
        return_to_user();
        const StackId after = user_stack();
        if (!GetParam()) EXPECT_EQ(walks, 1) << i << " " << change;
        EXPECT_NE(after, before) << i << " " << change;
        EXPECT_EQ(trace_stacks.view(after).size(), change == 0 && !moved ? 1 : i + 1);
      }
    }
    // A longer stack that begins with all frames of the cached stack must not match the cached
    // stack.
    set_user_stack(frames);
    const StackId before = meet();
    const TraceCaller caller = current_context().caller;
    const size_t last = 4 + (i - 1) * 3;
    user_memory[last] = reinterpret_cast<uint64_t>(&user_memory[3000]);
    user_memory[3000] = 0;
    user_memory[3001] = 0x500000;
    return_to_user();
    EXPECT_NE(current_context().caller, caller);
    // The stack was cached for a system call. The same stack at a page fault must not match.
    set_user_stack(frames);
    EXPECT_EQ(meet(), before);
    return_to_user();
    EXPECT_EQ(user_stack(), before);
    EXPECT_EQ(walks, GetParam() ? 0 : 1);
    kernel_stack.frame.vector = kVectorPageFault;
    walks = 0;
    return_to_user();
    EXPECT_NE(user_stack(), before);
    if (!GetParam()) EXPECT_EQ(walks, 1);
  }
}

TEST_P(TraceContextTest, ExecMakesAnotherProgram) {
  const ContextTable::Context& before = context();
  const StackId stack = meet();
  strcpy(task_.name, "cat");
  program_path = "/bin/cat";
  trace_program_changed(task_);
  const ContextTable::Context& during = context();
  const ContextId number = current_context().id;
  EXPECT_STREQ(during.program->path, "/bin/cat");
  EXPECT_STREQ(before.program->path, "/bin/sh");
  EXPECT_EQ(user_stack(), StackId::kNone) << "the registers are the old program's";
  EXPECT_EQ(current_context().id, number);
  EXPECT_EQ(walks, 0);
  return_to_user();
  EXPECT_EQ(user_stack(), stack) << "the same addresses";
  EXPECT_EQ(current_context().id, number);
}

TEST_P(TraceContextTest, WhatWasNeverInUserModeHasNoUserStack) {
  task_.trace_call = TraceCaller::kNone;
  EXPECT_EQ(user_stack(), StackId::kNone);
  EXPECT_EQ(context().pid, 12u);
  task_.trace_call = TraceCaller::kUnknown;
  task_.process = nullptr;  // the process is ending
  EXPECT_EQ(user_stack(), StackId::kNone);
  EXPECT_EQ(task_.trace_call, TraceCaller::kNone) << "it is not asked again";
  task_.pid = 0;
  trace_program_changed(task_);
  EXPECT_EQ(context().kind, ContextKind::kKernelTask);
  EXPECT_STREQ(context().program->path, "");
  EXPECT_EQ(walks, 0);
  cpu_.current = nullptr;
  EXPECT_STREQ(context().program->name, "boot");
}

TEST_P(TraceContextTest, AnInterruptIsNobodyElses) {
  const ContextId task = current_context().id;
  cpu_.interrupt_depth = 1;
  cpu_.interrupt_vector = kVectorIrqBase + 4;
  const ContextTable::Context& serial = context();
  EXPECT_EQ(serial.kind, ContextKind::kInterrupt);
  EXPECT_STREQ(serial.program->name, "uart0");
  EXPECT_EQ(user_stack(), StackId::kNone);
  EXPECT_EQ(trace_current_pid(), 0u);
  interrupt = "disk";
  EXPECT_STREQ(context().program->name, "disk");
  // An exception belongs to the task whose code caused it, so the context is the task's.
  cpu_.interrupt_vector = kVectorPageFault;
  EXPECT_EQ(current_context().id, task);
  EXPECT_EQ(trace_current_pid(), 12u);
  EXPECT_EQ(walks, 1);
}

TEST_P(TraceContextTest, NumbersFromAnEarlierTraceAreNotUsed) {
  const ContextId first = current_context().id;
  cpu_.interrupt_depth = 1;
  cpu_.interrupt_vector = kVectorIrqBase;
  const ContextId irq = current_context().id;
  close();
  EXPECT_EQ(current_context().id, ContextId::kNone) << "nothing is traced";
  open_again();
  const TraceProgram other = {"/bin/cp", program_of(task_).build_id};
  EXPECT_EQ(trace_contexts.intern(ContextKind::kProcess, 13, "cp", other), first)
      << "the test needs this";
  EXPECT_EQ(trace_contexts.intern(ContextKind::kInterrupt, 0, "uart1"), irq) << "and this";
  EXPECT_STREQ(context().program->name, "uart0");
  cpu_.interrupt_depth = 0;
  EXPECT_EQ(context().pid, 12);
  EXPECT_STREQ(context().program->path, "/bin/sh");
  EXPECT_EQ(walks, 2);
}

// A task caches the number of its user stack. In a later trace, this number may be that of another
// stack, so the cached number must not be used.
TEST_P(TraceContextTest, UserStacksFromAnEarlierTraceAreNotUsed) {
  const StackId first = user_stack();
  close();
  open_again();
  EXPECT_NE(first, StackId::kNone);
  const uint64_t frame = 0x900000;
  EXPECT_EQ(trace_stacks.intern(StackKind::kUser, &frame, 1), first) << "the test needs this";
  EXPECT_NE(user_stack(), first);
  EXPECT_EQ(trace_stacks.view(user_stack())[0], 0x401000u);
  EXPECT_EQ(walks, 2);
  // trace_find_base(), which probes call, gets only the context. A call of trace_find_base() before
  // the user stack is needed must not make the cached number valid.
  close();
  open_again();
  EXPECT_EQ(trace_stacks.intern(StackKind::kUser, &frame, 1), first);
  EXPECT_NE(trace_find_base(), ContextId::kNone);
  EXPECT_NE(user_stack(), first);
}

TEST_P(TraceContextTest, AUserStackThatIsLostLeavesTheContext) {
  task_.trace_call = TraceCaller::kNone;
  const ContextId id = current_context().id;
  return_to_user();
  no_pages = true;
  fill_stack_page(2);
  for (int i = 0; i < 3; i++) {
    const CurrentContext now = current_context();
    EXPECT_EQ(now.id, id);
    EXPECT_EQ(now.caller, TraceCaller::kLost);
  }
  EXPECT_EQ(walks, 1) << "it is not tried again in this call";
  no_pages = false;
  EXPECT_EQ(current_context().caller, TraceCaller::kLost);
  return_to_user();
  EXPECT_NE(user_stack(), StackId::kNone);
  EXPECT_NE(current_context().caller, TraceCaller::kLost);
}

TEST_P(TraceContextTest, AContextThatIsLostIsTriedAgain) {
  no_pages = true;
  for (uint32_t pid = 100;
       trace_contexts.intern(ContextKind::kProcess, pid, "cp") != ContextId::kNone;)
    pid++;
  EXPECT_EQ(current_context().id, ContextId::kNone);
  EXPECT_EQ(current_context().id, ContextId::kNone);
  EXPECT_EQ(current_context().caller, TraceCaller::kNone) << "it counts as a lost context";
  EXPECT_EQ(walks, 0);
  no_pages = false;
  EXPECT_NE(current_context().id, ContextId::kNone);
  EXPECT_NE(user_stack(), StackId::kNone);
}

TEST_P(TraceContextTest, DeepStacksAreCut) {
  const auto same_frames = [](size_t count) {
    set_user_stack(std::vector<uint64_t>(count, 0x401000));
  };
  same_frames(kUserStackDepth);
  const StackId whole = user_stack();
  EXPECT_EQ(trace_stacks.view(whole).size(), kUserStackDepth);
  EXPECT_FALSE(is_truncated(current_context().caller));
  for (const size_t depth : {kUserStackDepth + 1, size_t{100}}) {
    same_frames(depth);
    return_to_user();
    walks = 0;
    for (int i = 0; i < 3; i++) {
      EXPECT_EQ(current_context().caller, caller_with(whole, true))
          << "each time; what is there of it is the same";
    }
    EXPECT_EQ(walks, GetParam() ? 0 : 1);
  }
  walks = 0;
  // Tracing ends and begins again. The task's cached stack number is from the earlier trace, so the
  // user stack must be walked again.
  close();
  open_again();
  EXPECT_TRUE(is_truncated(current_context().caller));
  EXPECT_EQ(walks, 1);
  // The task has got another program, which was not in user mode yet.
  trace_program_changed(task_);
  EXPECT_EQ(current_context().caller, TraceCaller::kNone);
  same_frames(3);
  return_to_user();
  EXPECT_FALSE(is_truncated(current_context().caller));
  EXPECT_EQ(trace_stacks.view(user_stack()).size(), 3u);
}

TEST_P(TraceContextTest, OfADeepStackAllThatIsRecordedIsCompared) {
  std::vector<uint64_t> frames;
  for (uint64_t i = 0; i < 30; i++) frames.push_back(0x402000 + i * 16);
  for (size_t change = 1; change < frames.size(); change++) {
    set_user_stack(frames);
    const StackId before = meet();
    user_memory[4 + (change - 1) * 3 + 1]++;
    return_to_user();
    EXPECT_EQ(user_stack() == before, change >= kUserStackDepth) << change;
    EXPECT_EQ(walks, GetParam() && change >= kUserStackDepth ? 0 : 1) << change;
  }
}

TEST_P(TraceContextTest, ADeepStackThatIsLostIsNotCutToo) {
  task_.trace_call = TraceCaller::kNone;
  static_cast<void>(current_context());
  return_to_user();
  no_pages = true;
  fill_stack_page(1);
  set_user_stack(std::vector<uint64_t>(100, 0x401000));
  for (int i = 0; i < 2; i++) EXPECT_EQ(current_context().caller, TraceCaller::kLost);
}

TEST_P(TraceContextTest, WithoutAPageNothingIsRemembered) {
  no_pages = true;
  stack_hints_close();
  stack_hints_open(1);
  no_pages = false;
  meet();
  return_to_user();
  EXPECT_NE(user_stack(), StackId::kNone);
  EXPECT_EQ(walks, 1);
}

INSTANTIATE_TEST_SUITE_P(Hints, TraceContextTest, testing::Bool());

}  // namespace
