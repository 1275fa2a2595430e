# Stele. `make help` lists the targets. All built files go to $(BASE), `build` by default.
#
#   VARIANT=name    build with configs/name.config on top of the configuration, into $(BASE)/variant/name
#   SETUP=ask       install no packages: end with the command that installs those that are missing
#   TOOLCHAIN=dir   the toolchain of user programs is in dir, $(BASE)/toolchain by default
#   CACHE=dir       keep newlib, libstdc++ and the ports in dir, by their content, for all source trees (~/.cache/stele by default)

# make runs as many jobs as there are CPUs. A nested make shares the jobs of the outer make.
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
CACHE     ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/stele
# Debian's Python, which has the packages that scripts/setup installs. The first python3 on PATH may be another Python.
PYTHON    := /usr/bin/python3
export STELE_BUILD := $(abspath $(BASE))

# A path with a blank ends make at once with one line, since make would split the path.
ifneq ($(words $(CURDIR)) $(words $(BASE)) $(words $(TOOLCHAIN)),1 1 1)
$(error a path of the source, of BASE or of TOOLCHAIN has a blank, which make cannot handle: $(CURDIR))
endif

# $(call named,PATHS): PATHS. A path, with % for any text, that names no file ends make. So a file that moves takes its flags along.
named = $(foreach path,$(1),$(if $(wildcard $(subst %,*,$(path))),$(path),$(error no file is named $(path))))

SMP    ?= 4
MEM    ?= 512M
BOOT   ?= direct
FIRMWARE ?= bios
SCREEN ?=
PORTS  ?=
CMD    ?=
CMDLINE ?=
MINUTES ?= 10
HUNTS := leaktest lost-at leaksweep leakfuzz stress load

# Before everything else, scripts/setup installs the packages that the goals need. $(INSTALLED) is an included makefile: make builds it first
# and then starts again.
GOALS := $(filter-out clean help,$(or $(MAKECMDGOALS),all))
PACKAGES := build \
  $(if $(filter run gdb guest pictures docs-outputs $(HUNTS) proof bench% test%,$(GOALS)),run) \
  $(if $(filter gdb docs-outputs test%,$(GOALS)),gdb) \
  $(if $(filter iso test%,$(GOALS) $(BOOT)),iso) \
  $(if $(filter test% uefi,$(GOALS) $(FIRMWARE)),uefi) \
  $(if $(filter test-long,$(GOALS)),bochs) \
  $(if $(filter report-page pictures test-long,$(GOALS)),npm) \
  $(if $(filter pictures test-long,$(GOALS)),browser) \
  $(if $(filter pictures,$(GOALS)),pictures) \
  $(if $(filter bench% test% host-tests,$(GOALS)),test) \
  $(if $(filter test-long,$(GOALS)),pprof) \
  $(if $(filter ports test-ports test-long load bench,$(GOALS))$(PORTS),ports) \
  $(if $(filter bench,$(GOALS)),bench) \
  $(if $(filter format lint,$(GOALS)),developer)
space := $() $()
INSTALLED := $(BASE)/setup/$(subst $(space),+,$(strip $(PACKAGES)))
ifneq ($(GOALS),)
# A read-only or full disk: a file of 64 KiB is written and removed.
TROUBLE := $(shell { mkdir -p $(BASE) && head -c 65536 /dev/zero >$(BASE)/.room.$$$$ && rm $(BASE)/.room.$$$$; } 2>&1 || rm -f $(BASE)/.room.$$$$)
ifneq ($(TROUBLE),)
$(error the build folder $(BASE) cannot be written: $(TROUBLE))
endif
# Some users have no home that they can write to.
override CACHE := $(shell mkdir -p '$(CACHE)' 2>/dev/null && [ -w '$(CACHE)' ] && cd '$(CACHE)' && pwd || { mkdir -p $(BASE)/cache && cd $(BASE)/cache && pwd; })
include $(INSTALLED)
$(INSTALLED): scripts/setup
	@scripts/setup $(PACKAGES)
	@mkdir -p $(@D) && touch $@
endif

# The initial archive is first in the list, because building it takes longest.
all: initrd kernel tools port-tests

include kern/kconfig.mk
include kern/kern.mk
include user/user.mk
include user/ports/ports.mk
include tools/reach/reach.mk
include tools/report.mk
include tools/report-page/page.mk
include tests/tests.mk
include bench/bench.mk
include tools/compile_commands.mk
include hunts.mk

