// The accounts of users.
//
// Threads, processes, regions, open files, buffers, pipes, locks, timers and pseudo terminals are
// kernel memory that a process makes without touching a page of its own. Each is charged to the
// real user of the process that makes it, and stays on this account until it is freed. Buffers are
// texts that are made when a file is opened, and memory of system calls that sleep. The first page
// of such a call's memory belongs to the thread. Threads and processes follow their process when it
// changes its real user. A zombie keeps the charge of its last thread, so it counts for
// RLIMIT_NPROC until its parent has waited for it.
//
// Root has no limits, and is charged only for threads and processes. One other user gets at most a
// quarter of the memory for such objects, and all other users together get at most half of it: the
// rest is root's reserve. There is also a limit of objects for some kinds. The limit of processes
// leaves PIDs for others, and that of pseudo terminals leaves numbers. The limits of locks,
// timers and polled files bound searches and wake-ups. Files of #tmp have a limit and a reserve of
// their own (drivers/dev/tmp_node.cc).
//
// A charge adds first and then checks, so charges that run at once cannot exceed a limit together.
// It takes no lock. An account with no holders is idle, and user_account() may give it to another
// user, under accounts_lock. Only user_account() makes the first holder. So there are no more
// accounts than there were users at one time.
#include "proc/user_account.h"

#include <algorithm>

#include "core/errstr.h"
#include "core/spinlock.h"
#include "kmalloc.h"
#include "pages.h"
#include "proc/process_impl.h"
#include "sched/task.h"

constinit UserAccount root_account;

namespace {

struct Kind {
  const char* name;
  uint64_t bytes;  // of one object, with what hangs on it
  uint64_t most;   // of one user
  Errno error;     // when the user has too many
};

constexpr uint64_t kNoLimit = UINT64_MAX;
constexpr uint64_t kFileBytes = 1536;  // a channel, with a path of kMaxPath bytes
// In the order of Charged.
constexpr Kind kKinds[kChargedKinds] = {
    {"threads", kKernelStackSize + sizeof(Task) + 2 * kPageSize, kNoLimit, Errno::EAGAIN},
    {"processes", sizeof(Process) + 2 * kPageSize, kMaxPid / 4, Errno::EAGAIN},
    {"mapped regions", sizeof(VmRegion), kNoLimit, Errno::ENOMEM},
    {"open files", kFileBytes, kNoLimit, Errno::ENFILE},
    {"bytes of buffers", 1, kNoLimit, Errno::ENOMEM},
    {"pipes", 3 * kPageSize, kNoLimit, Errno::ENFILE},
    {"file locks", 256, 1024, Errno::ENOLCK},
    {"timers", sizeof(PosixTimer), 512, Errno::EAGAIN},
    {"pseudo terminals", 4 * kPageSize, 256, Errno::ENOSPC},
    {"polled files", 0, 2048, Errno::ENOMEM},
};

constinit ObjectCache<UserAccount> account_cache;
constinit Spinlock accounts_lock{LockRank::kDevice};
constinit List<UserAccount, &UserAccount::link> accounts GUARDED_BY(accounts_lock);
// Of all users but root.
constinit std::atomic<uint64_t> users_bytes{0};
constinit std::atomic<uint64_t> users_processes{0};

const Kind& kind_of(Charged what) {
  return kKinds[static_cast<unsigned>(what)];
}

// Adds `number` objects to the account, and counts `sign` more of its holders.
void add(UserAccount& account, Charged what, int64_t number, int32_t sign) {
  const uint64_t bytes = kind_of(what).bytes * static_cast<uint64_t>(number);
  account.counts[static_cast<unsigned>(what)] += static_cast<uint64_t>(number);
  account.bytes += bytes;
  if (&account == &root_account) return;
  users_bytes += bytes;
  if (what == Charged::kProcess) users_processes += static_cast<uint64_t>(number);
  account.holders += static_cast<uint32_t>(sign);  // the last access when the charge ends
}

Result<void> check(const UserAccount& account, Charged what, uint64_t most, uint64_t number) {
  if (&account == &root_account) return {};
  const Kind& kind = kind_of(what);
  const uint64_t count = account.counts[static_cast<unsigned>(what)], memory = memory_total();
  most = std::min(most, kind.most);
  if (count > most)
    return fail(kind.error, "user %u has %lu %s, and the limit is %lu", account.uid, count - number,
                kind.name, most);
  if (account.bytes > memory / 4)
    return fail(kind.error, "the %s of user %u would need too much memory of the kernel", kind.name,
                account.uid);
  if (users_bytes > memory / 2)
    return fail(kind.error, "the users have too much memory of the kernel");
  if (what == Charged::kProcess && users_processes > kMaxPid / 2)
    return fail(kind.error, "the users have too many processes");
  return {};
}

// Returns the user's account, or else an idle one that is now the user's; nullptr if there is none.
UserAccount* find(uint32_t uid) REQUIRES(accounts_lock) {
  UserAccount* idle = nullptr;
  for (UserAccount& account : accounts) {
    if (account.uid == uid) return &account;
    if (account.holders == 0) idle = &account;
  }
  if (idle) idle->uid = uid;
  return idle;
}

}  // namespace

Result<AccountRef> user_account(uint32_t uid) {
  if (uid == 0) return AccountRef();
  {
    const Guard guard(accounts_lock);
    if (UserAccount* const account = find(uid)) return AccountRef(*account);
  }
  UserAccount* fresh = TRY(account_cache.make(KM_SLEEP));
  AccountRef found;
  {
    const Guard guard(accounts_lock);
    UserAccount* account = find(uid);  // another task may have made it meanwhile
    if (!account) {
      account = std::exchange(fresh, nullptr);
      account->uid = uid;
      accounts.push_back(*account);
    }
    found = AccountRef(*account);
  }
  if (fresh) account_cache.destroy(fresh);
  return found;
}

void Charge::end() {
  add(*account_, what_, -int64_t{number_}, -1);
}

Result<Charge> Charge::make(UserAccount& account, Charged what, uint64_t most, size_t number) {
  add(account, what, static_cast<int64_t>(number), 1);
  Charge charge(&account, what, static_cast<uint32_t>(number));
  TRY(check(account, what, most, number));
  return charge;
}

void Charge::move_to(UserAccount& account) {
  if (!account_) return;
  add(account, what_, number_, 1);
  add(*std::exchange(account_, &account), what_, -int64_t{number_}, -1);
}

bool works_for_root() {
  const Process* const process = current_process();
  return !process || process->account.is_roots();
}

Result<Charge> charge_current(Charged what, size_t number) {
  const Process* const process = current_process();
  if (!process) return Charge();
  // Other objects do not follow their process, and root has no limits.
  const bool follows = what == Charged::kThread || what == Charged::kProcess;
  if (!follows && process->account.is_roots()) return Charge();
  // Threads and zombies are what RLIMIT_NPROC limits.
  const uint64_t most =
      what == Charged::kThread ? process->limits.soft(ABI_RLIMIT_NPROC) : UINT64_MAX;
  const Guard guard(process->paths_lock);
  return Charge::make(*process->account, what, most, number);
}

uint64_t charged_bytes(Charged what) {
  return kind_of(what).bytes;
}

void user_accounts_init() {
  account_cache.init("user_account");
}
