# make bench: the cost of the allocator and the tracer, in guest instructions and on the host's processors.

BENCH_HOST := $(BASE)/bench/pairs_bench
BENCH_HOST_SRC := bench/host/pairs_bench.cc bench/host/world.cc \
  $(MEMORY_CORE_SRC) $(TRACE_STORE_SRC) $(TRACE_TABLE_SRC) $(TRACE_HOOKS_SRC) $(call named,kern/arch/x86_64/user_copy.S)
BENCH_HOST_OBJ := $(BENCH_HOST_SRC:%=$(BASE)/bench/objects/%.o)
# The flags that matter for speed are the same as for the kernel. With STELE_BENCH, the tracer's hooks take their locks as in the kernel
# (core/hook_lock.h). Without PIE, return addresses fit into 32 bits, as in the kernel.
BENCH_FLAGS := -O2 -g -Wall -Wextra -DSTELE_HOST -DSTELE_BENCH -DCONFIG_MAX_CPUS=64 \
  -DCONFIG_MEM_TRACE_LIMIT_DIVISOR=16 \
  -fno-pie -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -mno-red-zone -fno-optimize-sibling-calls -fno-strict-aliasing -pthread \
  -I bench/host -I tests/host/cpus -I kern -I kern/include

$(BASE)/bench/objects/%.c.o: %.c bench/bench.mk
	@mkdir -p $(@D)
	@echo "  BENCH $<"
	@gcc -std=gnu17 $(BENCH_FLAGS) -MMD -MP -c $< -o $@
$(BASE)/bench/objects/%.cc.o: %.cc bench/bench.mk
	@mkdir -p $(@D)
	@echo "  BENCH $<"
	@g++ -std=c++20 $(BENCH_FLAGS) -MMD -MP -c $< -o $@
$(BASE)/bench/objects/%.S.o: %.S bench/bench.mk
	@mkdir -p $(@D)
	@echo "  BENCH $<"
	@gcc -I kern -MMD -MP -c $< -o $@
-include $(BENCH_HOST_OBJ:.o=.d)

$(BENCH_HOST): $(BENCH_HOST_OBJ) tests/host/sources.mk
	@g++ $(BENCH_FLAGS) -no-pie $(filter %.o,$^) -lbenchmark -o $@
# The long tests build the benchmark, because it is seldom run and should not break unnoticed.
test-long: $(BENCH_HOST)

# A kernel whose allocator does not test the flags of a cache (docs/testing.md). bench.py runs whole loads in this kernel and in the normal
# kernel; the difference is the cost of the flag tests.
BENCH_KERNEL := $(BASE)/variant/no_flag_tests/stele.elf
ifeq ($(VARIANT),)
$(BENCH_KERNEL): FORCE
	@$(MAKE) VARIANT=no_flag_tests $@
endif

# The plugins of QEMU: one counts instructions, for bench/where.py; the other measures how long interrupts are off, for bench/scale.py.
BENCH_PLUGIN := $(BASE)/bench/instructions.so
BENCH_STRETCHES := $(BASE)/bench/stretches.so
BENCH_PLUGIN_FLAGS := -std=gnu17 -O2 -Wall -Wextra -fPIC -fvisibility=hidden
$(BENCH_PLUGIN) $(BENCH_STRETCHES): $(BASE)/bench/%.so: bench/%.c bench/plugin.h bench/bench.mk
	@mkdir -p $(@D)
	@echo "  BENCH $<"
	@gcc $(BENCH_PLUGIN_FLAGS) -shared $< -o $@

# The arguments of `make bench-scale`. The targets for lost records and for the growth of trace memory assume PROCESSES=100000. The default
# is 5000, because 100000 processes take twenty times as long.
OBJECTS   ?= 10000000
CONTEXTS  ?= 1000000
PROCESSES ?= 5000
RECORDS   ?= 1000000

.PHONY: bench bench-baseline bench-where bench-scale
bench: all port-sqlite3 $(BENCH_HOST) $(BENCH_KERNEL) ## every figure, beside its target and those of other kernels; build/bench/
	@bench/bench.py
bench-baseline: all ## makes the present counts the baseline of `make test`
	@bench/bench.py --counts-only --write-baseline
bench-where: all $(BENCH_PLUGIN) ## where the instructions are that traces add to whole loads
	@bench/where.py
bench-scale: all $(BASE)/variant/irqoff/stele.elf $(BENCH_STRETCHES) ## very many objects, contexts, CPUs, processes (OBJECTS=10000000 PROCESSES=5000)
	@bench/scale.py --objects $(OBJECTS) --contexts $(CONTEXTS) --processes $(PROCESSES) --records $(RECORDS)
