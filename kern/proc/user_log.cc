#include "proc/user_log_impl.h"

#include <algorithm>
#include <utility>

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/spinlock.h"
#include "proc/process_impl.h"

namespace {

constexpr uint64_t kLine = 1000 / kLogEachSecond;  // milliseconds in which users get a line back

constinit Spinlock lines_lock{LockRank::kDevice};
// The time up to which the users' lines are used up, if each takes kLine.
constinit uint64_t used_until GUARDED_BY(lines_lock) = 0;
constinit uint64_t missing GUARDED_BY(lines_lock) = 0;

}  // namespace

bool user_log_permits(const Process& process) {
  if (process.account.is_roots()) return true;
  const uint64_t now = coarse_milliseconds().value;
  uint64_t told = 0;
  {
    const Guard guard(lines_lock);
    used_until = std::max(used_until, now);
    if (used_until - now >= kLogAtOnce * kLine) {
      missing++;
      return false;
    }
    used_until += kLine;
    told = std::exchange(missing, 0);
  }
  if (told) klog("%lu lines about programs of users are missing here", told);
  return true;
}
