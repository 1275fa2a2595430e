#include "calls.h"

namespace {

// Weights: calls that create state are more frequent than calls that return a number; calls that
// end the program are less frequent.
constexpr CallType kCalls[] = {
    {"exit", ABI_SYS_exit, "i", 1},
    {"fork", ABI_SYS_fork, "", 6},
    {"execve", ABI_SYS_execve, "pvv", 3},
    {"wait4", ABI_SYS_wait4, "qwew", 5},
    {"getpid", ABI_SYS_getpid, "", 1},
    {"getppid", ABI_SYS_getppid, "", 1},
    {"getpgid", ABI_SYS_getpgid, "q", 1},
    {"setpgid", ABI_SYS_setpgid, "qq", 3},
    {"setsid", ABI_SYS_setsid, "", 2},
    {"getids", ABI_SYS_getids, "w", 1},
    {"getgroups", ABI_SYS_getgroups, "nw", 1},
    {"setresuid", ABI_SYS_setresuid, "uuu", 1},
    {"setresgid", ABI_SYS_setresgid, "uuu", 1},
    {"brk", ABI_SYS_brk, "a", 3},
    {"mmap", ABI_SYS_mmap, "anxjfo", 8},
    {"munmap", ABI_SYS_munmap, "an", 6},
    {"open", ABI_SYS_open, "Fpkm", 24},
    {"close", ABI_SYS_close, "f", 10},
    {"read", ABI_SYS_read, "fwn", 12},
    {"write", ABI_SYS_write, "frn", 14},
    {"pread", ABI_SYS_pread, "fwno", 6},
    {"pwrite", ABI_SYS_pwrite, "frno", 6},
    {"lseek", ABI_SYS_lseek, "foh", 5},
    {"dup", ABI_SYS_dup, "f", 4},
    {"dup2", ABI_SYS_dup2, "ffd", 5},
    {"fcntl", ABI_SYS_fcntl, "fci", 10},
    {"pipe2", ABI_SYS_pipe2, "wd", 10},
    {"fstat", ABI_SYS_fstat, "fw", 4},
    {"stat", ABI_SYS_stat, "FpwE", 4},
    {"getdents", ABI_SYS_getdents, "fwn", 8},
    {"access", ABI_SYS_access, "FpiE", 2},
    {"chdir", ABI_SYS_chdir, "p", 6},
    {"fchdir", ABI_SYS_fchdir, "f", 4},
    {"getcwd", ABI_SYS_getcwd, "wn", 2},
    {"mkdir", ABI_SYS_mkdir, "Fpm", 8},
    {"fsync", ABI_SYS_fsync, "fh", 2},
    {"unlink", ABI_SYS_unlink, "FpR", 11},
    {"rename", ABI_SYS_rename, "FpFp", 8},
    {"chmod", ABI_SYS_chmod, "FpmE", 4},
    {"truncate", ABI_SYS_truncate, "po", 4},
    {"ftruncate", ABI_SYS_ftruncate, "fo", 5},
    {"umask", ABI_SYS_umask, "m", 1},
    {"bind", ABI_SYS_bind, "ptb", 8},
    {"unmount", ABI_SYS_unmount, "t", 6},
    {"ioctl", ABI_SYS_ioctl, "fzs", 4},
    {"kill", ABI_SYS_kill, "qg", 8},
    {"sigaction", ABI_SYS_sigaction, "gsw", 8},
    {"sigprocmask", ABI_SYS_sigprocmask, "hsw", 4},
    {"sigsuspend", ABI_SYS_sigsuspend, "s", 1},
    {"sigreturn", ABI_SYS_sigreturn, "", 1},
    {"nanosleep", ABI_SYS_nanosleep, "zlTw", 2},
    {"clock_gettime", ABI_SYS_clock_gettime, "zww", 1},
    {"times", ABI_SYS_times, "ww", 1},
    {"errstr", ABI_SYS_errstr, "wn", 2},
    {"uname", ABI_SYS_uname, "w", 1},
    {"getentropy", ABI_SYS_getentropy, "wn", 2},
    {"yield", ABI_SYS_yield, "", 2},
    {"poll", ABI_SYS_poll, "slTs", 6},
    {"fd2path", ABI_SYS_fd2path, "fwn", 3},
    {"setgroups", ABI_SYS_setgroups, "nr", 1},
    {"set_tls", ABI_SYS_set_tls, "a", 1},
    {"sigpending", ABI_SYS_sigpending, "w", 1},
    {"sigtimedwait", ABI_SYS_sigtimedwait, "swT", 2},
    {"sigqueue", ABI_SYS_sigqueue, "qgi", 4},
    {"sigaltstack", ABI_SYS_sigaltstack, "Aw", 2},
    {"setitimer", ABI_SYS_setitimer, "hIw", 3},
    {"timer_create", ABI_SYS_timer_create, "zN", 5},
    {"timer_settime", ABI_SYS_timer_settime, "hlIw", 5},
    {"timer_gettime", ABI_SYS_timer_gettime, "hw", 1},
    {"timer_overrun", ABI_SYS_timer_overrun, "h", 1},
    {"timer_delete", ABI_SYS_timer_delete, "h", 3},
    {"clock_settime", ABI_SYS_clock_settime, "hT", 1},
    {"waitid", ABI_SYS_waitid, "hqwew", 3},
    {"rlimit", ABI_SYS_rlimit, "zUw", 2},
    {"getpriority", ABI_SYS_getpriority, "hq", 1},
    {"setpriority", ABI_SYS_setpriority, "hqi", 1},
    {"chown", ABI_SYS_chown, "FpuuE", 4},
    {"utimens", ABI_SYS_utimens, "FpTE", 4},
    {"link", ABI_SYS_link, "FpFpE", 8},
    {"symlink", ABI_SYS_symlink, "LFp", 8},
    {"readlink", ABI_SYS_readlink, "Fpwn", 4},
    {"mknod", ABI_SYS_mknod, "FpM", 6},
    {"statfs", ABI_SYS_statfs, "FpwE", 2},
    {"flock", ABI_SYS_flock, "fe", 4},
    {"getsid", ABI_SYS_getsid, "q", 1},
    {"thread_create", ABI_SYS_thread_create, "H", 8},
    {"thread_exit", ABI_SYS_thread_exit, "", 1},
    {"gettid", ABI_SYS_gettid, "", 1},
    {"thread_kill", ABI_SYS_thread_kill, "yg", 5},
    {"futex", ABI_SYS_futex, "hQZzT", 10},
    {"mprotect", ABI_SYS_mprotect, "anx", 4},
    {"msync", ABI_SYS_msync, "anh", 3},
    {"none", ABI_SYS_COUNT, "iiiiii", 1},
    {"again", kAgain, "G", 5},
    {"touch", kTouch, "a", 3},
    {"apart", kApart, "", 3},
};
static_assert(std::size(kCalls) == kApart + 1, "each call of abi/syscall.h, and four more");

}  // namespace

std::span<const CallType> call_types() {
  return kCalls;
}

const CallType& call_type(uint32_t number) {
  return kCalls[number];
}

const CallType* find_call(std::string_view name) {
  for (const CallType& type : kCalls) {
    if (type.name == name) return &type;
  }
  return nullptr;
}
