/* C and C++. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* The tracer's bytes in a kmem_cache, and in its part for each CPU. */
extern const unsigned bench_cache_bytes, bench_cpu_bytes;

#ifdef __cplusplus
}
#endif
