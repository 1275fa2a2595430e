// Handles a breakpoint in a program.
#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/trap.h"
#include "core/probe_guard.h"
#include "core/user_memory.h"
#include "proc/process_impl.h"
#include "proc/user_probe_check_impl.h"
#include "proc/user_probe_table_impl.h"
#include "proc/user_probes_impl.h"

namespace {

static_assert(offsetof(TrapFrame, rdi) - offsetof(TrapFrame, r11) ==
                  offsetof(ProbeRegisters, rdi) &&
              offsetof(TrapFrame, rax) - offsetof(TrapFrame, r11) == offsetof(ProbeRegisters, rax));

// Calls hit() of each consumer of the site. Interrupts are off, and this CPU came from user mode,
// so no other hit() is running on this CPU.
[[gnu::always_inline]] inline void tell(const ProbeTable& table, const ProbeSite& site,
                                        const TrapFrame& frame) {
  const ProbesOffHere off;
  ProbeHit hit = {.tag = 0,
                  .returned = site.returns,
                  .user = true,
                  .stack_pointer = frame.rsp,
                  .frame_pointer = 0,
                  .registers = reinterpret_cast<const ProbeRegisters*>(&frame.r11),
                  .flags = kRflagsIf};
  for (const ProbeEntry& entry : table.entries(site)) {
    ProbeConsumer* const consumer = entry.consumer.load(std::memory_order_acquire);
    if (!consumer) [[unlikely]]
      continue;
    hit.tag = entry.tag;
    consumer->hit(hit);
  }
}

// Called when no probe was found at `address`. True if the original instruction is back at
// `address`, because the probe has just been removed. If false, the caller searches a second time,
// because a probe may have been added meanwhile. If the second search fails, too, the breakpoint is
// the program's own. Such a breakpoint may be an `int $3` of two bytes (cd 03); `address` is then
// the address of the second byte.
bool is_gone(uint64_t address) {
  uint8_t byte;
  return load_user_now(&byte, address, 1) &&
         (byte == kFunctionNop[0] || byte == kReturnInstruction);
}

// False if `address` is not in the program's code: the program may have mapped other memory there.
bool may_be_probed(AddressSpace& space, uint64_t address) {
  if (!space.code_replaced()) [[likely]]
    return true;
  interrupts_enable();
  // The answer may be stale when it is used: another task may have changed the mapping.
  const bool is_code = space.is_code(address);
  interrupts_disable();
  return is_code;
}

// Loads the return address for a `ret`. kAfterFault: the stack's page had to be made present first,
// with interrupts on, so the caller must search for the probe again.
enum class Loaded : uint8_t { kAtOnce, kAfterFault, kBadAddress };
Loaded load_return_address(uint64_t from, uint64_t* to) {
  if (load_user_word(from, to)) [[likely]]
    return Loaded::kAtOnce;
  interrupts_enable();
  const bool loaded = copy_from_user(to, from, sizeof(*to)).ok();
  interrupts_disable();
  return loaded ? Loaded::kAfterFault : Loaded::kBadAddress;
}

// Reports the hit, and does what the replaced instruction would have done.
[[gnu::always_inline]] inline void pass(const ProbeTable& table, const ProbeSite& site,
                                        TrapFrame& frame, uint64_t target) {
  if (!site.returns) {
    frame.rip += sizeof(kFunctionNop) - 1;
    tell(table, site, frame);
  } else {
    tell(table, site, frame);
    frame.rip = target;
    frame.rsp += sizeof(target);
  }
}

// Handles any breakpoint, on the general path.
[[gnu::noinline]] bool pass_slowly(TrapFrame& frame, AddressSpace& space) {
  const uint64_t address = frame.rip - 1;
  if (!may_be_probed(space, address)) return false;
  bool looked_twice = false;
  for (;;) {
    const ProbeTable* const table = user_probes_of(space.program);
    const ProbeSite* const site = table ? table->find(address) : nullptr;
    if (!site) {
      if (is_gone(address)) {
        frame.rip = address;
        return true;
      }
      if (std::exchange(looked_twice, true)) return false;
      continue;
    }
    uint64_t target = 0;
    const Loaded loaded = site->returns ? load_return_address(frame.rsp, &target) : Loaded::kAtOnce;
    if (loaded == Loaded::kAtOnce) {
      pass(*table, *site, frame, target);
      return true;
    }
    if (loaded == Loaded::kBadAddress) {
      frame.rip = address;
      interrupts_enable();
      user_exception(frame, kVectorPageFault, frame.rsp);
      interrupts_disable();
      return true;
    }
  }
}

}  // namespace

bool user_probes_breakpoint(TrapFrame& frame) {
  AddressSpace& space = *self().space;
  const ProbeTable* const table = user_probes_of(space.program);
  const ProbeSite* const site = table ? table->find(frame.rip - 1) : nullptr;
  uint64_t target = 0;
  if (!site || space.code_replaced() || (site->returns && !load_user_word(frame.rsp, &target)))
      [[unlikely]] {
    return pass_slowly(frame, space);
  }
  pass(*table, *site, frame, target);
  return true;
}
