// Probes on functions of programs.
//
// A probe is a breakpoint instruction of one byte. It replaces the first byte of a `ret`, or of the
// five-byte nop that a function begins with. The kernel emulates the replaced instruction: after a
// nop the program continues five bytes further; after a `ret` it continues at the return address on
// its stack (user_probe_hit.cc). So nothing is single-stepped, no return address is modified, and
// signals, exceptions and longjmp work as usual. A program that reads its own code sees the
// breakpoints.
//
// The probed file is identified by device and qid path, and is held open. So it stays the same file
// when it is renamed or removed, and a new file with the old name is a different file. Probes are
// set at virtual addresses. These addresses are fixed, because programs are linked statically. The
// host may overwrite a file of #p9 while a program runs from it (file_use.cc prevents all other
// writes). So bytes are changed only if they are the expected ones.
//
// Pages. Only code that the program cannot write is patched. A process maps its code from the file
// a page at a time, and shares the pages with its children after fork. A page without probes may
// belong to the page cache, whose pages all readers of the file see. A page with probes is a copy
// of the file's page, which belongs to the address spaces that map the copy, not to the page cache.
// The copy stays in use after the probes are removed. It has the same content in all these address
// spaces, and is patched in place, through the direct map. Breakpoints are written in two cases:
// - A page that is copied or filled is patched before it is mapped, under the lock of its address
//   space.
// - Arming first publishes the probes. Then it locks one address space of the program after the
//   other, and goes through the present pages of code. It patches the pages that only processes of
//   the program use. Of the pages of the page cache, it unmaps those that have probes; the next
//   fault maps a copy.
// Both cases hold the lock of the address space, so the later of the two sees the effect of the
// earlier. fork adds the child's address space to the list of address spaces before it unlocks the
// parent's, so arming does not miss the child.
//
// Lookups. A hit searches for its probe with interrupts off and without a lock: first for the
// program (ProbedProgram), then for the address (ProbeTable), both by hash. Programs and tables are
// complete when they are published. They are freed only after a round, which is an interprocessor
// interrupt on every CPU: it waits for the CPUs that have interrupts off. Arming replaces the
// table. Disarming empties entries in place, restores the bytes, and makes a round: after the round
// no hit() of the consumer is running. If a breakpoint is removed between a CPU's hit and its
// lookup, the CPU executes the original instruction at that address. All bytes are written a second
// time after a round, since an emulator may have missed the first write (arch/x86_64/text_patch.h).
// Arming ends with a round, too, so a lookup overlaps at most one arming or disarming.
//
// Lock order: registry_lock, then the locks of address spaces. consumers_lock is a spinlock for the
// list of consumers. It is not held while a consumer's thread_left(), process_left(),
// memory_mapped() or memory_unmapped() is called. Instead each consumer has a count of its calls
// that are under way, and disarming waits until the count is 0.
//
// Costs. Without probes, one to three loads and branches are executed when a page is filled, and in
// each exec, exit, mmap and munmap. docs/probes.md has the cost of a hit.
#include "proc/user_probes_impl.h"

#include <array>

#include "arch/x86_64/interrupts.h"
#include "arch/x86_64/smp.h"
#include "kmalloc.h"
#include "proc/user_probe_check_impl.h"
#include "proc/user_probe_table_impl.h"
#include "sched/task.h"

constinit UserProbesInUse user_probes_in_use;
// Changed under registry_lock.
constinit std::array<std::atomic<ProbedProgram*>, kProbedProgramBuckets> probed_programs{};

