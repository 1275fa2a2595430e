// System calls on users and groups: the ids of a process.
//
// A process has a real user (who started it), an effective user (whose rights it has) and a saved
// user (to which a set-user-id program may switch back). It also has a real, an effective and a
// saved group. A process without root's rights may set each of its user ids to one of its three
// user ids, and each of its group ids to one of its three group ids. The C library implements
// setuid, seteuid and setreuid with setresuid.
#include <algorithm>

#include "proc/system_call_impl.h"

namespace {

constexpr uint32_t kUnchanged = UINT32_MAX;

// A process's three user ids, or its three group ids.
struct Ids {
  uint32_t &real, &effective, &saved;

  bool has(uint32_t id) const { return id == real || id == effective || id == saved; }
};

// Sets the IDs if the process may do so. EPERM.
Result<int64_t> set_ids(const SystemCall& call, bool is_root, Ids ids) {
  const uint32_t wanted[3] = {call.word(0), call.word(1), call.word(2)};
  for (const uint32_t id : wanted) {
    if (id != kUnchanged && !is_root && !ids.has(id)) return Errno::EPERM;
  }
  uint32_t* const to[3] = {&ids.real, &ids.effective, &ids.saved};
  for (unsigned i = 0; i < 3; i++) {
    if (wanted[i] != kUnchanged) *to[i] = wanted[i];
  }
  return 0;
}

}  // namespace

// Process::who changes only while both process_lock and paths_lock are held, so a reader needs only
// one of the two locks.
Result<int64_t> sys_getids(const SystemCall& call) {
  const Credentials who = call.process.credentials();
  const abi_ids ids = {.uid = who.real_uid,
                       .effective_uid = who.uid,
                       .saved_uid = who.saved_uid,
                       .gid = who.real_gid,
                       .effective_gid = who.gid,
                       .saved_gid = who.saved_gid,
                       .secure = call.process.secure};
  TRY(put_user(call.arguments[0], ids));
  return 0;
}

Result<int64_t> sys_setresuid(const SystemCall& call) {
  AccountRef account;
  if (call.word(0) != kUnchanged) account = TRY(user_account(call.word(0)));
  const Guard guard(process_lock);
  Process& process = call.process;
  const Guard paths_guard(process.paths_lock);
  Credentials& who = process.who;
  const int64_t result = TRY(set_ids(call, who.uid == 0, {who.real_uid, who.uid, who.saved_uid}));
  if (call.word(0) == kUnchanged) return result;
  std::swap(process.account, account);
  process.charge.move_to(*process.account);
  for (Thread& thread : process.threads) thread.charge.move_to(*process.account);
  return result;
}

Result<int64_t> sys_setresgid(const SystemCall& call) {
  const Guard guard(process_lock);
  const Guard paths_guard(call.process.paths_lock);
  Credentials& who = call.process.who;
  return set_ids(call, who.uid == 0, {who.real_gid, who.gid, who.saved_gid});
}

Result<int64_t> sys_getgroups(const SystemCall& call) {
  const Credentials who = call.process.credentials();
  const int room = call.integer(0);
  if (room == 0) return who.group_count;
  if (room < 0 || static_cast<uint32_t>(room) < who.group_count) return Errno::EINVAL;
  TRY(copy_to_user(call.arguments[1], who.groups, who.group_count * sizeof(uint32_t)));
  return who.group_count;
}

Result<int64_t> sys_setgroups(const SystemCall& call) {
  if (call.process.credentials().uid != 0) return Errno::EPERM;
  const uint64_t count = call.arguments[0];
  if (count > ABI_GROUPS_MAX) return Errno::EINVAL;
  uint32_t groups[ABI_GROUPS_MAX] = {};
  TRY(copy_from_user(groups, call.arguments[1], count * sizeof(uint32_t)));
  const Guard guard(process_lock);
  const Guard paths_guard(call.process.paths_lock);
  Credentials& who = call.process.who;
  std::copy(groups, groups + count, who.groups);
  who.group_count = static_cast<uint32_t>(count);
  return 0;
}
