// Futexes (Franke, Russell, Kirkwood: Fuss, Futexes and Furwocks, 2002): a lock of the C library is
// a word in user memory, and the library changes the word without a system call. The library calls
// the kernel only to wait, or to wake waiting threads.
//
// A waiting thread has a Waiter on its kernel stack, so waiting allocates nothing. A hash of the
// word's key selects one of kBuckets lists for the Waiter. Each list is in order of arrival.
//
// A waiter first enters its list and then checks the word. The check does not hold the list's lock,
// because the access to the word may fault and sleep. The program changes the word before it asks
// for a wake-up. So the waker finds in the list each waiter that may have read the old value. If a
// waiter is still checking the word, the waker makes it check again. If a waiter sleeps, the waker
// removes it from the list, marks it as woken and counts it. A signal or the deadline may already
// have ended the sleep of such a waiter; futex_wait returns success nevertheless. So no wake-up is
// lost, and futex_wake counts exactly the waiters that return success.
#include "proc/futex_impl.h"

#include <bit>
#include <utility>

#include "arch/x86_64/interrupts.h"
#include "core/user_memory.h"
#include "pages.h"
#include "proc/process_impl.h"

namespace {

constexpr size_t kBuckets = 256;
constexpr uint64_t kWord = sizeof(uint32_t);

// The key of a word: its address in `space`. If `space` is nullptr, `address` is the word's
// physical address, and a PagePin keeps the page.
struct Key {
  const AddressSpace* space;
  uint64_t address;
  bool operator==(const Key&) const = default;
};

struct Waiter {
  explicit Waiter(const Key& word) : key(word) {}
  Key key;
  bool asleep = false;  // the word had the expected value, so the waiter sleeps
  bool woken = false;
  bool checks_again = false;  // a wake-up came while the waiter checked the word
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

// `pin` lives as long as the key is used. Otherwise another process might get the page, and a
// wake-up of its waiters might go to a waiter of the page's former user.
Result<Key> key_of(AddressSpace& space, uint64_t address, FutexScope scope, PagePin& pin) {
  if (address % kWord != 0) return Errno::EINVAL;
  if (address >= kUserEnd) return Errno::EFAULT;
  if (scope == FutexScope::kProcess) return Key{&space, address};
  const PhysAddr word = TRY(space.physical(address, &pin));
  return pin ? Key{nullptr, word.value} : Key{&space, address};  // no pin: private memory
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
    TRY(copy_from_user(&pair, address, kWord));  // makes the page present
  }
}

}  // namespace

Result<void> futex_wait(AddressSpace& space, uint64_t address, FutexScope scope, uint32_t value,
                        Nanoseconds deadline) {
  PagePin pin;
  Waiter waiter(TRY(key_of(space, address, scope, pin)));
  Bucket& bucket = bucket_of(waiter.key);
  {
    const Guard guard(bucket.lock);
    bucket.waiters.push_back(waiter);
  }
  for (;;) {
    Result<uint32_t> found = load(address);
    const Guard guard(bucket.lock);
    if (std::exchange(waiter.checks_again, false)) continue;
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
}

Result<uint32_t> futex_wake(AddressSpace& space, uint64_t address, FutexScope scope,
                            uint32_t count) {
  PagePin pin;
  const Key key = TRY(key_of(space, address, scope, pin));
  Bucket& bucket = bucket_of(key);
  uint32_t woken = 0;
  const Guard guard(bucket.lock);
  for (Waiter& waiter : bucket.waiters) {
    if (woken == count) break;
    if (waiter.key != key) continue;
    if (!waiter.asleep) {
      waiter.checks_again = true;
      continue;
    }
    waiter.link.unlink();
    waiter.woken = true;
    waiter.queue.wake_one();
    woken++;
  }
  return woken;
}
