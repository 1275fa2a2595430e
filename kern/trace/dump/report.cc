// The tracer's output on the log. It prints whole dumps, for callers in the kernel, and reports. A
// report needs no memory and may be made with any lock held. Reports are made when a cache is
// destroyed with live objects, before a process is killed for lack of memory, and in a panic or
// NMI.
//
// Reports share one summary in static memory, so only one report at a time is made. A report holds
// the control lock (trace_control), so that no table is freed, but never waits for it. If another
// report is under way, or a trace is being started or stopped, a report only prints a line that
// says so. The report of a panic or an NMI is made without the lock, while all other CPUs are
// stopped. This works because the list of tables (started.h) can be walked at any moment, and
// TraceTable::visit_standing() can read a shard even if a stopped CPU holds the shard's lock.
#include <algorithm>
#include <atomic>
#include <cstdarg>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/time.h"
#include "core/log.h"
#include "core/panic.h"
#include "intern/shared_tables.h"
#include "lib/format.h"
#include "lib/string.h"
#include "slab_trace.h"
#include "trace/control/control.h"
#include "trace/control/started.h"
#include "trace/dump/report_impl.h"
#include "trace/dump/summary_impl.h"
#include "trace/trace.h"

namespace {

constexpr size_t kLongestLine = 400;  // longer lines are split for the log
constexpr unsigned kTopOfCache = 10;
constexpr unsigned kTopOfAll = 5;
// kPause is the least time between two out-of-memory reports. If such a report could not be made,
// kShortPause is the least time until the next attempt.
constexpr Nanoseconds kPause{10'000'000'000};
constexpr Nanoseconds kShortPause{1'000'000'000};

void to_log(const char* text) {
  klog("%s", text);
}

constinit TraceSummary summary;
constinit std::atomic<bool> summary_in_use{false};
constinit std::atomic<void (*)(const char*)> line{to_log};
constinit std::atomic<uint64_t> next_out_of_memory{0};  // nanoseconds since boot
constinit std::atomic<unsigned> left_out{0};

void print(const char* pattern, ...) __attribute__((format(printf, 1, 2)));
void print(const char* pattern, ...) {
  char text[kLongestLine];
  va_list arguments;
  va_start(arguments, pattern);
  vformat(text, sizeof(text), pattern, arguments);
  va_end(arguments);
  line.load(std::memory_order_relaxed)(text);
}

// Takes the control lock and clears the summary, for a report. False if another report is being
// made, or a trace is being changed. The caller prints stacks in a NumbersReading: hooks may free
// the records that have these stacks, and the sweeper must not forget the stacks meanwhile.
bool begin() TRY_ACQUIRE(true, trace_control) {
  if (summary_in_use.exchange(true, std::memory_order_acquire)) return false;
  if (trace_control.try_lock()) {
    summary.clear();
    return true;
  }
  summary_in_use.store(false, std::memory_order_release);
  return false;
}
void end() RELEASE(trace_control) {
  trace_control.unlock();
  summary_in_use.store(false, std::memory_order_release);
}

void print_top() {
  summary.print(kTopOfAll, trace_stacks, line.load(std::memory_order_relaxed));
}

void add_all(TraceSummary::Others others = TraceSummary::Others::kRun) {
  for (TraceTable* table = trace_started_first(); table;
       table = table->next_started.load(std::memory_order_acquire)) {
    if (table->source.references()) continue;  // references have no memory of their own
    summary.add(table->source.name(), *table, others);
  }
  char total[128];
  summary.total().format_to(total, sizeof(total));
  print("%s are live in %u traces; most have:", total, summary.tables());
}

// Makes the report of a panic or an NMI. After an NMI the system goes on. So if the NMI interrupted
// another report, this function must not change the summary, which the other report still uses.
void report_standing() {
  if (!trace_started_first()) return;
  if (summary_in_use.exchange(true, std::memory_order_acquire) && !panicking())
    return to_log("the owners of the memory cannot be listed now: another report is being made");
  const auto sink = line.exchange(to_log, std::memory_order_relaxed);
  summary.clear();
  add_all(TraceSummary::Others::kStandStill);
  print_top();
  line.store(sink, std::memory_order_relaxed);
  summary_in_use.store(false, std::memory_order_release);
}

void report_destroyed(TraceTable& table, uint64_t live) {
  summary.add(table.source.name(), table);
  const TraceSummary::Sum& total = summary.total();
  const uint64_t untracked = live > total.objects ? live - total.objects : 0;
  print("  recorded: %lu of them, %lu bytes; untracked: %s%lu", total.objects, total.bytes,
        summary.locked_shards() > 0 ? "at most " : "", untracked);
  summary.print(kTopOfCache, trace_stacks, line.load(std::memory_order_relaxed));
}

}  // namespace

void trace_report_init() {
  panic_register_report(report_standing);
}

void trace_report_to(void (*sink)(const char* text)) {
  line.store(sink ? sink : to_log, std::memory_order_relaxed);
  next_out_of_memory.store(0, std::memory_order_relaxed);
}

void slab_trace_report_live(kmem_cache* cache, uint64_t live) {
  const TraceSource source(cache);
  if (!trace_table_of(source))
    return print("  nothing is known of them: %.40s was not traced", source.name());
  if (!begin())
    return print("  their records cannot be read now: a trace is being changed, or reported");
  if (TraceTable* table = trace_table_of(source)) {
    const NumbersReading reading;
    report_destroyed(*table, live);
  }
  end();
}

void trace_report_out_of_memory() {
  if (!trace_started_first()) return;
  const uint64_t now = monotonic_now().value;
  uint64_t next = next_out_of_memory.load(std::memory_order_relaxed);
  if (now < next || !next_out_of_memory.compare_exchange_strong(next, now + kPause.value,
                                                                std::memory_order_relaxed)) {
    left_out.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (!begin()) {
    next_out_of_memory.store(now + kShortPause.value, std::memory_order_relaxed);
    return print(
        "the owners of the memory cannot be listed now: a trace is being changed, or reported");
  }
  {
    const NumbersReading reading;
    add_all();
    print_top();
  }
  if (const unsigned n = left_out.exchange(0, std::memory_order_relaxed)) {
    print("  %u such reports were left out since the last one", n);
  }
  end();
}

int kmem_trace_print(kmem_cache* cache) {
  Result<TraceDump*> dump = trace_dump_open(cache);
  if (!dump) return -static_cast<int>(dump.error());
  char text[kLongestLine + 1];
  size_t length = 0;
  for (uint64_t offset = 0;;) {
    Result<size_t> got = trace_dump_read(*dump, text + length, kLongestLine - length, offset);
    if (!got || (*got == 0 && length == 0)) break;
    offset += *got;
    length += *got;
    text[length] = '\0';
    char* const newline = std::find(text, text + length, '\n');
    const size_t printed = static_cast<size_t>(newline - text);
    *newline = '\0';
    print("%s", text);
    const size_t taken = std::min(printed + 1, length);
    memmove(text, text + taken, length - taken);
    length -= taken;
  }
  trace_dump_close(*dump);
  return 0;
}
