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
#include <array>

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

// --- Texts.

// Prints the state of every trace. Repeats trace_status() with a larger buffer until the text fits,
// because the text may grow between two calls.
Result<void> print_trace_status(Text& text) {
  for (size_t size = TRY(trace_status(nullptr, 0)) + kPageSize;;) {
    auto* buffer = static_cast<char*>(kmalloc_bytes(size, KM_SLEEP));
    if (!buffer) return Errno::ENOMEM;
    Result<size_t> length = trace_status(buffer, size);
    const bool all = length && *length < size;
    if (all) text.append({buffer, *length});
    kfree(buffer);
    if (all) return {};
    size = TRY(std::move(length)) + kPageSize;
  }
}

Result<void> print_symbols(Text& text) {
  for (size_t i = 0; i < symbol_count(); i++) {
    const SymbolEntry symbol = symbol_entry(i);
    text.print("%016lx T %s\n", symbol.address, symbol.name);
  }
  return {};
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

// Printing makes the text grow, which allocates memory. Lines printed later then count memory that
// earlier lines do not count. For example, the line of a cache counts a new slab that the earlier
// line of the arena does not count. So the text is printed again until its memory no longer grows.
template <void (*kPrint)(Text& text)>
Result<void> print_settled(Text& text) {
  for (size_t before = SIZE_MAX; text.capacity() != before && !text.failed();) {
    before = text.capacity();
    text.clear();
    kPrint(text);
  }
  return {};
}

// Executes confirm=N: each later report then makes N searches (reach_set_looks).
Result<void> write_unreachable(void*, std::string_view text) {
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

// --- The files.

// How a file is opened, read and closed. `state` is chan.state of an open file.
struct Operations {
  // Makes the state; nullptr if only reading needs one. `node` is the source of kmemtrace/NAME.
  Result<void*> (*open)(void* node, bool for_reading);
  Result<size_t> (*read)(void* state, char* buffer, size_t size, uint64_t offset);
  void (*close)(void* state);
};

// A file whose content is made when the file is opened for reading.
template <typename T, Result<T*> (*kMake)(), size_t (*kRead)(T*, char*, size_t, uint64_t),
          void (*kFree)(T*)>
constexpr Operations kMadeAtOpen = {
    [](void*, bool for_reading) -> Result<void*> {
      if (!for_reading) return nullptr;
      return TRY(kMake());
    },
    [](void* state, char* buffer, size_t size, uint64_t offset) -> Result<size_t> {
      return kRead(static_cast<T*>(state), buffer, size, offset);
    },
    [](void* state) { kFree(static_cast<T*>(state)); },
};

template <Result<void> (*kPrint)(Text& text)>
Result<Text*> make_text() {
  return Text::make(kPrint);
}
size_t read_made_text(Text* text, char* buffer, size_t size, uint64_t offset) {
  return text->read(buffer, size, offset);
}
template <Result<void> (*kPrint)(Text& text)>
constexpr Operations kText = kMadeAtOpen<Text, make_text<kPrint>, read_made_text, Text::destroy>;

constexpr Operations kTraceDump =
    kMadeAtOpen<TraceBinaryDump, trace_binary_open, trace_binary_read, trace_binary_close>;

size_t read_report(ReachReport* report, char* buffer, size_t size, uint64_t offset) {
  return read_text(reach_report_text(report), buffer, size, offset);
}
constexpr Operations kUnreachable =
    kMadeAtOpen<ReachReport, reach_report_make, read_report, reach_report_free>;

constexpr Operations kWhatis = {
    [](void*, bool) -> Result<void*> { return TRY(MemWhatis::create()); },
    [](void* state, char* buffer, size_t size, uint64_t offset) -> Result<size_t> {
      return static_cast<MemWhatis*>(state)->read(buffer, size, offset);
    },
    [](void* state) { MemWhatis::destroy(static_cast<MemWhatis*>(state)); },
};
Result<void> write_whatis(void* state, std::string_view text) {
  return static_cast<MemWhatis*>(state)->write(text);
}

// An open file of kmemtrace/NAME.
struct OpenTrace {
  TraceSource source;                     // holds a reference
  TraceDump* dump = nullptr;              // set if the file was opened for reading
  Mutex reading{LockRank::kTraceReader};  // serialises readers of the dump
};

Result<void*> open_trace(void* node, bool for_reading) {
  void* memory = kmalloc(sizeof(OpenTrace), KM_SLEEP);
  if (!memory) return Errno::ENOMEM;
  auto* open = new (memory) OpenTrace{TraceSource::from_word(node)};
  if (!for_reading) return open;
  Result<TraceDump*> dump = trace_dump_open(open->source);
  if (!dump) {
    kfree(open);
    return dump.error();
  }
  open->dump = *dump;
  return open;
}

Result<size_t> read_trace(void* state, char* buffer, size_t size, uint64_t offset) {
  OpenTrace& open = *static_cast<OpenTrace*>(state);
  if (!open.dump) return Errno::EACCES;
  const MutexGuard guard(open.reading);
  return trace_dump_read(open.dump, buffer, size, offset);
}

void close_trace(void* state) {
  OpenTrace& open = *static_cast<OpenTrace*>(state);
  if (open.dump) trace_dump_close(open.dump);
  open.source.release();
  kfree(&open);
}

Result<void> check_trace_commands(std::string_view text) {
  return check_command_text(
      text, "start [OPTION ...], stop, reset, mark, check, nocheck or scan, one a line");
}
Result<void> write_trace(void* state, std::string_view text) {
  TRY(check_trace_commands(text));
  return trace_command(static_cast<OpenTrace*>(state)->source, text);
}
Result<void> write_trace_ctl(void*, std::string_view text) {
  TRY(check_trace_commands(text));
  return trace_command_all(text);
}

enum Directory : uint32_t { kRoot, kTraceDirectory };
struct File {
  TableEntry entry;
  Operations operations;
  Result<void> (*write)(void* state, std::string_view text) = nullptr;  // nullptr: read-only
};
constexpr File kFiles[] = {
    {{"", ABI_S_IFDIR | 0555, kRoot}, {}},
    {{"kmemtrace", ABI_S_IFDIR | 0500, kRoot}, {}},
    {{"kmemstat", ABI_S_IFREG | 0444, kRoot}, kText<print_settled<mem_print_kmemstat>>},
    {{"slab_stats", ABI_S_IFREG | 0444, kRoot}, kText<print_settled<mem_print_slab_stats>>},
    {{"arena_stats", ABI_S_IFREG | 0444, kRoot}, kText<print_settled<mem_print_arena_stats>>},
    {{"free", ABI_S_IFREG | 0444, kRoot}, kText<print_settled<mem_print_free>>},
    {{"ctl", ABI_S_IFREG | 0600, kTraceDirectory}, kText<print_trace_status>, write_trace_ctl},
    {{"tracedump", ABI_S_IFREG | 0400, kRoot}, kTraceDump},
    {{"ksyms", ABI_S_IFREG | 0400, kRoot}, kText<print_symbols>},
    {{"unreachable", ABI_S_IFREG | 0600, kRoot}, kUnreachable, write_unreachable},
    {{"references", ABI_S_IFREG | 0400, kRoot}, kText<print_references>},
    {{"whatis", ABI_S_IFREG | 0600, kRoot}, kWhatis, write_whatis},
#ifdef CONFIG_IRQ_OFF_TRACE
    {{"irqoff", ABI_S_IFREG | 0600, kRoot}, kText<mem_print_irq_off>, mem_irq_off_command},
#endif
};
// A file kmemtrace/NAME.
constexpr File kTraceFile = {{"NAME", ABI_S_IFREG | 0600, kTraceDirectory},
                             {open_trace, read_trace, close_trace},
                             write_trace};
constexpr auto kTable = [] {
  std::array<TableEntry, std::size(kFiles)> table{};
  std::ranges::transform(kFiles, table.begin(), &File::entry);
  return table;
}();

Errno no_such_trace(std::string_view name) {
  return fail(Errno::ENOENT, "no trace is called %.*s: `ls '#mem/kmemtrace'` lists them",
              static_cast<int>(name.size()), name.data());
}

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
    if (is_dynamic(chan) && !chan.is_open) return node_of(chan).release();
    file_of(chan).operations.close(chan.state);
  }

  Result<void> clone_state(Chan& chan, Chan& copy) override {
    copy.state = chan.state;
    if (is_dynamic(chan)) node_of(chan).hold();
    return {};
  }

 protected:
  Result<void> open_file(Chan& chan, uint32_t flags) override {
    chan.state =
        TRY(file_of(chan).operations.open(chan.state, (flags & ABI_O_ACCMODE) != ABI_O_WRONLY));
    return {};
  }
  Result<size_t> read_file(Chan& chan, char* buffer, size_t size, uint64_t offset) override {
    if (!chan.state) return Errno::EACCES;
    return file_of(chan).operations.read(chan.state, buffer, size, offset);
  }
  Result<size_t> write_file(Chan& chan, const char* buffer, size_t size, uint64_t) override {
    const File& file = file_of(chan);
    if (!file.write) {
      return fail(Errno::EACCES, "%s is read-only: write commands to the files of kmemtrace",
                  file.entry.name);
    }
    TRY(file.write(chan.state, {buffer, size}));
    return size;
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
    fill_stat(stat, chan.qid.path, kTraceFile.entry.mode);
    return {};
  }

  Result<void> dynamic_entry(Chan& directory, uint64_t index, abi_stat& entry,
                             char* name) override {
    if (directory.qid.path != kTraceDirectory) return Errno::ENOENT;
    for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
      if (source.is_zombie() || index-- > 0) continue;
      fill_stat(entry, path_of(source), kTraceFile.entry.mode);
      format(name, 256, "%s", source.name());
      source.release();
      return {};
    }
    return Errno::ENOENT;
  }

 private:
  static const File& file_of(const Chan& chan) {
    return is_dynamic(chan) ? kTraceFile : kFiles[chan.qid.path];
  }
  static TraceSource node_of(Chan& chan) { return TraceSource::from_word(chan.state); }

  // Returns a hash of the name (FNV-1a). The name is unique while the source exists. The address is
  // not used, because programs see the path and must not learn the address.
  static uint64_t path_of(TraceSource source) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const char* c = source.name(); *c; c++)
      hash = (hash ^ static_cast<uint8_t>(*c)) * 0x100000001b3;
    return (hash >> 1) | kDynamic;
  }
};

constinit MemDevice device;

}  // namespace

void mem_device_init() {
  device_register(&device);
}
