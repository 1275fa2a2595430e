// Counted objects for kernel tests, and the trace of references to them.
#pragma once

#include <atomic>
#include <new>
#include <string_view>

#include "core/ktest.h"
#include "core/ref.h"
#include "kmalloc.h"
#include "trace/trace.h"

struct Counted : RefCounted<Counted> {
  static constexpr RefKind kRefKind = RefKind::kTest;
  static void destroy(Counted* counted) {
    destroyed.fetch_add(1, std::memory_order_relaxed);
    kfree(counted);
  }
  static Ref<Counted> make() {
    void* const memory = kmalloc(sizeof(Counted), KM_SLEEP);
    EXPECT(memory);
    return Ref<Counted>::first(new (memory) Counted);
  }
  static inline constinit std::atomic<unsigned> destroyed{0};
};
inline TraceSource kind() {
  return &ref_class(RefKind::kTest);
}

// Traces a source while this object exists; by default the references to Counted objects.
class Traced {
 public:
  explicit Traced(TraceSource source = kind(), std::string_view command = "start")
      : source_(source) {
    EXPECT(trace_command(source_, command).ok());
  }
  ~Traced() { EXPECT(trace_command(source_, "stop\nreset").ok()); }
  Traced(const Traced&) = delete;
  Traced& operator=(const Traced&) = delete;

 private:
  const TraceSource source_;
};
