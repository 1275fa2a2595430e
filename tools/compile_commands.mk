# compile_commands.json, for clangd: an entry for each C and C++ source of the tree, those of other configurations of the kernel included.
# Each entry has the flags of the build, except for flags that clang does not support. The build of a variant leaves the file as it is.

COMPILE_COMMANDS := $(if $(VARIANT),,$(BASE)/compile_commands.json)

# $(call sources,FOLDER…): the sources in the folders, at any depth that the tree has
sources = $(sort $(foreach folder,$(1),$(foreach depth,* */* */*/* */*/*/*,$(wildcard $(folder)/$(depth).c $(folder)/$(depth).cc))))
# $(call entries,C COMMAND,C++ COMMAND,SOURCES)
entries = -- '$(strip $(1))' '$(strip $(2))' $(3)

# User programs. Clang does not know what the toolchain's compilers, which are scripts, add to their arguments. So an entry names the host's
# compiler and has the flags and folders of headers that user/toolchain/compiler adds.
CLANG_USER_FLAGS = $(filter-out -p -mfentry -mnop-mcount,$(shell cat user/toolchain/flags)) -D__unix__=1 -D__unix=1
CLANG_USER_C := -isystem $(shell gcc -print-file-name=include 2>/dev/null) -isystem $(SYSROOT)/include -isystem $(SYSROOT)/newlib/include
CLANG_USER_CXX := -isystem $(SYSROOT)/libstdc++/include -isystem $(SYSROOT)/libstdc++/include/x86_64-elf $(CLANG_USER_C)
user_entries = $(call entries,gcc $(CLANG_USER_C) $(CLANG_USER_FLAGS) $(USER_CFLAGS) $(1),\
  g++ $(CLANG_USER_CXX) $(CLANG_USER_FLAGS) $(USER_CXXFLAGS) $(1),$(2))

HOST_SOURCES := $(call sources,tests/host)
HOST_THREAD_SOURCES := $(filter %_threads_test.cc,$(HOST_SOURCES))
host_entries = $(call entries,gcc -std=gnu17 $(HOST_$(1)_FLAGS),g++ -std=c++20 $(HOST_$(1)_FLAGS) -include tests/host/prelude.h,$(2))

CLANGD_ENTRIES = $(call entries,$(KERN_C_COMMAND),$(KERN_CXX_COMMAND),$(call sources,kern)) \
  $(call user_entries,-fno-builtin -Iuser/libc,$(call sources,user/libc)) \
  $(call user_entries,,$(call sources,user/lib user/ports tests/guest)) \
  $(foreach program,$(USER_PROGRAMS),$(call user_entries,$(addprefix -isystem ,$(dir $($(program)_LIBRARIES))),$(call sources,$(call program_folder,$(program))))) \
  $(call host_entries,thread,$(HOST_THREAD_SOURCES)) $(call host_entries,address,$(filter-out $(HOST_THREAD_SOURCES),$(HOST_SOURCES))) \
  $(call entries,gcc $(BENCH_PLUGIN_FLAGS),g++ -std=c++20 $(BENCH_FLAGS),$(call sources,bench)) \
  $(call entries,,g++ $(REACH_FLAGS),$(call sources,tools))

ifneq ($(COMPILE_COMMANDS),)
# Written anew when a flag or the set of sources changes.
$(BASE)/compile_commands.arguments: TEXT = $(CLANGD_ENTRIES)
$(BASE)/compile_commands.arguments: FORCE
	@mkdir -p $(@D)
	@echo "$(TEXT)" | cmp -s - $@ || echo "$(TEXT)" > $@
$(COMPILE_COMMANDS): tools/compile_commands.py $(BASE)/compile_commands.arguments
	@$(PYTHON) tools/compile_commands.py $(CLANGD_ENTRIES) > $@
endif
