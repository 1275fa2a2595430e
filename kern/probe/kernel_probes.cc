// Probes on kernel functions.
//
// Every function begins with a nop of five bytes (gcc -mfentry -mnop-mcount). A probe replaces this
// nop with a call of probe_entry, which calls the probe's consumers (ProbeConsumer) one after the
// other and returns to the instruction after the nop. To probe returns, the function's `ret`
// instructions become breakpoints: the handler calls the consumers and then does what the `ret`
// would have done. A call or return that a probe reports to a consumer is a hit. The build creates
// tables of all nops and `ret`s (probe/places_impl.h). A function without a probe has its original
// code.
//
// Lists. A place is a function's nop. Each place has a singly linked list of items (ProbeItem).
// Code that changes lists or kernel text holds probes_mutex. Code that reads lists has interrupts
// off and takes no lock. An item is complete when it is put at the front of a list. A removed item
// keeps its `next`. It is freed after a round through all CPUs (text_sync), when no CPU can be
// reading it. All items of a consumer are in one allocation (Arming). So arming can fail at this
// allocation only, before anything has changed. The kernel text is changed after the lists:
// update_text() compares each place with its list and patches all differences together, in three
// rounds.
//
// The guard. The counter Cpu::probes_off is not 0 while probes are off on its CPU. probe_entry and
// the breakpoint's handler check this counter first, and raise it while they call consumers. So if
// a consumer calls a probed function, no consumer is called for that call; it is counted as kept
// out. NMIs, machine checks and a panic raise the counter, too. Some code has no nop (NOT_PROBED).
// This file's handlers also run for calls that are kept out, so a probe on a handler could call the
// handler again without end. The NMI handler must raise the counter before any hit. trap_dispatch
// and exception() must read a page fault's address before any hit, because a consumer may cause
// another page fault on a user stack. Until this is done, these functions call only functions
// without a nop. All other functions can be probed: a probe's breakpoint in the kernel does not go
// through trap_dispatch, but has an entry of its own (trap_entry_breakpoint).
//
// Breakpoints. A function's entry has a breakpoint while its code is being patched. The handler
// skips the five bytes and reports nothing, since a probe that is being armed or removed need not
// report calls. At the breakpoint of a `ret`, the handler reports a return. Before the handler
// runs, another CPU may have removed the breakpoint and the items. The handler still does what the
// original instruction would have done, without reading the code.
//
// Lock ranks. A hit may come with locks of any rank held. A consumer may take a lock only if all
// code outside of hits takes this lock with probes off (ProbesOff). The locks of consumers nest
// inside all others, so during a hit the rank checker ignores the locks held before the hit.
#include "probe/kernel_probes.h"

#include <algorithm>
#include <new>

#include "arch/x86_64/probe_entry.h"
#include "arch/x86_64/text_patch.h"
#include "arch/x86_64/trap.h"
#include "core/log.h"
#include "core/sleep.h"
#include "core/symbols.h"
#include "intern/trace_memory.h"
#include "probe/places_impl.h"
#include "probe/probe.h"

// One consumer's probe of one place.
struct ProbeItem {
  std::atomic<ProbeItem*> next;
  ProbeConsumer* consumer;
  uint32_t tag;
  uint32_t place;
  bool returns;
};

namespace {

// All probes of a consumer.
struct Arming {
  Arming* next;
  ProbeConsumer* consumer;
  size_t bytes, count;
  ProbeItem* items() { return reinterpret_cast<ProbeItem*>(this + 1); }
};
static_assert(sizeof(Arming) % alignof(ProbeItem) == 0);

constinit Mutex probes_mutex{LockRank::kKernelProbes};
constinit Arming* armings = nullptr;  // under probes_mutex

NOT_PROBED [[gnu::always_inline]] inline const ProbeItem* first_of(uint32_t place) {
  return probe_lists[place].load(std::memory_order_acquire);
}
NOT_PROBED [[gnu::always_inline]] inline const ProbeItem* after(const ProbeItem* item) {
  return item->next.load(std::memory_order_acquire);
}

// During a hit, hides from the rank checker which locks this CPU held before the hit.
class RanksAside {
 public:
#ifdef CONFIG_LOCK_RANK_CHECK
  NOT_PROBED [[gnu::always_inline]] RanksAside() : held_(this_cpu().held_ranks) {
    this_cpu().held_ranks = 0;
  }
  NOT_PROBED [[gnu::always_inline]] ~RanksAside() {
    this_cpu().held_ranks = held_;
  }

