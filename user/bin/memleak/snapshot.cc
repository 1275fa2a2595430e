#include "snapshot.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

namespace {

constexpr uint64_t kNanosecondsPerMillisecond = 1'000'000;

// The number of allocations that a record represents: 1 / p, because an allocation was sampled with
// probability p = 1 - e^(-size/rate) (docs/tracer.md).
double weight(const abi_tracedump_source& source, const abi_tracedump_record& record) {
  if (source.sample == 0) return 1;
  return 1 / -std::expm1(-static_cast<double>(std::max<uint64_t>(record.size, 1)) /
                         static_cast<double>(source.sample));
}

void add_counters(LeftOut& sum, const abi_tracedump_source& source) {
  sum.dropped += source.dropped;
  sum.filtered += source.filtered;
  sum.untracked += source.untracked;
  sum.unmatched += source.unmatched;
  sum.stacks_lost += source.stacks_lost;
  sum.contexts_lost += source.contexts_lost;
  sum.truncated += source.truncated;
  sum.sampled |= source.sample != 0;
}

// Returns the counter of records that are left out for the same reason as `record`; nullptr if
// `record` is shown.
uint64_t* keeps_out(const Arguments& arguments, const Dump& dump, const Dump::Source& source,
                    const abi_tracedump_record& record, LeftOut& left_out) {
  const Dump::Context* const context = dump.context(record.context);
  const bool own = !arguments.of_process() && context != nullptr &&
                   context->header.kind == ABI_TRACEDUMP_PROCESS &&
                   context->header.pid == static_cast<uint32_t>(getpid());
  if (own && !arguments.with_self) return &left_out.own;
  if (record.size < arguments.min_size || record.size > arguments.max_size)
    return &left_out.other_sizes;
  if (arguments.since_mark && record.mark != source.header.mark) return &left_out.before_mark;
  if (record.time + arguments.older_ms * kNanosecondsPerMillisecond > dump.time())
    return &left_out.younger;
  return nullptr;
}

StackKey key_of(const Arguments& arguments, const Dump& dump, const abi_tracedump_record& record) {
  StackKey key;
  const bool is_own = dump.is_user_stack(record.stack);
  const auto stack = dump.stack(record.stack);
  (is_own ? key.user : key.kernel).assign(stack.begin(), stack.end());
  const Dump::Context* const context = dump.context(record.context);
  if (context == nullptr) return key;
  if (!is_own) {
    if (!arguments.user_stacks || record.user_stack == 0) return key;
    const auto user = dump.stack(record.user_stack);
    key.user.assign(user.begin(), user.end());
  }
  key.program = context->path;
  const std::size_t size =
      std::min<std::size_t>(context->header.build_id_size, sizeof(context->header.build_id));
  key.build_id.assign(context->header.build_id, context->header.build_id + size);
  return key;
}

void add_source(Snapshot& snapshot, const Arguments& arguments, const Dump& dump,
                const Dump::Source& source) {
  add_counters(snapshot.left_out, source.header);
  // Records are sorted by stack (Dump), so most have the same key as the previous record.
  Sum* sum = nullptr;
  uint32_t stack = 0, user_stack = 0, context = 0;
  for (const abi_tracedump_record& record : source.records) {
    if (uint64_t* const counter = keeps_out(arguments, dump, source, record, snapshot.left_out)) {
      ++*counter;
      continue;
    }
    if (sum == nullptr || record.stack != stack || record.user_stack != user_stack ||
        record.context != context) {
      sum = &snapshot.stacks[key_of(arguments, dump, record)];
      stack = record.stack;
      user_stack = record.user_stack;
      context = record.context;
    }
    const double objects = weight(source.header, record);
    sum->objects += objects;
    sum->bytes += objects * static_cast<double>(record.size);
    if (arguments.show_allocations) snapshot.allocations.push_back({record.object, record.size});
  }
}

}  // namespace

Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const Traces& traces) {
  Snapshot snapshot;
  const auto& names = arguments.sources;
  for (const Dump::Source& source : dump.sources()) {
    if (!names.empty() && std::find(names.begin(), names.end(), source.name) == names.end())
      continue;
    (traces.is_ours(source.name) ? snapshot.left_out.ours : snapshot.left_out.others)++;
    add_source(snapshot, arguments, dump, source);
  }
  return snapshot;
}

Snapshot take_snapshot(const Arguments& arguments, const Dump& dump, const ProcessState& program,
                       const std::string& process) {
  Snapshot snapshot;
  snapshot.left_out.process = process;
  for (const Dump::Source& source : dump.sources()) add_source(snapshot, arguments, dump, source);
  // The tracer cuts long paths. So stacks with the build id of `program` get its full path.
  std::map<StackKey, Sum> stacks;
  while (!snapshot.stacks.empty()) {
    auto stack = snapshot.stacks.extract(snapshot.stacks.begin());
    if (stack.key().build_id == program.build_id) stack.key().program = program.path;
    stacks.insert(std::move(stack));
  }
  snapshot.stacks = std::move(stacks);
  return snapshot;
}

std::map<StackKey, Sum> difference(const std::map<StackKey, Sum>& after,
                                   const std::map<StackKey, Sum>& before) {
  std::map<StackKey, Sum> changes = after;
  for (const auto& [key, sum] : before) {
    Sum& change = changes[key];
    change.bytes -= sum.bytes;
    change.objects -= sum.objects;
  }
  std::erase_if(changes, [](const auto& item) {
    return std::llround(item.second.bytes) == 0 && std::llround(item.second.objects) == 0;
  });
  return changes;
}
