/* The users and groups of a process. The kernel has only setresuid and setresgid, which set the
 * real, the effective and the saved id independently; the other functions are built on these. */
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <unistd.h>

#include "syscall.h"

_Static_assert(NGROUPS_MAX == ABI_GROUPS_MAX, "limits.h has the kernel's limit");
_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "as the kernel has it");

static struct abi_ids ids(void) {
  struct abi_ids result;
  SYSCALL(getids, &result);
  return result;
}

uid_t getuid(void) {
  return ids().uid;
}
uid_t geteuid(void) {
  return ids().effective_uid;
}
gid_t getgid(void) {
  return ids().gid;
}
gid_t getegid(void) {
  return ids().effective_gid;
}
int issetugid(void) {
  return ids().secure != 0;
}

int getresuid(uid_t* real, uid_t* effective, uid_t* saved) {
  struct abi_ids all = ids();
  *real = all.uid, *effective = all.effective_uid, *saved = all.saved_uid;
  return 0;
}
int getresgid(gid_t* real, gid_t* effective, gid_t* saved) {
  struct abi_ids all = ids();
  *real = all.gid, *effective = all.effective_gid, *saved = all.saved_gid;
  return 0;
}

int setresuid(uid_t real, uid_t effective, uid_t saved) {
  return (int)SYSCALL(setresuid, real, effective, saved);
}
int setresgid(gid_t real, gid_t effective, gid_t saved) {
  return (int)SYSCALL(setresgid, real, effective, saved);
}

/* For setresuid, -1 means "unchanged", so -1 is no valid id. */
static int is_no_id(uid_t id) {
  if (id != (uid_t)-1) return 0;
  errno = EINVAL;
  return 1;
}

int setuid(uid_t uid) {
  if (is_no_id(uid)) return -1;
  return geteuid() == 0 ? setresuid(uid, uid, uid) : seteuid(uid);
}
int setgid(gid_t gid) {
  if (is_no_id(gid)) return -1;
  return geteuid() == 0 ? setresgid(gid, gid, gid) : setegid(gid);
}
int seteuid(uid_t uid) {
  return is_no_id(uid) ? -1 : setresuid((uid_t)-1, uid, (uid_t)-1);
}
int setegid(gid_t gid) {
  return is_no_id(gid) ? -1 : setresgid((gid_t)-1, gid, (gid_t)-1);
}

/* Returns the saved id after setreuid or setregid; -1 if the saved id does not change. The saved id
 * becomes equal to the new effective id if the call sets the real id, or sets the effective id to a
 * value other than the real id. */
static uid_t saved_after(uid_t real_before, uid_t effective_before, uid_t real, uid_t effective) {
  if (real == (uid_t)-1 && (effective == (uid_t)-1 || effective == real_before)) return (uid_t)-1;
  return effective == (uid_t)-1 ? effective_before : effective;
}
int setreuid(uid_t real, uid_t effective) {
  struct abi_ids now = ids();
  return setresuid(real, effective, saved_after(now.uid, now.effective_uid, real, effective));
}
int setregid(gid_t real, gid_t effective) {
  struct abi_ids now = ids();
  return setresgid(real, effective, saved_after(now.gid, now.effective_gid, real, effective));
}

int getgroups(int size, gid_t groups[]) {
  return (int)SYSCALL(getgroups, size, groups);
}
int setgroups(int count, const gid_t* groups) {
  return (int)SYSCALL(setgroups, count, groups);
}
int initgroups(const char* user, gid_t group) {
  gid_t groups[NGROUPS_MAX];
  int count = NGROUPS_MAX;
  /* Groups beyond the limit are left out, as on other systems. */
  if (getgrouplist(user, group, groups, &count) < 0) count = NGROUPS_MAX;
  return setgroups(count, groups);
}
