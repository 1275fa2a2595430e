// What ns_init calls to register each device, in this order.
#pragma once

void root_device_init();
void null_device_init();
void random_device_init();
void cons_device_init();
void uart_device_init();
void pipe_device_init();
void tmp_device_init();
void proc_device_init();
void mem_device_init();
void probe_device_init();
void debug_device_init();
void bench_device_init();
void p9_device_init();
