#include "probe/objects_impl.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/time.h"
#include "core/errstr.h"
#include "core/log.h"
#include "core/probe_guard.h"
#include "core/user_memory.h"
#include "intern/current_context.h"
#include "intern/trace_memory.h"
#include "lib/format.h"
#include "probe/user_stacks_impl.h"
#include "slab_os.h"
#include "trace/dump/binary.h"
#include "trace/record/table.h"

namespace {

ProbeRunner runner_of(const ProbeHit& hit, const Cpu& cpu) {
  if (hit.user) return ProbeRunner::thread(cpu.current->id);
  if (trace_in_interrupt(cpu) || !cpu.current) return ProbeRunner::interrupts(cpu.id);
  return ProbeRunner::task(cpu.current->id);
}

TraceOwner owner_of(const ProbeHit& hit, const Cpu& cpu) {
  return hit.user ? trace_owner(cpu.current->pid) : TraceOwner::kNobody;
}

// Returns a predicate for ProbePairs::within(). The predicate takes a call from ProbePairs whose
// stack position is higher than that of the hit. It returns true if this call is still running. In
// the kernel it always returns true: each call of an allocation function there ends by a return,
// and the return removes the call from ProbePairs.
auto stands_of(const ProbeHit& hit) {
  return [&hit](const ProbeCall& call) {
    return !hit.user || user_call_stands(call.stack_pointer, call.return_address);
  };
}

// Returns argument `number` of the called function, counted from 1; 0 if `number` is 0.
uint64_t argument_of(const ProbeHit& hit, uint8_t number) {
  return number == 0 ? 0 : hit.registers->argument(number - 1u);
}

uint64_t size_of(const ProbeHit& hit, const ProbeAllocRule& rule) {
  uint64_t size = argument_of(hit, rule.size);
  const bool overflows =
      rule.factor != 0 && __builtin_mul_overflow(size, argument_of(hit, rule.factor), &size);
  return overflows ? UINT64_MAX : size;
}

// While realloc(p) runs, the record of the object p has this owner instead of `owner`. The object
// is freed only if the call succeeds, and no other call frees it meanwhile. But before the return
// of the call is reported, a new object of the same process may get the freed object's address. The
// bit kWaits distinguishes the records of the two objects.
constexpr TraceOwner waiting(TraceOwner owner) {
  constexpr uint16_t kWaits = 1u << 15;
  static_assert(kMaxPid < kWaits);
  return trace_owner(static_cast<uint16_t>(owner) | kWaits);
}

bool wants(const TraceTable& table, uint64_t size, ProbePerCpu& per_cpu) {
  const TraceOptions& options = table.options();
  return options.wants_size(size) &&
         (table.step() == 0 || per_cpu.sampler.take(size, table.step()));
}

}  // namespace

// --- Control.

ProbeObjects::~ProbeObjects() {
  release();
}

void ProbeObjects::release() {
  for (TraceTable** table : {&objects_, &memory_}) {
    if (*table) TraceTable::destroy(std::exchange(*table, nullptr));
  }
  ProbePairs* pairs;
  {
    const RetainingStopped stopped;
    pairs = std::exchange(pairs_, nullptr);
  }
  if (pairs) trace_copy_free(pairs, sizeof(ProbePairs));
}

Result<void> ProbeObjects::make_table(TraceTable** table) {
  *table = TraceTable::create(slab_os_cpu_count());
  if (!*table) return fail(Errno::ENOMEM, "no trace memory for what is outstanding");
  (*table)->set_options(options_.trace);
  const Result<void> added = trace_users_add((*table)->names());
  ASSERT(added.ok());  // cannot fail: the session already uses the shared tables
  return {};
}

Result<void> ProbeObjects::prepare(const ProbeOptions& options, uint8_t actions) {
  release();
  options_ = options;
  if (options.watch_memory) TRY(make_table(&memory_));
  if ((actions & (kProbeAllocates | kProbeFrees)) == 0) return {};
  TRY(make_table(&objects_));
  void* const memory = trace_copy_alloc(sizeof(ProbePairs));
  if (!memory) return Errno::ENOMEM;
  auto* const pairs = new (memory) ProbePairs;
  const RetainingStopped stopped;
  pairs_ = pairs;
  return {};
}

