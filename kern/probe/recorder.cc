#include "probe/recorder_impl.h"

#include <iterator>
#include <new>

#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/probe_guard.h"
#include "intern/current_context.h"
#include "intern/kernel_stacks.h"
#include "intern/trace_memory.h"
#include "probe/user_stacks_impl.h"

namespace {

constexpr uint8_t kObjects = kProbeAllocates | kProbeFrees;

// To get a page from the arena, a hit must take locks and allocate. If the probed code may hold one
// of these locks or may be inside of the allocator, the page is left to a later hit.
[[gnu::noinline, gnu::cold]] void top_up(const ProbeHit& hit, const Cpu& cpu) {
  if ((hit.user || hit.interrupts_on()) && cpu.held_locks == 0) trace_memory_prepare();
}

// Gets the context that is cached in the current task. False in an interrupt, or if nothing valid
// is cached.
[[gnu::always_inline]] inline bool remembered_context(const Cpu& cpu, ContextId* context) {
  if (cpu.interrupt_depth != 0 || !cpu.current) [[unlikely]]
    return false;
  *context = trace_contexts.recall(cpu.current->trace_context);
  return *context != ContextId::kNone;
}

}  // namespace

// --- Control.

Result<void> ProbeRecorder::init() {
  void* const memory = trace_copy_alloc(cpu_count() * sizeof(ProbePerCpu));
  if (!memory) return Errno::ENOMEM;
  per_cpu_ = static_cast<ProbePerCpu*>(memory);
  for (unsigned i = 0; i < cpu_count(); i++) {
    new (&per_cpu_[i]) ProbePerCpu;
    per_cpu_[i].sampler.seed(tsc() + i);
  }
  return {};
}

ProbeRecorder::~ProbeRecorder() {
  if (!per_cpu_) return;
  forget_counts();
  trace_copy_free(per_cpu_, cpu_count() * sizeof(ProbePerCpu));
}

Result<void> ProbeRecorder::prepare(const ProbeOptions& options, const ProbeRule* rules,
                                    uint8_t actions) {
  TRY(objects_.prepare(options, actions));
  if ((actions & (kProbeCallEvent | kProbeReturnEvent)) != 0)
    TRY(events_.make((actions & kProbeCallEvent) != 0 ? ProbeEvent::kMaxValues : 1));
  rules_ = rules;
  options_ = options;
  selects_ = options.selects();
  return {};
}

void ProbeRecorder::clear() {
  forget_counts();
  kept_out.store(0, std::memory_order_relaxed);
  objects_.clear();
  events_.clear();
}

void ProbeRecorder::forget_counts() {
  {
    const RetainingStopped stopped;
    on_each_cpu(
        [](void* all) {
          const ProbesOffHere no_hit;
          static_cast<ProbePerCpu*>(all)[number_of(cpu_id())].clear();
        },
        per_cpu_);
  }
  for (unsigned i = 0; i < cpu_count(); i++) StackCounts::CpuTable::release(per_cpu_[i].taken);
}

void ProbeRecorder::retain(Retained& retained) {
  for (unsigned i = 0; i < cpu_count(); i++) {
    per_cpu_[i].counts.visit([&retained](StackCounts::Key key, uint64_t) {
      retained.stack(key.stack);
      retained.context(key.context());
    });
  }
  events_.retain(retained);
  objects_.retain_calls(retained);
}

void ProbeRecorder::forget_recent() {
  per_cpu_[number_of(cpu_id())].user_stacks.forget();
}

Result<ProbeTallies> ProbeRecorder::copy_counts(ProbeCounts& counts) const {
  ProbeTallies sum;
  for (unsigned i = 0; i < cpu_count(); i++) {
    TRY(counts.add(per_cpu_[i].counts));
    per_cpu_[i].add_to(sum);
  }
  counts.finish();
  sum.counted += counts.total();
  return sum;
}

// --- Hits.

// True if a hit on this CPU, in the current process, is counted and makes events.
bool ProbeRecorder::wanted(const Cpu& cpu) const {
  return options_.wants_cpu(cpu.id) && options_.wants_pid(trace_current_pid());
}

// True if the rule's function allocates or frees, and its calls in the current process are
// followed. For objects, the filters for CPU and PID select allocations, not frees. Any process, on
// any CPU, may free an object of the kernel, so calls of kernel functions are followed everywhere.
// An object of a program is freed only by its own process, on any CPU. So calls of a program's
// function are followed only in the process that the PID filter selects.
bool ProbeRecorder::follows(const ProbeRule& rule) const {
  return (rule.actions & kObjects) != 0 && (!rule.user || options_.wants_pid(trace_current_pid()));
}

