# Hunts for bugs in guests. The exit status of make is the verdict: 0 nothing found, 1 something
# found, 2 unknown.
#
# If a recipe fails, make ends with 2, so a failing recipe cannot give the status 1. `make -q` can:
# under -q, make executes only the lines of a recipe that begin with +, and ends with 1 if it has
# skipped a line. So the goals of this file run under -q. If a hunt has found something, its recipe
# contains a line without + (as-verdict).
#
# -q applies to all goals of a make, so a hunt must be the only goal of its make. Several makes may
# run hunts at the same time, because each recipe writes its status to a file that is named after
# the make's process number.

leaktest: leaktest-run ## does CMD='…' leak? (EXPECT=0 REPEAT=5 RUNS=128 QUICK=1 LOST_AT=no KEPT_BY=no FREES=yes LIST=FILE SHARE=DIR ADD='FILE…' PORTS='NAME…' REPORT=FILE): 0 no, 1 yes, 2 unknown
lost-at: lost-at-run ## where does CMD='…' lose what it leaks? (MOST=3): the instruction that took the last pointer (the exit status is that of leaktest)
leaksweep: leaksweep-run ## run CMD='…' once for each allocation that it makes, with that allocation failing (PORTS='NAME…'; the exit status is that of leaktest)
leakfuzz: leakfuzz-run ## random system calls (MINUTES=10 SEED=), and what they leave behind (the exit status is that of leaktest)
load: load-run ## the ports' tests at random, MINUTES=10, untraced, traced and sampled in turn (SEED=, PORTS='NAME…', ICOUNT=1; the exit status is that of leaktest)
stress: stress-run ## everything at once, at random, MINUTES=10 for each debug build (SEED=, VARIANT=; the exit status is that of leaktest)

.PHONY: $(HUNTS) $(HUNTS:%=%-run)
ifneq ($(filter $(HUNTS),$(MAKECMDGOALS)),)
ifneq ($(words $(MAKECMDGOALS)),1)
$(error $(firstword $(filter $(HUNTS),$(MAKECMDGOALS))) must be the only goal, because its result is the exit status of make)
endif
MAKEFLAGS += -q
endif

REPEAT  ?= 5
RUNS    ?= 128
ON_KERNEL = $(if $(VARIANT),--variant $(VARIANT)) $(if $(CMDLINE),--cmdline '$(CMDLINE)')

leaktest-run: OPTIONS = --no-build --smp $(SMP) --mem $(MEM) --repeat $(REPEAT) --runs $(RUNS) $(if $(QUICK),--quick) $(if $(filter no,$(LOST_AT)),--no-lost-at) $(if $(filter no,$(KEPT_BY)),--no-kept-by) $(if $(filter yes,$(FREES)),--frees) \
  $(if $(EXPECT),--expect '$(EXPECT)') $(if $(LIST),--list '$(LIST)') $(if $(TOGETHER),--together) $(if $(SHARE),--share '$(SHARE)') $(ADD:%=--add '%') $(PORTS:%=--port '%') \
  --history $(BASE)/history.db $(if $(REPORT),--report '$(REPORT)') $(if $(SUPPRESSIONS),--suppressions '$(SUPPRESSIONS)') $(if $(BASELINE),--baseline '$(BASELINE)') $(ON_KERNEL) "$$HUNT_CMD"
# The HTML page of the report needs npm and npm's registry. Without them the leak test runs, but makes no page.
leaktest-run: PREPARE = { command -v npm >/dev/null && MAKEFLAGS= MAKELEVEL= tools/stele/quiet_make.py leaktest $(MAKE) -s report-page BASE=$(BASE) || echo 'leaktest: no page: `make report-page` says why' >&2; } &&
lost-at-run: OPTIONS = --no-build $(if $(MOST),--most $(MOST)) $(ADD:%=--add '%') $(PORTS:%=--port '%') $(ON_KERNEL) "$$HUNT_CMD"
leaksweep-run: OPTIONS = --no-build $(PORTS:%=--port '%') $(if $(EXPECT),--expect '$(EXPECT)') $(if $(REPORT),--report '$(REPORT)') $(ON_KERNEL) "$$HUNT_CMD"
leakfuzz-run: KERNELS = debug
leakfuzz-run: OPTIONS = --no-build --smp $(SMP) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(CMDLINE),--cmdline '$(CMDLINE)')
load-run: PREPARE = MAKEFLAGS= MAKELEVEL= tools/stele/quiet_make.py load $(MAKE) -s $(or $(PORTS:%=port-%),ports) BASE=$(BASE) TOOLCHAIN=$(TOOLCHAIN) CACHE='$(CACHE)' &&
load-run: OPTIONS = --smp $(SMP) --mem $(MEM) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(PORTS:%=--port '%') $(if $(ICOUNT),--icount) \
  $(if $(VARIANT),--variant $(VARIANT))
stress-run: KERNELS = $(or $(VARIANT),debug sanitize)
stress-run: OPTIONS = --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(KERNELS:%=--variant %)

# Hands CMD to the recipe unexpanded, because a $ in CMD is for the guest's shell, not for make.
$(HUNTS:%=%-run): export HUNT_CMD := $(value CMD)
unexport CMD

$(HUNTS):
	$(call as-verdict,$(shell cat $(call status-of,$@); rm -f $(call status-of,$@)))
as-verdict = $(if $(filter 0,$(1)),,$(if $(filter 1,$(1)),@false,$(error the verdict is unknown)))
status-of = $(BASE)/$(1)/status.$$PPID

# After ^C, the tool says so in a line. The recipe then succeeds, so that make adds no line of its
# own; make ends by the signal, and a shell gives this the status 130. (make prints an error if its
# child ends at the moment of the signal; hence the sleep.) $(1): a command that cleans up.
on-interrupt = trap '$(1); sleep 0.2; exit 0' INT;

# Builds the kernels with one make each, and then runs the hunt. The makes run one after the other,
# because two makes that run in one folder at the same time would disturb each other.
$(HUNTS:%=%-run): %-run:
	+@mkdir -p $(BASE)/$*; echo 2 > $(call status-of,$*)
	+@$(call on-interrupt,rm -f $(call status-of,$*)) for variant in $(or $(KERNELS),'$(VARIANT)'); do \
	    MAKEFLAGS= MAKELEVEL= tools/stele/quiet_make.py $* $(MAKE) -s all $(PORTS:%=port-%) BASE=$(BASE) TOOLCHAIN=$(TOOLCHAIN) CACHE='$(CACHE)' VARIANT=$$variant || exit; \
	  done && $(PREPARE) { scripts/$* $(OPTIONS); echo $$? > $(call status-of,$*); }

# No hunt, but the search for the commit that has brought what a leak test has found. Each commit's
# own `make leaktest` gets the variables.
OF_LEAKTEST := EXPECT REPEAT RUNS QUICK SHARE ADD PORTS SMP MEM VARIANT CMDLINE SUPPRESSIONS BASELINE
.PHONY: leakbisect
leakbisect: export HUNT_CMD := $(value CMD)
leakbisect: ## which commit between GOOD=… and BAD=… has brought the leak of CMD='…'? (LEAK=FUNCTION, and the variables of leaktest)
	@$(call on-interrupt,:) scripts/leakbisect $(if $(LEAK),--leak '$(LEAK)') '$(GOOD)' '$(BAD)' "$$HUNT_CMD" \
	  $(foreach name,$(OF_LEAKTEST),$(if $(filter command,$(firstword $(origin $(name)))),'$(name)=$(value $(name))'))
