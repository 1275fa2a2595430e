// Bench: the cost of calling a function that has a probe.
#include <iterator>

#include "arch/x86_64/frames.h"
#include "bench/bench.h"
#include "probe/probe.h"
#include "probe/session.h"

namespace {

// A look-up in the tables of probe/places_impl.h starts at the first function of a block of 64
// bytes of code. The alignment makes this function always the first in its block. So the cost of
// the look-up does not depend on the code before this function.
[[gnu::noipa, gnu::aligned(64)]] void bench_probed() {}

uint32_t probed_function() {
  for (uint32_t i = 0; i < kernel_function_count(); i++) {
    if (kernel_function(i).address == reinterpret_cast<uint64_t>(bench_probed)) return i;
  }
  ASSERT(false);
  __builtin_unreachable();
}

struct Nothing final : ProbeConsumer {
  void hit(const ProbeHit&) override {}
};

// Stores the number of frames of a hit.
struct Depth final : ProbeConsumer {
  void hit(const ProbeHit& hit) override {
    depth = walk_kernel_stack(hit.frame_pointer, frames, std::size(frames));
  }
  static inline uint64_t frames[64];
  size_t depth = 0;
};

// Probes bench_probed() for a consumer, for the life of a scope.
class Probed {
 public:
  explicit Probed(ProbeConsumer& consumer, bool returns = false) : consumer_(consumer) {
    const KernelProbe probe = {probed_function(), 0, returns};
    ASSERT(kernel_probes_arm(consumer, {&probe, 1}).ok());
  }
  ~Probed() { kernel_probes_disarm(consumer_); }
  Probed(const Probed&) = delete;
  Probed& operator=(const Probed&) = delete;

 private:
  ProbeConsumer& consumer_;
};

// A probe session that counts calls of bench_probed(), with the commands that the program
// stackcount gives.
class Counted {
 public:
  Counted() : session_(ProbeSession::create().take()) {
    ASSERT(session_->command("count bench_probed\nstart", no_programs_).ok());
  }
  ~Counted() { ProbeSession::destroy(session_); }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  struct NoPrograms final : ProbeCaller {
    Result<HeldRef<Chan>> open(std::string_view) override { return Errno::ENOENT; }
    void close(HeldRef<Chan>) override {}
  } no_programs_;
  ProbeSession* const session_;
};

// Stack depth in all rows of this bench: bench_probed() and ten callers.
constexpr unsigned kFrames = 11;

Cost calls() {
  Cost cost;
  at_depth(kFrames - 1, [&]() BENCH_INLINE {
    cost = least(8, 100, [](unsigned) BENCH_INLINE { bench_probed(); });
  });
  return cost;
}

}  // namespace

KBENCH(probes, kTask) {
  bench_row(calls(), "call");
  {
    Depth consumer;
    const Probed probed(consumer);
    calls();
    ASSERT(consumer.depth == kFrames);
  }
  Nothing nothing;
  {
    const Probed probed(nothing);
    bench_row(calls(), "call_probed");
  }
  {
    const Probed probed(nothing, true);
    bench_row(calls(), "call_probed_return");
  }
  {
    const Counted counted;
    bench_row(calls(), "call_counted");
  }
}
