# Stele. `make help` lists the targets. Everything that is made lies under $(BASE).
#
#   VARIANT=name    build with configs/name.config on top of the configuration, into $(BASE)/variant/name
#   TOOLCHAIN=dir   where newlib and the ports are built once, for all variants ($(BASE)/toolchain)

ifeq ($(filter -j% j%,$(MAKEFLAGS)),)
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

# The packages come before everything that uses them: `make` starts again when the stamp was made.
ifneq ($(filter-out clean help,$(or $(MAKECMDGOALS),all)),)
include $(BASE)/setup.stamp
$(BASE)/setup.stamp: scripts/setup
	@scripts/setup
	@mkdir -p $(@D) && touch $@
endif

all: kernel initrd

include kern/kconfig.mk
include kern/kern.mk
include user/user.mk
include tests/tests.mk

.PHONY: all kernel initrd run iso leaktest format lint clean help
kernel: $(KERNEL) $(BASE)/compile_commands.json
initrd: $(BUILD)/initrd.cpio

run: all $(if $(filter iso,$(BOOT)),iso) ## boot, with a shell on this terminal (SMP=4 MEM=512M BOOT=direct|iso); ctrl-a x ends
	@scripts/run --smp $(SMP) --mem $(MEM) $(if $(filter iso,$(BOOT)),--iso $(BUILD)/stele.iso,--kernel $(KERNEL) --initrd $(BUILD)/initrd.cpio)

iso: $(BUILD)/stele.iso ## the GRUB image build/stele.iso
$(BUILD)/stele.iso: $(KERNEL) $(BUILD)/initrd.cpio scripts/mkiso
	@echo "  ISO   $@"
	@scripts/mkiso $(KERNEL) $(BUILD)/initrd.cpio $@

leaktest: all ## run CMD='…' in the guest under the tracer (REPEAT=5); status 1 if it leaks
	@scripts/leaktest --repeat $(REPEAT) $(if $(VARIANT),--variant $(VARIANT)) '$(subst ','\'',$(CMD))'

format: ## clang-format over kernel and host sources
	@scripts/setup --developer
	@git ls-files '*.c' '*.cc' '*.h' | grep -v ^user/ports/ | xargs clang-format -i

lint: kernel ## layers, thread-safety analysis, clang-tidy
	@scripts/setup --developer
	@scripts/check-layers
	@scripts/lint $(BASE)/compile_commands.json

clean: ## remove everything that was made
	rm -rf $(BASE)

help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/ #/' | awk -F ' # ' '{printf "  make %-12s %s\n", $$1, $$2}'
