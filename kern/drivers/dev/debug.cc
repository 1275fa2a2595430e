// #debug: makes the kernel misbehave on request, so that tests can check its reports.
//
//   alloc        takes commands, one per line: leak NAME N [depth=D] [size=BYTES] [irq] [atomic]
//                [stays]; free NAME N; churn NAME N; cache NAME BYTES N; destroy NAME;
//                failnext N [after=M] [process=K]. Reads as the held objects (debug_alloc.cc), the
//                failnext injection of the reading task, and the last sweep (debug_failnext.cc)
//   leaky/clean  opening it allocates an object of the cache `leaky`, closing frees the object
//   leaky/leak   opening it allocates an object of the cache `leaky`, closing forgets the object
//   crime        takes commands that misuse objects (debug_crime.cc)
//   ctl          takes one of these commands: panic; pause, which stops the machine until the host
//                has read its memory (scripts/guest --cores); hang and hang log, which hang the CPU
//                with interrupts off (debug_hang.cc); deadlock N [behind=M], which makes tasks wait
//                in a circle for each other's locks (debug_deadlock.h)
//   stacks       reads as the kernel stacks of tasks that do not run (debug_stacks.cc)
//   text         reads as the checksum of the kernel's code, which is constant while nothing is
//                probed
//
// Tests and README expect the name of the function leaky_open in traces.
#ifdef CONFIG_DEBUG_DEVICE

#include "arch/x86_64/dead_frames.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/power.h"
#include "drivers/dev/debug_alloc.h"
#include "drivers/dev/debug_crime.h"
#include "drivers/dev/debug_deadlock.h"
#include "drivers/dev/debug_failnext.h"
#include "drivers/dev/debug_hang.h"
#include "drivers/dev/debug_stacks.h"
#include "drivers/dev/devices.h"
#include "ns/device.h"
#include "probe/kernel_probes.h"
#include "slab.h"

namespace {

enum File : uint64_t {
  kRoot,
  kAlloc,
  kCrime,
  kCtl,
  kLeakyDirectory,
  kLeakyClean,
  kLeakyLeak,
  kText,
  kStacks
};
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, kRoot},
    {"alloc", ABI_S_IFREG | 0600, kRoot},
    {"crime", ABI_S_IFREG | 0200, kRoot},
    {"ctl", ABI_S_IFREG | 0200, kRoot},
    {"leaky", ABI_S_IFDIR | 0555, kRoot},
    {"clean", ABI_S_IFREG | 0400, kLeakyDirectory},
    {"leak", ABI_S_IFREG | 0400, kLeakyDirectory},
    {"text", ABI_S_IFREG | 0400, kRoot},
    {"stacks", ABI_S_IFREG | 0400, kRoot},
};

}  // namespace

// --- leaky: a device that forgets an object.

struct Leaky {
  char byte;
  char state[191];
};
static constinit kmem_cache* leaky_cache = nullptr;

[[gnu::noinline, gnu::noclone]] static Result<void> leaky_open(Chan& chan) {
  auto* leaky = static_cast<Leaky*>(kmem_cache_alloc(leaky_cache, KM_SLEEP));
  if (!leaky) return Errno::ENOMEM;
  leaky->byte = '\n';
  chan.state = leaky;
  return {};
}

static void leaky_close(Chan& chan) {
  if (chan.qid.path == kLeakyLeak) return;  // leaks on purpose
  kmem_cache_free(leaky_cache, chan.state);
}

namespace {

class DebugDevice final : public TableDevice {
 public:
  constexpr DebugDevice() : TableDevice("debug", kTable) {}

  size_t longest_command(const Chan&) const override { return kMaxCommandText; }

  void close(Chan& chan) override {
    if (!chan.state) return;
    if (has_text(chan)) {
      Text::destroy(static_cast<Text*>(chan.state));
    } else {
      leaky_close(chan);
    }
  }

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    if (!chan.state) return Errno::EACCES;
    if (has_text(chan)) return static_cast<Text*>(chan.state)->read(buffer, size, offset);
    return read_text({&static_cast<Leaky*>(chan.state)->byte, 1}, buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    switch (chan.qid.path) {
      case kAlloc: {
        const Result<void> done = debug_alloc_write({buffer, size});
        dead_frames_clear();  // so that no stale word on the stack makes a leaked object reachable
        TRY(done);
        return size;
      }
      case kCrime:
        TRY(debug_crime_write({buffer, size}));
        return size;
      case kCtl:
        TRY(control({buffer, size}));
        return size;
      default:
        return Errno::EACCES;
    }
  }
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    switch (chan.qid.path) {
      case kAlloc:
        if ((flags & ABI_O_ACCMODE) == ABI_O_WRONLY) return {};
        chan.state = TRY(Text::make([](Text& text) {
          debug_alloc_print(text);
          debug_failnext_print(text);
        }));
        return {};
      case kText:
        chan.state =
            TRY(Text::make([](Text& text) { text.print("%016lx\n", kernel_text_checksum()); }));
        return {};
      case kStacks:
        chan.state = TRY(Text::make(debug_print_stacks));
        return {};
      case kLeakyClean:
      case kLeakyLeak:
        return leaky_open(chan);
      default:
        return {};
    }
  }

 private:
  static bool has_text(const Chan& chan) {
    return chan.qid.path == kAlloc || chan.qid.path == kText || chan.qid.path == kStacks;
  }

  static Result<void> control(std::string_view text) {
    constexpr const char* kSyntax = "panic, pause, hang, hang log or deadlock N [behind=M]";
    TRY(check_command_text(text, kSyntax));
    CommandLine line;
    if (next_command(text, line)) {
      if (line.word == "panic" && line.rest.empty()) panic("requested through #debug/ctl");
      if (line.word == "pause" && line.rest.empty()) {
        power_pause();
        return {};
      }
      if (line.word == "hang" && line.rest.empty()) debug_hang();
      if (line.word == "hang" && line.rest == "log") debug_hang_in_log();
      if (line.word == "deadlock") return debug_deadlock(line.rest);
    }
    return fail(Errno::EINVAL, "expected %s", kSyntax);
  }
};

constinit DebugDevice device;

}  // namespace

void debug_device_init() {
  const auto make_cache = [](const char* name, size_t size) {
    kmem_cache* cache = kmem_cache_create(name, size, 0, 0, nullptr, nullptr, nullptr, nullptr);
    if (!cache) panic("no memory for the cache %s", name);
    return cache;
  };
  make_cache("debug_64", 64);
  make_cache("debug_1024", 1024);
  leaky_cache = make_cache("leaky", sizeof(Leaky));
  debug_alloc_init();
  debug_failnext_init();
  device_register(&device);
}

#endif  // CONFIG_DEBUG_DEVICE
