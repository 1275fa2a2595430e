// Probes: a consumer is called, on the same CPU, when a function of the kernel or of a program is
// called or returns.
//
// src/probe/kernel_probes.cc puts probes on kernel functions, src/proc/user_probes.cc on functions
// of programs; src/probe/probe_recorder.cc is the consumer behind #probe. docs/probes.md explains
// probes for users.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/probe_registers.h"
#include "lib/list.h"
#include "lib/result.h"

class Chan;

struct ProbeHit {
  uint32_t tag;   // tag that was given with the probe
  bool returned;  // false: the function is being called; true: it is about to return
  bool user;      // the function is a program's
  // The address of the return address. A call and its return have the same address; nested calls
  // have lower addresses. A call means that all calls still open at the same or a lower address
  // have ended without a return (exceptions, longjmp).
  uint64_t stack_pointer;
  // Kernel: the argument for walk_kernel_stack(). At a call the walk finds the address after the
  // function's nop, then the callers; at a return it finds only the callers. User: 0;
  // walk_user_stack_of_call() finds the frames.
  uint64_t frame_pointer;
  const ProbeRegisters*
      registers;   // registers at the call; at a return only those with a result are valid
  uint64_t flags;  // RFLAGS of the probed code
  // True if the probed code runs with interrupts on. Otherwise it may be changing per-CPU data,
  // such as the allocator's magazines: the consumer must not allocate then.
  bool interrupts_on() const { return (flags & kRflagsIf) != 0; }
};

enum class ProcessLeft : uint8_t { kEnded, kOtherProgram };

// The consumer of a probe. hit() is called with interrupts off, never in an NMI, and never for a
// probe that is hit within hit() on the same CPU: a guard on each CPU suppresses and counts these.
// hit() neither sleeps nor faults.
class ProbeConsumer {
 public:
  virtual void hit(const ProbeHit& hit) = 0;
  // The current thread, the task with this id, will not run its program any more: its calls will
  // not return. Interrupts on, may sleep. thread_left() and the three functions below are called
  // only for consumers that have user probes or watch memory.
  virtual void thread_left(uint32_t id) { static_cast<void>(id); }
  // The current process ends or becomes another program: its memory is gone. All threads, or all
  // but the current one, have ended; thread_left() was called for each, including the current one.
  virtual void process_left(uint32_t pid, ProcessLeft how) {
    static_cast<void>(pid), static_cast<void>(how);
  }
  // The current process has mapped or unmapped a range of memory by mmap or munmap. `size` is in
  // bytes: for mmap as requested, although mmap maps whole pages; for munmap, a multiple of the
  // page size. Interrupts on, may sleep. For consumers that watch memory.
  virtual void memory_mapped(uint64_t address, uint64_t size) {
    static_cast<void>(address), static_cast<void>(size);
  }
  virtual void memory_unmapped(uint64_t address, uint64_t size) {
    static_cast<void>(address), static_cast<void>(size);
  }

  // Hits that the guard has suppressed.
  std::atomic<uint64_t> kept_out{0};

  // Only src/proc/user_probes.cc uses this.
  struct UserProbeState {
    ListNode link;
    ProbeConsumer* consumer = nullptr;
    uint32_t calls = 0;  // calls of thread_left and the three functions below it that are under way
    bool watches_memory = false;
    bool leaving = false;
  } user_state;
};

// --- Kernel functions (src/probe/kernel_probes.cc). Each function has a constant number, from 0 on
// in the order of addresses.

struct KernelFunction {
  uint64_t address;
  const char* name;    // as in #mem/ksyms
  uint32_t consumers;  // number of consumers with a probe on the function
};
uint32_t kernel_function_count();
// Returns number `index` of the functions that can be probed.
KernelFunction kernel_function(uint32_t index);

struct KernelProbe {
  uint32_t function;
  uint32_t tag;
  bool returns;  // hit() is called for returns, too
};
// Sets probes for a consumer that has none. When it returns, every call of the functions on any CPU
// hits; on failure none does. ENOMEM. May sleep; no lock held.
Result<void> kernel_probes_arm(ProbeConsumer& consumer, std::span<const KernelProbe> probes);
// Removes the consumer's probes. When it returns, no hit() is under way or will come, and functions
// without a probe have their original text. May sleep.
void kernel_probes_disarm(ProbeConsumer& consumer);

// --- Functions of programs (src/proc/user_probes.cc). A probe is on a program's file: in every
// process that runs it now or later, under any name of the file. The consumer filters hits by
// process.

struct UserProbe {
  uint64_t address;  // address of the function, which begins with a five-byte nop
  std::span<const uint64_t>
      returns;  // addresses of the function's `ret` instructions; empty: no hit() for returns
  uint32_t tag;
};
// Sets probes, as kernel_probes_arm() does, on functions of `program`, an open ELF file. EINVAL,
// with the error string set, if one of the addresses has other instructions; ENOMEM. A consumer may
// have probes on several programs.
Result<void> user_probes_arm(ProbeConsumer& consumer, Chan& program,
                             std::span<const UserProbe> probes);
// Removes all probes of the consumer, on all programs, and its watch of memory. Waits for calls of
// hit(), …_left() and memory_…() under way: the caller holds no lock that these take.
void user_probes_disarm(ProbeConsumer& consumer);
// Calls memory_…() of the consumer for mmap and munmap by all processes. Cannot fail.
void user_probes_watch_memory(ProbeConsumer& consumer);
