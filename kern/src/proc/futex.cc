// Futexes (Franke, Russell, Kirkwood: Fuss, Futexes and Furwocks, 2002): the C library's locks are
// words that it changes by itself. It calls the kernel only to wait, or to wake waiting threads.
//
// A waiter has a Waiter on its kernel stack, in one of kBuckets lists, chosen by a hash of the
// word's key, in order of arrival. So waiting allocates nothing and leaves nothing behind. A waiter
// enters its list before it checks the word, and checks it without the lock, since the access may
// fault and sleep. A waker changes the word first. So it is either early enough for the waiter's
// check, or finds the waiter, takes it off its list and marks it woken, even if the waiter has left
// its sleep already. No wake-up is lost or wasted: a waiter that leaves because of the word's
// value, a signal or its deadline, but was woken before, returns that it was woken. A wake does not
// count waiters that still check the word: they may find another value and not wait, while a waiter
// behind them sleeps.
#include "proc/futex.h"

#include <bit>

#include "arch/x86_64/interrupts.h"
#include "core/user_memory.h"
#include "proc/process_impl.h"

namespace {

constexpr size_t kBuckets = 256;
constexpr uint64_t kWord = sizeof(uint32_t);

// A word's key: its address in a space, or its physical address and no space.
struct Key {
  const AddressSpace* space;
  uint64_t address;
  bool operator==(const Key&) const = default;
};

struct Waiter {
  explicit Waiter(const Key& word) : key(word) {}
  Key key;
  bool asleep = false;  // the word had the value
  bool woken = false;
  WaitQueue queue;
  ListNode link;
};

struct Bucket {
  Spinlock lock{LockRank::kFutex};
  List<Waiter, &Waiter::link> waiters GUARDED_BY(lock);
};
constinit Bucket buckets[kBuckets];

Bucket& bucket_of(const Key& key) {
  constexpr uint64_t kMultiplier = 0x9e3779b97f4a7c15;  // 2^64 / golden ratio (Knuth, 6.4)
  const uint64_t word = key.address / kWord + reinterpret_cast<uint64_t>(key.space) / 64;
  return buckets[word * kMultiplier >> (64 - std::bit_width(kBuckets - 1))];
}

Result<Key> key_of(AddressSpace& space, uint64_t address, FutexScope scope) {
  if (address % kWord != 0) return Errno::EINVAL;
  if (address >= kUserEnd) return Errno::EFAULT;
  if (scope == FutexScope::kProcess) return Key{&space, address};
  return Key{nullptr, TRY(space.physical(address)).value};
}

// Loads the word, in one access. EFAULT.
Result<uint32_t> load(uint64_t address) {
  const uint64_t pair_at = align_down(address, sizeof(uint64_t));
  for (;;) {
    uint64_t pair;
    {
      const InterruptsOff off;
      if (load_user_word(pair_at, &pair))
        return static_cast<uint32_t>(pair >> (address - pair_at) * 8);
    }
    TRY(copy_from_user(&pair, address, kWord));  // brings the page
  }
}

}  // namespace

Result<void> futex_wait(AddressSpace& space, uint64_t address, FutexScope scope, uint32_t value,
                        Nanoseconds deadline) {
  Waiter waiter(TRY(key_of(space, address, scope)));
  Bucket& bucket = bucket_of(waiter.key);
  {
    const Guard guard(bucket.lock);
    bucket.waiters.push_back(waiter);
  }
  Result<uint32_t> found = load(address);
  const Guard guard(bucket.lock);
  Result<void> result = !found            ? Result<void>(found.error())
                        : *found != value ? Result<void>(Errno::EAGAIN)
                                          : Result<void>();
  waiter.asleep = static_cast<bool>(result);
  if (result)
    result = waiter.queue.wait(
        bucket.lock, [&waiter] { return waiter.woken; }, deadline);
  if (waiter.woken) return {};
  waiter.link.unlink();
  return result;
}

Result<uint32_t> futex_wake(AddressSpace& space, uint64_t address, FutexScope scope,
                            uint32_t count) {
  const Key key = TRY(key_of(space, address, scope));
  Bucket& bucket = bucket_of(key);
  uint32_t woken = 0;
  const Guard guard(bucket.lock);
  for (Waiter& waiter : bucket.waiters) {
    if (woken == count) break;
    if (waiter.key != key) continue;
    waiter.link.unlink();
    waiter.woken = true;
    waiter.queue.wake_one();
    if (waiter.asleep) woken++;
  }
  return woken;
}
