// Dumps of traces, for the rest of the kernel.
#include <algorithm>
#include <new>

#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/symbols.h"
#include "lib/format.h"
#include "store/shared_tables.h"
#include "store/sweeper.h"
#include "store/trace_memory.h"
#include "trace/control.h"
#include "trace/dump/trace_binary.h"
#include "trace/dump/trace_text.h"
#include "trace/trace.h"

class TraceBinaryDump {
 public:
  TraceBinary binary{trace_stacks, trace_contexts};  // a user of the tables if something was traced
};

// A holder of the numbers in its copy.
class TraceDump final : public StoreHolder {
 public:
  TraceDump() : StoreHolder(Holds::kCopies) {}
  void mark(StoreMark& mark) override { text.mark(mark); }

  // While a trace is off there is no table, and a few lines are all that there is.
  bool off = true;
  size_t off_length = 0;
  char off_text[512];
  TraceText text;
};

namespace {

// Objects that are live and have no record; exact when it is quiet.
uint64_t untracked(TraceSource source, const TraceCounters& counters) {
  const uint64_t live = source.live();
  return live > counters.live() ? live - counters.live() : 0;
}

TraceHeader header_of(TraceSource source) REQUIRES(trace_control) {
  TraceHeader header = {};
  format(header.name, sizeof(header.name), "%s", source.name());
  header.state = trace_state_of(source);
  header.object_size = source.object_size();
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

// A dump that is whole holds its numbers itself.
void add_user(StoreHolder& dump) {
  const Result<void> added = trace_users_add(dump);
  ASSERT(added.ok());  // the table is a user
}

Result<void> copy_table(TraceDump& dump, TraceSource source, TraceTable& table)
    REQUIRES(trace_control) {
  const StoreReading reading;
  TRY(dump.text.copy(table, trace_stacks, trace_contexts, coarse_milliseconds));
  add_user(dump);
  dump.text.header.untracked = untracked(source, dump.text.header.counters);
  dump.off = false;
  return {};
}

// The dump's own memory is untraced too.
template <typename T>
void delete_untraced(T* object) {
  object->~T();
  trace_copy_free(object, sizeof(T));
}

// All at one moment as far as commands go: none is done in between.
Result<void> copy_all(TraceBinaryDump& dump) REQUIRES(trace_control) {
  StoreUse use;  // a table may go when the next source is asked for
  const StoreReading reading;
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    TraceTable* table = trace_table_of(source);
    if (!table) continue;
    if (!use.is_user()) {
      const Result<void> begun = use.begin();
      ASSERT(begun.ok());  // the table is a user
    }
    Result<TraceHeader*> header = dump.binary.add(
        header_of(source), source.cache() ? ABI_TRACEDUMP_CACHE : ABI_TRACEDUMP_ARENA,
        source.is_zombie() ? ABI_TRACEDUMP_ZOMBIE : 0, *table, coarse_milliseconds);
    if (!header) {
      source.release();
      return header.error();
    }
    (*header)->untracked = untracked(source, (*header)->counters);
  }
  TRY(dump.binary.finish({.time = monotonic_now().value,
                          .memory_limit = trace_memory_limit(),
                          .memory_used = trace_memory_used(),
                          .commands = trace_commands_done,
                          .build_id = kernel_build_id()}));
  if (use.is_user()) add_user(dump.binary);
  return {};
}

}  // namespace

Result<TraceDump*> trace_dump_open(TraceSource source) {
  void* memory = trace_copy_alloc(sizeof(TraceDump));
  if (!memory) return Errno::ENOMEM;
  auto* dump = new (memory) TraceDump;
  Result<void> done;
  {
    MutexGuard guard(trace_control);
    dump->text.header = header_of(source);
    if (TraceTable* table = trace_table_of(source)) {
      done = copy_table(*dump, source, *table);
    } else {
      print_off(*dump, dump->text.header, source.can_be_traced());
    }
  }
  if (!done) {
    delete_untraced(dump);
    return done.error();
  }
  return dump;
}

Result<size_t> trace_dump_read(TraceDump* dump, char* buffer, size_t size, uint64_t offset) {
  if (!dump->off) return dump->text.read(buffer, size, offset);
  if (offset >= dump->off_length) return size_t{0};
  const size_t length = std::min<size_t>(size, dump->off_length - offset);
  memcpy(buffer, dump->off_text + offset, length);
  return length;
}

void trace_dump_close(TraceDump* dump) {
  if (!dump->off) trace_users_drop(*dump);
  delete_untraced(dump);
}

Result<TraceBinaryDump*> trace_binary_open() {
  void* memory = trace_copy_alloc(sizeof(TraceBinaryDump));
  if (!memory) return Errno::ENOMEM;
  auto* dump = new (memory) TraceBinaryDump;
  Result<void> done;
  {
    MutexGuard guard(trace_control);
    done = copy_all(*dump);
  }
  if (done) return dump;
  trace_binary_close(dump);
  return done.error();
}

size_t trace_binary_read(const TraceBinaryDump* dump, char* buffer, size_t size, uint64_t offset) {
  return dump->binary.read(buffer, size, offset);
}

void trace_binary_close(TraceBinaryDump* dump) {
  if (dump->binary.is_user()) trace_users_drop(dump->binary);
  delete_untraced(dump);
}

// A line for each order that holds for what comes later, the end of the line before it first.
static size_t format_later(char* buffer, size_t size) {
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

Result<size_t> trace_status(char* buffer, size_t size) {
  size_t length = 0;
  const auto rest = [&] { return size - std::min(size, length); };
  const auto place = [&] { return buffer + std::min(size, length); };
  length += static_cast<size_t>(format(place(), rest(), "limit %lu used %lu stacks %u contexts %u",
                                       trace_memory_limit(), trace_memory_used(),
                                       trace_stacks.size(), trace_contexts.size()));
  length += format_later(place(), rest());
  for (TraceSource source = TraceSource::next({}); source; source = TraceSource::next(source)) {
    // Not around the loop: TraceSource::next may end a cache, and so a trace.
    MutexGuard guard(trace_control);
    TraceTable* table = trace_table_of(source);
    if (!table) continue;
    TraceHeader header = header_of(source);
    header.counters = table->counters();
    header.untracked = untracked(source, header.counters);
    header.estimate = table->estimate(header.counters);
    length += static_cast<size_t>(header.format_state(place(), rest()));
    length += static_cast<size_t>(format(place(), rest(), " "));
    length += static_cast<size_t>(header.format_counters(place(), rest()));
    length += static_cast<size_t>(header.state.options.format_filters(place(), rest()));
    length += static_cast<size_t>(format(place(), rest(), "\n"));
  }
  return length;
}
