// System calls on threads.
#include "proc/system_call.h"

Result<int64_t> sys_thread_create(const SystemCall&) {
  return Errno::ENOSYS;
}
Result<int64_t> sys_thread_exit(const SystemCall&) {
  return Errno::ENOSYS;
}
Result<int64_t> sys_gettid(const SystemCall&) {
  return Errno::ENOSYS;
}
Result<int64_t> sys_thread_kill(const SystemCall&) {
  return Errno::ENOSYS;
}
Result<int64_t> sys_futex(const SystemCall&) {
  return Errno::ENOSYS;
}
