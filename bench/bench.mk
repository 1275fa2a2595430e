# make bench: what the memory core and the tracer cost, in guest instructions and on the host's processors.

BENCH_HOST := $(BASE)/bench/pairs_bench
BENCH_HOST_SRC := bench/host/pairs_bench.cc bench/host/world.cc \
  $(MEMORY_CORE_SRC) $(TRACE_STORE_SRC) $(TRACE_TABLE_SRC) $(TRACE_HOOKS_SRC)
BENCH_HOST_OBJ := $(BENCH_HOST_SRC:%=$(BASE)/bench/objects/%.o)
# As the kernel is compiled, where it matters for speed; and where it is linked, the return addresses fit into 32 bits, as the
# kernel's do.
BENCH_FLAGS := -O2 -g -Wall -Wextra -DSTELE_HOST -DCONFIG_MAX_CPUS=64 -DCONFIG_MEM_TRACE_LIMIT_DIVISOR=16 \
  -fno-pie -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fno-optimize-sibling-calls -fno-strict-aliasing -pthread \
  -I bench/host -I tests/host/cpus -I kern -I kern/include -I kern/src

$(BASE)/bench/objects/%.c.o: %.c bench/bench.mk
	@mkdir -p $(@D)
	@echo "  BENCH $<"
	@gcc -std=gnu17 $(BENCH_FLAGS) -MMD -MP -c $< -o $@
$(BASE)/bench/objects/%.cc.o: %.cc bench/bench.mk
	@mkdir -p $(@D)
	@echo "  BENCH $<"
	@g++ -std=c++20 $(BENCH_FLAGS) -MMD -MP -c $< -o $@
-include $(BENCH_HOST_OBJ:.o=.d)

$(BENCH_HOST): $(BENCH_HOST_OBJ) tests/host/sources.mk
	@g++ $(BENCH_FLAGS) -no-pie $(filter %.o,$^) -lbenchmark -o $@
# Seldom run, it is built with the tests, so that it goes on being built at all.
host-tests: $(BENCH_HOST)

.PHONY: bench bench-baseline
bench: all $(BENCH_HOST) ## every figure, beside its target and those of the peers; build/bench/
	@bench/bench.py
bench-baseline: all ## the counts as they are now become what `make test` compares with
	@bench/bench.py --counts-only --write-baseline
