# Host tests: the kernel's own source, compiled for the host under AddressSanitizer and UndefinedBehaviorSanitizer; those named
# NAME_threads_test under ThreadSanitizer, which takes their place (a program can have one of the two).
#
# tests/host/NAME_test.cc becomes $(BUILD)/host/NAME_test. The comment that it begins with names the files that it is made of besides itself.
# What those include of the kernel and cannot have here is replaced by headers in the folders of the files under tests/host
# that it names, and in tests/host/cpus: these come first on the include path. So each test has objects of its own.

HOST_TESTS := $(patsubst tests/host/%.cc,%,$(wildcard tests/host/*_test.cc))

HOST_FLAGS := -O1 -g -Wall -Wextra -DSTELE_HOST -DCONFIG_MAX_CPUS=64 -DCONFIG_MEM_TRACE_LIMIT_DIVISOR=16 \
  -fno-omit-frame-pointer -fno-strict-aliasing -pthread

comma := ,

# $(1): name of the test
define HOST_TEST_RULES
$(1)_SRC := tests/host/$(1).cc $$(filter %.c %.cc,$$(shell sed '/^\/\//!q' tests/host/$(1).cc))
$(1)_FLAGS := $(HOST_FLAGS) $(if $(filter %_threads_test,$(1)),-fsanitize=thread,-fsanitize=address$(comma)undefined -fno-sanitize-recover=all)
$(1)_OBJ := $$(patsubst %,$(BUILD)/host/objects/$(1)/%.o,$$($(1)_SRC))
$(1)_INC := $$(addprefix -I,$$(filter-out tests/host/,$$(sort $$(dir $$(filter tests/host/%,$$($(1)_SRC)))))) \
  -I tests/host/cpus -I tests/host -I kern -I kern/include -I kern/src -I user/lib -I user/bin

$(BUILD)/host/objects/$(1)/%.c.o: %.c tests/host/host.mk
	@mkdir -p $$(@D)
	@echo "  HOST  $(1): $$<"
	@gcc -std=gnu17 $$($(1)_FLAGS) $$($(1)_INC) -MMD -MP -c $$< -o $$@
$(BUILD)/host/objects/$(1)/%.cc.o: %.cc tests/host/host.mk
	@mkdir -p $$(@D)
	@echo "  HOST  $(1): $$<"
	@g++ -std=c++20 $$($(1)_FLAGS) $$($(1)_INC) -MMD -MP -c $$< -o $$@
-include $$($(1)_OBJ:.o=.d)

$(BUILD)/host/$(1): $$($(1)_OBJ)
	@g++ $$($(1)_FLAGS) $$^ -lgtest -lgtest_main -o $$@
endef
$(foreach test,$(HOST_TESTS),$(eval $(call HOST_TEST_RULES,$(test))))

.PHONY: host-tests
host-tests: $(HOST_TESTS:%=$(BUILD)/host/%)
