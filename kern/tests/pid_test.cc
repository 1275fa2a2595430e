// Numbers of processes, and of groups and sessions that outlive the process with their number.
#include "core/ktest.h"
#include "kmalloc.h"
#include "proc/pid_numbers_impl.h"

KTEST(pid_numbers_in_use_are_not_given_again) {
  auto made = Scratch<PidNumbers>::make();
  EXPECT(made);
  if (!made) return;
  PidNumbers& numbers = **made;
  for (uint32_t number = 1; number <= kMaxPid; number++) {
    Result<uint32_t> taken = numbers.take();
    EXPECT(taken && *taken == number);
  }
  EXPECT(numbers.wraps() == 0 && !numbers.take() && numbers.take().error() == Errno::EAGAIN);
  // The process with the number 700 ends. Its group and its session have another member each.
  numbers.add_user(700);
  numbers.add_user(700);
  numbers.drop_user(700);
  EXPECT(!numbers.take());
  numbers.drop_user(700);
  EXPECT(!numbers.take());
  numbers.drop_user(700);
  EXPECT(*numbers.take() == 700 && numbers.wraps() == 1);
  // The search goes on after the number that was given last, and begins again at 1.
  for (const uint32_t number : {1u, 699u, 702u, kMaxPid}) numbers.drop_user(number);
  for (const uint32_t number : {702u, kMaxPid, 1u, 699u}) EXPECT(*numbers.take() == number);
  EXPECT(numbers.wraps() == 2 && !numbers.take());
}

KTEST(pid_numbers_are_listed_in_order) {
  auto made = Scratch<PidNumbers>::make();
  EXPECT(made);
  if (!made) return;
  PidNumbers& numbers = **made;
  EXPECT(numbers.next_used(0) == 0 && numbers.next_used(kMaxPid) == 0);
  for (uint32_t number = 1; number <= kMaxPid; number++) EXPECT(numbers.take());
  for (uint32_t number = 1; number <= kMaxPid; number++)
    if (number != 1 && number != 63 && number != 64 && number != kMaxPid) numbers.drop_user(number);
  EXPECT(numbers.next_used(0) == 1 && numbers.next_used(1) == 63 && numbers.next_used(63) == 64);
  EXPECT(numbers.next_used(64) == kMaxPid && numbers.next_used(kMaxPid) == 0);
}
