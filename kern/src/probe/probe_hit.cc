// What a session does when a function is hit. Interrupts are off, any lock may be held, and nothing
// here is hit itself.
#include <algorithm>

#include "arch/x86_64/frames.h"
#include "arch/x86_64/time.h"
#include "core/probe_guard.h"
#include "core/user_memory.h"
#include "probe/probe_session.h"
#include "store/kernel_stacks.h"
#include "store/trace_memory.h"

namespace {

RecordedStack store_user_stack(const uint64_t* frames, size_t count, uint32_t depth) {
  return {trace_stacks.intern(StackKind::kUser, frames, std::min<size_t>(count, depth)),
          count > depth};
}

[[gnu::noinline]] RecordedStack user_stack(bool returning, uint32_t depth,
                                           RecentUserStacks& recent) {
  uint64_t frames[kProbeMaxDepth + 1];
  const size_t count = walk_user_stack_of_call(returning, frames, depth + 1),
               kept = std::min<size_t>(count, depth);
  const uint32_t number = recent.number(
      frames, kept, [&] { return trace_stacks.intern(StackKind::kUser, frames, kept); });
  return {number, count > depth};
}

// Taking a page from the arena takes locks and allocates. Whoever is hit may hold those locks, or
// be inside the allocator; then a later hit does it.
[[gnu::noinline, gnu::cold]] void top_up(const ProbeHit& hit, const Cpu& cpu) {
  if ((hit.user || hit.interrupts_on()) && cpu.held_locks == 0) trace_memory_prepare();
}

// The base that the current task remembers, if it is the one that is hit.
[[gnu::always_inline]] inline bool remembered_base(const Cpu& cpu, uint32_t* base) {
  if (cpu.interrupt_depth != 0 || !cpu.current) [[unlikely]]
    return false;
  *base = cpu.current->trace_base;
  return trace_contexts.valid(*base);
}

}  // namespace

bool ProbeSession::wanted_here(const Cpu& cpu) const {
  return cpu_ == ProbeOptions::kAnyCpu || cpu_ == cpu.id;
}

// Of pairs the CPU of the allocation decides, wherever else its process then is.
bool ProbeSession::wanted(const Cpu& cpu, uint8_t actions) const {
  return (wanted_here(cpu) || (actions & (kProbeAllocates | kProbeFrees)) != 0) &&
         (pid_ == 0 || pid_ == trace_current_pid());
}

void ProbeSession::count(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                         CpuPart& part) {
  uint32_t stack = 0, context = 0;
  bool truncated = false;
  if (rule.user ? stacks_ : kernel_stacks_) {
    const StackScope scope = StackScope::innermost(depth_);
    const RecentStack* recent = rule.user ? nullptr : recent_place(hit.frame_pointer, cpu);
    const RecordedStack found = recent && !recent->differs(hit.frame_pointer, scope, cpu)
                                    ? RecordedStack(recent->stack())
                                : rule.user ? user_stack(hit.returned, depth_, part.user_stacks)
                                            : record_kernel_stack(hit.frame_pointer, scope, cpu);
    stack = found.id();
    truncated = found.truncated();
    if (stack == 0) [[unlikely]]
      increment(part.stacks_lost);
  }
  if (user_stacks_ && !rule.user) {
    const CurrentContext found = trace_find_context();
    context = found.id;
    if (found.user_stack == UserStack::kLost) increment(part.stacks_lost);
    truncated |= found.user_stack == UserStack::kCut;
    if (context == 0) increment(part.contexts_lost);
  } else if (processes_ || (rule.user && stacks_)) {
    if (!remembered_base(cpu, &context)) context = trace_find_base();
    if (context == 0) increment(part.contexts_lost);
  }
  if (truncated) increment(part.truncated);
  if (!part.counts.add(stack, context)) increment(part.lost);
}

[[gnu::noinline]] void ProbeSession::act(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                                         CpuPart& part) {
  bool kept = true;
  const bool here = wanted_here(cpu);
  const uint8_t event = hit.returned ? kProbeReturnEvent : kProbeCallEvent;
  if (here && (rule.actions & event) != 0) {
    if (hit.returned) {
      const uint64_t result = hit.registers->result();
      kept = put_event(ProbeEvent::Kind::kReturn, rule.name, cpu, &result, 1);
    } else {
      const ProbeRegisters& r = *hit.registers;
      const uint64_t arguments[] = {r.rdi, r.rsi, r.rdx, r.rcx, r.r8, r.r9};
      kept = put_event(ProbeEvent::Kind::kCall, rule.name, cpu, arguments, std::size(arguments));
    }
  }
  if ((rule.actions & kProbeFrees) != 0 && !hit.returned) {
    frees(hit, rule, cpu, hit.registers->argument(rule.address - 1u));
  }
  if ((rule.actions & kProbeAllocates) != 0) {
    kept &= hit.returned ? return_allocates(hit, rule, cpu) : call_allocates(hit, rule, cpu, part);
  }
  if (here && (rule.actions & kProbeCounts) != 0 && !hit.returned) {
    count(hit, rule, cpu, part);
  } else {
    increment(kept ? part.done : part.lost);
  }
}