void ProbeObjects::retain_calls(Retained& retained) {
  if (pairs_) pairs_->visit_stacks([&retained](StackId stack) { retained.stack(stack); });
}

void ProbeObjects::forget_calls() {
  if (!pairs_) return;
  const ProbesOff off;
  pairs_->forget_all(put_back());
}

uint64_t ProbeObjects::abandoned() const {
  return pairs_ ? pairs_->abandoned() - abandoned_before_ : 0;
}

void ProbeObjects::clear() {
  if (pairs_) abandoned_before_ = pairs_->abandoned();
  for (TraceTable* table : {objects_, memory_}) {
    if (table) table->clear();
  }
}

Result<void> ProbeObjects::choose_for(TraceBinary& dump, uint32_t session, TracePhase phase) {
  TRY(dump.begin((objects_ != nullptr) + (memory_ != nullptr)));
  TraceHeader header = {};
  header.state = {.phase = phase, .options = options_.trace, .mark = 0};
  for (TraceTable* table : {objects_, memory_}) {
    if (!table) continue;
    format(header.name, sizeof(header.name), table == memory_ ? "probe/%u/mmap" : "probe/%u",
           session);
    dump.add(header, ABI_TRACEDUMP_PROBE, 0, *table);
  }
  return {};
}

// --- Hits.

void ProbeObjects::keep_old(const ProbeCall& call) {
  if (call.has_old) objects_->reown(waiting(call.owner), call.old, call.owner);
}

bool ProbeObjects::allocation_called(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                                     ProbePerCpu& per_cpu) {
  const ProbeRunner runner = runner_of(hit, cpu);
  if (pairs_->within(runner, hit.stack_pointer, stands_of(hit), put_back())) return true;
  ProbeCall call = {.stack_pointer = hit.stack_pointer,
                    .return_address = 0,
                    .size = size_of(hit, rule.alloc),
                    .old = argument_of(hit, rule.alloc.old),
                    .owner = owner_of(hit, cpu),
                    .has_old = false,
                    .where = argument_of(hit, rule.alloc.result),
                    .tag = hit.tag,
                    .stack = StackId::kNone,
                    .wanted = false,
                    .truncated = false};
  call.wanted = options_.wants_cpu(cpu.id) && options_.wants_pid(trace_current_pid()) &&
                wants(*objects_, call.size, per_cpu);
  if (call.wanted) {
    const uint32_t depth = options_.trace.depth;
    const RecordedStack stack = hit.user
                                    ? record_user_stack_of_call(false, depth, per_cpu.user_stacks)
                                    : record_kernel_stack(hit.frame_pointer, StackDepth(depth));
    call.stack = stack.id;
    call.truncated = stack.truncated;
  }
  if (hit.user) load_user_word(hit.stack_pointer, &call.return_address);
  call.has_old = call.old != 0 && objects_->reown(call.owner, call.old, waiting(call.owner));
  if (pairs_->enter(runner, call)) return true;
  put_back()(call);
  objects_->drop(cpu.id);
  return false;
}

