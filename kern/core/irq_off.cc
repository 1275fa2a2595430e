#include "core/irq_off.h"

#ifdef CONFIG_IRQ_OFF_TRACE
#include "arch/x86_64/smp.h"
#include "arch/x86_64/time.h"
#include "core/cpu.h"
#include "core/probe_guard.h"
#include "core/task_head.h"
#include "lib/string.h"

namespace {

// The state of one CPU. Only this CPU uses it, with interrupts off. Functions that irq_off_begin
// and irq_off_end call must not be probed, because a hit of a probe itself turns interrupts off and
// on. tools/stele/ksyms.py checks that these functions have no probes.
struct alignas(64) State {
  uint64_t since;     // time stamp counter when interrupts were turned off; 0: interrupts are on
  uint64_t off;       // code address that turned interrupts off
  uint64_t shortest;  // ticks of the shortest entry of `table`; only a longer stretch is stored
  IrqOffStretch table[kIrqOffPlaces];  // the longest stretches so far; unused entries have 0 ticks
};
constinit State states[kMaxCpus] = {};

// Collects the return addresses on this CPU's stack, from the frame at `frame` on. This stack is
// always the current task's, because code on an NMI stack does not turn interrupts on. frames.h is
// not used: its walk can be probed, and a hit of a probe calls this function.
NOT_PROBED [[gnu::always_inline]] inline uint32_t walk(uint64_t frame, uint64_t* callers) {
  const uint64_t top = this_cpu().kernel_stack;
  uint64_t low = reinterpret_cast<uint64_t>(__builtin_frame_address(0));
  uint32_t n = 0;
  while (n < kIrqOffFrames && frame >= low && frame + 16 <= top && frame % 8 == 0) {
    const auto* const pair = reinterpret_cast<const uint64_t*>(frame);
    if (pair[1] == 0) break;
    callers[n++] = pair[1];
    low = frame + 16;  // the next frame must lie above this one
    frame = pair[0];
  }
  return n;
}

NOT_PROBED [[gnu::always_inline]] inline IrqOffStretch& shortest_of(State& state) {
  IrqOffStretch* shortest = state.table;
  for (IrqOffStretch& stretch : state.table) {
    if (stretch.ticks < shortest->ticks) shortest = &stretch;
  }
  return *shortest;
}

// Stores an interrupts-off stretch in the table if it is long enough. `on` is the code address that
// turns interrupts on; `frame` is the frame pointer of its function.
NOT_PROBED [[gnu::noinline, gnu::cold]] void keep(State& state, uint64_t ticks, uint64_t on,
                                                  uint64_t frame) {
  IrqOffStretch* place = nullptr;
  for (IrqOffStretch& known : state.table) {
    if (known.off == state.off && known.on == on) place = &known;
  }
  if (!place) place = &shortest_of(state);
  if (place->ticks >= ticks) return;
  const Cpu& cpu = this_cpu();
  place->ticks = ticks;
  place->off = state.off;
  place->on = on;
  place->cpu = cpu.id;
  // cpu.current is not null: a CPU gets a current task before it first turns interrupts on.
  place->pid = cpu.current->pid;
  __builtin_memcpy(place->task, cpu.current->name, sizeof(place->task));
  place->depth = walk(frame, place->frames);
  state.shortest = shortest_of(state).ticks;
}

void copy_table(void* argument) {
  const unsigned me = number_of(cpu_id());
  memcpy(static_cast<IrqOffStretch*>(argument) + me * kIrqOffPlaces, states[me].table,
         sizeof(states[me].table));
}

void clear_table(void*) {
  State& state = states[number_of(cpu_id())];
  memset(state.table, 0, sizeof(state.table));
  state.shortest = 0;
}

}  // namespace

NOT_PROBED void irq_off_begin() {
  State& state = states[number_of(cpu_id())];
  state.off = reinterpret_cast<uint64_t>(__builtin_return_address(0));
  state.since = tsc();
}

NOT_PROBED void irq_off_end() {
  const uint64_t now = tsc();
  State& state = states[number_of(cpu_id())];
  const uint64_t since = state.since;
  state.since = 0;
  if (since == 0 || now - since <= state.shortest) [[likely]]
    return;
  const auto* const frame = static_cast<const uint64_t*>(__builtin_frame_address(0));
  keep(state, now - since, frame[1], frame[0]);
}

NOT_PROBED void irq_off_blame(const void* function) {
  states[number_of(cpu_id())].off = reinterpret_cast<uint64_t>(function);
}

void irq_off_read(IrqOffStretch* stretches) {
  on_each_cpu(copy_table, stretches);
}

void irq_off_reset() {
  on_each_cpu(clear_table, nullptr);
}
#endif
