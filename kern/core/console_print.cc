// Prints a CPU's state on the console. Any context: these functions wait for no lock and allocate
// nothing.
#include "core/console_print.h"

#include <cstdarg>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/trap.h"
#include "core/console.h"
#include "core/cpu.h"
#include "core/log.h"
#include "core/panic.h"
#include "core/symbols.h"
#include "core/task_head.h"
#include "lib/format.h"

namespace {

void print_registers(const TrapFrame& f) {
  console_print("  rip %016lx  rsp %016lx  rflags %08lx  cs %02lx", f.rip, f.rsp, f.rflags, f.cs);
  console_print("  rax %016lx  rbx %016lx  rcx %016lx  rdx %016lx", f.rax, f.rbx, f.rcx, f.rdx);
  console_print("  rsi %016lx  rdi %016lx  rbp %016lx  r8  %016lx", f.rsi, f.rdi, f.rbp, f.r8);
  console_print("  r9  %016lx  r10 %016lx  r11 %016lx  r12 %016lx", f.r9, f.r10, f.r11, f.r12);
  console_print("  r13 %016lx  r14 %016lx  r15 %016lx  cr2 %016lx", f.r13, f.r14, f.r15,
                read_cr2());
}

// Prints a line of a backtrace. `return_address` is the return address of a call, or the address of
// an interrupted instruction plus one: the symbol is looked up one byte before it.
void print_frame(uint64_t return_address) {
  char text[200];
  symbol_format(text, sizeof(text), return_address);
  console_print("    %016lx %s", return_address, text);
}

// Prints the interrupted instruction's address. It is not a return address, so its symbol is looked
// up without subtracting one.
void print_interrupted(const TrapFrame& frame) {
  const Symbol symbol = symbol_lookup(frame.rip);
  if (symbol.name) {
    console_print("    %016lx %s+0x%lx [kernel]", frame.rip, symbol.name, symbol.offset);
  } else {
    console_print("    %016lx", frame.rip);
  }
}

void print_backtrace(Backtrace& backtrace, uint64_t frame_pointer) {
  console_print("  backtrace:");
  for (int traps = 0; traps < 4; traps++) {
    const TrapFrame* entered;
    const size_t n =
        walk_kernel_stack_to_trap(frame_pointer, backtrace.data(), backtrace.size(), &entered);
    for (size_t i = 0; i < n;) {
      size_t same = 1;
      while (i + same < n && backtrace[i + same] == backtrace[i]) same++;
      print_frame(backtrace[i]);
      if (same > 1) console_print("    ... %zu times", same);
      i += same;
    }
    if (!entered) return;
    if (entered->from_user()) {
      console_print("    --- from user mode, rip %lx rsp %lx", entered->rip, entered->rsp);
      return;
    }
    console_print("    --- trap %lu", entered->vector);
    print_interrupted(*entered);
    frame_pointer = entered->rbp;
  }
}

void print_locks(const Cpu& cpu) {
  if (cpu.held_locks == 0) return;
  console_print("  held locks: %u, ranks 0x%lx", cpu.held_locks, cpu.held_ranks);
}

}  // namespace

void console_print(const char* pattern, ...) {
  panic_give_way();
  char line[256];
  va_list arguments;
  va_start(arguments, pattern);
  const int length = vformat(line, sizeof(line) - 2, pattern, arguments);
  va_end(arguments);
  console_write(line, log_line(line, sizeof(line), static_cast<size_t>(length)));
}

void console_print_cpu(Backtrace& backtrace, const TrapFrame* frame, uint64_t frame_pointer) {
  const Cpu& cpu = this_cpu();
  const TaskHead* const task = cpu.current;
  console_print("  CPU %u of %u, task %s%s", number_of(cpu.id), cpu_count(),
                task ? task->name : "none", cpu.interrupt_depth ? ", in an interrupt" : "");
  if (frame) {
    print_registers(*frame);
    if (frame->from_user()) {
      console_print("  from user mode");
    } else {
      console_print("  at:");
      print_interrupted(*frame);
      frame_pointer = frame->rbp;
    }
  }
  print_backtrace(backtrace, frame_pointer);
  print_locks(cpu);
}
