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
