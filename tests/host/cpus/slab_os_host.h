/* The host's part of slab_os.h: threads are CPUs, and a signal is the interrupt. C and C++.
 *
 * If interrupts are off, the signal handler only sets `pending`. When interrupts are turned on
 * again, host_interrupt_deliver() takes the interrupt.
 *
 * Under ThreadSanitizer a thread with interrupts off holds the mutex of its CPU, so that the
 * sanitizer sees the order of accesses on one CPU (sections.cc).
 */
#pragma once

#define SLAB_OS_MAX_CPUS 8

struct CAPABILITY("spinlock") slab_os_lock {
  uint32_t words[2];
};

struct host_cpu {
  unsigned id;
  volatile int interrupts_off;
  volatile int pending;
  /* Decremented each time that interrupts are turned on. When this counter reaches 0, an interrupt
   * is taken, as if it had come while interrupts were off. A counter that is already 0 stays 0, and
   * causes no interrupt. */
  unsigned sections_left;
  unsigned place; /* set by a test: slab_os_note_place() records it instead of a stack */
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
