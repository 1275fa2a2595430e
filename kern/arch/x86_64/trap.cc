// Traps: the interrupt descriptor table, and the handling of each exception, interrupt and system
// call.
//
// Exceptions. From user mode, page faults go to the registered handler; all other exceptions, and
// page faults that the handler does not resolve, become signals. In the kernel, two kinds are
// expected: breakpoints of probes (probe_breakpoint), and page faults in user memory at
// instructions of the exception table (user_copy.S). Such a page fault goes to the registered
// handler, too, if the interrupted code may sleep. If the code may not sleep, or if the handler
// does not resolve the fault, execution continues at the address that the exception table gives for
// the instruction. Any other exception in the kernel is a panic.
//
// Interrupts. Handlers run with interrupts off on the stack of the interrupted task, with
// Cpu.interrupt_depth raised. If a reschedule is requested when the outermost handler is done, and
// preemption is allowed, schedule() preempts the task. Preemption is allowed while the task holds
// no spinlock and preempt_off is zero.
//
// Return to user mode. With interrupts off, return_to_user() calls schedule() if a reschedule is
// requested. Then return_to_user() calls before_user with interrupts on. These two steps are
// repeated until no reschedule is requested. Finally return_to_user() forces segments, flags and
// the program counter to values that user mode may have, so that iretq cannot fault in the kernel.
#include "arch/x86_64/trap.h"

#include "arch/x86_64/cpu_setup.h"
#include "arch/x86_64/interrupt_controller.h"
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/io.h"
#include "arch/x86_64/machine_check_impl.h"
#include "arch/x86_64/paging.h"
#include "core/log.h"
#include "core/nmi.h"
#include "core/panic.h"
#include "core/probe_guard.h"
#include "core/spinlock.h"
#include "lib/string.h"
#include "sched/task.h"

extern "C" const char trap_stubs[];
// Pairs of addresses: an instruction that may fault, and the code that follows a fault (the fixup).
extern "C" const uint64_t exception_table_start[], exception_table_end[];
extern "C" void trap_dispatch(TrapFrame* frame);
extern "C" void trap_dispatch_paranoid(TrapFrame* frame);
extern "C" void user_breakpoint_dispatch(TrapFrame* frame);
extern "C" void system_call_dispatch(TrapFrame* frame);
extern "C" void return_to_user(TrapFrame* frame);
extern "C" [[noreturn]] void enter_user_from(const TrapFrame* frame);

