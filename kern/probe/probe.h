// Probes. When a probed function of the kernel or of a program is called or returns, the CPU that
// runs the function calls the probe's consumer.
//
// probe/kernel_probes.cc puts probes on kernel functions, proc/user_probes.cc on functions
// of programs; probe/recorder.cc is the consumer behind #probe. docs/probes.md explains
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
  // The address at which the return address lies on the stack. A call and its return have the same
  // address; nested calls on the same stack have lower addresses. When a call is reported, earlier
  // calls on the same stack, at the same or a lower address, are over. If their returns were not
  // reported, they have ended in another way (exception, longjmp).
  uint64_t stack_pointer;
  // For a kernel function: the argument for walk_kernel_stack(). At a call the walk finds the
  // address after the function's nop, then the callers; at a return it finds only the callers. For
  // a function of a program: 0; walk_user_stack_of_call() finds the frames.
  uint64_t frame_pointer;
  const ProbeRegisters*
      registers;   // registers at the call; at a return only the result registers are valid
  uint64_t flags;  // kernel: RFLAGS of the probed code; program: kRflagsIf
  // True if the probed code runs with interrupts on. If it runs with interrupts off, it may be
  // changing per-CPU data, such as the allocator's magazines. The consumer must then not allocate.
  bool interrupts_on() const { return (flags & kRflagsIf) != 0; }
};

enum class ProcessLeft : uint8_t { kEnded, kOtherProgram };

// The consumer of a probe. hit() is called with interrupts off, and never in an NMI. hit() must not
// sleep. It may read user memory only with functions that return if a page is not mapped, such as
// load_user_word(). If hit() itself runs into a probe, no consumer is called: a guard on each CPU
// suppresses such hits, and `kept_out` counts them.
class ProbeConsumer {
 public:
  virtual void hit(const ProbeHit& hit) = 0;
  // Called in a thread that stops running its program: calls under way in the thread will not
  // return. `id` is the task's id. Interrupts on, may sleep. thread_left() and process_left() are
  // called only for consumers that have user probes or watch memory.
  virtual void thread_left(uint32_t id) { static_cast<void>(id); }
  // Called in a process that ends or becomes another program: its present memory is about to be
  // freed. The current thread is the only one left. thread_left() has been called for each thread,
  // including the current one.
  virtual void process_left(uint32_t pid, ProcessLeft how) {
    static_cast<void>(pid), static_cast<void>(how);
  }
  // Called when the current process has mapped or unmapped a range of memory by mmap or munmap.
  // `size` is in bytes. memory_mapped() gets the requested size, although mmap maps whole pages;
  // memory_unmapped() gets a multiple of the page size. For an mmap with MAP_FIXED,
  // memory_unmapped() is called first, for the range that is replaced. Interrupts on, may sleep.
  // Called only for consumers that watch memory (user_probes_watch_memory).
  virtual void memory_mapped(uint64_t address, uint64_t size) {
    static_cast<void>(address), static_cast<void>(size);
  }
  virtual void memory_unmapped(uint64_t address, uint64_t size) {
    static_cast<void>(address), static_cast<void>(size);
  }

  // Number of hits that the guard has suppressed.
  std::atomic<uint64_t> kept_out{0};

  // Only proc/user_probes.cc uses this.
  struct UserProbeState {
    ListNode link;
    ProbeConsumer* consumer = nullptr;
    uint32_t calls = 0;  // number of calls of this consumer under way, except hit()
    bool watches_memory = false;
    bool leaving = false;
  } user_state;
};

// --- Kernel functions (probe/kernel_probes.cc). Each function that can be probed has a
// constant number, from 0 on in the order of addresses.

struct KernelFunction {
  uint64_t address;
  const char* name;    // as in #mem/ksyms
  uint32_t consumers;  // number of consumers with a probe on the function
};
uint32_t kernel_function_count();
// Returns the function with number `index`.
KernelFunction kernel_function(uint32_t index);

struct KernelProbe {
  uint32_t function;
  uint32_t tag;
  bool returns;  // hit() is called for returns, too
};
// Sets probes for a consumer that has no kernel probes. After success, each call of one of the
// functions is a hit, on every CPU. On failure no probe is set. ENOMEM. May sleep; no lock held.
Result<void> kernel_probes_arm(ProbeConsumer& consumer, std::span<const KernelProbe> probes);
// Removes the consumer's kernel probes. On return no hit() is under way or will come, and functions
// without a probe have their original code. May sleep.
void kernel_probes_disarm(ProbeConsumer& consumer);

// --- Functions of programs (proc/user_probes.cc). A probe belongs to the file of a program. It
// is active in all processes that run this file now or later, under any of the file's names. The
// consumer filters hits by process.

struct UserProbe {
  uint64_t address;  // address of the function, which begins with a five-byte nop
  std::span<const uint64_t>
      returns;  // addresses of the function's `ret` instructions; empty: no hit() for returns
  uint32_t tag;
};
// Sets probes on functions of `program`, an open ELF file. After success, each call of one of the
// functions is a hit, in every process. EINVAL, with the error string set, if the instruction at an
// address is not as UserProbe requires; ENOMEM. A consumer may have probes on several programs.
Result<void> user_probes_arm(ProbeConsumer& consumer, Chan& program,
                             std::span<const UserProbe> probes);
// Removes all user probes of the consumer, on all programs, and ends its watch of memory. Waits
// until no call of hit(), thread_left(), process_left(), memory_mapped() or memory_unmapped() is
// under way. So the caller must hold no lock that these functions take.
void user_probes_disarm(ProbeConsumer& consumer);
// From now on, calls the consumer's memory_mapped() and memory_unmapped() for each mmap and munmap
// of any process. Cannot fail.
void user_probes_watch_memory(ProbeConsumer& consumer);
