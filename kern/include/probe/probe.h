// Probes: a consumer is told, on the CPU where it happens, that a function of the kernel or of a
// program is called or returns.
//
// Three parts meet here. src/probe/kernel_probes.cc puts probes on kernel functions,
// src/proc/user_probes.cc on functions of programs; src/probe/probe_recorder.cc is the
// consumer behind #probe. docs/probes.md says what users see.
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
  uint32_t tag;   // as given with the probe
  bool returned;  // false: the function is being called; true: it is about to return
  bool user;      // it is a program's
  // Where the return address stands. A call and its return have the same; calls made from within
  // have lower ones. What is entered at the same or a higher place ends, without a return, all that
  // was entered below (exceptions, longjmp).
  uint64_t stack_pointer;
  // Kernel: of a frame from which walk_kernel_stack finds the function itself (the address after
  // its nop; not at a return), then its caller, and so on. User: 0, walk_user_stack_of_call() finds
  // the same.
  uint64_t frame_pointer;
  const ProbeRegisters*
      registers;   // at the entry; at a return only what a result is in has a meaning
  uint64_t flags;  // RFLAGS of whoever is hit
  // Whether whoever is hit may be interrupted. Otherwise it may be in the middle of a change of
  // what this CPU alone has, the allocator's magazines among it: nothing may be allocated.
  bool interrupts_on() const { return (flags & kRflagsIf) != 0; }
};

enum class ProcessLeft : uint8_t { kEnded, kOtherProgram };

// Who is told. hit() is called with interrupts off, never in an NMI, and never for what happens on
// this CPU within a hit(): a guard for each CPU keeps that out and counts it here. It neither
// sleeps nor faults.
class ProbeConsumer {
 public:
  virtual void hit(const ProbeHit& hit) = 0;
  // The current thread of a process, the task with this id, runs its program no longer (interrupts
  // on, may sleep): what it has entered will not return. Here and below: only for consumers with
  // user probes or watching memory.
  virtual void thread_left(uint32_t id) { static_cast<void>(id); }
  // The current process ends or becomes another program (interrupts on, may sleep): its memory is
  // gone. Its threads have left before.
  virtual void process_left(uint32_t pid, ProcessLeft how) {
    static_cast<void>(pid), static_cast<void>(how);
  }
  // The current process (interrupts on, may sleep) has got, or given back, a range of memory by
  // mmap and munmap: whole pages, of which mmap was asked for the first `size` bytes; what is given
  // back is told in whole pages. For consumers that watch memory.
  virtual void memory_mapped(uint64_t address, uint64_t size) {
    static_cast<void>(address), static_cast<void>(size);
  }
  virtual void memory_unmapped(uint64_t address, uint64_t size) {
    static_cast<void>(address), static_cast<void>(size);
  }

  // Hits that the guard has kept out.
  std::atomic<uint64_t> kept_out{0};

  // src/proc/user_probes.cc's.
  struct UserPart {
    ListNode link;
    ProbeConsumer* consumer = nullptr;
    uint32_t calls = 0;  // of thread_left and the three below it that are under way
    bool watches_memory = false;
    bool leaving = false;
  } user_part;
};

// --- Kernel functions (src/probe/kernel_probes.cc). They are numbered from 0 in order of address,
// for as long as the system runs.

struct KernelFunction {
  uint64_t address;
  const char* name;    // as in #mem/ksyms
  uint32_t consumers;  // that have a probe on it
};
uint32_t kernel_function_count();
// Of those that can be probed.
KernelFunction kernel_function(uint32_t index);

struct KernelProbe {
  uint32_t function;
  uint32_t tag;
  bool returns;  // the consumer is told of returns too
};
// Probes for a consumer that has none. When it returns every call of the functions on any CPU is
// told; on failure none is. ENOMEM. May sleep; no lock held.
Result<void> kernel_probes_arm(ProbeConsumer& consumer, std::span<const KernelProbe> probes);
// When it returns no hit() of it is under way or will come, and the text of functions without a
// probe is what it was. May sleep.
void kernel_probes_disarm(ProbeConsumer& consumer);

// --- Functions of programs (src/proc/user_probes.cc). A probe is on a program's file: in every
// process that runs it now or later, whatever the names of the file. Whose hits count is the
// consumer's to decide.

struct UserProbe {
  uint64_t address;  // of the function: a five-byte nop stands there
  std::span<const uint64_t>
      returns;  // its `ret` instructions; empty: the consumer is not told of returns
  uint32_t tag;
};
// As for the kernel. `program` is an open ELF file. EINVAL, with the error string set, if at one of
// the addresses stands something else; ENOMEM. A consumer may be given probes on several programs.
Result<void> user_probes_arm(ProbeConsumer& consumer, Chan& program,
                             std::span<const UserProbe> probes);
// All of the consumer's, on all programs, and its watching of memory. Waits for hit(),
// …_left() and memory_…() that are under way: no lock is held that these take.
void user_probes_disarm(ProbeConsumer& consumer);
// The consumer is told of mmap and munmap by all processes. Cannot fail.
void user_probes_watch_memory(ProbeConsumer& consumer);
