# Stele. `make help` lists the targets. Everything that is made lies under $(BASE).
#
#   VARIANT=name    build with configs/name.config on top of the configuration, into $(BASE)/variant/name
#   TOOLCHAIN=dir   where newlib, libstdc++ and the ports are built once, for all variants ($(BASE)/toolchain)

# As many jobs as CPUs; a make within make shares those of the outer one.
ifeq ($(MAKELEVEL)$(filter -j% j%,$(MAKEFLAGS)),0)
MAKEFLAGS += -j$(shell nproc)
endif
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all

BASE      ?= build
VARIANT   ?=
BUILD     ?= $(BASE)$(if $(VARIANT),/variant/$(VARIANT))
TOOLCHAIN ?= $(abspath $(BASE))/toolchain
export STELE_BUILD := $(abspath $(BASE))

SMP    ?= 4
MEM    ?= 512M
BOOT   ?= direct
CMD    ?=
REPEAT ?= 5
CMDLINE ?=

# The packages that the goals need, by the groups of scripts/setup, come before everything else: `make` starts again when the
# stamp was made.
GOALS := $(filter-out clean help,$(or $(MAKECMDGOALS),all))
PACKAGES := build \
  $(if $(filter run guest leaktest proof stress bench% test%,$(GOALS)),run) \
  $(if $(filter iso test%,$(GOALS) $(BOOT)),iso) \
  $(if $(filter bench% test% host-tests,$(GOALS)),test) \
  $(if $(filter bench,$(GOALS)),bench) \
  $(if $(filter format lint,$(GOALS)),developer)
space := $() $()
SETUP := $(BASE)/setup/$(subst $(space),+,$(strip $(PACKAGES)))
ifneq ($(GOALS),)
include $(SETUP)
$(SETUP): scripts/setup
	@scripts/setup $(PACKAGES)
	@mkdir -p $(@D) && touch $@
endif

# The initial archive first: what it needs takes longest.
all: initrd kernel

include kern/kconfig.mk
include kern/kern.mk
include user/user.mk
include tests/tests.mk
include bench/bench.mk

.PHONY: all kernel initrd guest run iso leaktest leaktest-run stress stress-run format lint clean help
kernel: $(KERNEL) $(BASE)/compile_commands.json
initrd: $(INITRD)
guest: all # for scripts/guest

run: all $(if $(filter iso,$(BOOT)),iso) ## boot, with a shell on this terminal (SMP=4 MEM=512M BOOT=direct|iso); ctrl-a x ends
	@scripts/run --smp $(SMP) --mem $(MEM) $(if $(filter iso,$(BOOT)),--iso $(BUILD)/stele.iso,--kernel $(KERNEL) --initrd $(INITRD))

iso: $(BUILD)/stele.iso ## the GRUB image build/stele.iso
$(BUILD)/stele.iso: $(KERNEL) $(INITRD) scripts/mkiso
	@echo "  ISO   $@"
	@scripts/mkiso $(KERNEL) $(INITRD) $@

# make ends with 2 whatever a recipe ends with, but under -q with 1 when something is left to be done. So these goals run under -q,
# where only the lines with + are carried out, and what is found leaves a line to be done.
ifneq ($(filter leaktest stress,$(MAKECMDGOALS)),)
MAKEFLAGS += -q
endif
leaktest: leaktest-run ## run CMD='…' in the guest under the tracer (REPEAT=5): status 0 clean, 1 a leak, 2 it cannot be said
	$(if $(filter 0,$(LEAKTEST_STATUS)),,$(if $(filter 1,$(LEAKTEST_STATUS)),@false,$(error it cannot be said whether anything leaked)))
LEAKTEST_STATUS = $(shell cat $(BASE)/leaktest/status)
# As it was typed: a $ in CMD is the shell's in the guest, not make's.
leaktest-run: export LEAKTEST_CMD := $(value CMD)
unexport CMD
leaktest-run:
	+@mkdir -p $(BASE)/leaktest; echo 2 > $(BASE)/leaktest/status
	+@MAKEFLAGS= MAKELEVEL= $(MAKE) -s all BASE=$(BASE) VARIANT=$(VARIANT) >&2 && \
	  { scripts/leaktest --repeat $(REPEAT) $(if $(VARIANT),--variant $(VARIANT)) $(if $(CMDLINE),--cmdline '$(CMDLINE)') "$$LEAKTEST_CMD"; \
	    echo $$? > $(BASE)/leaktest/status; }

# Building each kernel is a make of its own: two makes of one folder at once would be in each other's way.
STRESS_VARIANTS := $(or $(VARIANT),checked sanitize)
stress: stress-run ## everything at once, at random, MINUTES=10 for each debug build (SEED=, VARIANT=): status as that of leaktest
	$(if $(filter 0,$(STRESS_STATUS)),,$(if $(filter 1,$(STRESS_STATUS)),@false,$(error it cannot be said whether anything is wrong)))
STRESS_STATUS = $(shell cat $(BASE)/stress/status)
stress-run:
	+@mkdir -p $(BASE)/stress; echo 2 > $(BASE)/stress/status
	+@for variant in $(STRESS_VARIANTS); do MAKEFLAGS= MAKELEVEL= $(MAKE) -s all BASE=$(BASE) VARIANT=$$variant >&2 || exit; done && \
	  { scripts/stress --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(STRESS_VARIANTS:%=--variant %); echo $$? > $(BASE)/stress/status; }

format: ## clang-format over every C and C++ source
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format -i

lint: kernel ## formatting, layers, thread-safety analysis, clang-tidy
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format --dry-run -Werror
	@scripts/check-layers
	@scripts/lint $(BASE)/compile_commands.json

clean: ## remove everything that was made
	rm -rf $(BASE)

help:
	@grep -hE '^[a-z-]+:.*##' Makefile kern/kconfig.mk tests/tests.mk bench/bench.mk | sed -E 's/:[^#]*##/ #/' | awk -F ' # ' '{printf "  make %-12s %s\n", $$1, $$2}'
