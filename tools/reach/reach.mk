# Builds stele-reach. gdb's commands use this program to search all memory of a core. stele-reach
# has the kernel's code for reachability (kern/reach).
REACH := $(BASE)/tools/stele-reach
REACH_FLAGS := -std=c++20 -O2 -Wall -Wextra -Wconversion -Werror -I tools/reach -I kern
REACH_OBJ := $(patsubst %.cc,$(BASE)/%.o,$(wildcard tools/reach/*.cc))

$(BASE)/tools/reach/%.o: tools/reach/%.cc tools/reach/reach.mk
	@mkdir -p $(@D)
	@echo "  HOST  $<"
	@g++ $(REACH_FLAGS) -MMD -MP -c $< -o $@
$(REACH): $(REACH_OBJ)
	@g++ $^ -o $@
host-tests: $(REACH)
-include $(REACH_OBJ:.o=.d)
