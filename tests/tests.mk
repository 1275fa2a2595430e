# Runs the tests with pytest: on the host (tests/host), inside the kernel (kern/tests) and in the
# booted system (tests/guest). The last line of output is `N passed, M failed`. build/test.xml has
# the result of each test.
#
#   TESTS='word…'   only tests whose name (FILE::NAME, as failures print it) contains at least one of the words

include tests/host/host.mk

# Tests use these kernels and the default kernel. Each of these kernels has the configuration
# configs/NAME.config and the default initial archive. Only long tests use LONG_KERNELS.
TEST_KERNELS := $(BASE)/variant/debug/stele.elf
LONG_KERNELS := $(patsubst %,$(BASE)/variant/%/stele.elf,sanitize irqoff proof)
PROOF_KERNEL := $(BASE)/variant/proof/stele.elf
ifeq ($(VARIANT),)
$(TEST_KERNELS) $(LONG_KERNELS): $(BASE)/variant/%/stele.elf: FORCE
	@$(MAKE) VARIANT=$* $@
endif

TESTS ?=
export TESTS
# pytest-3 is Debian's pytest. It does not depend on which Python is first on the path. Some tests wait more than they
# compute, so there is one process more than CPUs.
PYTEST = pytest-3 --numprocesses $(shell expr $$(nproc) + 1) --dist loadgroup --junitxml $(BASE)/test.xml --words "$$TESTS"

.PHONY: test test-host test-kernel test-guest test-long
test: all host-tests $(TEST_KERNELS) $(PORTS_IN_SHORT:%=port-%) ## every test but the long ones (TESTS=word)
	@$(PYTEST) -m 'not long' tests kern/tests
test-host: host-tests ## the kernel's own source on the host, and the host tools
	@$(PYTEST) -m 'not long' tests/host
test-kernel: all $(TEST_KERNELS) ## the tests inside the kernel
	@$(PYTEST) -m 'not long' --ignore tests/host --ignore tests/guest tests kern/tests
test-guest: all $(TEST_KERNELS) $(PORTS_IN_SHORT:%=port-%) ## the booted system, as a person would use it
	@$(PYTEST) -m 'not long' tests/guest
test-long: all $(BASE)/bench/instructions.so $(BASE)/bench/stretches.so ports $(PORTS_NATIVE) host-tests report-page $(SPEEDSCOPE) $(TEST_KERNELS) $(LONG_KERNELS) ## the tests that take long
	@$(PYTEST) -m long tests kern/tests

# The quoted outputs of README and docs/. The status 1 of scripts/docs-outputs means that it has rewritten some.
.PHONY: docs-outputs
docs-outputs: all $(TEST_KERNELS) $(BASE)/bench/instructions.so ## rewrite the outputs that README and docs/ quote, where commands print others now
	@scripts/docs-outputs --slow || [ $$? = 1 ]

# A long run of the proof of the tracer (docs/testing.md), in the default kernel with kernel tests or in the kernel VARIANT. The guest's time
# limit is MINUTES plus two minutes for booting.
.PHONY: proof
proof: all $(if $(VARIANT),,$(PROOF_KERNEL)) ## compare the tracer with an account of live objects (MINUTES=10 SMP=4), at random, until something differs
	@$(call on-interrupt,:) scripts/guest --no-build --variant $(or $(VARIANT),proof) --smp $(SMP) --timeout $$(($(MINUTES) * 60 + 120)) --seconds $$(($(MINUTES) * 60)) --ktest=proof \
	  --cmdline 'minutes=$(MINUTES)$(if $(SEED), seed=$(SEED))$(if $(CMDLINE), $(CMDLINE))'
