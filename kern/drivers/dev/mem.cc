// #mem: memory use of the kernel, and the tracer's files.
//
//   kmemstat              arenas as a tree, caches under the arena that their slabs come from
//   slab_stats            counts of each cache
//   arena_stats           counts of each arena, and its free segments by size
//   free                  totals of memory, and of the page cache
//   kmemtrace/NAME        the trace of NAME, which is a cache, an arena or a class of references.
//                         Reads as a dump taken at open; takes commands
//   kmemtrace/ctl         reads as the states of all traces; takes commands for all traces
//                         (trace_command_all)
//   tracedump             all traces in binary, as they were at open (abi/tracedump.h)
//   ksyms                 the kernel's functions: address and name, a line each
//   unreachable           unreachable objects, and tasks that wait for each other's locks, found
//                         when the file is opened; takes `confirm=N` (reach/reach.h)
//   whatis                takes an address; then reads as a description of it (mem_whatis.h)
//   references            where each traced reference lies, found when the file is
//                         opened (trace/dump/ref_places.h)
//   irqoff                the longest stretches with interrupts off; takes `reset`, which clears
//                         the recorded stretches (mem_irq_off.cc, Kconfig IRQ_OFF_TRACE)
//
// A text is made when the file is opened, and belongs to the open file. So a program that reads the
// text in small pieces sees the state of one moment. The files kmemtrace/NAME are dynamic. A
// channel to such a file holds a reference to the cache or arena, so the structure exists as long
// as the channel, even if the cache or arena is destroyed. Destroyed caches and arenas are not
// listed, but their open files stay usable.
//
// Files that everyone may read show no kernel addresses.
#include <algorithm>

#include "core/errstr.h"
#include "core/symbols.h"
#include "drivers/dev/devices.h"
#include "drivers/dev/mem_irq_off.h"
#include "drivers/dev/mem_stats.h"
#include "drivers/dev/mem_whatis.h"
#include "kmalloc.h"
#include "lib/format.h"
#include "lib/string.h"
#include "ns/device.h"
#include "reach/reach.h"
#include "sched/task.h"
#include "slab.h"
#include "trace/dump/ref_places.h"
#include "trace/trace.h"

namespace {

enum File : uint64_t {
  kRoot,
  kKmemstat,
  kSlabStats,
  kArenaStats,
  kFree,
  kTraceDirectory,
  kTraceCtl,
  kTraceDump,
  kKsyms,
  kUnreachable,
  kReferences,
  kWhatis,
  kIrqOff,  // must be the last, since not every configuration has it
};
constexpr TableEntry kTable[] = {
    {"", ABI_S_IFDIR | 0555, kRoot},
    {"kmemstat", ABI_S_IFREG | 0444, kRoot},
    {"slab_stats", ABI_S_IFREG | 0444, kRoot},
    {"arena_stats", ABI_S_IFREG | 0444, kRoot},
    {"free", ABI_S_IFREG | 0444, kRoot},
    {"kmemtrace", ABI_S_IFDIR | 0500, kRoot},
    {"ctl", ABI_S_IFREG | 0600, kTraceDirectory},
    {"tracedump", ABI_S_IFREG | 0400, kRoot},
    {"ksyms", ABI_S_IFREG | 0400, kRoot},
    {"unreachable", ABI_S_IFREG | 0600, kRoot},
    {"references", ABI_S_IFREG | 0400, kRoot},
    {"whatis", ABI_S_IFREG | 0600, kRoot},
#ifdef CONFIG_IRQ_OFF_TRACE
    {"irqoff", ABI_S_IFREG | 0600, kRoot},
#endif
};
constexpr uint32_t kTraceFileMode = ABI_S_IFREG | 0600;

// --- The tracer's files.

// Prints the state of every trace. Repeats trace_status() with a larger buffer until the text fits,
// because the text may grow between two calls.
Result<void> print_trace_status(Text& text) {
  for (size_t size = TRY(trace_status(nullptr, 0)) + kPageSize;;) {
    auto* buffer = static_cast<char*>(kmalloc(size, KM_SLEEP));
    if (!buffer) return Errno::ENOMEM;
    Result<size_t> length = trace_status(buffer, size);
    const bool all = length && *length < size;
    if (all) text.append({buffer, *length});
    kfree(buffer);
    if (all) return {};
    size = TRY(std::move(length)) + kPageSize;
  }
}

void print_symbols(Text& text) {
  for (size_t i = 0; i < symbol_count(); i++) {
    const SymbolEntry symbol = symbol_entry(i);
    text.print("%016lx T %s\n", symbol.address, symbol.name);
  }
}

// Prints a line for each reference. The stack is given by its id in #mem/tracedump.
Result<void> print_references(Text& text) {
  RefPlaces places;
  TRY(trace_ref_finder()(places, nullptr));
  const auto found = std::ranges::count_if(places.all(), &RefPlaces::Entry::is_found);
  text.print("references %lu nowhere %lu\n", places.all().size(), places.all().size() - found);
  for (const RefPlaces::Entry& entry : places.all()) {
    char place[RefPlaces::kText];
    places.format(place, sizeof(place), entry.place);
    text.print("%s 0x%lx stack %u %s\n", ref_class(entry.kind).name, entry.object,
               number_of(entry.stack), place);
  }
  return {};
}

// Executes confirm=N: each later report then makes N searches (reach_set_looks).
Result<void> unreachable_command(std::string_view text) {
  constexpr std::string_view kConfirm = "confirm=";
  TRY(check_command_text(text, "confirm=N"));
  CommandLine line;
  uint64_t looks;
  if (next_command(text, line) && line.rest.empty() && line.word.starts_with(kConfirm)) {
    const std::string_view number = line.word.substr(kConfirm.size());
    if (parse_number(number, 1, kReachMaxLooks, &looks) &&
        reach_set_looks(static_cast<unsigned>(looks)))
      return {};
  }
  return fail(Errno::EINVAL, "expected confirm=N, from 1 to %u", kReachMaxLooks);
}

// An open file of kmemtrace/NAME.
struct OpenTrace {
  TraceSource source;                     // holds a reference
  TraceDump* dump = nullptr;              // set if the file was opened for reading
  Mutex reading{LockRank::kTraceReader};  // serialises readers of the dump
};

class MemDevice final : public TableDevice {
 public:
  constexpr MemDevice() : TableDevice("mem", kTable) {}

