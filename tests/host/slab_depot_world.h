// Helpers for the tests of depots. The helpers give the allocator memory, simulate CPUs by threads
// (cpus.h), and replace the trace hooks by functions that record nothing.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "arena.h"
#include "cpus.h"
#include "slab.h"

struct kmem_cache_stats stats_of(kmem_cache* cache);
struct kmem_cache_stats stats_of(const char* name);
kmem_cache* make(const char* name, size_t size, arena* source = nullptr);
std::vector<void*> allocate(kmem_cache* cache, size_t count);
void free_all(kmem_cache* cache, std::vector<void*>& objects);
// Allocates and frees `count` objects, so that they pass through the CPU's magazines.
void churn(kmem_cache* cache, size_t count);
// Fails the test unless the cache is consistent and has `live` live objects.
void expect_sound(kmem_cache* cache, uint64_t live);

class Depot : public testing::Test {
 protected:
  void TearDown() override {
    host::contend(0);
    host::fail_pages(0);
    EXPECT_EQ(host::take_log(), "");
  }
};
