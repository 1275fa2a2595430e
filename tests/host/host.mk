# Host tests: the kernel's own source, compiled for the host under AddressSanitizer and
# UndefinedBehaviorSanitizer. Tests named NAME_threads_test run under ThreadSanitizer instead, because
# a program cannot have both AddressSanitizer and ThreadSanitizer.
#
# A world is a set of sources that replace the rest of the kernel. All tests of a world under one kind
# of sanitizer are one program, $(BUILD)/host/KIND-WORLD, which is linked with the world and with
# tested.a. This archive has all sources under test (sources.mk), compiled once for each kind of
# sanitizer. The linker takes an object from the archive only if the object defines a symbol that is
# still missing. So a function of a world replaces the kernel's function of the same name.
#
# The tests of a program share its symbols, so functions and types of a test are in an anonymous
# namespace. The cases of each file run in a process of their own (tests/googletest.py).

include tests/host/sources.mk

HOST_TESTS := $(patsubst tests/host/%.cc,%,$(wildcard tests/host/*_test.cc))

# $(call host_world,NAME,SOURCES,TESTS). TESTS are the names of files without _test.cc.
host_world = $(eval HOST_WORLDS += $(1))$(eval $(1)_WORLD := $(2:%=tests/host/%))$(eval $(1)_TESTS := $(3:%=%_test))
$(call host_world,memory,cpus/cpus.cc cpus/untraced.cc,arena slab_layer)
$(call host_world,depot,cpus/cpus.cc slab_depot_world.cc,slab_depot slab_reap)
$(call host_world,slab,cpus/cpus.cc slab_world.cc,kmalloc slab slab_parallel)
$(call host_world,check,cpus/cpus.cc slab_check_world.cc,slab_check slab_check_switch)
$(call host_world,sections,cpus/cpus.cc cpus/sections.cc,slab_threads)
$(call host_world,locks,fakes/spinlock.cc,p9_client trace_context)
$(call host_world,arena,fakes/spinlock.cc fakes/trace_arena.cc fakes/trace_users.cc,trace_memory trace_threads)
$(call host_world,trace,fakes/spinlock.cc fakes/trace_users.cc fakes/trace_world.cc,\
  context_table forget forget_threads kernel_stacks probe_command probe_tables probe_threads snapshot snapshot_threads stack_table trace_binary \
  trace_command trace_failures trace_frees trace_large trace_later trace_summary trace_table trace_text trace_text_memory)
# All other tests need no world.
$(call host_world,none,,$(patsubst %_test,%,$(filter-out $(foreach world,$(HOST_WORLDS),$($(world)_TESTS)),$(HOST_TESTS))))

# The kernel's assembly in `locks` has absolute addresses in sections that are only read. In `trace`
# the symbols at the ends of the allocator's code have values that a test uses.
locks_LINK := -no-pie
trace_LINK := -no-pie -Wl,--defsym=allocator_text_start=0x1000,--defsym=allocator_text_end=0x1fff

# -g1 is enough for the lines in a sanitizer's report. Headers in tests/host/cpus replace headers of
# the kernel with the same path. The kernel's code calls assembly from inline assembly (frames.h).
HOST_FLAGS := -O1 -g1 -Wall -Wextra -DSTELE_HOST -DCONFIG_PLANTED_BUGS -DCONFIG_MAX_CPUS=64 -DCONFIG_MEM_TRACE_LIMIT_DIVISOR=16 \
  -fno-omit-frame-pointer -mno-red-zone -fno-strict-aliasing -pthread \
  -I tests/host/cpus -I tests/host/fakes -I tests/host -I kern -I kern/include -I user/lib -I user/bin

# CONFIG_SLAB_CHECK_CALLS is not set under ThreadSanitizer, because it enables checks that take locks,
# and these locks would hide missing synchronisation.
HOST_address_SANITIZERS := -fsanitize=address,undefined -fno-sanitize-recover=all -DCONFIG_SLAB_CHECK_CALLS
HOST_address_SRC := $(MEMORY_CORE_SRC) $(TRACE_STORE_SRC) $(TRACE_CONTEXT_SRC) kern/intern/kernel_stacks.cc $(TRACE_TABLE_SRC) \
  $(TRACE_FILES_SRC) $(PROBE_SRC) $(P9_SRC) $(MACHINE_SRC) $(CONSOLE_SRC) $(STACKCOUNT_SRC) $(KMEMWATCH_SRC) $(KMEMTOP_SRC) tests/host/fakes/planted.cc
HOST_address_TESTS := $(filter-out %_threads_test,$(HOST_TESTS))
HOST_thread_SANITIZERS := -fsanitize=thread
HOST_thread_SRC := $(MEMORY_CORE_SRC) $(TRACE_STORE_SRC) $(TRACE_CONTEXT_SRC) $(TRACE_TABLE_SRC) $(PROBE_SRC) $(MACHINE_SRC) tests/host/fakes/planted.cc
HOST_thread_TESTS := $(filter %_threads_test,$(HOST_TESTS))

# The rules for one kind of sanitizer. $(1): address or thread
define HOST_KIND_RULES
HOST_$(1)_WORLDS := $$(foreach world,$$(HOST_WORLDS),$$(if $$(filter $$(HOST_$(1)_TESTS),$$($$(world)_TESTS)),$$(world)))
HOST_PROGRAMS += $$(HOST_$(1)_WORLDS:%=$(1)-%)
HOST_$(1)_FLAGS := $$(HOST_FLAGS) $$(HOST_$(1)_SANITIZERS)
HOST_$(1)_TESTED_OBJ := $$(HOST_$(1)_SRC:%=$(BUILD)/host/$(1)/%.o)
HOST_$(1)_TEST_OBJ := $$(patsubst %,$(BUILD)/host/$(1)/%.o,\
  $$(sort $$(HOST_$(1)_TESTS:%=tests/host/%.cc) $$(foreach world,$$(HOST_$(1)_WORLDS),$$($$(world)_WORLD))))

$(BUILD)/host/$(1)/%.c.o: %.c tests/host/host.mk
	@mkdir -p $$(@D)
	@echo "  HOST  $(1): $$<"
	@gcc -std=gnu17 $$(HOST_$(1)_FLAGS) -MMD -MP -c $$< -o $$@
$(BUILD)/host/$(1)/%.cc.o: %.cc tests/host/host.mk
	@mkdir -p $$(@D)
	@echo "  HOST  $(1): $$<"
	@g++ -std=c++20 $$(HOST_$(1)_FLAGS) $$(HOST_TEST_FLAGS) -MMD -MP -c $$< -o $$@

$(BUILD)/host/$(1)/%.S.o: %.S tests/host/host.mk
	@mkdir -p $$(@D)
	@echo "  HOST  $(1): $$<"
	@gcc -I kern -MMD -MP -c $$< -o $$@

# Tests and worlds are compiled with -Og, because gcc takes twice as long for GoogleTest's macros with
# -O1. The sources under test are compiled with -O1. Instead of the included prelude.h, gcc reads the
# precompiled prelude.h.gch in the same folder.
$$(HOST_$(1)_TEST_OBJ): HOST_TEST_FLAGS := -Og -include $(BUILD)/host/$(1)/prelude.h -Winvalid-pch
$$(HOST_$(1)_TEST_OBJ): $(BUILD)/host/$(1)/prelude.h.gch
$(BUILD)/host/$(1)/prelude.h.gch: tests/host/prelude.h tests/host/host.mk
	@mkdir -p $$(@D)
	@echo "  HOST  $(1): $$<"
	@g++ -std=c++20 $$(HOST_$(1)_FLAGS) -Og -MD -MP -x c++-header $$< -o $$@
-include $$(HOST_$(1)_TESTED_OBJ:.o=.d) $$(HOST_$(1)_TEST_OBJ:.o=.d) $(BUILD)/host/$(1)/prelude.h.d

# The file `tested` has the list of sources. It changes when a source is added or removed, and then the
# archive is made again.
$(BUILD)/host/$(1)/tested: TEXT := $$(HOST_$(1)_SRC)
$(BUILD)/host/$(1)/tested: FORCE
	@mkdir -p $$(@D)
	@echo '$$(TEXT)' | cmp -s - $$@ || echo '$$(TEXT)' > $$@
$(BUILD)/host/$(1)/tested.a: $$(HOST_$(1)_TESTED_OBJ) $(BUILD)/host/$(1)/tested
	@rm -f $$@
	@ar rcs --thin $$@ $$(filter %.o,$$^)

$$(HOST_$(1)_WORLDS:%=$(BUILD)/host/$(1)-%): $(BUILD)/host/$(1)-%: $(BUILD)/host/$(1)/tested.a
	@echo "  LINK  $$@"
	@g++ $$(HOST_$(1)_FLAGS) $$(filter %.o,$$^) $(BUILD)/host/$(1)/tested.a $$($$*_LINK) -lgtest -lgtest_main -o $$@
$$(foreach world,$$(HOST_$(1)_WORLDS),$$(eval $(BUILD)/host/$(1)-$$(world): \
  $$(patsubst %,$(BUILD)/host/$(1)/%.o,$$($$(world)_WORLD) $$(patsubst %,tests/host/%.cc,$$(filter $$(HOST_$(1)_TESTS),$$($$(world)_TESTS))))))
endef
$(foreach kind,address thread,$(eval $(call HOST_KIND_RULES,$(kind))))

# The names of all programs, for tests/googletest.py.
$(BUILD)/host/programs: TEXT = $(HOST_PROGRAMS)
$(BUILD)/host/programs: FORCE
	@mkdir -p $(@D)
	@echo '$(TEXT)' | cmp -s - $@ || echo '$(TEXT)' > $@

.PHONY: host-tests
host-tests: $(HOST_PROGRAMS:%=$(BUILD)/host/%) $(BUILD)/host/programs

# Installs speedscope. pprof_tools_test.py reads the output of scripts/report with speedscope's importer.
SPEEDSCOPE := $(BASE)/speedscope/npm.stamp
$(SPEEDSCOPE): tests/host/speedscope/package.json tests/host/speedscope/package-lock.json
	$(NPM_INSTALL)