  // No files can be created. A shell's `> NAME` calls this function if kmemtrace has no file NAME.
  // The function then sets the same error string as dynamic_walk().
  Result<Ref<Chan>> create(Chan& directory, std::string_view name, uint32_t, uint32_t,
                           const Credentials&) override {
    if (directory.qid.path == kTraceDirectory) return no_such_trace(name);
    return Errno::EPERM;
  }

  size_t longest_command(const Chan&) const override { return kMaxCommandText; }

  void close(Chan& chan) override {
    if (!chan.state) return;
    if (chan.qid.path == kTraceDump) {
      trace_binary_close(binary_of(chan));
    } else if (chan.qid.path == kUnreachable) {
      reach_report_free(reach_of(chan));
    } else if (chan.qid.path == kWhatis) {
      MemWhatis::destroy(&whatis_of(chan));
    } else if (!is_dynamic(chan)) {
      Text::destroy(&text_of(chan));
    } else if (chan.is_open) {
      close_trace(open_of(chan));
    } else {
      node_of(chan).release();
    }
  }

  Result<void> clone_state(Chan& chan, Chan& copy) override {
    copy.state = chan.state;
    if (is_dynamic(chan)) node_of(chan).hold();
    return {};
  }

 protected:
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    if (!is_dynamic(chan)) {
      if (!chan.state) return Errno::EACCES;
      if (chan.qid.path == kTraceDump)
        return trace_binary_read(binary_of(chan), buffer, size, offset);
      if (chan.qid.path == kUnreachable)
        return read_text(reach_report_text(reach_of(chan)), buffer, size, offset);
      if (chan.qid.path == kWhatis) return whatis_of(chan).read(buffer, size, offset);
      return text_of(chan).read(buffer, size, offset);
    }
    OpenTrace& open = open_of(chan);
    if (!open.dump) return Errno::EACCES;
    const MutexGuard guard(open.reading);
    return trace_dump_read(open.dump, buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    if (chan.qid.path == kIrqOff) {
      TRY(mem_irq_off_command({buffer, size}));
      return size;
    }
    if (chan.qid.path == kUnreachable) {
      TRY(unreachable_command({buffer, size}));
      return size;
    }
    if (chan.qid.path == kWhatis) {
      TRY(whatis_of(chan).write({buffer, size}));
      return size;
    }
    if (!is_dynamic(chan) && chan.qid.path != kTraceCtl) {
      return fail(Errno::EACCES, "%s is read-only: write commands to the files of kmemtrace",
                  kTable[chan.qid.path].name);
    }
    const std::string_view text(buffer, size);
    TRY(check_command_text(
        text, "start [KEY=N ...], stop, reset, mark, check, nocheck or scan, one a line"));
    if (is_dynamic(chan)) {
      TRY(trace_command(open_of(chan).source, text));
    } else {
      TRY(trace_command_all(text));
    }
    return size;
  }
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    const bool for_reading = (flags & ABI_O_ACCMODE) != ABI_O_WRONLY;
    if (is_dynamic(chan)) return open_trace(chan, for_reading);
    if (chan.qid.path == kWhatis) {
      chan.state = TRY(MemWhatis::create());
      return {};
    }
    if (!for_reading) return {};
    if (chan.qid.path == kTraceDump) {
      chan.state = TRY(trace_binary_open());
      return {};
    }
    if (chan.qid.path == kUnreachable) {
      chan.state = TRY(reach_report_make());
      return {};
    }
    Text* const text = TRY(Text::create());
    Result<void> made = fill(chan.qid.path, *text);
    if (made && text->failed()) made = Errno::ENOMEM;
    if (!made) {
      Text::destroy(text);
      return made;
    }
    chan.state = text;
    return {};
  }

