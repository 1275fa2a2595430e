// The tracer: who allocated what is still there?
//
// Every allocation from a traced cache gets a record when the caller gets the object, and loses it
// when the caller gives it back; so objects that idle in magazines do not count, and what has a
// record is what somebody holds. A record names the stack and the context by numbers that are
// shared by all records: thousands of objects from one place cost one stack.
//
// Parts, each a file
//   hooks          what slab.c and arena.cc call, with interrupts off, in any context but NMI
//   trace_table    one cache's records, a sharded hash table that grows a bucket at a time
//   sampler        which allocations a sampled trace records, and what they stand for
//   command        the language and the state machine; control makes it happen
//   later          what is to be traced that does not exist yet, and the words of the command line
//   started        the tables that are in use, for reports
//   settle         waits for quiet
// Parts that probes use too, in store/
//   intern_table   what is kept once and named by a number, and forgotten by mark and sweep
//   stack_table    stacks, and pairs of a kernel and a user stack, each once
//   recent_stacks  what each CPU has recorded lately, so that a stack is mostly found by comparing
//                  it
//   kernel_stacks  the number of the stack that is the current one, by way of the two
//   recent_callers the same of the user stacks from which system calls are made
//   context_table  contexts (process with program, kernel task, interrupt), each once;
//                  current_context finds out which one runs
//   shared_tables  the tables of stacks and contexts, and who holds numbers of them
//   sweeper        forgets the stacks and contexts that nobody holds; sched/sweep_task runs it
//   trace_memory   pages for all of them, with a limit
// What is read of it, in trace/dump/
//   trace_text     the text of a snapshot: trace_groups adds up its records by stack, trace_details
//                  collects what is shown of each stack
//   trace_binary   the bytes of a snapshot of every trace; binary_dump is an open one
//   dump           the files' side of both
//   summary        the stacks that hold most, without allocating; report says when that is printed
//
// Promises, and what keeps them
//   Nothing is lost silently. What cannot be recorded is counted, in the same shard and under the
//   same lock as the records, so that the identities in trace_table.h hold at every moment. Start
//   is made in two rounds of interprocessor interrupts, KMC_EVER_TRACED everywhere and then
//   KMC_TRACED: with one, a CPU could record what another frees without looking. An interprocessor
//   interrupt cannot land between slab.c's look at its flags and the end of the hook, because
//   interrupts are off there. So when the round of `stop` is over no hook is under way that began
//   before, and no record can appear; and after the round of `reset`, which clears KMC_EVER_TRACED,
//   nobody looks at the table, and it is freed. Stack and context numbers keep their meaning while
//   a holder has one (shared_tables.h): a trace table, a session of probes, an open dump, a task.
//
// Locks, outermost first: trace_control, that of a sweep and that of shared_tables.cc (all three
// sleeping) — a shard, or a chain of the stack or the context table: a hook holds one of them at a
// time. Hooks take nothing else while they hold one of these; pages are fetched from the arena
// before. Looking a stack up, and the page pool, take none.
#include "trace/trace.h"

#include "core/boot.h"
#include "pages.h"
#include "store/trace_memory.h"
#include "trace/control.h"

void trace_init() {
  trace_memory_init(align_down(memory_totals().total / CONFIG_MEM_TRACE_LIMIT_DIVISOR, kPageSize));
  size_t length;
  if (const char* const items = boot_option("trace", &length)) trace_start_at_boot({items, length});
}
