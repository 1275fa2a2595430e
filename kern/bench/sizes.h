/* C and C++. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of a kmem_cache, and of its part for each CPU, that are the tracer's. */
extern const unsigned bench_cache_bytes, bench_cpu_bytes;

#ifdef __cplusplus
}
#endif