namespace {

using Link = std::atomic<ProbedProgram*>;

constinit Mutex registry_lock{LockRank::kUserProbes};

using Consumers = List<ProbeConsumer::UserProbeState, &ProbeConsumer::UserProbeState::link>;
constinit Spinlock consumers_lock{LockRank::kConsumers};
constinit Consumers consumers GUARDED_BY(consumers_lock);
constinit WaitQueue calls_done;

// The caller holds registry_lock.
ProbedProgram* find_program(const ProgramId& id) {
  ProbedProgram* program = probed_program_bucket(id).load(std::memory_order_relaxed);
  while (program && !(program->id == id)) program = program->next.load(std::memory_order_relaxed);
  return program;
}

// Waits until every CPU has had interrupts on.
void round_of_interrupts() {
  on_each_cpu([](void*) {}, nullptr);
}

// Patches all code of `program` to match its table. Does so twice, each time followed by a round
// (see the top of this file).
void patch_all_pages(const ProbedProgram& program) {
  struct Patch final : AddressSpace::CodeVisitor {
    explicit Patch(const ProbeTable& in) : table(in) {}
    bool wants_own(uint64_t page) override { return table.is_in(page); }
    void visit(uint64_t page, uint8_t* bytes) override { table.patch(page, bytes); }
    const ProbeTable& table;
  } patch(*program.table.load(std::memory_order_relaxed));
  for (unsigned pass = 0; pass < 2; pass++) {
    AddressSpace::for_each_code_page(program.id, patch);
    round_of_interrupts();
  }
}

class NewProgram {
 public:
  static Result<NewProgram> make(Chan& file) {
    void* const memory = kmalloc(sizeof(ProbedProgram), KM_SLEEP);
    if (!memory) return Errno::ENOMEM;
    auto* const program = new (memory) ProbedProgram;
    program->id = {file.device, file.qid.path};
    program->file = Ref<Chan>(&file);
    return NewProgram(program);
  }
  NewProgram(NewProgram&& other) noexcept : program_(other.release()) {}
  ~NewProgram() { destroy(program_); }
  ProbedProgram* operator->() const { return program_; }
  ProbedProgram* release() { return std::exchange(program_, nullptr); }
  static void destroy(ProbedProgram* program) {
    if (!program) return;
    if (ProbeTable* const table = program->table.load(std::memory_order_relaxed))
      ProbeTable::destroy(table);
    program->~ProbedProgram();
    kfree(program);
  }

 private:
  explicit NewProgram(ProbedProgram* program) : program_(program) {}
  ProbedProgram* program_;
};

void enlist(ProbeConsumer& consumer) {
  const Guard guard(consumers_lock);
  ProbeConsumer::UserProbeState& state = consumer.user_state;
  if (state.link.linked()) return;
  state.consumer = &consumer;
  state.leaving = state.watches_memory = false;
  consumers.push_back(state);
  user_probes_in_use.consumers.fetch_add(1, std::memory_order_relaxed);
}

// Removes the consumer from the list. First waits until for_each_consumer() is not calling the
// consumer any more.
void delist(ProbeConsumer& consumer) {
  const Guard guard(consumers_lock);
  ProbeConsumer::UserProbeState& state = consumer.user_state;
  if (!state.link.linked()) return;
  state.leaving = true;
  calls_done.wait_uninterruptible(consumers_lock, [&] { return state.calls == 0; });
  state.link.unlink();
  user_probes_in_use.consumers.fetch_sub(1, std::memory_order_relaxed);
  if (state.watches_memory) user_probes_in_use.watchers.fetch_sub(1, std::memory_order_relaxed);
}

// Returns the next consumer after `last`, or the first if `last` is nullptr. The returned consumer
// stays in the list until the caller passes it as `last`.
ProbeConsumer::UserProbeState* next_consumer(ProbeConsumer::UserProbeState* last,
                                             bool watchers_only) {
  const Guard guard(consumers_lock);
  ProbeConsumer::UserProbeState* found = nullptr;
  Consumers::Iterator at = last ? ++Consumers::Iterator(&last->link) : consumers.begin();
  for (; at != consumers.end() && !found; ++at) {
    if (!(*at).leaving && (!watchers_only || (*at).watches_memory)) found = &*at;
  }
  if (found) found->calls++;
  if (last && --last->calls == 0) calls_done.wake_all();
  return found;
}

template <typename Tell>
void for_each_consumer(bool watchers_only, Tell tell) {
  ProbeConsumer::UserProbeState* state = nullptr;
  while ((state = next_consumer(state, watchers_only))) tell(*state->consumer);
}

// Removes all probes of the consumer. Returns the programs that have no probes left; lookups do not
// find these programs any more.
ProbedProgram* disarm_all(const ProbeConsumer& consumer) {
  const MutexGuard guard(registry_lock);
  ProbedProgram* gone = nullptr;
  bool any = false;
  for (Link& bucket : probed_programs) {
    Link* link = &bucket;
    while (ProbedProgram* const program = link->load(std::memory_order_relaxed)) {
      const bool changed = program->table.load(std::memory_order_relaxed)->remove(consumer);
      if (changed) patch_all_pages(*program);
      any |= changed;
      if (changed && program->table.load(std::memory_order_relaxed)->empty()) {
        link->store(program->next.load(std::memory_order_relaxed), std::memory_order_release);
        user_probes_in_use.programs.fetch_sub(1, std::memory_order_relaxed);
        program->next_gone = gone;
        gone = program;
      } else {
        link = &program->next;
      }
    }
  }
  if (any) round_of_interrupts();
  return gone;
}

}  // namespace