.PHONY: all kernel initrd tools guest run gdb iso format lint clean help
kernel: $(KERNEL) $(COMPILE_COMMANDS)
initrd: $(INITRD)
tools: $(REACH) $(PPROF_MESSAGES)
guest: all # for scripts/guest

run: all $(PORTS:%=port-%) $(if $(filter iso,$(BOOT)),iso) ## boot, with a shell on this terminal (SMP=4 MEM=512M SHARE=DIR CMDLINE=trace=all PORTS='lua jq tests', or BOOT=iso FIRMWARE=uefi SCREEN=gtk); ctrl-a x ends
	@scripts/run --smp $(SMP) --mem $(MEM) $(PORTS:%=--port $(BASE)/ports/%.cpio) $(if $(filter iso,$(BOOT)),--iso $(BUILD)/stele.iso --firmware $(FIRMWARE) $(if $(SCREEN),--screen '$(SCREEN)'),--kernel $(KERNEL) --initrd $(INITRD) --cmdline '$(CMDLINE)') $(if $(SHARE),--share '$(SHARE)')

gdb: all ## boot under gdb, up to kernel_main (SMP=4 MEM=512M VARIANT=); REPLAY=FOLDER [AT=N]: a recorded run, back and forth (docs/debugging.md)
	@scripts/gdb $(if $(REPLAY),--replay '$(REPLAY)' $(AT:%=--at %),--boot --smp $(SMP) --mem $(MEM) --kernel $(KERNEL))

iso: $(BUILD)/stele.iso ## the image build/stele.iso, which a PC boots from CD or USB stick, by BIOS or UEFI (CMDLINE=)
$(BUILD)/stele.iso: $(KERNEL) $(INITRD) scripts/mkiso $(BUILD)/stele.iso.words
	@echo "  ISO   $@"
	@scripts/mkiso $(KERNEL) $(INITRD) $@ '$(CMDLINE)'
$(BUILD)/stele.iso.words: FORCE
	@mkdir -p $(@D)
	@echo '$(CMDLINE)' | cmp -s - $@ || echo '$(CMDLINE)' > $@

format: ## clang-format over every C and C++ source
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format -i

lint: kernel $(BUILD)/lint/compile_commands.json ## formatting, layers, paths, the depth of stacks, thread-safety analysis, clang-tidy
	@git ls-files '*.c' '*.cc' '*.h' | xargs clang-format --dry-run -Werror
	@scripts/check-layers
	@scripts/check-paths
	@$(if $(CONFIG_UBSAN)$(CONFIG_KASAN),,scripts/check-stacks $(KERNEL))
	@scripts/lint $(BUILD)/lint/compile_commands.json

clean: ## remove everything that was made
	rm -rf $(BASE)

# The targets of each group, in this order. Every other target with a description is in the last group.
HELP_START := run iso menuconfig defconfig clean
HELP_FIND_LEAKS := leaktest lost-at leakbisect leaksweep leakfuzz load stress
HELP_TEST := test test-host test-kernel test-guest test-long test-ports proof
help:
	@grep -hE '^[a-z-]+:.*##' $(filter %akefile %.mk,$(MAKEFILE_LIST)) | sed -E 's/:[^#]*##/ #/' | awk -F ' # ' \
	  -v start='$(HELP_START)' -v find='$(HELP_FIND_LEAKS)' -v test='$(HELP_TEST)' ' \
	  function show(name,    words, count, i, line) { \
	    count = split(text[name], words, " "); line = sprintf("  make %-14s", name); \
	    for (i = 1; i <= count; i++) { \
	      if (length(line " " words[i]) > 100) { print line; line = sprintf("%21s", "") } line = line " " words[i] } \
	    print line; delete text[name] } \
	  function group(title, names,    list, count, i) { \
	    print title; count = split(names, list, " "); for (i = 1; i <= count; i++) if (list[i] in text) show(list[i]) } \
	  { text[$$1] = $$2; order[NR] = $$1 } \
	  END { group("start", start); group("\nfind leaks", find); group("\ntest", test); group("\ndevelop", ""); \
	    for (i = 1; i <= NR; i++) if (order[i] in text) show(order[i]) }'