 private:
  const uint64_t held_;
#else
  NOT_PROBED [[gnu::always_inline]] RanksAside() {}
#endif
};

NOT_PROBED void count_kept_out(uint32_t place, bool returned) {
  for (const ProbeItem* item = first_of(place); item; item = after(item)) {
    if (!returned || item->returns)
      item->consumer->kept_out.fetch_add(1, std::memory_order_relaxed);
  }
}

// Calls the consumers from `item` on.
NOT_PROBED [[gnu::noinline]] void tell(const ProbeItem* item, ProbeHit& hit) {
  for (; item; item = after(item)) {
    if (hit.returned && !item->returns) continue;
    hit.tag = item->tag;
    item->consumer->hit(hit);
  }
}

NOT_PROBED void tell_return(uint32_t place, const TrapFrame& frame) {
  static_assert(offsetof(TrapFrame, rdi) - offsetof(TrapFrame, r11) ==
                offsetof(ProbeRegisters, rdi));
  static_assert(offsetof(TrapFrame, rax) - offsetof(TrapFrame, r11) ==
                offsetof(ProbeRegisters, rax));
  const uint64_t caller[] = {frame.rbp, *reinterpret_cast<const uint64_t*>(frame.rsp)};
  ProbeHit hit = {.tag = 0,
                  .returned = true,
                  .user = false,
                  .stack_pointer = frame.rsp,
                  .frame_pointer = reinterpret_cast<uint64_t>(caller),
                  .registers = reinterpret_cast<const ProbeRegisters*>(&frame.r11),
                  .flags = frame.rflags};
  const RanksAside aside;
  tell(first_of(place), hit);
}

// --- Patches the code to match the lists. Under probes_mutex.

bool wants_returns(uint32_t place) {
  for (const ProbeItem* item = first_of(place); item; item = after(item)) {
    if (item->returns) return true;
  }
  return false;
}

// Finds the places and `ret`s whose code differs from the list of probes.
void find_changes() {
  for (uint32_t place = 0; place < probe_place_count; place++) {
    const bool is_call = text_byte(probe_place_address(place)) == kTextCall;
    probe_places_changing[place] = is_call != (first_of(place) != nullptr);
  }
  for (uint32_t i = 0; i < probe_return_count; i++) {
    const bool is_breakpoint = text_byte(probe_return_address(i)) == kTextBreakpoint;
    probe_returns_changing[i] = is_breakpoint != wants_returns(probe_return_places[i]);
  }
}

template <typename Change>
void for_each_changing(Change change) {
  for (uint32_t place = 0; place < probe_place_count; place++) {
    if (probe_places_changing[place])
      change(probe_place_address(place), first_of(place) != nullptr);
  }
}

// Patches entries before returns, so that few returns are reported without their call.
void write_first_bytes() {
  for_each_changing(
      [](uint64_t address, bool call) { text_write_byte(address, call ? kTextCall : kTextNop); });
  for (uint32_t i = 0; i < probe_return_count; i++) {
    if (!probe_returns_changing[i]) continue;
    text_write_byte(probe_return_address(i),
                    wants_returns(probe_return_places[i]) ? kTextBreakpoint : kTextReturn);
  }
}

// Patches the code to match the lists. On return no CPU reads a removed item.
void update_text() {
  find_changes();
  for_each_changing([](uint64_t address, bool) { text_write_byte(address, kTextBreakpoint); });
  text_sync();
  for_each_changing(
      [](uint64_t address, bool call) { text_write_tail(address, call ? probe_entry : nullptr); });
  text_sync();
  write_first_bytes();
  text_sync();
  write_first_bytes();
}

void link(ProbeItem* item) {
  std::atomic<ProbeItem*>& list = probe_lists[item->place];
  item->next.store(list.load(std::memory_order_relaxed), std::memory_order_relaxed);
  list.store(item, std::memory_order_release);
}

void unlink(const ProbeItem* item) {
  std::atomic<ProbeItem*>* link = &probe_lists[item->place];
  while (link->load(std::memory_order_relaxed) != item)
    link = &link->load(std::memory_order_relaxed)->next;
  link->store(item->next.load(std::memory_order_relaxed), std::memory_order_release);
}

Arming** arming_of(const ProbeConsumer& consumer) {
  Arming** arming = &armings;
  while (*arming && (*arming)->consumer != &consumer) arming = &(*arming)->next;
  return arming;
}

}  // namespace