Result<void> user_probes_arm(ProbeConsumer& consumer, Chan& file,
                             std::span<const UserProbe> probes) {
  if (probes.empty()) return {};
  TRY(user_probes_check(file, probes));
  NewProgram fresh = TRY(NewProgram::make(file));
  const MutexGuard guard(registry_lock);
  ProbedProgram* program = find_program(fresh->id);
  ProbeTable* const old = program ? program->table.load(std::memory_order_relaxed) : nullptr;
  ProbeTable* const table = TRY(ProbeTable::create(old, consumer, probes));
  enlist(consumer);
  if (program) {
    program->table.store(table, std::memory_order_release);
  } else {
    program = fresh.release();
    program->table.store(table, std::memory_order_relaxed);
    Link& bucket = probed_program_bucket(program->id);
    program->next.store(bucket.load(std::memory_order_relaxed), std::memory_order_relaxed);
    user_probes_in_use.programs.fetch_add(1, std::memory_order_relaxed);
    bucket.store(program, std::memory_order_release);
  }
  patch_all_pages(*program);
  if (old) ProbeTable::destroy(old);
  return {};
}

void user_probes_disarm(ProbeConsumer& consumer) {
  ProbedProgram* gone = disarm_all(consumer);
  while (gone) NewProgram::destroy(std::exchange(gone, gone->next_gone));
  delist(consumer);
}

void user_probes_watch_memory(ProbeConsumer& consumer) {
  enlist(consumer);
  const Guard guard(consumers_lock);
  if (std::exchange(consumer.user_state.watches_memory, true)) return;
  user_probes_in_use.watchers.fetch_add(1, std::memory_order_relaxed);
}

bool user_probes_want_page(const ProgramId& program, uint64_t page) {
  const InterruptsOff off;
  const ProbeTable* const table = user_probes_of(program);
  return table && table->is_in(page);
}

void user_probes_patch_page(const ProgramId& program, uint64_t page, uint8_t* bytes) {
  const InterruptsOff off;
  if (const ProbeTable* const table = user_probes_of(program)) table->patch(page, bytes);
}

void user_probes_tell_thread_left(uint32_t id) {
  for_each_consumer(false, [&](ProbeConsumer& consumer) { consumer.thread_left(id); });
}

void user_probes_tell_left(uint32_t pid, ProcessLeft how) {
  for_each_consumer(false, [&](ProbeConsumer& consumer) { consumer.process_left(pid, how); });
}

void user_probes_tell_memory(MemoryChange change, uint64_t address, uint64_t size) {
  for_each_consumer(true, [&](ProbeConsumer& consumer) {
    if (change == MemoryChange::kMapped) {
      consumer.memory_mapped(address, size);
    } else {
      consumer.memory_unmapped(address, size);
    }
  });
}
