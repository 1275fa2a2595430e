# What of the kernel each host test is linked with.

SOURCES_stack_table_test := kern/src/trace/stack_table.cc tests/host/fakes/trace_world.cc
SOURCES_trace_table_test := kern/src/trace/trace_table.cc tests/host/fakes/trace_world.cc
SOURCES_trace_command_test := kern/src/trace/command.cc kern/lib/format.cc tests/host/fakes/trace_world.cc
SOURCES_trace_text_test := $(addprefix kern/src/trace/,trace_text.cc trace_table.cc stack_table.cc context_table.cc command.cc) \
  kern/lib/format.cc tests/host/fakes/trace_world.cc
