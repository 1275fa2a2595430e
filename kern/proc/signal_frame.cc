// The frame of a signal handler on the user stack, and the return from the handler.
//
// The frame lies below the red zone, or at the top of the signal stack. From higher to lower
// addresses:
//
//   floating point state   aligned to 64 bytes, as XSAVE wants it
//   SignalFrame            context and info, aligned to 16 bytes
//   return address         the restorer, which makes the sigreturn call
//
// The handler may change the context and the floating point state. The program may even call
// sigreturn with a context of its own invention. So return_to_user forces segments, flags and the
// program counter to values that user mode may have, and fpu_make_valid corrects the floating point
// state.
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/user_registers.h"
#include "core/user_memory.h"
#include "lib/string.h"
#include "proc/process_impl.h"

namespace {

constexpr uint64_t kRedZone = 128;
constexpr uint64_t kFrameAlign = 16;

struct SignalFrame {
  abi_ucontext context;
  abi_siginfo info;
};
static_assert(std::has_unique_object_representations_v<SignalFrame>);  // as for put_user()

// Maps registers of a trap frame to registers of a context.
struct Register {
  int number;
  uint64_t TrapFrame::*field;
};
constexpr Register kRegisters[] = {
    {ABI_REG_R8, &TrapFrame::r8},   {ABI_REG_R9, &TrapFrame::r9},
    {ABI_REG_R10, &TrapFrame::r10}, {ABI_REG_R11, &TrapFrame::r11},
    {ABI_REG_R12, &TrapFrame::r12}, {ABI_REG_R13, &TrapFrame::r13},
    {ABI_REG_R14, &TrapFrame::r14}, {ABI_REG_R15, &TrapFrame::r15},
    {ABI_REG_RDI, &TrapFrame::rdi}, {ABI_REG_RSI, &TrapFrame::rsi},
    {ABI_REG_RBP, &TrapFrame::rbp}, {ABI_REG_RBX, &TrapFrame::rbx},
    {ABI_REG_RDX, &TrapFrame::rdx}, {ABI_REG_RAX, &TrapFrame::rax},
    {ABI_REG_RCX, &TrapFrame::rcx}, {ABI_REG_RSP, &TrapFrame::rsp},
    {ABI_REG_RIP, &TrapFrame::rip}, {ABI_REG_EFL, &TrapFrame::rflags},
};

// Puts the floating point state of user mode on the user stack, below `top`. Returns its address.
// EFAULT.
Result<uint64_t> save_fpu(Thread& thread, uint64_t top) {
  FpuState& fpu = *thread.user_registers.fpu;
  {
    const InterruptsOff off;
    fpu_save(fpu);
  }
  const uint64_t at = align_down(top - fpu_state_size(), kFpuAlign);
  TRY(copy_to_user(at, &fpu, fpu_state_size()));
  return at;
}

// Loads the floating point state of user mode from `address`. EFAULT.
Result<void> restore_fpu(Thread& thread, uint64_t address) {
  FpuState& fpu = *thread.user_registers.fpu;
  const size_t size = fpu_state_size();
  for (;;) {
    // Interrupts are off, so the copy does not sleep, and no other task finds a partly copied state
    // in `fpu`. After a failure the state of this CPU is put back, and with it a valid header.
    {
      const InterruptsOff off;
      if (load_user_now(&fpu, address, size)) {
        fpu_make_valid(fpu);
        fpu_restore(fpu);
        return {};
      }
      fpu_save_all(fpu);
      fpu_make_valid(fpu);
    }
    // A page is missing. A byte of each page is read, which brings the pages in or fails.
    char byte;
    for (size_t at = 0; at < size; at = align_down(address + at, kPageSize) + kPageSize - address)
      TRY(copy_from_user(&byte, address + at, 1));
    TRY(copy_from_user(&byte, address + size - 1, 1));
  }
}

// Puts the context that the handler interrupts on the user stack, at `at`. `fpu`: the address of
// the floating point state. EFAULT.
[[gnu::noinline]] Result<void> put_context(const Thread& thread, const TrapFrame& frame,
                                           uint64_t fault_address, uint64_t mask, uint64_t fpu,
                                           bool was_on_stack, uint64_t at) {
  abi_ucontext context{};
  context.stack = thread.signal_stack;
  if (was_on_stack) context.stack.flags |= ABI_SS_ONSTACK;
  for (const Register& entry : kRegisters) context.registers[entry.number] = frame.*entry.field;
  context.registers[ABI_REG_CSGSFS] = frame.cs;
  context.registers[ABI_REG_ERR] = frame.error_code;
  context.registers[ABI_REG_TRAPNO] = frame.vector;
  context.registers[ABI_REG_OLDMASK] = mask;
  context.registers[ABI_REG_CR2] = fault_address;
  context.fpu = fpu;
  context.mask = mask;
  return copy_to_user(at, &context, sizeof(context));
}

bool has_signal_stack(const Thread& thread) {
  return !(thread.signal_stack.flags & ABI_SS_DISABLE);
}

}  // namespace

bool on_signal_stack(const Thread& thread, uint64_t stack_pointer) {
  const abi_stack& stack = thread.signal_stack;
  return has_signal_stack(thread) && stack_pointer > stack.base &&
         stack_pointer - stack.base <= stack.size;
}

uint64_t signal_frame_size() {
  constexpr uint64_t kReturnAddress = 8;
  return kRedZone + fpu_state_size() + kFpuAlign + sizeof(SignalFrame) + kFrameAlign +
         kReturnAddress;
}

Result<void> enter_handler(Thread& thread, TrapFrame& frame, const abi_siginfo& info,
                           const abi_sigaction& action, uint64_t mask) {
  const bool was_on_stack = on_signal_stack(thread, frame.rsp);
  const bool changes_stack =
      (action.flags & ABI_SA_ONSTACK) && has_signal_stack(thread) && !was_on_stack;
  const uint64_t top =
      changes_stack ? thread.signal_stack.base + thread.signal_stack.size : frame.rsp - kRedZone;
  const uint64_t fpu = TRY(save_fpu(thread, top));
  const uint64_t at = align_down(fpu - sizeof(SignalFrame), kFrameAlign);
  const uint64_t stack_pointer = at - sizeof(uint64_t);
  if ((changes_stack || was_on_stack) && !on_signal_stack(thread, stack_pointer))
    return Errno::EFAULT;

  TRY(put_context(thread, frame, info.address, mask, fpu, was_on_stack,
                  at + offsetof(SignalFrame, context)));
  TRY(copy_to_user(at + offsetof(SignalFrame, info), &info, sizeof(info)));
  TRY(copy_to_user(stack_pointer, &action.restorer, sizeof(action.restorer)));
  const uint64_t frame_pointer = frame.rbp;
  frame = user_frame(action.handler, stack_pointer);
  frame.rbp = frame_pointer;
  frame.rdi = static_cast<uint64_t>(info.signo);
  frame.rsi = at + offsetof(SignalFrame, info);
  frame.rdx = at + offsetof(SignalFrame, context);
  return {};
}

Result<void> signal_return(Thread& thread, TrapFrame& frame) {
  abi_ucontext context;
  TRY(copy_from_user(&context, frame.rsp + offsetof(SignalFrame, context), sizeof(context)));
  TRY(restore_fpu(thread, context.fpu));
  for (const Register& entry : kRegisters) frame.*entry.field = context.registers[entry.number];
  const Guard guard(process_lock);
  signal_set_mask(thread, context.mask);
  return {};
}