namespace {

constexpr uint8_t kVectorNmi = 2, kVectorDoubleFault = 8, kVectorMachineCheck = 18;
constexpr unsigned kExceptions = 32;
constexpr uint64_t kRflagsUser = 0x240dd5;  // user mode may set ID AC OF DF TF SF ZF AF PF CF
constexpr uint64_t kRflagsAlways = 0x2 | kRflagsIf;
constexpr uint64_t kFaultPresent = 1, kFaultWrite = 2, kFaultExecute = 16;

struct [[gnu::packed]] Gate {
  uint16_t offset_low, selector;
  uint8_t ist, type;
  uint16_t offset_middle;
  uint32_t offset_high, reserved;
};

struct Handler {
  InterruptHandler call;
  void* argument;
  const char* name;
};
constexpr unsigned kSharers = 2;

constinit Gate table[256] = {};
constinit Handler handlers[256][kSharers] = {};
constinit Spinlock handlers_lock{LockRank::kInterrupts};
constinit TrapHandlers higher{};

const char* const kExceptionNames[kExceptions] = {"division error",
                                                  "debug trap",
                                                  "NMI",
                                                  "breakpoint",
                                                  "overflow",
                                                  "bound range",
                                                  "invalid instruction",
                                                  "no floating point unit",
                                                  "double fault",
                                                  "",
                                                  "invalid task state",
                                                  "segment not present",
                                                  "stack segment fault",
                                                  "general protection fault",
                                                  "page fault",
                                                  "",
                                                  "floating point error",
                                                  "alignment check",
                                                  "machine check",
                                                  "SIMD floating point error",
                                                  "virtualisation",
                                                  "control protection"};

uint64_t fixup_for(uint64_t address) {
  for (const uint64_t* entry = exception_table_start; entry < exception_table_end; entry += 2) {
    if (entry[0] == address) return entry[1];
  }
  return 0;
}

bool may_be_preempted(const Cpu& cpu) {
  return cpu.interrupt_depth == 0 && cpu.preempt_off == 0 && cpu.held_locks == 0;
}

[[noreturn]] void fatal(const TrapFrame& frame, uint64_t address) {
  const char* name = frame.vector < kExceptions && kExceptionNames[frame.vector]
                         ? kExceptionNames[frame.vector]
                         : "exception";
  if (frame.vector != kVectorPageFault)
    panic_from_trap(frame, "%s (error code 0x%lx)", name, frame.error_code);
  const char* what = frame.error_code & kFaultExecute
                         ? "execution"
                         : (frame.error_code & kFaultWrite ? "write" : "read");
  if (const char* guard = guard_page_name(address))
    panic_from_trap(frame, "kernel stack overflow: %s (%s at 0x%lx)", guard, what, address);
  panic_from_trap(
      frame, "page fault: %s at 0x%lx, %s", what, address,
      frame.error_code & kFaultPresent ? "not allowed there" : "nothing is mapped there");
}

void page_fault_in_kernel(TrapFrame& frame, uint64_t address) {
  const uint64_t fixup = fixup_for(frame.rip);
  if (fixup == 0 || address >= kUserEnd) fatal(frame, address);
  if ((frame.rflags & kRflagsIf) && may_be_preempted(this_cpu()) && higher.page_fault) {
    interrupts_enable();
    const bool resolved = higher.page_fault(frame, address, frame.error_code & kFaultWrite, false);
    interrupts_disable();
    if (resolved) return;
  }
  frame.rip = fixup;
}

// No probe may be hit before cr2 has been read: the probe's consumer may walk a user stack and
// fault, which overwrites cr2.
NOT_PROBED void exception(TrapFrame& frame) {
  const uint64_t address = frame.vector == kVectorPageFault ? read_cr2() : 0;
  if (!frame.from_user()) {
    if (frame.vector == kVectorPageFault) return page_fault_in_kernel(frame, address);
    fatal(frame, 0);
  }
  interrupts_enable();
  if (frame.vector == kVectorPageFault && address < kUserEnd && higher.page_fault &&
      higher.page_fault(frame, address, frame.error_code & kFaultWrite,
                        frame.error_code & kFaultExecute)) {
    return;
  }
  if (!higher.user_exception) fatal(frame, address);
  higher.user_exception(frame, static_cast<uint8_t>(frame.vector), address);
}

void interrupt(TrapFrame& frame) {
  Cpu& cpu = this_cpu();
  const uint8_t vector = static_cast<uint8_t>(frame.vector);
  if (vector == kVectorSpurious) return;
  // A task turns probes off only while interrupts are off, because the task might otherwise be
  // preempted and continue on another CPU. So no interrupt comes while probes are off.
  ASSERT(cpu.probes_off == 0);
  const uint8_t outer_vector = cpu.interrupt_vector;
  cpu.interrupt_depth++;
  cpu.interrupt_vector = vector;
  cpu.interrupted_user = frame.from_user();
  for (const Handler& handler : handlers[vector]) {
    if (!handler.call) continue;
    irq_off_blame(reinterpret_cast<const void*>(handler.call));
    handler.call(frame, handler.argument);
  }
  local_apic_end_of_interrupt();
  cpu.interrupt_vector = outer_vector;
  cpu.interrupt_depth--;
  if (cpu.need_resched && !frame.from_user() && (frame.rflags & kRflagsIf) && may_be_preempted(cpu))
    schedule();
}

Result<void> add_handler(uint8_t vector, const char* name, InterruptHandler call, void* argument) {
  const Guard guard(handlers_lock);
  for (Handler& handler : handlers[vector]) {
    if (handler.call) continue;
    handler.argument = argument;
    handler.name = name;
    __atomic_store_n(&handler.call, call, __ATOMIC_RELEASE);
    return {};
  }
  return Errno::EBUSY;
}

}  // namespace

NOT_PROBED void trap_dispatch(TrapFrame* frame) {
  const EnteredInterruptsOff entered(frame->rflags);
  if (frame->vector < kExceptions) {
    exception(*frame);
  } else {
    interrupt(*frame);
  }
  interrupts_disable();
  if (frame->from_user()) return_to_user(frame);
}

// Skips return_to_user when possible, because probes may be hit often. A handler that returns true
// has changed at most rip and rsp, so only rip needs a check. before_user has work only if
// Task::interrupted is set.
void user_breakpoint_dispatch(TrapFrame* frame) {
  const EnteredInterruptsOff entered(kRflagsIf);
  const bool done = higher.breakpoint && higher.breakpoint(*frame);
  const Cpu& cpu = this_cpu();
  if (done && frame->rip < kUserEnd && !cpu.need_resched &&
      !task_on(cpu)->interrupted.load(std::memory_order_relaxed)) [[likely]] {
    cpu.current->trace_call = TraceCaller::kUnknown;
    return;
  }
  if (!done) exception(*frame);
  return_to_user(frame);
}