  Result<void> dynamic_walk(Chan& directory, std::string_view name, Chan& chan) override {
    if (directory.qid.path != kTraceDirectory) return Errno::ENOENT;
    const TraceSource source = TraceSource::find(name);
    if (!source) return no_such_trace(name);
    chan.qid = {.path = path_of(source), .version = 0, .directory = false};
    chan.state = source.word();
    return {};
  }

  Result<void> dynamic_stat(Chan& chan, abi_stat& stat) override {
    fill_stat(stat, chan.qid.path, kTraceFileMode);
    return {};
  }

  Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry,
                             char* name) override {
    if (directory.qid.path != kTraceDirectory) return Errno::ENOENT;
    for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
      if (source.is_zombie() || index-- > 0) continue;
      fill_stat(entry, path_of(source), kTraceFileMode);
      format(name, 256, "%s", source.name());
      source.release();
      return {};
    }
    return Errno::ENOENT;
  }

 private:
  static Text& text_of(Chan& chan) { return *static_cast<Text*>(chan.state); }
  static TraceBinaryDump* binary_of(Chan& chan) {
    return static_cast<TraceBinaryDump*>(chan.state);
  }
  static ReachReport* reach_of(Chan& chan) { return static_cast<ReachReport*>(chan.state); }
  static MemWhatis& whatis_of(Chan& chan) { return *static_cast<MemWhatis*>(chan.state); }
  static TraceSource node_of(Chan& chan) { return TraceSource::from_word(chan.state); }
  static OpenTrace& open_of(Chan& chan) { return *static_cast<OpenTrace*>(chan.state); }

  static Errno no_such_trace(std::string_view name) {
    return fail(Errno::ENOENT, "no trace is called %.*s: `ls '#mem/kmemtrace'` lists them",
                static_cast<int>(name.size()), name.data());
  }

  // Returns a hash of the name (FNV-1a). The name is unique while the source exists. The address is
  // not used, because programs see the path and must not learn the address.
  static uint64_t path_of(TraceSource source) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char* c = source.name(); *c; c++)
      hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001b3;
    return (hash >> 1) | kDynamic;
  }

  static Result<void> open_trace(Chan& chan, bool for_reading) {
    void* memory = kmalloc(sizeof(OpenTrace), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    auto* open = new (memory) OpenTrace{node_of(chan)};
    if (for_reading) {
      Result<TraceDump*> dump = trace_dump_open(open->source);
      if (!dump) {
        kfree(open);
        return dump.error();
      }
      open->dump = *dump;
    }
    chan.state = open;
    return {};
  }

  static void close_trace(OpenTrace& open) {
    if (open.dump) trace_dump_close(open.dump);
    open.source.release();
    kfree(&open);
  }

  // Printing makes the text grow, which allocates memory. Lines printed later then count memory
  // that earlier lines do not count. For example, the line of a cache counts a new slab that the
  // earlier line of the arena does not count. So the text is printed again until its memory no
  // longer grows.
  static void fill_settled(Text& text, void (*print)(Text& text)) {
    for (size_t before = SIZE_MAX; text.capacity() != before && !text.failed();) {
      before = text.capacity();
      text.clear();
      print(text);
    }
  }

  static Result<void> fill(uint64_t file, Text& text) {
    switch (file) {
      case kKmemstat:
        fill_settled(text, mem_print_kmemstat);
        return {};
      case kSlabStats:
        fill_settled(text, mem_print_slab_stats);
        return {};
      case kArenaStats:
        fill_settled(text, mem_print_arena_stats);
        return {};
      case kFree:
        fill_settled(text, mem_print_free);
        return {};
      case kTraceCtl:
        return print_trace_status(text);
      case kKsyms:
        print_symbols(text);
        return {};
      case kReferences:
        return print_references(text);
      case kIrqOff:
        return mem_print_irq_off(text);
      default:
        return Errno::EACCES;
    }
  }
};

constinit MemDevice device;

}  // namespace

void mem_device_init() {
  device_register(&device);
}
