// Opens, reads and closes dumps of traces, for the rest of the kernel (trace.h).
#include <algorithm>
#include <atomic>
#include <new>

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/symbols.h"
#include "intern/dump_reserve.h"
#include "intern/shared_tables.h"
#include "intern/sweeper.h"
#include "intern/trace_memory.h"
#include "lib/format.h"
#include "trace/control/control.h"
#include "trace/dump/open_binary.h"
#include "trace/dump/text_impl.h"
#include "trace/trace.h"

// An open dump, in a workspace (dump_reserve.h). Its text needs the numbers of stacks and contexts,
// which must be retained in each sweep (shared_tables.h). The snapshot retains these numbers while
// it is open. When `holds_all` is true, the dump retains these numbers, and when `holds_frees` is
// true those of the stacks that have freed.
class TraceDump final : public TableUser {
 public:
  explicit TraceDump(std::span<std::byte> memory)
      : TableUser(Holds::kCopies),
        workspace(memory),
        text(memory.last(TraceText::kRoom), trace_stacks, trace_contexts) {}
  void retain(Retained& retained) override {
    if (holds_frees.load(std::memory_order_acquire)) text.retain_frees(retained);
    if (holds_all.load(std::memory_order_acquire)) text.retain(retained);
  }

  const std::span<std::byte> workspace;
  std::atomic<bool> holds_all{false}, holds_frees{false};
  // The text if the source is not traced: a few lines. off_length is 0 if the source is traced.
  size_t off_length = 0;
  char off_text[512];
  RefPlaces places;
  TraceText text;
};
static_assert(sizeof(TraceDump) <= kDumpWorkspace - TraceText::kRoom);

