# What hunts for faults in guests, and says by its status what came of it: 0 nothing, 1 something, 2 it cannot be said.
#
# make ends with 2 whatever a recipe ends with, but under -q with 1 when something is left to be done. So these goals run under -q,
# where only the lines with + are carried out, and what is found leaves a line to be done. -q holds for all goals of a make, so a hunt is
# its only one. The status is handed on in a file of this make's own: several may hunt at once.

leaktest: leaktest-run ## does CMD='…' leak? (REPEAT=5 RUNS=128 QUICK=1 LIST=FILE SHARE=DIR ADD='FILE…' PORTS='NAME…' REPORT=FILE): 0 no, 1 yes, 2 it cannot be said
leaksweep: leaksweep-run ## run CMD='…' once for each allocation that it makes, which fails: status as that of leaktest
leakfuzz: leakfuzz-run ## random system calls (MINUTES=10 SEED=), looked at for what they leave behind: status as that of leaktest
load: load-run ## the ports' tests at random, MINUTES=10, untraced, traced and sampled in turn (SEED=, PORTS='NAME…', ICOUNT=1): status as that of leaktest
stress: stress-run ## everything at once, at random, MINUTES=10 for each debug build (SEED=, VARIANT=): status as that of leaktest

.PHONY: $(HUNTS) $(HUNTS:%=%-run)
ifneq ($(filter $(HUNTS),$(MAKECMDGOALS)),)
ifneq ($(words $(MAKECMDGOALS)),1)
$(error $(firstword $(filter $(HUNTS),$(MAKECMDGOALS))) goes alone, since its status is that of make: no other goal beside it)
endif
MAKEFLAGS += -q
endif

REPEAT  ?= 5
RUNS    ?= 128
ON_KERNEL = $(if $(VARIANT),--variant $(VARIANT)) $(if $(CMDLINE),--cmdline '$(CMDLINE)')

leaktest-run: OPTIONS = --no-build --smp $(SMP) --mem $(MEM) --repeat $(REPEAT) --runs $(RUNS) $(if $(QUICK),--quick) \
  $(if $(LIST),--list '$(LIST)') $(if $(TOGETHER),--together) $(if $(SHARE),--share '$(SHARE)') $(ADD:%=--add '%') $(PORTS:%=--port '%') \
  --history $(BASE)/history.db $(if $(REPORT),--report '$(REPORT)') $(if $(SUPPRESSIONS),--suppressions '$(SUPPRESSIONS)') $(if $(BASELINE),--baseline '$(BASELINE)') $(ON_KERNEL) "$$HUNT_CMD"
# Without npm and its registry there is no page, but a verdict.
leaktest-run: PREPARE = { command -v npm >/dev/null && MAKEFLAGS= MAKELEVEL= $(MAKE) -s report-page BASE=$(BASE) >&2 || echo 'leaktest: no page: `make report-page` says why' >&2; } &&
leaksweep-run: OPTIONS = --no-build $(if $(REPORT),--report '$(REPORT)') $(ON_KERNEL) "$$HUNT_CMD"
leakfuzz-run: KERNELS = break
leakfuzz-run: OPTIONS = --no-build --smp $(SMP) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(CMDLINE),--cmdline '$(CMDLINE)')
load-run: WITH = MAKEFLAGS= MAKELEVEL= $(MAKE) -s $(or $(PORTS:%=port-%),ports) BASE=$(BASE) TOOLCHAIN=$(TOOLCHAIN) >&2 &&
load-run: OPTIONS = --smp $(SMP) --mem $(MEM) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(PORTS:%=--port '%') $(if $(ICOUNT),--icount) \
  $(if $(VARIANT),--variant $(VARIANT))
stress-run: KERNELS = $(or $(VARIANT),checked sanitize)
stress-run: OPTIONS = --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(KERNELS:%=--variant %)

# As it was typed: a $ in CMD is the shell's in the guest, not make's.
$(HUNTS:%=%-run): export HUNT_CMD := $(value CMD)
unexport CMD

$(HUNTS):
	$(call as-verdict,$(shell cat $(call status-of,$@); rm -f $(call status-of,$@)))
as-verdict = $(if $(filter 0,$(1)),,$(if $(filter 1,$(1)),@false,$(error it cannot be said)))
status-of = $(BASE)/$(1)/status.$$PPID

# Each kernel is built by a make of its own: two makes of one folder at once would be in each other's way.
$(HUNTS:%=%-run): %-run:
	+@mkdir -p $(BASE)/$*; echo 2 > $(call status-of,$*)
	+@for variant in $(or $(KERNELS),'$(VARIANT)'); do \
	    MAKEFLAGS= MAKELEVEL= $(MAKE) -s all $(PORTS:%=port-%) BASE=$(BASE) TOOLCHAIN=$(TOOLCHAIN) VARIANT=$$variant >&2 || exit; \
	  done && $(PREPARE) { scripts/$* $(OPTIONS); echo $$? > $(call status-of,$*); }
