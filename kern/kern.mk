# The kernel: compile, link, make the symbol table from the result, link again with it.

KERNEL := $(BUILD)/stele.elf
KSYMS  := tools/stele/ksyms.py

KERN_CC  ?= gcc
KERN_CXX ?= g++

# Each function begins with a five-byte nop, which a probe replaces (probe/kernel_probes.cc).
KERN_ENTRY_NOP := -pg -mfentry -mnop-mcount
KERN_FLAGS := -O2 -g -Wall -Wextra -ffreestanding -fno-pic -no-pie -mcmodel=kernel -mno-red-zone -mgeneral-regs-only \
  -fno-omit-frame-pointer -mno-omit-leaf-frame-pointer -fno-optimize-sibling-calls -fno-stack-protector \
  $(KERN_ENTRY_NOP) -fcf-protection=none -fno-asynchronous-unwind-tables -fno-strict-aliasing -fno-common \
  -ffile-prefix-map=$(CURDIR)/= -I kern -I kern/include
# The sanitizers (docs/testing.md). Without RTTI there is no `vptr` check. The sources in KASAN_EXEMPT are not instrumented, and their
# memcpy, memmove and memset are not checked. These sources access memory that is forbidden for all others, or run in each hook. -O1
# saves a third of the compiler's time, about as much as the checks add.
KERN_FLAGS += $(if $(CONFIG_UBSAN),-fsanitize=undefined -fno-sanitize=vptr) $(if $(CONFIG_UBSAN)$(CONFIG_KASAN),-O1)
KERN_KASAN := $(if $(CONFIG_KASAN),-fsanitize=kernel-address -fno-sanitize-address-use-after-scope --param asan-stack=0 \
  --param asan-globals=0 --param asan-instrumentation-with-call-threshold=0)
KASAN_EXEMPT := $(call named,kern/src/slab% kern/src/arena% kern/reach/% kern/src/kasan.cc kern/arch/x86_64/frames.cc kern/core/panic.cc \
  kern/trace/record/hooks.cc kern/trace/record/slow_free.cc kern/intern/kernel_stacks.cc)
KERN_KASAN_OF = $(if $(filter $(KASAN_EXEMPT),$(1)),,$(KERN_KASAN))
KASAN_EXEMPT_CALLS := $(foreach name,memcpy memmove memset,--redefine-sym $(name)=$(name)_exempt)
define KASAN_EXEMPT_OBJECT
$(if $(CONFIG_KASAN),$(if $(filter $(KASAN_EXEMPT),$<),@objcopy $(KASAN_EXEMPT_CALLS) $@))
endef
KERN_CFLAGS   := $(KERN_FLAGS) -include $(AUTOCONF_H) -std=gnu17
# A virtual call stays a call through the table, without a guess of the method: scripts/check-stacks can follow it with each compiler.
KERN_CXXFLAGS := $(KERN_FLAGS) -std=c++20 -fno-exceptions -fno-rtti -fno-threadsafe-statics -fno-devirtualize-speculatively
KERN_ASFLAGS  := -g -ffile-prefix-map=$(CURDIR)/= -I kern -I kern/include -include $(AUTOCONF_H) -D__ASSEMBLER__
KERN_LDFLAGS  := -nostdlib -static -no-pie -Wl,-z,noexecstack,-z,max-page-size=4096,--build-id=sha1 -T kern/kernel.ld

# Sources that only serve an option are left out if this option is off. $(1): the option's value
without_option = $(if $(strip $(1)),,$(call named,$(2)))
KERN_LEFT_OUT := $(call without_option,$(CONFIG_COVERAGE),kern/sched/coverage.cc kern/drivers/dev/coverage.cc kern/tests/coverage_test.cc) \
  $(call without_option,$(CONFIG_IRQ_OFF_TRACE),kern/core/irq_off.cc kern/drivers/dev/mem_irq_off.cc kern/tests/irq_off_test.cc) \
  $(call without_option,$(CONFIG_PLANTED_BUGS),kern/core/planted.cc kern/proc/ref_planted.cc kern/proc/kept_planted.cc kern/drivers/dev/pipe_planted.cc) \
  $(call without_option,$(CONFIG_TLB_CHECK),kern/arch/x86_64/tlb_check.cc) \
  $(call without_option,$(CONFIG_UBSAN)$(CONFIG_KASAN),kern/core/sanitizer.cc) \
  $(call without_option,$(CONFIG_UBSAN),kern/core/ubsan.cc) \
  $(call without_option,$(CONFIG_KASAN),kern/src/kasan.cc) \
  $(call without_option,$(CONFIG_DEBUG_DEVICE),kern/drivers/dev/debug% kern/tests/failnext_test.cc) \
  $(call without_option,$(CONFIG_KERNEL_TESTS),kern/tests/%) $(call without_option,$(CONFIG_KERNEL_BENCH),kern/bench/%)
KERN_SRC := $(sort $(filter-out $(KERN_LEFT_OUT),$(wildcard $(foreach ext,c cc S,kern/*.$(ext) kern/*/*.$(ext) kern/*/*/*.$(ext)))))
# The screen's font, from Debian's package psf-unifont.
KERN_FONT := /usr/share/consolefonts/Unifont-APL8x16.psf.gz
KERN_OBJ := $(patsubst %,$(BUILD)/%.o,$(KERN_SRC)) $(BUILD)/screen_font.o

