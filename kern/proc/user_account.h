// The accounts of users: what the kernel holds on behalf of each user. The theory is in
// proc/user_account.cc.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "lib/list.h"
#include "lib/result.h"

// The kinds of objects that are charged to a user.
enum class Charged : uint8_t {
  kThread,
  kProcess,
  kRegion,
  kFile,
  kBufferByte,
  kPipe,
  kLock,
  kTimer,
  kPty,
  kPollWaiter,
  kKinds
};
inline constexpr unsigned kChargedKinds = static_cast<unsigned>(Charged::kKinds);

struct UserAccount {
  uint32_t uid = 0;
  // Charges and AccountRefs. Without any, another user may get the account.
  std::atomic<uint32_t> holders{0};
  std::atomic<uint64_t> counts[kChargedKinds] = {};
  std::atomic<uint64_t> bytes{0};  // kernel memory of all charges
  // Used by the search for a victim when memory runs out. Under process_lock.
  uint64_t memory_found = 0;
  ListNode link;
};
// The account of user 0, which has no limits.
extern UserAccount root_account;

// Holds an account. The default is root's.
class AccountRef {
 public:
  AccountRef() = default;
  explicit AccountRef(UserAccount& account) : account_(&account) { account.holders++; }
  AccountRef(const AccountRef& other) : account_(other.account_) { account_->holders++; }
  AccountRef(AccountRef&& other) noexcept { std::swap(account_, other.account_); }
  AccountRef& operator=(AccountRef other) noexcept {
    std::swap(account_, other.account_);
    return *this;
  }
  ~AccountRef() {
    if (account_ != &root_account) account_->holders--;
  }
  bool is_roots() const { return account_ == &root_account; }
  UserAccount& operator*() const { return *account_; }
  UserAccount* operator->() const { return account_; }

 private:
  UserAccount* account_ = &root_account;
};

// Returns the account of user `uid`, and makes it if the user has none. ENOMEM. May sleep.
Result<AccountRef> user_account(uint32_t uid);

// One object, or several of a kind, that are charged to a user. The destructor takes them off the
// account.
class Charge {
 public:
  Charge() = default;  // nothing is charged
  Charge(Charge&& other) noexcept
      : account_(std::exchange(other.account_, nullptr)),
        what_(other.what_),
        number_(other.number_) {}
  Charge& operator=(Charge&& other) noexcept {
    std::swap(account_, other.account_);
    std::swap(what_, other.what_);
    std::swap(number_, other.number_);
    return *this;
  }
  ~Charge() {
    if (account_) end();
  }

  // Charges `number` objects to the account, if the account then has no more than `most` of this
  // kind. The errors are those of charge_current(). Any context but NMI.
  static Result<Charge> make(UserAccount& account, Charged what, uint64_t most = UINT64_MAX,
                             size_t number = 1);
  // Moves the charge to another account, whose limits do not matter.
  void move_to(UserAccount& account);

 private:
  void end();
  Charge(UserAccount* account, Charged what, uint32_t number)
      : account_(account), what_(what), number_(number) {}

  UserAccount* account_ = nullptr;
  Charged what_{};
  uint32_t number_ = 0;
};

// Charges objects to the real user of the current process. A kernel task is charged nothing. EAGAIN
// (thread, process, timer), ENOMEM (region, buffer, poll waiter), ENFILE (open file, pipe), ENOLCK
// (lock), ENOSPC (pseudo terminal) if the user has reached a limit. The caller holds no spinlock.
Result<Charge> charge_current(Charged what, size_t number = 1);
// True if the current task works for root: its process's real user is root, or it has no process.
bool works_for_root();
// The kernel memory of an object, in bytes; an estimate.
uint64_t charged_bytes(Charged what);

// Makes the cache of accounts. Called once, at boot.
void user_accounts_init();
