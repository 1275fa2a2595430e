// Spinlocks: test and test-and-set. A lock stores the CPU number of its owner. If a lock is not
// released for a long time, the panic message names this CPU.
#include "core/spinlock.h"

#include "arch/x86_64/io.h"
#include "core/cpu.h"
#include "core/hook_lock.h"
#include "core/log.h"
#include "core/panic.h"

namespace {

constexpr uint32_t kSpinLimit = 1u << 30;

constexpr uint64_t rank_bit(LockRank rank) {
  return uint64_t{1} << static_cast<unsigned>(rank);
}

#ifdef CONFIG_LOCK_RANK_CHECK
void check_rank(const Cpu& cpu, LockRank rank) {
  // The CPU must hold no lock of this rank or a lower rank. Exception: it may hold the locks of two
  // run queues. It must take these two in order of CPU number; this order is not checked.
  uint64_t forbidden = rank_bit(rank) | (rank_bit(rank) - 1);
  if (rank == LockRank::kRunQueue) forbidden = rank_bit(rank) - 1;
  if ((cpu.held_ranks & forbidden) != 0 && !panicking()) [[unlikely]] {
    panic("lock of rank %u taken while ranks 0x%lx (bits) are held", static_cast<unsigned>(rank),
          cpu.held_ranks);
  }
}
#endif

void note_taken(Cpu& cpu, [[maybe_unused]] LockRank rank) {
  cpu.held_locks++;
#ifdef CONFIG_LOCK_RANK_CHECK
  cpu.held_ranks |= rank_bit(rank);
#endif
}

}  // namespace

void Spinlock::spin() {
  const uint32_t me = kLocked | (number_of(cpu_id()) + 1);
  for (uint32_t spins = 0;;) {
    uint32_t owner = owner_.load(std::memory_order_relaxed);
    if (is_free(owner)) {
      if (owner_.compare_exchange_weak(owner, me, std::memory_order_acquire,
                                       std::memory_order_relaxed))
        return;
      continue;
    }
    cpu_relax();
    if (++spins == kSpinLimit) [[unlikely]] {
      panic("spinlock %p of rank %u is never released; CPU %u has it", static_cast<void*>(this),
            static_cast<unsigned>(rank_), (owner & ~kLocked) - 1);
    }
  }
}

#ifdef CONFIG_LOCK_RANK_CHECK
void Spinlock::lock() {
  Cpu& cpu = this_cpu();
  check_rank(cpu, rank_);
  spin();
  note_taken(cpu, rank_);
}

void Spinlock::unlock() {
  Cpu& cpu = this_cpu();
  cpu.held_locks--;
  cpu.held_ranks &= ~rank_bit(rank_);
  owner_.store(0, std::memory_order_release);
}
#endif

bool Spinlock::try_lock() {
  Cpu& cpu = this_cpu();
  uint32_t expected = 0;
  if (!owner_.compare_exchange_strong(expected, kLocked | (number_of(cpu.id) + 1),
                                      std::memory_order_acquire, std::memory_order_relaxed))
    return false;
  note_taken(cpu, rank_);
  return true;
}

#ifndef CONFIG_LOCK_RANK_CHECK
bool HookLock::try_lock() {
  Cpu& cpu = this_cpu();
  uint32_t owner = owner_.load(std::memory_order_relaxed);
  if (!is_free(owner) ||
      !owner_.compare_exchange_strong(owner, kLocked | (number_of(cpu.id) + 1),
                                      std::memory_order_acquire, std::memory_order_relaxed))
    return false;
  note_taken(cpu, rank());
  return true;
}
#endif

bool Spinlock::held() const {
  return owner_.load(std::memory_order_relaxed) == (kLocked | (number_of(cpu_id()) + 1));
}