bool ProbeSession::put_event(ProbeEvent::Kind kind, const char* name, const Cpu& cpu,
                             const uint64_t* values, size_t count) {
  ProbeEvents& events = *events_.load(std::memory_order_acquire);
  if (events.lose_if_full()) return false;
  ProbeEvent event;
  event.time = monotonic_now().value;
  event.name = name;
  std::copy_n(values, count, event.values);
  std::fill(event.values + count, std::end(event.values), 0);
  event.pid = trace_current_pid();
  event.context = trace_find_base();
  event.cpu = static_cast<uint16_t>(cpu.id);
  event.kind = kind;
  return events.put(event);
}

// --- Objects. Those of programs belong to the process; those of the kernel are everybody's.

namespace {

ProbeRunner runner_of(const ProbeHit& hit, const Cpu& cpu) {
  if (hit.user) return ProbeRunner::process(cpu.current->pid);
  if (trace_in_interrupt(cpu) || !cpu.current) return ProbeRunner::interrupts(cpu.id);
  return ProbeRunner::task(cpu.current->id);
}

uint16_t owner_of(const ProbeHit& hit, const Cpu& cpu) {
  return hit.user ? static_cast<uint16_t>(cpu.current->pid) : 0;
}

// In the kernel every call returns.
auto stands_of(const ProbeHit& hit) {
  return [&hit](const ProbeCall& call) {
    return !hit.user || user_call_stands(call.stack_pointer, call.return_address);
  };
}

uint32_t shortened(uint64_t size) {
  return static_cast<uint32_t>(std::min<uint64_t>(size, TraceOptions::kAnySize));
}

}  // namespace

bool ProbeSession::wants_object(const TraceTable& table, uint64_t size, CpuPart& part) const {
  const TraceOptions& options = table.options();
  return shortened(size) >= options.min_size && shortened(size) <= options.max_size &&
         (table.step() == 0 || part.sampler.take(shortened(size), table.step()));
}

bool ProbeSession::call_allocates(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                                  CpuPart& part) {
  const ProbeRunner runner = runner_of(hit, cpu);
  if (pairs_->within(runner, hit.stack_pointer, stands_of(hit))) return true;
  const auto argument = [&](uint8_t number) {
    return number == 0 ? 0 : hit.registers->argument(number - 1u);
  };
  ProbeCall call = {.stack_pointer = hit.stack_pointer,
                    .return_address = 0,
                    .size = argument(rule.alloc.size),
                    .old = argument(rule.alloc.old),
                    .where = argument(rule.alloc.result),
                    .tag = hit.tag,
                    .stack = 0,
                    .wanted = false,
                    .truncated = false};
  if (rule.alloc.factor != 0 &&
      __builtin_mul_overflow(call.size, argument(rule.alloc.factor), &call.size)) {
    call.size = UINT64_MAX;
  }
  call.wanted = wanted_here(cpu) && wants_object(*objects_, call.size, part);
  if (call.wanted) {
    const RecordedStack stack =
        hit.user ? user_stack(false, depth_, part.user_stacks)
                 : record_kernel_stack(hit.frame_pointer, StackScope::innermost(depth_), cpu);
    call.stack = stack.id();
    call.truncated = stack.truncated();
  }
  if (hit.user) load_user_word(hit.stack_pointer, &call.return_address);
  if (pairs_->enter(runner, call)) return true;
  objects_->drop(cpu.id);
  return false;
}

bool ProbeSession::return_allocates(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu) {
  ProbeCall call;
  if (!pairs_->leave(runner_of(hit, cpu), hit.stack_pointer, hit.tag, &call)) return true;
  uint64_t object = hit.registers->result();
  if (rule.alloc.result != 0) {
    if (static_cast<uint32_t>(object) != 0) return true;  // an int: it has failed
    if (!load_user_word(call.where, &object)) {
      objects_->drop(cpu.id);
      return false;
    }
  }
  const uint16_t owner = owner_of(hit, cpu);
  // Addresses have 48 bits; what has more is none, and no table could hold it.
  if (static_cast<int64_t>(object << 16) >> 16 != static_cast<int64_t>(object)) {
    objects_->drop(cpu.id);
    return false;
  }
  // realloc(p, 0) frees and returns 0; with another size 0 says that nothing has happened.
  const bool frees_old = call.old != 0 && (object != 0 || call.size == 0);
  const bool tells = object_events_.load(std::memory_order_acquire);
  bool kept = true;
  if (frees_old && objects_->forget_of(owner, call.old, cpu.id) && tells) {
    kept = put_event(ProbeEvent::Kind::kFree, rule.name, cpu, &call.old, 1);
  }
  if (object == 0) return kept;
  if (!call.wanted) {
    objects_->filter(cpu.id);
    return kept;
  }
  const uint32_t context = trace_find_base(), size = shortened(call.size);
  if (call.stack == 0 || context == 0 ||
      !objects_->record_at_once(object, size, call.stack | (call.truncated ? TraceTable::kFlag : 0),
                                context, cpu.id, [owner] { return owner; })) [[unlikely]] {
    objects_->record({.object = object,
                      .size = size,
                      .stack = call.stack,
                      .context = context,
                      .time = coarse_milliseconds(),
                      .cpu = static_cast<uint16_t>(cpu.id),
                      .truncated = call.truncated},
                     owner);
  }
  if (!tells) return kept;
  const uint64_t values[] = {object, call.size};
  return put_event(ProbeEvent::Kind::kAlloc, rule.name, cpu, values, std::size(values)) && kept;
}

