// #bench/rows: reading it from the beginning runs every KBENCH.
#include <atomic>

#include "arch/x86_64/frames.h"
#include "bench/bench.h"
#include "core/errstr.h"
#include "drivers/dev/devices.h"
#include "lib/format.h"
#include "ns/device.h"
#include "sched/task.h"

extern "C" const KernelBench kbenches_start[], kbenches_end[];

namespace {

enum File : uint64_t { kRoot, kRows };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, kRoot},
    {"rows", ABI_S_IFREG | 0400, kRoot},
};

// One reader at a time has the benches run.
constinit std::atomic<bool> running{false};
constinit Text* output = nullptr;

// A kernel task for the life of a call.
struct Errand {
  explicit Errand(void (*run)()) : run(run) {}
  void (*run)();
  Spinlock lock{LockRank::kDevice};
  WaitQueue done;
  bool is_done = false;
};

void do_errand(void* argument) {
  auto* errand = static_cast<Errand*>(argument);
  {
    const PreemptOff pinned;
    errand->run();
  }
  task_will_exit();
  const Guard guard(errand->lock);
  errand->is_done = true;
  errand->done.wake_all();
}

Result<void> run_in_task(void (*run)()) {
  Errand errand(run);
  Task* task = TRY(task_create("bench", do_errand, &errand));
  task_start(task);
  const Guard guard(errand.lock);
  errand.done.wait_uninterruptible(errand.lock, [&] { return errand.is_done; });
  return {};
}

Result<void> run_all(Text& text) {
  if (running.exchange(true)) return fail(Errno::EBUSY, "somebody else reads #bench/rows");
  output = &text;
  Result<void> result;
  for (const KernelBench* bench = kbenches_start; bench < kbenches_end && result; bench++) {
    if (bench->context == BenchContext::kTask) {
      result = run_in_task(bench->run);
    } else {
      bench->run();
    }
  }
  output = nullptr;
  running = false;
  return result;
}

class BenchDevice final : public TableDevice {
 public:
  constexpr BenchDevice() : TableDevice("bench", kTable) {}

  Result<size_t> read(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    auto& text = *static_cast<Text*>(chan.state);
    if (text.view().empty()) TRY(run_all(text));
    if (text.failed()) return Errno::ENOMEM;
    return text.read(buffer, size, offset);
  }
  void close(Chan& chan) override {
    if (chan.state) Text::destroy(static_cast<Text*>(chan.state));
  }

 protected:
  Result<void> open_file(Chan& chan, uint32_t) override {
    chan.state = TRY(Text::create());
    return {};
  }
};

constinit BenchDevice device;

}  // namespace

unsigned callers_of(const void* frame) {
  uint64_t callers[64];
  return 1 + static_cast<unsigned>(
                 walk_kernel_stack(reinterpret_cast<uint64_t>(frame), callers, std::size(callers)));
}

void bench_row(Cost cost, const char* pattern, ...) {
  char name[64];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(name, sizeof(name), pattern, arguments);
  va_end(arguments);
  output->print("%s %lu.%02lu\n", name, cost.hundredths / 100, cost.hundredths % 100);
}

void bench_device_init() {
  device_register(&device);
}
