// Exceptions in user mode become signals.
#include "core/log.h"
#include "proc/process_impl.h"
#include "proc/user_log_impl.h"

namespace {

constexpr uint8_t kVectorX87 = 16, kVectorSimd = 19;

// Finds the cause of a floating point exception: the lowest flag that is set and not masked.
int32_t floating_point_code(uint8_t vector) {
  uint32_t flags, masks;
  if (vector == kVectorX87) {
    uint16_t status, control;
    asm volatile("fnstsw %0" : "=m"(status));
    asm volatile("fnstcw %0" : "=m"(control));
    flags = status;
    masks = control;
  } else {
    uint32_t mxcsr;
    asm volatile("stmxcsr %0" : "=m"(mxcsr));
    flags = mxcsr;
    masks = mxcsr >> 7;
  }
  // Indexed by flag: invalid, denormal, division, overflow, underflow, precision.
  constexpr int32_t kCodes[] = {ABI_FPE_FLTINV, ABI_FPE_FLTUND, ABI_FPE_FLTDIV,
                                ABI_FPE_FLTOVF, ABI_FPE_FLTUND, ABI_FPE_FLTRES};
  const uint32_t raised = flags & ~masks & 0x3f;
  return raised ? kCodes[__builtin_ctz(raised)] : ABI_FPE_FLTINV;
}

struct Kind {
  const char* what;
  int signal;
  int32_t code = ABI_SI_KERNEL;
};

Kind kind_of(Process& process, uint8_t vector, uint64_t address) {
  switch (vector) {
    case 0:
      return {"division error", ABI_SIGFPE, ABI_FPE_INTDIV};
    case 1:
      return {"debug trap", ABI_SIGTRAP, ABI_TRAP_TRACE};
    case 3:
      return {"breakpoint", ABI_SIGTRAP, ABI_TRAP_BRKPT};
    case 4:
      return {"overflow", ABI_SIGSEGV};
    case 6:
      return {"invalid instruction", ABI_SIGILL, ABI_ILL_ILLOPC};
    case 13:
      return {"general protection fault", ABI_SIGSEGV};
    case kVectorPageFault:
      return {"page fault", ABI_SIGSEGV,
              process.space->is_mapped(address) ? ABI_SEGV_ACCERR : ABI_SEGV_MAPERR};
    case kVectorX87:
      return {"floating point error", ABI_SIGFPE, floating_point_code(vector)};
    case 17:
      return {"alignment check", ABI_SIGBUS, ABI_BUS_ADRALN};
    case kVectorSimd:
      return {"SIMD floating point error", ABI_SIGFPE, floating_point_code(vector)};
    default:
      return {"exception", ABI_SIGSEGV};
  }
}

}  // namespace

void user_exception(TrapFrame& frame, uint8_t vector, uint64_t address) {
  Thread& thread = self_thread();
  Process& process = thread.process;
  const Kind kind = kind_of(process, vector, address);
  bool fatal;
  {
    const Guard guard(process_lock);
    fatal = signal_is_fatal(thread, kind.signal);
  }
  if (fatal && user_log_permits(process))
    klog("%s: %s at 0x%lx ip 0x%lx sp 0x%lx", ThreadName(thread).text, kind.what, address,
         frame.rip, frame.rsp);
  // POSIX: for a page fault the signal carries the address that was accessed, for any other
  // exception the address of the instruction.
  signal_force(thread, kind.signal,
               {.code = kind.code, .word = vector == kVectorPageFault ? address : frame.rip});
}