void ProbeRecorder::count(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                          ProbePerCpu& per_cpu) {
  const ProbeStacks stacks = options_.stacks;
  const bool of_kernel = !rule.user && has_kernel(stacks),
             of_caller = !rule.user && has_user(stacks),
             of_program = rule.user && stacks != ProbeStacks::kNone;
  const bool of_process = options_.apart != ProbeApart::kPrograms;
  CurrentContext context = {ContextId::kNone, TraceCaller::kNone};
  if (of_caller) {
    context = trace_find_context();
  } else if ((of_process || of_program) && !remembered_context(cpu, &context.id)) {
    context.id = trace_find_base();
  }
  if ((of_caller || of_process || of_program) && context.id == ContextId::kNone)
    per_cpu.contexts_lost.increment();

  RecordedStack stack;
  if (of_program) {
    stack = record_user_stack_of_call(hit.returned, options_.trace.depth, per_cpu.user_stacks);
  } else {
    if (of_kernel) stack = record_kernel_stack(hit.frame_pointer, StackDepth(options_.trace.depth));
    if (of_kernel && stack.id == StackId::kNone) [[unlikely]]
      per_cpu.stacks_lost.increment();
    if (of_caller) stack = with_caller(stack, context.caller);
  }
  if (of_program && stack.id == StackId::kNone) [[unlikely]]
    per_cpu.stacks_lost.increment();
  if (stack.user_stack_lost) [[unlikely]]
    per_cpu.stacks_lost.increment();
  if (stack.truncated) per_cpu.truncated.increment();
  if (!per_cpu.counts.add({stack.id, context.id})) per_cpu.lost.increment();
}

bool ProbeRecorder::put_event(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu) {
  if (hit.returned) {
    const uint64_t result = hit.registers->result();
    return events_.put(ProbeEvent::Kind::kReturn, rule.name, cpu, &result, 1);
  }
  const ProbeRegisters& r = *hit.registers;
  const uint64_t arguments[] = {r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9};
  return events_.put(ProbeEvent::Kind::kCall, rule.name, cpu, arguments, std::size(arguments));
}

[[gnu::noinline]] void ProbeRecorder::act(const ProbeHit& hit, const ProbeRule& rule,
                                          const Cpu& cpu, ProbePerCpu& per_cpu) {
  bool kept = true;
  const bool here = !selects_ || wanted(cpu);
  const uint8_t event = hit.returned ? kProbeReturnEvent : kProbeCallEvent;
  if (here && (rule.actions & event) != 0) kept = put_event(hit, rule, cpu);
  if ((rule.actions & kObjects) != 0) kept &= objects_.follow(hit, rule, cpu, per_cpu);
  if (here && (rule.actions & kProbeCounts) != 0 && !hit.returned) {
    count(hit, rule, cpu, per_cpu);
  } else {
    per_cpu.finish(kept);
  }
}

[[gnu::noinline]] void ProbeRecorder::hit_slowly(const ProbeHit& hit) {
  if (!recording_.load(std::memory_order_acquire)) [[unlikely]]
    return;
  const Cpu& cpu = this_cpu();
  ProbePerCpu& per_cpu = per_cpu_[number_of(cpu.id)];
  const ProbeRule& rule = rules_[hit.tag];
  if (selects_ && !wanted(cpu) && !follows(rule)) [[unlikely]] {
    per_cpu.filtered.increment();
    return;
  }
  if (trace_memory_low()) [[unlikely]]
    top_up(hit, cpu);
  if (rule.actions == kProbeCounts || rule.actions == kProbeCountsPlainly) {
    count(hit, rule, cpu, per_cpu);
  } else if ((rule.actions & ~kObjects) == 0) {
    per_cpu.finish(objects_.follow(hit, rule, cpu, per_cpu));
  } else {
    act(hit, rule, cpu, per_cpu);
  }
}

// The fast path applies if only kernel stacks are distinguished, the CPU's hint names the stack,
// and the stack has a count already. The fast path calls nothing, so it saves no registers.
// Anything else restarts on the general path.
void ProbeRecorder::hit(const ProbeHit& hit) {
  const Cpu& cpu = this_cpu();
  if (rules_[hit.tag].actions == kProbeCountsPlainly) [[likely]] {
    ProbePerCpu& per_cpu = per_cpu_[number_of(cpu.id)];
    const uint64_t stack =
        hinted_kernel_stack(StackFrom::kFrame, hit.frame_pointer, StackDepth(options_.trace.depth));
    if (stack != 0 && per_cpu.counts.add_known(stack_in(stack))) [[likely]] {
      if ((stack & kStackTruncated) != 0) [[unlikely]]
        per_cpu.truncated.increment();
      return;
    }
  }
  hit_slowly(hit);
}

// --- Changes of the current process, outside of hits.

void ProbeRecorder::thread_left(uint32_t id) {
  objects_.thread_left(id);
}

void ProbeRecorder::process_left(uint32_t pid, ProcessLeft how) {
  objects_.process_left(pid, how);
}

void ProbeRecorder::memory_mapped(uint64_t address, uint64_t size) {
  const ProbesOff off;
  const Cpu& cpu = this_cpu();
  if (!recording_.load(std::memory_order_acquire) || (selects_ && !wanted(cpu))) return;
  if (trace_memory_low()) trace_memory_prepare();
  objects_.memory_mapped(address, size, cpu, per_cpu_[number_of(cpu.id)]);
}

void ProbeRecorder::memory_unmapped(uint64_t address, uint64_t size) {
  if (!recording_.load(std::memory_order_acquire) || !options_.wants_pid(trace_current_pid()))
    return;
  objects_.memory_unmapped(address, size);
}
