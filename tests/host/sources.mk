# The kernel's sources that tests/host/host.mk and bench/bench.mk also compile for the host. This
# file is the only list of them.

# Caches, arenas, pages.
MEMORY_CORE_SRC := $(wildcard $(subst %,*,$(call named,kern/src/slab%.c kern/src/arena%.cc))) kern/src/pages.cc kern/src/kmalloc.cc kern/lib/format.cc
# The table of stacks, counts by stack, the hints which stack is the present one, and the tracer's own memory.
TRACE_STORE_SRC := $(addprefix kern/intern/,table.cc stack_counts.cc stack_hints.cc stack_table.cc trace_memory.cc)
# The contexts in which allocations are made: task, program, interrupt.
TRACE_CONTEXT_SRC := $(addprefix kern/intern/,context_table.cc current_context.cc) kern/arch/x86_64/user_copy.S
# Tables of records, snapshots of them, and sampling.
TRACE_TABLE_SRC := $(addprefix kern/trace/record/,free_counts.cc sampler.cc snapshot.cc table_store.cc table_each.cc counters.cc table.cc)
# The hooks that the allocator calls for each traced allocation.
TRACE_HOOKS_SRC := kern/trace/record/hooks.cc kern/trace/record/slow_free.cc kern/intern/kernel_stacks.cc
# The commands that users write to the tracer's files, and the dumps that users read from these files.
TRACE_FILES_SRC := kern/trace/control/command.cc kern/trace/control/later.cc kern/trace/record/options.cc \
  $(addprefix kern/trace/dump/,ref_places.cc summary.cc binary.cc details.cc groups.cc text.cc)
PROBE_SRC := $(addprefix kern/probe/,command.cc events.cc pairs.cc)

# The part of the device #p9 that makes the requests to a server and parses the answers.
P9_SRC := kern/drivers/dev/p9_client.cc

# The measurement of the time stamp counter, and the memory map.
MACHINE_SRC := kern/arch/x86_64/clock_rate.cc kern/arch/x86_64/tsc_sync.cc kern/core/memory_map.cc

# The text on the screen, and the keys of the keyboard.
CONSOLE_SRC := kern/core/screen_text.cc kern/drivers/dev/keyboard_keys.cc

# The parts of the program stackcount that do not depend on Stele.
STACKCOUNT_SRC := $(addprefix user/bin/stackcount/,counts.cc pattern.cc report.cc) \
  $(addprefix user/lib/,symbols/kernel_symbols.cc symbols/program_symbols.cc tool/files.cc)

# The parts of the program kmemwatch that do not depend on Stele.
KMEMWATCH_SRC := $(addprefix user/bin/kmemwatch/,judge.cc report.cc trend.cc) user/lib/tool/kmemstat.cc

# The parts of the program kmemtop that do not depend on Stele.
KMEMTOP_SRC := $(addprefix user/bin/kmemtop/,format.cc sources.cc stacks.cc traces.cc)
