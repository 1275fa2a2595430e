// Per-CPU data, reached through GS.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ref_kind.h"
#include "lib/units.h"

struct TaskHead;
struct UserRegisters;

inline constexpr unsigned kMaxCpus = CONFIG_MAX_CPUS;

// Assembly (arch/x86_64/entry.S) uses the offsets of the first fields; arch/x86_64/cpu.cc asserts
// them.
struct Cpu {
  Cpu* self;              // 0
  uint64_t kernel_stack;  // 8: top of the current task's kernel stack, for system call entry
  uint64_t user_stack;    // 16: scratch for system call entry
  TaskHead* current;      // 24
  CpuId id;               // 32
  uint32_t probes_off;    // 36: > 0: no probe is hit on this CPU (probe_guard.h)
  uint32_t apic_id;
  uint32_t interrupt_depth;  // number of nested interrupts and NMIs that this CPU handles;
                             // exceptions and system calls do not count
  uint32_t preempt_off;      // > 0: the current task is not preempted
  bool need_resched;
  bool online;
  bool in_nmi;               // 54: NMI, machine check or double fault: no allocation, no waiting
                             // for a lock
  uint8_t interrupt_vector;  // vector of the innermost interrupt being handled; 0 if
                             // interrupt_depth is 0
  bool interrupted_user;     // the interrupt being handled came from user mode
  uint32_t held_locks;       // number of spinlocks held
  uint64_t stamp;            // cpu_stamp(), computed in the last tick
  uint64_t held_ranks;       // bit for each lock rank held (CONFIG_LOCK_RANK_CHECK)
  // The registers that user_registers_load() loaded last on this CPU; their thread may have ended.
  const UserRegisters* user_registers;
  // Number of the last reference of a traced kind (ref.h). The lowest kStampCpuBits bits are `id`.
  uint64_t last_ref;
  RefCounts refs[kRefKinds];
  uint64_t next_tick;  // time stamp before which this CPU makes no tick (arch/x86_64/time.cc)
};

// A stamp has kStampBits bits. The lowest kStampCpuBits bits are a CPU's number. The bits above
// them are an epoch: bits 23 and up of a time since boot in milliseconds. The epoch changes every
// two hours and wraps after two years. A trace record stores a stamp and the lower 24 bits of a
// time; together they give the whole time (table_store_impl.h). A CPU updates its stamp only in a
// tick, so right after a change of the epoch the stamp still has the previous epoch. In a record
// with such a stamp, the lowest bit of the epoch differs from bit 23 of the time.
inline constexpr unsigned kStampCpuBits = 6, kStampBits = 19, kEpochShift = 23;
static_assert(kMaxCpus <= 1u << kStampCpuBits);
constexpr uint32_t cpu_stamp(CpuId id, Milliseconds time) {
  const uint32_t epoch = time.value >> kEpochShift & ((1u << (kStampBits - kStampCpuBits)) - 1);
  return epoch << kStampCpuBits | number_of(id);
}

inline Cpu& this_cpu() {
  Cpu* cpu;
  asm volatile("movq %%gs:0, %0" : "=r"(cpu));
  return *cpu;
}
// The result is stable only while the task cannot move: interrupts or preemption off.
inline CpuId cpu_id() {
  uint32_t id;
  asm volatile("movl %%gs:32, %0" : "=r"(id));
  return CpuId{id};
}
inline TaskHead* current_task_head() {
  TaskHead* task;
  asm volatile("movq %%gs:24, %0" : "=r"(task));
  return task;
}

// Like cpu_id(), but for an array index: tells the compiler that the upper half of the register is
// 0. So the compiler emits no instruction that extends the number to 64 bits.
inline CpuId cpu_id_for_index() {
  uint64_t id;
  asm volatile("movl %%gs:32, %k0" : "=r"(id));
  if (id > UINT32_MAX) __builtin_unreachable();
  return CpuId{static_cast<uint32_t>(id)};
}
inline uint64_t kernel_stack_top() {
  uint64_t top;
  asm volatile("movq %%gs:8, %0" : "=r"(top));
  return top;
}
// Returns `link`, whose stamp bits are 0, with this CPU's stamp in these bits.
inline uint64_t with_stamp(uint64_t link) {
  asm volatile("orq %%gs:%c1, %0" : "+r"(link) : "i"(offsetof(Cpu, stamp)));
  return link;
}
inline bool in_interrupt() {
  bool is;
  asm volatile("cmpl $0, %%gs:%c1" : "=@ccne"(is) : "i"(offsetof(Cpu, interrupt_depth)));
  return is;
}

// Returns the number of CPUs found and started. Their ids are 0..cpu_count()-1.
unsigned cpu_count();
inline constexpr CpuId kBootCpu{0};
// For a loop over all CPUs: for (const CpuId id : all_cpus()).
struct CpuIterator {
  uint32_t number;
  bool operator==(const CpuIterator&) const = default;
  CpuId operator*() const { return CpuId{number}; }
  CpuIterator& operator++() {
    number++;
    return *this;
  }
};
struct CpuRange {
  uint32_t count;
  CpuIterator begin() const { return {0}; }
  CpuIterator end() const { return {count}; }
};
inline CpuRange all_cpus() {
  return {cpu_count()};
}
Cpu& cpu(CpuId id);

// Keeps the current task on its CPU for the life of a scope. Interrupts stay on.
class PreemptOff {
 public:
  PreemptOff() { asm volatile("incl %%gs:%c0" ::"i"(offsetof(Cpu, preempt_off)) : "memory", "cc"); }
  ~PreemptOff() {
    asm volatile("decl %%gs:%c0" ::"i"(offsetof(Cpu, preempt_off)) : "memory", "cc");
  }
  PreemptOff(const PreemptOff&) = delete;
  PreemptOff& operator=(const PreemptOff&) = delete;
};