namespace {

TraceHeader header_of(TraceSource source) REQUIRES(trace_control) {
  TraceHeader header = {};
  format(header.name, sizeof(header.name), "%s", source.name());
  header.state = trace_state_of(source);
  header.object_size = source.object_size();
  header.of_references = source.references() != nullptr;
  return header;
}

void print_off(TraceDump& dump, const TraceHeader& header, bool can_be_traced) {
  const int length =
      can_be_traced
          ? format(
                dump.off_text, sizeof(dump.off_text),
                "kmemtrace %s state off objsize %lu\nto trace it: echo start > #mem/kmemtrace/%s\n",
                header.name, header.object_size, header.name)
          : format(dump.off_text, sizeof(dump.off_text),
                   "kmemtrace %s state off objsize %lu\nit cannot be traced: the allocator or the "
                   "tracer lives on it\n",
                   header.name, header.object_size);
  dump.off_length = static_cast<size_t>(length);
}

void become_user(TableUser& dump) REQUIRES(trace_control) {
  if (dump.is_user()) return;
  const Result<void> added = trace_users_add(dump);
  ASSERT(added.ok());  // cannot fail: the trace already uses the shared tables
}

// Moves the stack and context numbers from the snapshot to the dump. A sweep that visits the dump
// before the move, and the snapshot after the move, finds the numbers in neither. So this function
// retains the numbers itself (shared_tables.h).
void close_snapshot(TraceDump& dump) {
  dump.holds_all.store(true, std::memory_order_release);
  Retained retained(trace_stacks, trace_contexts);
  dump.text.retain(retained);
  dump.text.snapshot().close();
}

// Copies the counts of frees, unless the trace has ended meanwhile: the trace's table retains the
// numbers until the dump has them.
void copy_frees(TraceDump& dump) {
  const NumbersReading reading;
  if (!dump.text.snapshot().table().is_user()) return;
  dump.text.add_up_frees();
  dump.holds_frees.store(true, std::memory_order_release);
}

// Opens a snapshot of the source's trace. False if the source is not traced. If the trace ends
// before the snapshot is opened, starts again, because another trace may have begun.
Result<bool> open_snapshot(TraceDump& dump, TraceSource source) {
  TraceText& text = dump.text;
  for (;;) {
    {
      const MutexGuard guard(trace_control);
      text.header = header_of(source);
      TraceTable* const table = trace_table_of(source);
      if (!table) return false;
      become_user(dump);
      text.snapshot().choose(*table);
    }
    const Result<void> opened = text.snapshot().open();
    if (!opened && opened.error() != Errno::ENOENT) return opened.error();
    if (!opened) continue;
    const MutexGuard guard(trace_control);
    if (trace_table_of(source) == &text.snapshot().table()) text.header = header_of(source);
    return true;
  }
}

// If the source is a class of references, searches memory for the traced references. Finds none if
// the source is not traced any more.
void find_places(TraceDump& dump, TraceSource source) {
  const RefFinder finder = trace_ref_finder();
  if (!source.references() || !finder) return;
  if (finder(dump.places, source.references())) {
    dump.text.places = &dump.places;
  } else {
    dump.text.places_missing = true;
  }
}

Result<void> make_text(TraceDump& dump, TraceSource source) {
  TraceText& text = dump.text;
  if (!TRY(open_snapshot(dump, source))) {
    print_off(dump, text.header, source.can_be_traced());
    return {};
  }
  text.header.objects = source.live();
  text.make(coarse_milliseconds());
  copy_frees(dump);
  if (!text.needs_snapshot()) close_snapshot(dump);
  find_places(dump, source);
  return {};
}

void destroy(TraceDump* dump) {
  const std::span<std::byte> workspace = dump->workspace;
  if (dump->is_user()) trace_users_drop(*dump);
  dump->~TraceDump();
  dump_workspace_give_back(workspace);
}

uint32_t kind_of(TraceSource source) {
  if (source.references()) return ABI_TRACEDUMP_REFERENCES;
  return source.cache() ? ABI_TRACEDUMP_CACHE : ABI_TRACEDUMP_ARENA;
}

Result<void> choose_all(TraceBinaryDump& dump) REQUIRES(trace_control) {
  uint32_t traces = 0;
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source))
    traces += trace_table_of(source) != nullptr;
  TRY(dump.binary.begin(traces));
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    TraceTable* const table = trace_table_of(source);
    if (!table) continue;
    TraceHeader header = header_of(source);
    header.objects = source.live();
    if (header.state.options.frees) become_user(dump);
    dump.binary.add(header, kind_of(source), source.is_zombie() ? ABI_TRACEDUMP_ZOMBIE : 0, *table);
  }
  return {};
}

// Opens snapshots of all traces. If a trace is started, stopped, reset or marked meanwhile, begins
// again. Returns the number of such commands before the snapshots (trace_commands_done).
Result<uint32_t> open_all(TraceBinaryDump& dump) {
  for (;;) {
    uint32_t commands;
    {
      const MutexGuard guard(trace_control);
      TRY(choose_all(dump));
      commands = trace_commands_done;
    }
    const Result<void> opened = dump.binary.open();
    if (!opened && opened.error() != Errno::ENOENT) return opened.error();
    const MutexGuard guard(trace_control);
    if (opened && commands == trace_commands_done) return commands;
  }
}

Result<void> make_binary(TraceBinaryDump& dump) {
  const uint32_t commands = TRY(open_all(dump));
  dump.binary.finish({.time = monotonic_now().value,
                      .memory_limit = trace_memory_limit(),
                      .memory_used = trace_memory_used(),
                      .commands = commands,
                      .build_id = kernel_build_id()});
  return {};
}

}  // namespace

Result<TraceDump*> trace_dump_open(TraceSource source) {
  const std::span<std::byte> workspace = TRY(dump_workspace_take());
  auto* const dump = new (workspace.data()) TraceDump(workspace);
  const Result<void> made = make_text(*dump, source);
  if (made) return dump;
  destroy(dump);
  return made.error();
}

Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset) {
  if (dump->off_length == 0) return dump->text.read(buffer, size, offset);
  if (offset >= dump->off_length) return size_t{0};
  const size_t length = std::min<size_t>(size, dump->off_length - offset);
  memcpy(buffer, dump->off_text + offset, length);
  return length;
}

