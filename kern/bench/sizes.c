/* The values of sizes.h. This file is in C because only C can include slab_impl.h. */
#include "bench/sizes.h"

#include "src/slab_impl.h"

const unsigned bench_cache_bytes = sizeof(((struct kmem_cache*)0)->head);
const unsigned bench_cpu_bytes = sizeof(((struct kmem_cpu*)0)->flags);