void ProbeSession::frees(const ProbeHit& hit, const ProbeRule& rule, const Cpu& cpu,
                         uint64_t object) {
  if (pairs_->within(runner_of(hit, cpu), hit.stack_pointer, stands_of(hit)) || object == 0) return;
  if (!objects_->forget_of(owner_of(hit, cpu), object, cpu.id)) return;
  if (object_events_.load(std::memory_order_acquire))
    put_event(ProbeEvent::Kind::kFree, rule.name, cpu, &object, 1);
}

// --- What processes do that no function tells. Interrupts are on; what is shared with hits is used
// as in a hit.

void ProbeSession::process_left(uint32_t pid, ProcessLeft how) {
  if (pairs_) {
    const ProbesOff off;
    pairs_->forget(ProbeRunner::process(pid));
  }
  for (TraceTable* table : {objects_, memory_}) {
    if (!table) continue;
    table->leave(static_cast<uint16_t>(pid),
                 how == ProcessLeft::kEnded ? TraceTable::Leave::kKeep : TraceTable::Leave::kClear);
  }
}

void ProbeSession::memory_mapped(uint64_t address, uint64_t size) {
  const ProbesOff off;
  const Cpu& cpu = this_cpu();
  if (selects_ && !wanted(cpu, 0)) return;
  if (trace_memory_low()) trace_memory_prepare();
  if (!wants_object(*memory_, size, parts_[cpu.id])) {
    memory_->filter(cpu.id);
    return;
  }
  uint64_t frames[kProbeMaxDepth + 1];
  const RecordedStack stack = store_user_stack(frames, walk_user_stack(frames, depth_ + 1), depth_);
  memory_->record({.object = address,
                   .size = shortened(size),
                   .stack = stack.id(),
                   .context = trace_find_base(),
                   .time = coarse_milliseconds(),
                   .cpu = static_cast<uint16_t>(cpu.id),
                   .truncated = stack.truncated()},
                  static_cast<uint16_t>(cpu.current->pid));
  const uint64_t values[] = {address, size};
  if (object_events_.load(std::memory_order_acquire))
    put_event(ProbeEvent::Kind::kAlloc, "mmap", cpu, values, 2);
}

void ProbeSession::memory_unmapped(uint64_t address, uint64_t size) {
  if (pid_ != 0 && pid_ != trace_current_pid()) return;
  if (!memory_->cut(address, size, static_cast<uint16_t>(current_task_head()->pid))) return;
  const ProbesOff off;
  if (object_events_.load(std::memory_order_acquire)) {
    put_event(ProbeEvent::Kind::kFree, "munmap", this_cpu(), &address, 1);
  }
}

[[gnu::noinline]] void ProbeSession::hit_slowly(const ProbeHit& hit) {
  const Cpu& cpu = this_cpu();
  CpuPart& part = parts_[cpu.id];
  const ProbeRule& rule = rules_[hit.tag];
  if (selects_ && !wanted(cpu, rule.actions)) [[unlikely]] {
    increment(part.filtered);
    return;
  }
  if (trace_memory_low()) [[unlikely]]
    top_up(hit, cpu);
  if (rule.actions == kProbeCounts || rule.actions == kProbeCountsPlainly) {
    count(hit, rule, cpu, part);
  } else {
    act(hit, rule, cpu, part);
  }
}

// What is mostly the case: only the stack is told apart, and it and its count are known. That calls
// nothing, so that no register need be saved for it. What is otherwise begins afresh.
void ProbeSession::hit(const ProbeHit& hit) {
  const Cpu& cpu = this_cpu();
  if (rules_[hit.tag].actions == kProbeCountsPlainly) [[likely]] {
    CpuPart& part = parts_[cpu.id];
    const RecentStack* const recent = recent_place(hit.frame_pointer, cpu);
    if (!recent->differs(hit.frame_pointer, StackScope::innermost(depth_), cpu)) [[likely]] {
      const RecordedStack stack(recent->stack());
      if (part.counts.add_known(stack.id())) [[likely]] {
        if (stack.truncated()) [[unlikely]]
          increment(part.truncated);
        return;
      }
    }
  }
  hit_slowly(hit);
}
