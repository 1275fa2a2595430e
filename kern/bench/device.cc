// The device #bench. The first read of an open file runs every KBENCH that file_of() assigns to the
// file, and later reads get the same text.
#include <atomic>

#include "arch/x86_64/frames.h"
#include "bench/bench.h"
#include "core/errstr.h"
#include "drivers/dev/devices.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "ns/device.h"
#include "sched/task.h"

extern "C" const KernelBench kbenches_start[], kbenches_end[];

namespace {

enum File : uint64_t { kRoot, kRows, kScale, kContexts, kCpus, kRemote };
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, kRoot},      {"rows", ABI_S_IFREG | 0400, kRoot},
    {"scale", ABI_S_IFREG | 0400, kRoot}, {"contexts", ABI_S_IFREG | 0400, kRoot},
    {"cpus", ABI_S_IFREG | 0400, kRoot},  {"remote", ABI_S_IFREG | 0400, kRoot},
};

// True while a reader runs benches. Any other reader gets EBUSY, even if it shares the open file.
constinit std::atomic<bool> running{false};
constinit Text* output = nullptr;  // bench_row() appends here while `running` is true

// A function that a kernel task runs, while the caller of bench_in_task() waits for the function's
// end.
struct Errand {
  void (*run)(void*);
  void* argument;
  Spinlock lock{LockRank::kDevice};
  WaitQueue done;
  bool is_done = false;
};

void do_errand(void* argument) {
  auto* errand = static_cast<Errand*>(argument);
  {
    const Pinned pinned;
    errand->run(errand->argument);
  }
  task_will_exit();
  const Guard guard(errand->lock);
  errand->is_done = true;
  errand->done.wake_all();
}

// The open file. `text` is set when the text is complete, and stays until the file is closed.
struct Rows {
  explicit Rows(uint64_t file) : file(file) {}
  const uint64_t file;
  std::atomic<Text*> text{nullptr};
};

uint64_t file_of(BenchContext context) {
  switch (context) {
    case BenchContext::kTask:
    case BenchContext::kProcess:
      return kRows;
    case BenchContext::kTaskAtScale:
      return kScale;
    case BenchContext::kTaskOfContexts:
      return kContexts;
    case BenchContext::kTaskOnCpus:
      return kCpus;
    case BenchContext::kTaskOfTwo:
      return kRemote;
  }
  return kRows;
}

Result<Text*> run_all(uint64_t file) {
  if (file == kScale) TRY(bench_many("objects"));
  if (file == kContexts) TRY(bench_many("contexts"));
  if (file == kRemote) TRY(bench_has_two_cpus());
  Text* const text = TRY(Text::create());
  output = text;
  Result<void> result;
  for (const KernelBench* bench = kbenches_start; bench < kbenches_end && result; bench++) {
    if (file_of(bench->context) != file) continue;
    if (bench->context == BenchContext::kProcess) {
      bench->run(nullptr);
    } else {
      result = bench_in_task(bench->run, nullptr);
    }
  }
  output = nullptr;
  if (result && text->failed()) result = Errno::ENOMEM;
  if (result) return text;
  Text::destroy(text);
  return result.error();
}

// The open file's text; the first reader runs the benches.
Result<Text*> text_of(Rows& rows) {
  if (Text* const text = rows.text) return text;
  if (running.exchange(true)) return fail(Errno::EBUSY, "somebody else reads #bench");
  Text* const before = rows.text;  // another reader of this file may have run the benches
  Result<Text*> text = before ? Result<Text*>(before) : run_all(rows.file);
  if (text) rows.text = *text;
  running = false;
  return text;
}

class BenchDevice final : public TableDevice {
 public:
  constexpr BenchDevice() : TableDevice("bench", kTable) {}

  void close(Chan& chan) override {
    if (!chan.state) return;
    auto* const rows = static_cast<Rows*>(chan.state);
    Text::destroy(rows->text);
    kfree(rows);
  }

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    return TRY(text_of(*static_cast<Rows*>(chan.state)))->read(buffer, size, offset);
  }
  Result<void> open_file(Chan& chan, uint32_t) override {
    void* const memory = kmalloc(sizeof(Rows), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    chan.state = new (memory) Rows(chan.qid.path);
    return {};
  }
};

constinit BenchDevice device;

}  // namespace

Result<void> bench_in_task(void (*run)(void*), void* argument, CpuId cpu) {
  Errand errand{.run = run, .argument = argument, .done = {}};
  Task* task = TRY(task_create("bench", do_errand, &errand));
  task_start(task, cpu);
  const Guard guard(errand.lock);
  errand.done.wait_uninterruptible(errand.lock, [&] { return errand.is_done; });
  return {};
}

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
