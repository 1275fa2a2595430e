# Host tests: the kernel's own source, compiled for the host under AddressSanitizer and UndefinedBehaviorSanitizer.
# tests/host/NAME_test.cc becomes $(BUILD)/host/NAME_test, linked with the kernel sources of SOURCES_NAME_test. What those include of the
# kernel and cannot have here is replaced by tests/host/fakes, which comes first on the include path.

HOST_TESTS := $(patsubst tests/host/%.cc,%,$(wildcard tests/host/*_test.cc))

-include tests/host/sources.mk

HOST_FLAGS := -O1 -g -Wall -Wextra -DSTELE_HOST -DCONFIG_MAX_CPUS=64 -DCONFIG_MEM_TRACE_LIMIT_DIVISOR=16 \
  -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -pthread \
  -I tests/host/fakes -I tests/host -I kern -I kern/include

$(BUILD)/host/%.cc.o: %.cc
	@mkdir -p $(@D)
	@echo "  HOST  $<"
	@g++ -std=c++20 $(HOST_FLAGS) -MMD -MP -c $< -o $@
$(BUILD)/host/%.c.o: %.c
	@mkdir -p $(@D)
	@echo "  HOST  $<"
	@gcc -std=gnu17 $(HOST_FLAGS) -MMD -MP -c $< -o $@

define HOST_TEST_RULE
$(BUILD)/host/$(1): $(patsubst %,$(BUILD)/host/%.o,tests/host/$(1).cc $(SOURCES_$(1)))
	@g++ $(HOST_FLAGS) $$^ -lgtest -lgtest_main -o $$@
-include $(patsubst %,$(BUILD)/host/%.d,tests/host/$(1).cc $(SOURCES_$(1)))
endef
$(foreach test,$(HOST_TESTS),$(eval $(call HOST_TEST_RULE,$(test))))

.PHONY: host-tests
host-tests: $(HOST_TESTS:%=$(BUILD)/host/%)
