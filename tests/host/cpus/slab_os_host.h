/* The host's part of slab_os.h: threads are CPUs, and a signal is the interrupt. C and C++.
 *
 * With interrupts off the signal's handler only notes the signal and returns; it is delivered when
 * they are on again.
 *
 * Under ThreadSanitizer, which must see the order of the accesses of two threads, a thread with
 * interrupts off holds a mutex of the CPU (sections.cc).
 */
#pragma once

#define SLAB_OS_MAX_CPUS 8

struct slab_os_lock {
  uint32_t words[2];
};

struct host_cpu {
  unsigned id;
  volatile int interrupts_off;
  volatile int pending;
  unsigned sections_left; /* until an interrupt is taken when interrupts are turned on, as if it had
                           * come before; 0: none */
  unsigned place;         /* a test's value for the code that the CPU runs: plays a stack */
};
extern __thread struct host_cpu host_cpu;
void host_interrupt_deliver(void);
void host_section_begin(void);
void host_section_end(void);

static inline uint64_t slab_os_irq_save(void) {
  const int were_off = host_cpu.interrupts_off;
#ifdef __SANITIZE_THREAD__
  if (!were_off) host_section_begin();
#endif
  host_cpu.interrupts_off = 1;
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  return (uint64_t)were_off;
}
static inline void slab_os_irq_restore(uint64_t were_off) {
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
  host_cpu.interrupts_off = (int)were_off;
  if (were_off) return;
#ifdef __SANITIZE_THREAD__
  host_section_end();
#endif
  if (host_cpu.sections_left && --host_cpu.sections_left == 0) host_cpu.pending = 1;
  if (host_cpu.pending) host_interrupt_deliver();
}
static inline void slab_os_count(uint64_t* counter, int64_t change) {
  __atomic_store_n(counter, *counter + (uint64_t)change, __ATOMIC_RELEASE);
}
static inline unsigned slab_os_cpu(void) {
  return host_cpu.id;
}