NOT_PROBED void probe_called(const ProbeEntryFrame* frame) {
  const EnteredInterruptsOff entered(frame->flags);
  const ProbeItem* item = first_of(probe_place_at(frame->after_nop - kTextEntryBytes));
  if (!item) [[unlikely]]
    return;
  const RanksAside aside;
  ProbeHit hit;  // the fields are set one by one: gcc clears an aggregate first
  hit.tag = item->tag;
  hit.returned = hit.user = false;
  hit.stack_pointer = reinterpret_cast<uint64_t>(frame + 1);
  hit.frame_pointer = reinterpret_cast<uint64_t>(frame);
  hit.registers = &frame->registers;
  hit.flags = frame->flags;
  item->consumer->hit(hit);
  item = after(item);
  if (item) [[unlikely]]
    tell(item, hit);
}

// Interrupts are off here, because code that raises Cpu::probes_off turns interrupts off first.
NOT_PROBED void probe_kept_out(uint64_t after_nop) {
  count_kept_out(probe_place_at(after_nop - kTextEntryBytes), false);
}

NOT_PROBED bool probe_breakpoint(TrapFrame* frame) {
  const EnteredInterruptsOff entered(frame->rflags);
  const uint64_t address = frame->rip - 1;
  uint32_t place;
  if (probe_find_place(address, &place)) {
    frame->rip = address + kTextEntryBytes;
    return true;
  }
  if (!probe_find_return(address, &place)) return false;
  Cpu& cpu = this_cpu();
  if (cpu.probes_off != 0) {
    count_kept_out(place, true);
  } else {
    cpu.probes_off = 1;
    tell_return(place, *frame);
    cpu.probes_off = 0;
  }
  frame->rip = *reinterpret_cast<const uint64_t*>(frame->rsp);
  frame->rsp += sizeof(uint64_t);
  return true;
}

uint32_t kernel_function_count() {
  return probe_place_count;
}

KernelFunction kernel_function(uint32_t index) {
  ASSERT(index < probe_place_count);
  const uint64_t address = probe_place_address(index);
  KernelFunction function = {address, symbol_lookup(address).name, 0};
  const ProbesOff reading;
  const ProbeConsumer* before = nullptr;  // a consumer's items are adjacent
  for (const ProbeItem* item = first_of(index); item; item = after(item)) {
    function.consumers += item->consumer != before;
    before = item->consumer;
  }
  return function;
}

Result<void> kernel_probes_arm(ProbeConsumer& consumer, std::span<const KernelProbe> probes) {
  if (probes.empty()) return {};
  const size_t bytes = align_up(sizeof(Arming) + probes.size() * sizeof(ProbeItem), kPageSize);
  void* memory = trace_copy_alloc(bytes);
  if (!memory) return Errno::ENOMEM;
  const MutexGuard guard(probes_mutex);
  ASSERT(!*arming_of(consumer));
  armings = new (memory) Arming{armings, &consumer, bytes, probes.size()};
  ProbeItem* item = armings->items();
  for (const KernelProbe& probe : probes) {
    ASSERT(probe.function < probe_place_count);
    link(new (item++) ProbeItem{nullptr, &consumer, probe.tag, probe.function, probe.returns});
  }
  update_text();
  return {};
}

void kernel_probes_disarm(ProbeConsumer& consumer) {
  const MutexGuard guard(probes_mutex);
  Arming** link_to = arming_of(consumer);
  Arming* arming = *link_to;
  if (!arming) return;
  *link_to = arming->next;
  for (size_t i = 0; i < arming->count; i++) unlink(&arming->items()[i]);
  update_text();
  trace_copy_free(arming, arming->bytes);
}

uint64_t kernel_text_checksum() {
  return text_checksum();
}
