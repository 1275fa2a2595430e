# Tests of the three kinds. `make test` runs all and ends with the line `N passed, M failed`.
#
#   TESTS=pattern   only tests whose name contains it (guest and kernel tests)

include tests/host/host.mk

TESTS ?=
.PHONY: test test-host test-kernel test-guest
test: all host-tests ## every test
	@scripts/test host kernel guest
test-host: host-tests ## the kernel's own source on the host, and the host tools
	@scripts/test host
test-kernel: all ## the tests inside the kernel
	@scripts/test kernel
test-guest: all ## the booted system, as a person would use it
	@scripts/test guest
export TESTS

# A long run of the proof of the tracer (docs/testing.md). Building and booting take time too.
MINUTES ?= 10
.PHONY: proof
proof: all ## compare the tracer with an account of what is live (MINUTES=10 SMP=4), at random, until something differs
	@scripts/guest --no-build $(if $(VARIANT),--variant $(VARIANT)) --smp $(SMP) --timeout $$(($(MINUTES) * 60 + 120)) --ktest=proof \
	  --cmdline 'minutes=$(MINUTES)$(if $(SEED), seed=$(SEED))'
