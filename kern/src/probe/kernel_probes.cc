// Probes on kernel functions.
//
// Every function begins with a nop of five bytes (gcc -mfentry -mnop-mcount). A probe makes a call
// of probe_entry of it, which tells those on the function's list, one after the other, and goes
// back behind it. For returns the function's `ret` instructions become breakpoints: the handler
// tells the list and does what the `ret` would have done. The build makes tables of both
// (probe_places.h). With no probe on a function its code is what the compiler made.
//
// Lists. Each place has a singly linked list of items. What changes lists and code has the sleeping
// lock; who reads them does so with interrupts off and takes no lock. An item is complete when it
// is put in front of a list; one that is taken out keeps its `next`, and is freed after a round
// through all CPUs (text_sync), when nobody can be reading it. All items of a consumer are one
// piece of memory, so arming can fail in one place only, before anything has changed. The code
// follows the lists: update_text() compares each place with its list and changes what differs, all
// together in three rounds.
//
// The guard. probe_entry and the breakpoint's handler look at Cpu::probes_off before anything else,
// and raise it while consumers are told. So what a consumer calls is not told to any; it is counted
// as kept out. NMIs, machine checks and a panic raise it too. What runs before the guard is looked
// at, or whatever it is, has no nop (NOT_PROBED): this file's handlers; trap_dispatch and
// exception(), which must have read a page fault's address before a consumer can fault at a user
// stack; the handler of NMIs, as far as its guard. They call nothing else. A breakpoint in the
// kernel has an entry of its own, so all else can be probed.
//
// Breakpoints. At a function's entry one stands while its code is being changed: no call need be
// told then, and it is skipped. At a `ret` it is told. A handler that finds neither list nor
// breakpoint any more, because they have just been removed, does the same: what stands at the place
// is known without looking.
//
// Lock ranks. A hit comes whatever locks are held, of any rank, and its consumer may take locks
// that nobody holds but hits and who keeps probes off meanwhile (ProbesOff). These nest inside
// everything; the checker of ranks begins anew for a hit.
#include "probe/kernel_probes.h"

#include <algorithm>
#include <new>

#include "arch/x86_64/probe_entry.h"
#include "arch/x86_64/text_patch.h"
#include "arch/x86_64/trap.h"
#include "core/log.h"
#include "core/sleep.h"
#include "core/symbols.h"
#include "probe/probe.h"
#include "probe/probe_places.h"
#include "store/trace_memory.h"

// One consumer's interest in one place.
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

// The ranks that this CPU holds do not count in a hit.
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

// Those that want to know, from `item` on.
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

// --- The code, as the lists want it. Under probes_mutex.

bool wants_returns(uint32_t place) {
  for (const ProbeItem* item = first_of(place); item; item = after(item)) {
    if (item->returns) return true;
  }
  return false;
}

// Finds what differs from what the lists want.
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

// Returns after entries, so that few are told without their call.
void write_first_bytes() {
  for_each_changing(
      [](uint64_t address, bool call) { text_write_byte(address, call ? kTextCall : kTextNop); });
  for (uint32_t i = 0; i < probe_return_count; i++) {
    if (!probe_returns_changing[i]) continue;
    text_write_byte(probe_return_address(i),
                    wants_returns(probe_return_places[i]) ? kTextBreakpoint : kTextReturn);
  }
}

// When it returns, no CPU reads an item that is on no list.
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
  ProbeHit hit;  // one by one: gcc clears the whole of an aggregate first
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

// Interrupts are off anyway: who keeps probes out has turned them off.
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
  const ProbeConsumer* before = nullptr;  // a consumer's items stand together
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