void system_call_dispatch(TrapFrame* frame) {
  irq_off_begin();
  interrupts_enable();
  if (higher.system_call) higher.system_call(*frame);
  return_to_user(frame);
}

// stack: no recursion, because only entries from user mode end with this call.
void return_to_user(TrapFrame* frame) {
  interrupts_disable();
  do {
    if (this_cpu().need_resched) schedule();
    interrupts_enable();
    if (frame->rip >= kUserEnd && higher.user_exception)
      higher.user_exception(*frame, 13, frame->rip);
    if (higher.before_user) higher.before_user(*frame);
    interrupts_disable();
  } while (this_cpu().need_resched);
  current_task()->trace_call = TraceCaller::kUnknown;
  if (frame->rip >= kUserEnd) frame->rip = 0;  // address 0 is not mapped: the program faults
  frame->cs = kUserCode;
  frame->ss = kUserData;
  frame->rflags = (frame->rflags & kRflagsUser) | kRflagsAlways;
  irq_off_end();
}

NOT_PROBED void trap_dispatch_paranoid(TrapFrame* frame) {
  const ProbesOffHere nmi;
  Cpu& cpu = this_cpu();
  const bool outer = cpu.in_nmi;
  cpu.in_nmi = true;  // before the first function call, since the function may have a probe
  if (frame->vector == kVectorNmi && panicking()) halt_forever();
  if (frame->vector == kVectorDoubleFault) {
    // The CPU could not push the frame of a page fault: cr2 or the stack pointer tells which guard
    // page was hit.
    const char* guard = guard_page_name(read_cr2());
    if (!guard) guard = guard_page_name(frame->rsp - 8);
    if (guard)
      panic_from_trap(*frame, "kernel stack overflow: %s (stack pointer 0x%lx)", guard, frame->rsp);
    panic_from_trap(*frame, "double fault");
  }
  if (frame->vector == kVectorMachineCheck) {
    machine_check_print();
    panic_from_trap(*frame, "machine check");
  }
  cpu.interrupt_depth++;
  nmi_report(*frame);
  cpu.interrupt_depth--;
  cpu.in_nmi = outer;
}

void trap_load_table() {
  if (table[0].type == 0) {
    for (unsigned i = 0; i < 256; i++) {
      const uint64_t entry = reinterpret_cast<uint64_t>(trap_stubs) + 16 * i;
      uint8_t ist = kIstNone;
      if (i == kVectorDoubleFault) ist = kIstDoubleFault;
      if (i == kVectorNmi) ist = kIstNmi;
      if (i == kVectorMachineCheck) ist = kIstMachineCheck;
      const uint8_t type =
          i == kVectorBreakpoint ? 0xee : 0x8e;  // user mode may use the breakpoint instruction
      table[i] = {static_cast<uint16_t>(entry),
                  kKernelCode,
                  ist,
                  type,
                  static_cast<uint16_t>(entry >> 16),
                  static_cast<uint32_t>(entry >> 32),
                  0};
    }
  }
  const struct [[gnu::packed]] {
    uint16_t limit;
    uint64_t base;
  } pointer = {sizeof(table) - 1, reinterpret_cast<uint64_t>(table)};
  asm volatile("lidt %0" ::"m"(pointer));
}

Result<void> interrupt_register(unsigned irq, const char* name, InterruptHandler handler,
                                void* argument) {
  if (irq >= 16) return Errno::EINVAL;
  TRY(add_handler(kVectorIrqBase + irq, name, handler, argument));
  return io_apic_route_isa(irq, kVectorIrqBase + irq);
}

Result<void> interrupt_register_vector(uint8_t vector, const char* name, InterruptHandler handler,
                                       void* argument) {
  if (vector < kExceptions || vector == kVectorSpurious) return Errno::EINVAL;
  return add_handler(vector, name, handler, argument);
}

const char* interrupt_name(uint8_t vector) {
  const char* name = handlers[vector][0].name;
  return name ? name : "interrupt";
}

void trap_register(const TrapHandlers& to) {
  higher = to;
}

void enter_user(const TrapFrame& frame) {
  static_assert(sizeof(TrapFrame) == 176);
  enter_user_from(&frame);
}

TrapFrame user_frame(uint64_t rip, uint64_t rsp) {
  TrapFrame frame{};
  frame.rip = rip;
  frame.rsp = rsp;
  frame.cs = kUserCode;
  frame.ss = kUserData;
  frame.rflags = kRflagsAlways;
  return frame;
}