bool ProbeObjects::allocation_returns(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu) {
  ProbeCall call;
  if (!pairs_->leave(runner_of(hit, cpu), hit.stack_pointer, hit.tag, &call, put_back()))
    return true;
  trace_stacks.retain(call.stack);  // the stack moves from the call to the record
  uint64_t object = hit.registers->result();
  if (rule.alloc.result != 0) {
    const bool failed = static_cast<uint32_t>(object) != 0;  // the result is an int
    if (failed || !load_user_word(call.where, &object)) {
      put_back()(call);
      if (!failed) objects_->drop(cpu.id);
      return failed;
    }
  }
  if (!TraceTable::holds(object)) {
    put_back()(call);
    objects_->drop(cpu.id);
    return false;
  }
  const TraceOwner owner = call.owner;
  // realloc(p, 0) frees and returns 0; for another size, 0 means that nothing was done.
  const bool frees_old = call.old != 0 && (object != 0 || call.size == 0);
  const bool tells = events_.wants_objects();
  bool kept = true;
  if (!frees_old) {
    put_back()(call);
  } else if (!call.has_old) {
    objects_->count_unmatched(cpu.id);
  } else if (objects_->forget_of(waiting(owner), call.old, cpu.id) && tells) {
    kept = events_.put(ProbeEvent::Kind::kFree, rule.name, cpu, &call.old, 1);
  }
  if (object == 0) return kept;
  if (!call.wanted) {
    objects_->filter(cpu.id);
    return kept;
  }
  const ContextId context = trace_find_base();
  if (call.stack == StackId::kNone || context == ContextId::kNone ||
      call.size >= TraceTable::kLargeSize ||
      !objects_->record_at_once(object, call.size,
                                number_of(call.stack) | (call.truncated ? kStackTruncated : 0),
                                context, cpu.stamp, [owner] { return owner; })) [[unlikely]] {
    objects_->record({.object = object,
                      .size = call.size,
                      .stack = call.stack,
                      .context = context,
                      .time = coarse_milliseconds(),
                      .cpu = cpu.id,
                      .truncated = call.truncated},
                     owner);
  }
  if (!tells) return kept;
  const uint64_t values[] = {object, call.size};
  return events_.put(ProbeEvent::Kind::kAlloc, rule.name, cpu, values, std::size(values)) && kept;
}

// Always returns true: if an event is lost here, the event stream counts it, but the hit does not
// count as lost.
bool ProbeObjects::free_called(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu) {
  const uint64_t object = argument_of(hit, rule.address);
  if (pairs_->within(runner_of(hit, cpu), hit.stack_pointer, stands_of(hit), put_back()) ||
      object == 0)
    return true;
  if (!objects_->forget_of(owner_of(hit, cpu), object, cpu.id)) return true;
  if (events_.wants_objects()) events_.put(ProbeEvent::Kind::kFree, rule.name, cpu, &object, 1);
  return true;
}

// A rule has kProbeAllocates or kProbeFrees, never both.
bool ProbeObjects::follow(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                          ProbePerCpu& per_cpu) {
  if ((rule.actions & kProbeFrees) != 0) return hit.returned || free_called(hit, rule, cpu);
  return hit.returned ? allocation_returns(hit, rule, cpu)
                      : allocation_called(hit, rule, cpu, per_cpu);
}

// --- Changes of the current process, outside of hits.

void ProbeObjects::thread_left(uint32_t id) {
  if (!pairs_) return;
  const ProbesOff off;
  pairs_->forget(ProbeRunner::thread(id), put_back());
}

void ProbeObjects::process_left(uint32_t pid, ProcessLeft how) {
  for (TraceTable* table : {objects_, memory_}) {
    if (!table) continue;
    table->leave(trace_owner(pid),
                 how == ProcessLeft::kEnded ? TraceTable::Leave::kKeep : TraceTable::Leave::kClear);
  }
}

void ProbeObjects::memory_mapped(uint64_t address, uint64_t size, const Cpu& cpu,
                                 ProbePerCpu& per_cpu) {
  if (!wants(*memory_, size, per_cpu)) {
    memory_->filter(cpu.id);
    return;
  }
  const RecordedStack stack = record_user_stack(options_.trace.depth);
  memory_->record({.object = address,
                   .size = size,
                   .stack = stack.id,
                   .context = trace_find_base(),
                   .time = coarse_milliseconds(),
                   .cpu = cpu.id,
                   .truncated = stack.truncated},
                  trace_owner(cpu.current->pid));
  if (!events_.wants_objects()) return;
  const uint64_t values[] = {address, size};
  events_.put(ProbeEvent::Kind::kAlloc, "mmap", cpu, values, std::size(values));
}

void ProbeObjects::memory_unmapped(uint64_t address, uint64_t size) {
  if (!memory_->cut(address, size, trace_owner(current_task_head()->pid))) return;
  const ProbesOff off;
  if (events_.wants_objects())
    events_.put(ProbeEvent::Kind::kFree, "munmap", this_cpu(), &address, 1);
}
