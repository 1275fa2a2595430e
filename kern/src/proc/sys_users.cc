// System calls on users and groups: the ids of a process.
//
// A process has a real user (who started it), an effective one (whose rights it has) and a saved
// one (which a set-user-id program may become again), and the same for groups. Without root's
// rights it may set each of the three to the value of any of them. The C library implements the
// other calls (setuid, seteuid, setreuid) with this one.
#include <algorithm>

#include "proc/system_call.h"

namespace {

constexpr uint32_t kUnchanged = UINT32_MAX;

// The three ids of one kind.
struct Ids {
  uint32_t &real, &effective, &saved;

  bool has(uint32_t id) const { return id == real || id == effective || id == saved; }
};

// EPERM.
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

// The credentials change with both locks held, so either lock is enough to read them.
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
  const Guard guard(process_lock);
  const Guard paths_guard(call.process.paths_lock);
  Credentials& who = call.process.who;
  return set_ids(call, who.uid == 0, {who.real_uid, who.uid, who.saved_uid});
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
