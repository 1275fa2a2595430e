// Tests the tracer on the live system. tests/guest/trace_test.py compares dumps with planted leaks,
// and trace_proof_test.cc with an account of all objects.
#include <string_view>

#include "core/errstr.h"
#include "core/ktest.h"
#include "intern/trace_memory.h"
#include "lib/optimizer.h"
#include "tests/dump_text.h"
#include "trace/trace.h"

namespace {

[[gnu::noinline]] void* ktest_leaks(kmem_cache* cache) {
  void* object = kmem_cache_alloc(cache, KM_SLEEP);
  keep_frame();
  return object;
}

}  // namespace

// A failed allocation of any kind gives no record.
KTEST(trace_records_no_failed_allocation) {
  // While `fails` is set, the constructor fails as if there were no memory.
  static bool fails;
  fails = false;
  kmem_cache* cache = kmem_cache_create(
      "ktest_failing", 5000, 0, KMC_NOMAGAZINE, nullptr,
      [](void*, void*, int) { return fails ? 1 : 0; }, nullptr, nullptr);
  EXPECT(cache);
  if (!cache) return;
  EXPECT(trace_command(cache, "start").ok());
  void* object = kmem_cache_alloc(cache, KM_SLEEP);
  fails = true;
  EXPECT(kmem_cache_alloc(cache, KM_SLEEP) == nullptr);
  EXPECT(kmem_cache_alloc(cache, KM_ATOMIC) == nullptr);
  {
    const DumpText dump(cache);
    EXPECT(dump.number("seen ") == 1);
    EXPECT(dump.number(" live ") == 1);
    EXPECT(dump.number(" untracked ") == 0);
  }
  kmem_cache_free(cache, object);
  EXPECT(trace_command(cache, "stop\nreset").ok());
  kmem_cache_destroy(cache);
}

// The test gives its commands by the functions for C, which return errors as negative numbers.
KTEST(trace_dump_outlives_the_trace) {
  kmem_cache* cache =
      kmem_cache_create("ktest_trace", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache && kmem_trace_start(cache, "depth=5") == 0);
  if (!cache) return;
  EXPECT(kmem_trace_start(cache, "depth=6") == -static_cast<int>(Errno::EBUSY));
  void* object = ktest_leaks(cache);
  Result<TraceDump*> dump = trace_dump_open(cache);
  EXPECT(dump.ok());
  if (!dump) return;
  EXPECT(kmem_trace_stop(cache) == 0 && kmem_trace_reset(cache) == 0);
  EXPECT(!(kmem_cache_flags(cache) & (KMC_TRACED | KMC_EVER_TRACED)));
  kmem_cache_free(cache, object);
  kmem_cache_destroy(cache);
  char text[2048];
  Result<size_t> got = trace_dump_read(*dump, text, sizeof(text), 0);
  EXPECT(got.ok() && std::string_view(text, *got).find("ktest_leaks+0x") != std::string_view::npos);
  trace_dump_close(*dump);
  EXPECT(trace_memory_used() == 0);
}

// A cache that was destroyed with live objects has no file of its own, but the binary dump includes
// it.
KTEST(trace_binary_has_what_was_destroyed) {
  kmem_cache* cache = kmem_cache_create("ktest_gone", 64, 0, 0, nullptr, nullptr, nullptr, nullptr);
  EXPECT(cache && trace_command(cache, "start").ok());
  if (!cache) return;
  void* object = ktest_leaks(cache);
  kmem_cache_destroy(cache);
  const abi_tracedump_source source = take_first_source(trace_binary_open());
  EXPECT(source.live == 1 && source.flags == ABI_TRACEDUMP_ZOMBIE &&
         source.state == ABI_TRACEDUMP_RUNNING);
  kmem_cache_free(cache, object);
  // The next creation or destruction of a cache frees the destroyed one.
  kmem_cache_destroy(kmem_cache_create("ktest_next", 64, 0, 0, nullptr, nullptr, nullptr, nullptr));
  EXPECT(trace_memory_used() == 0);
}
