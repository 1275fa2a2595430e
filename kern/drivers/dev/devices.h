// Registers all devices.
#pragma once

// Registers all devices. Called once, after ns_init.
void devices_init();

// Called by devices_init, in this order.
void root_device_init();
void null_device_init();
void random_device_init();
void cons_device_init();
void pty_device_init();
void fd_device_init();
void uart_device_init();
void pipe_device_init();
void tmp_device_init();
void proc_device_init();
void mem_device_init();
void probe_device_init();
void debug_device_init();
void bench_device_init();
void coverage_device_init();
void p9_device_init();
