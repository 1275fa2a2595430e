/* Sizes of those fields of a cache that only the tracer needs. This header is for C and C++. */
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/* The tracer's bytes in a struct kmem_cache, and in a struct kmem_cpu (one for each CPU). */
extern const unsigned bench_cache_bytes, bench_cpu_bytes;

#ifdef __cplusplus
}
#endif
