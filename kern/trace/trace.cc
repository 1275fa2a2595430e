// The tracer: records where each outstanding object was allocated.
//
// An allocation from a traced cache gets a record when the caller gets the object; the record is
// removed when the caller frees the object. So idle objects in magazines have no record, and each
// record is of an object that somebody holds. A record names its stack and context by numbers, and
// all records share the tables of stacks and contexts. So thousands of objects that were allocated
// at one place cost one stack.
//
// Files in record/
//   hooks          called by the allocator, with interrupts off, in any context but NMI
//   table          one cache's records, in a shard for each CPU
//   table_store    the records of a shard, a hash table that grows a bucket at a time
//   snapshot       keeps the records unchanged while they are read
//   sampler        chooses the allocations that a sampled trace records, and gives their weight
// Files in control/
//   command        the command language and the state machine; control executes the commands
//   later          requests to trace caches that do not exist yet. They come from the command
//                  `start` and from the kernel command line
//   started        the tables in use, for reports
//   settle         waits until allocation is quiet
// Files in intern/, shared with probes
//   table          a table that keeps each value once, numbers it, and forgets it by mark and sweep
//   stack_table    kernel stacks and user stacks, each once; for probes, pairs of the two
//   stack_hints    for each CPU, which stored stacks the current ones may be
//   kernel_stacks  finds the number of the current kernel stack, by a hint or in stack_table
//   context_table  contexts (process with program, kernel task, interrupt), each once;
//                  current_context finds the current one
//   shared_tables  the tables of stacks and contexts, and their users
//   sweeper        forgets the stacks and contexts that nobody holds; sched/sweep_task runs it
//   trace_memory   pages for all these tables, with a limit
// Files in dump/, which read traces
//   text           the text of a snapshot: groups adds up its records by stack, details collects
//                  the details of each stack
//   binary         the bytes of a binary dump, which has a snapshot of every trace; open_binary is
//                  such a dump while it is open
//   dump           the file interface of text and binary dumps
//   summary        finds the stacks that hold most memory, without allocating; report prints them
//
// Guarantees
//   Nothing is lost silently. An allocation that cannot be recorded is counted in the same shard
//   and under the same lock as the records, so that the identities in trace/record/table.h always
//   hold.
//
//   Start and stop are exact. Start takes two rounds of interprocessor interrupts. The first round
//   sets KMC_EVER_TRACED on all CPUs: from now on, frees remove records. The second round sets
//   KMC_TRACED: from now on, allocations add records. With one round for both, a CPU could record
//   an object while another CPU, which has not had the interrupt yet, frees the object and leaves
//   its record. Interrupts are off from the allocator's test of the flags to the end of the hook,
//   so no interprocessor interrupt arrives in between.
//   Therefore, when the round of `stop` is over, no earlier hook is under way, and no record can
//   appear. After the round of `reset`, which clears KMC_EVER_TRACED, no hook uses the table, and
//   it is freed.
//
//   Numbers of stacks and contexts stay valid while a user of the tables has them
//   (shared_tables.h): a trace table, a session of probes, an open dump, a task.
//
// Locks, outermost first: trace_control, trace_sweep_lock, and the lock of shared_tables.cc (all
// three sleeping); then spinlocks: the lock of a shard, or the lock of a chain in the stack or
// context table. A hook holds one of these spinlocks at a time and takes no other lock meanwhile.
// Before it takes the first of them, the hook tops up the pool with pages from the arena. Stack
// look-ups and the page pool take no lock.
#include "trace/trace.h"

#include "core/boot.h"
#include "intern/trace_memory.h"
#include "pages.h"
#include "trace/control/control.h"

void trace_init() {
  trace_memory_init(align_down(memory_totals().total / CONFIG_MEM_TRACE_LIMIT_DIVISOR, kPageSize));
  size_t length;
  if (const char* const items = boot_option("trace", &length)) trace_start_at_boot({items, length});
}