# The sources to compile for coverage (sched/coverage.h): the implementation of system calls, but no code that runs in exceptions or when a
# probe is hit.
KERN_COVERED := $(filter-out $(call named,kern/proc/user_probe_hit.cc),$(filter $(call named,kern/proc/% kern/ns/% kern/drivers/dev/% \
  kern/trace/control/command.cc kern/trace/control/control.cc kern/trace/dump/% kern/probe/command.cc \
  kern/probe/session.cc kern/probe/functions.cc),$(KERN_SRC)))
kern_coverage = $(if $(CONFIG_COVERAGE),$(if $(filter $<,$(KERN_COVERED)),-fsanitize-coverage=trace-pc))

# With these flags the fast path of a tracer's hook has no stack frame, because it calls nothing and jumps to the slow paths. So the
# recorded stack begins with the frame of the hook's caller.
KERN_FRAMELESS := $(call named,kern/trace/record/hooks.cc kern/src/arena_traced.cc)
kern_frames = $(if $(filter $<,$(KERN_FRAMELESS)),-foptimize-sibling-calls -momit-leaf-frame-pointer)

# Sources are compiled again when flags change; the kernel is linked again when a source is added or removed.
KERN_STAMP   := $(BUILD)/kern/flags
KERN_SOURCES := $(BUILD)/kern/sources
$(KERN_STAMP): TEXT := $(KERN_CXX) $(KERN_CXXFLAGS) $(KERN_KASAN)
$(KERN_SOURCES): TEXT := $(KERN_SRC)
$(KERN_STAMP) $(KERN_SOURCES): FORCE
	@mkdir -p $(@D)
	@echo '$(TEXT)' | cmp -s - $@ || echo '$(TEXT)' > $@
FORCE:
.PHONY: FORCE

$(BUILD)/%.c.o: %.c $(AUTOCONF_H) $(KERN_STAMP)
	@mkdir -p $(@D)
	@echo "  CC    $<"
	@$(KERN_CC) $(KERN_CFLAGS) $(call KERN_KASAN_OF,$<) -MMD -MP -c $< -o $@
	$(KASAN_EXEMPT_OBJECT)
# gcc uses prelude.h.gch, which lies beside prelude.h. For a source with other flags, gcc ignores prelude.h.gch and compiles prelude.h.
KERN_PRELUDE := $(BUILD)/kern/lib/prelude.h
$(KERN_PRELUDE): $(AUTOCONF_H) kern/lib/prelude.h
	@mkdir -p $(@D)
	@cat $^ > $@
$(KERN_PRELUDE).gch: $(KERN_PRELUDE) $(KERN_STAMP)
	@$(KERN_CXX) $(KERN_CXXFLAGS) $(KERN_KASAN) -x c++-header $< -o $@
$(BUILD)/%.cc.o: %.cc $(KERN_PRELUDE).gch $(KERN_STAMP)
	@mkdir -p $(@D)
	@echo "  CXX   $<"
	@$(KERN_CXX) $(KERN_CXXFLAGS) -include $(KERN_PRELUDE) $(call KERN_KASAN_OF,$<) $(kern_coverage) $(kern_frames) -MMD -MP -c $< -o $@
	$(KASAN_EXEMPT_OBJECT)
$(BUILD)/%.S.o: %.S $(AUTOCONF_H) $(KERN_STAMP)
	@mkdir -p $(@D)
	@echo "  AS    $<"
	@$(KERN_CC) $(KERN_ASFLAGS) -MMD -MP -c $< -o $@
-include $(KERN_OBJ:.o=.d)

$(BUILD)/screen_font.S: tools/stele/screen_font.py $(KERN_FONT)
	@mkdir -p $(@D)
	@$(PYTHON) $^ > $@
$(BUILD)/screen_font.o: $(BUILD)/screen_font.S
	@$(KERN_CC) -c $< -o $@

$(BUILD)/ksyms-empty.S: $(KSYMS)
	@mkdir -p $(@D)
	@$(PYTHON) $(KSYMS) --empty > $@
$(BUILD)/stele.pass1: $(KERN_OBJ) $(KERN_SOURCES) $(BUILD)/ksyms-empty.o kern/kernel.ld
	@$(KERN_CXX) $(KERN_LDFLAGS) $(filter %.o,$^) -o $@
$(BUILD)/ksyms.S: $(BUILD)/stele.pass1 $(KSYMS)
	@$(PYTHON) $(KSYMS) $< > $@
$(BUILD)/ksyms%.o: $(BUILD)/ksyms%.S
	@$(KERN_CC) -c $< -o $@
$(BUILD)/ksyms.o: $(BUILD)/ksyms.S
	@$(KERN_CC) -c $< -o $@
$(KERNEL): $(KERN_OBJ) $(BUILD)/ksyms.o kern/kernel.ld $(KSYMS)
	@echo "  LINK  $@"
	@$(KERN_CXX) $(KERN_LDFLAGS) $(filter %.o,$^) -o $@
	@$(PYTHON) $(KSYMS) --compare $(BUILD)/stele.pass1 $@

# For `make lint`: one entry for each source of this kernel. Each entry has the flags above, except for flags that clang does not support.
KERN_C_COMMAND = $(KERN_CC) $(filter-out $(KERN_ENTRY_NOP),$(KERN_CFLAGS))
KERN_CXX_COMMAND = $(KERN_CXX) $(filter-out $(KERN_ENTRY_NOP),$(KERN_CXXFLAGS)) -include $(AUTOCONF_H)
$(BUILD)/lint/compile_commands.json: $(KERN_STAMP) $(KERN_SOURCES) tools/compile_commands.py kern/kern.mk
	@mkdir -p $(@D)
	@$(PYTHON) tools/compile_commands.py -- '$(KERN_C_COMMAND)' '$(KERN_CXX_COMMAND)' $(KERN_SRC) > $@
