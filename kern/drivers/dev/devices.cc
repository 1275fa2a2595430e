#include "drivers/dev/devices.h"

void devices_init() {
  root_device_init();
  null_device_init();
  random_device_init();
  cons_device_init();
  pty_device_init();
  fd_device_init();
  uart_device_init();
  pipe_device_init();
  tmp_device_init();
  proc_device_init();
  mem_device_init();
  probe_device_init();
#ifdef CONFIG_DEBUG_DEVICE
  debug_device_init();
#endif
#ifdef CONFIG_KERNEL_BENCH
  bench_device_init();
#endif
#ifdef CONFIG_COVERAGE
  coverage_device_init();
#endif
  p9_device_init();
}