void trace_dump_close(TraceDump* dump) {
  destroy(dump);
}

Result<TraceBinaryDump*> trace_binary_open() {
  TraceBinaryDump* const dump = TRY(TraceBinaryDump::create());
  const Result<void> made = make_binary(*dump);
  if (made) return dump;
  TraceBinaryDump::destroy(dump);
  return made.error();
}

size_t trace_binary_read(TraceBinaryDump* dump, char* buffer, size_t size, uint64_t offset) {
  return dump->read(buffer, size, offset);
}

void trace_binary_close(TraceBinaryDump* dump) {
  TraceBinaryDump::destroy(dump);
}

// Formats the rest of the first line of trace_status(), then a line for each request to trace
// sources that do not exist yet.
[[gnu::noinline]] static size_t format_later(char* buffer, size_t size) {
  size_t length = 0;
  const auto rest = [&] { return size - std::min(size, length); };
  const auto place = [&] { return buffer + std::min(size, length); };
  const auto print_order = [&](std::string_view name, const TraceOptions& options) {
    char filters[TraceOptions::kMaxFilters];
    options.format_filters(filters, sizeof(filters));
    length += static_cast<size_t>(format(place(), rest(), "later %.*s depth %u%s\n",
                                         static_cast<int>(name.size()), name.data(), options.depth,
                                         filters));
  };
  const MutexGuard guard(trace_control);
  const TraceSweeps sweeps = trace_sweeps();
  length += static_cast<size_t>(format(place(), rest(), " untraced %u sweeps %lu forgotten %lu\n",
                                       trace_later.untraced(), sweeps.sweeps, sweeps.forgotten));
  TraceItem item;
  for (std::string_view items = trace_later.items(); trace_next_item(&items, &item);) {
    Result<TraceOptions> options = trace_check_item(item);
    if (options && item.name != "all") print_order(item.name, *options);
  }
  if (const std::optional<TraceOptions> all = trace_later.all()) print_order("all", *all);
  return length;
}

// Formats the line of a source's trace; nothing if the source is not traced.
[[gnu::noinline]] static size_t format_trace(char* buffer, size_t size, TraceSource source) {
  size_t length = 0;
  const auto rest = [&] { return size - std::min(size, length); };
  const auto place = [&] { return buffer + std::min(size, length); };
  const MutexGuard guard(trace_control);
  TraceTable* const table = trace_table_of(source);
  if (!table) return 0;
  TraceHeader header = header_of(source);
  header.counters = table->counters();
  header.counters.set_untracked(source.live());
  header.counters.set_estimate(table->estimate(header.counters));
  length += static_cast<size_t>(header.format_state(place(), rest()));
  length += static_cast<size_t>(format(place(), rest(), " "));
  length += static_cast<size_t>(header.format_counters(place(), rest()));
  length += static_cast<size_t>(header.state.options.format_filters(place(), rest()));
  length += static_cast<size_t>(format(place(), rest(), "\n"));
  return length;
}

// The lock is taken anew for each source, so it is free during TraceSource::next(). That function
// drops the reference to the previous source. If this was the last reference to a destroyed cache,
// the cache is freed, and the end of its trace takes the lock.
Result<size_t> trace_status(char* buffer, size_t size) {
  size_t length = 0;
  const auto rest = [&] { return size - std::min(size, length); };
  const auto place = [&] { return buffer + std::min(size, length); };
  length += static_cast<size_t>(format(place(), rest(), "limit %lu used %lu stacks %u contexts %u",
                                       trace_memory_limit(), trace_memory_used(),
                                       trace_stacks.size(), trace_contexts.size()));
  length += format_later(place(), rest());
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source))
    length += format_trace(place(), rest(), source);
  return length;
}
