# Builds the initial archive $(INITRD) and all programs in it; user/ports/ports.mk builds the other programs. The top Makefile includes this
# file and sets BUILD, BASE, VARIANT and TOOLCHAIN. Programs with debugging information are in $(USER_OUT)/bin. Variants of the build differ
# only in the kernel, so they share the programs.
#
#   user/libc  the parts of the C library that are not newlib's: headers, crt0.o, libstele.a; installed to $(SYSROOT).
#              musl.mk in its folder musl lists the files of libstele.a that come from musl's source
#   user/bin   each folder user/bin/NAME is a program /bin/NAME, from all its *.c or *.cc
#   tests/programs  so is each folder tests/programs/NAME, but these programs are only in the images of tests (TEST_ARCHIVE)
#   user/lib   each folder user/lib/NAME is a static library for these programs: #include "NAME/file.h"; C++, except `testing` (C)
#   user/ports each folder with a `build` is a recipe, which the script user/ports/port executes. It makes programs, or a library for our
#              own programs or for another recipe
#   user/etc   copied to /etc
#   docs/man   manual pages, formatted for `man` in the guest

USER_BASE := $(if $(VARIANT),$(BASE),$(BUILD))
USER_OUT := $(USER_BASE)/user
INITRD := $(USER_BASE)/initrd.cpio
SYSROOT := $(USER_BASE)/sysroot
USER_CC := $(TOOLCHAIN)/bin/x86_64-stele-elf-gcc --sysroot=$(abspath $(SYSROOT))
USER_CXX := $(TOOLCHAIN)/bin/x86_64-stele-elf-g++ --sysroot=$(abspath $(SYSROOT))
USER_FLAGS := -O2 -g -Wall -Wextra -ffile-prefix-map=$(CURDIR)=. -D_GNU_SOURCE -Iuser/lib
USER_CFLAGS := -std=gnu17 $(USER_FLAGS)
USER_CXXFLAGS := -std=c++20 $(USER_FLAGS)

# Stamps of the toolchain's C library and C++ library. Objects depend on the stamps, and a stamp changes only if its library is rebuilt.
# If a file of user/toolchain, user/libc/newlib or user/libstdc++ changes, scripts/toolchain decides what to rebuild. A change of
# user/toolchain/flags rebuilds both libraries; a change of user/toolchain/compiler rebuilds neither.
USER_TOOLCHAIN := $(USER_OUT)/newlib.stamp
USER_CXX_TOOLCHAIN := $(USER_OUT)/libstdc++.stamp
# Contains the path of the toolchain, and is rewritten only if the path changes. If TOOLCHAIN names another folder, the toolchain there
# is built if necessary, and the programs are built again.
USER_TOOLCHAIN_PATH := $(USER_OUT)/toolchain.path
$(USER_TOOLCHAIN_PATH): FORCE
	@mkdir -p $(@D)
	@echo '$(abspath $(TOOLCHAIN))' | cmp -s - $@ || echo '$(abspath $(TOOLCHAIN))' >$@
USER_CHECKED := $(patsubst %,$(USER_OUT)/%.checked,compilers newlib libstdc++)
$(USER_OUT)/compilers.checked: $(wildcard user/toolchain/* user/toolchain/*/*)
$(USER_OUT)/newlib.checked: $(USER_OUT)/compilers.checked $(wildcard user/libc/newlib/* user/libc/newlib/*/*)
$(USER_OUT)/libstdc++.checked: $(USER_OUT)/newlib.checked $(wildcard user/libstdc++/*)
$(USER_CHECKED): $(USER_OUT)/%.checked: scripts/toolchain $(USER_TOOLCHAIN_PATH)
	@mkdir -p $(@D)
	@scripts/toolchain $* $(TOOLCHAIN) '$(CACHE)'
	@touch $@
$(USER_TOOLCHAIN) $(USER_CXX_TOOLCHAIN): $(USER_OUT)/%.stamp: $(USER_OUT)/%.checked
	@cmp -s $(TOOLCHAIN)/$*.stamp $@ || cp $(TOOLCHAIN)/$*.stamp $@

# The sysroot: this system's part of the C library, and links to newlib and libstdc++ of the toolchain.
SYSROOT_HEADERS := $(SYSROOT)/headers.stamp
$(SYSROOT_HEADERS): $(USER_TOOLCHAIN_PATH) $(wildcard user/libc/include/*.h user/libc/include/*/*.h kern/abi/*.h)
	@rm -rf $(SYSROOT)/include
	@mkdir -p $(SYSROOT)/include
	@ln -sfnT $(abspath $(TOOLCHAIN))/sysroot/newlib $(SYSROOT)/newlib
	@ln -sfnT $(abspath $(TOOLCHAIN))/sysroot/libstdc++ $(SYSROOT)/libstdc++
	@cp -pR user/libc/include/. $(SYSROOT)/include
	@cp -pR kern/abi $(SYSROOT)/include/abi
	@for header in $(MUSL_HEADERS); do \
	  sed 's/defined(_BSD_SOURCE)/__BSD_VISIBLE/' $(MUSL)/include/$$header.h >$(SYSROOT)/include/$$header.h || exit 1; \
	done
	@touch $@

# C++ exceptions pass through pthread_once.
$(patsubst user/libc/%.c,$(USER_OUT)/libc/%.o,$(call named,user/libc/once.c)): USER_CFLAGS += -fexceptions
# spawn.c has the file actions that musl's functions collect.
$(USER_OUT)/libc/spawn.o: USER_CFLAGS += -iquote $(USER_OUT)/musl/src/process
LIBC_OBJECTS := $(patsubst user/libc/%.c,$(USER_OUT)/libc/%.o,$(wildcard user/libc/*.c))
$(LIBC_OBJECTS): $(USER_OUT)/libc/%.o: user/libc/%.c $(USER_TOOLCHAIN) $(SYSROOT_HEADERS)
	@mkdir -p $(@D)
	@echo "  UCC   $<"
	@$(USER_CC) $(USER_CFLAGS) -fno-builtin -Iuser/libc -MD -MP -c -o $@ $<

include user/libc/musl/musl.mk

SYSROOT_LIBC := $(SYSROOT)/lib/libstele.a
$(SYSROOT_LIBC): $(LIBC_OBJECTS) $(MUSL_OBJECTS) $(SYSROOT)/lib/crt0.o
	@rm -f $@
	@$(TOOLCHAIN)/bin/x86_64-stele-elf-ar rcs $@ $(LIBC_OBJECTS) $(MUSL_OBJECTS)
$(SYSROOT)/lib/crt0.o: user/libc/crt0.S kern/abi/start.h $(USER_TOOLCHAIN)
	@mkdir -p $(@D)
	@$(USER_CC) $(USER_CFLAGS) -Ikern -c -o $@ $<

# Also copies the headers and libraries to the toolchain's own sysroot. A compiler that is called without flags finds them there. The lock
# is needed because the build of another source tree may copy its files at the same time.
TOOLCHAIN_SYSROOT := $(USER_OUT)/sysroot.stamp
$(TOOLCHAIN_SYSROOT): $(SYSROOT_LIBC) $(SYSROOT_HEADERS)
	@mkdir -p $(TOOLCHAIN)/sysroot
	@flock $(TOOLCHAIN)/lock cp -pR $(SYSROOT)/include $(SYSROOT)/lib $(TOOLCHAIN)/sysroot/
	@touch $@

# Libraries of our own programs.
USER_LIBRARY_OBJECTS := $(patsubst user/lib/%,$(USER_OUT)/obj/lib/%.o,$(wildcard user/lib/*/*.cc user/lib/*/*.c))
$(filter %.cc.o,$(USER_LIBRARY_OBJECTS)): $(USER_OUT)/obj/lib/%.cc.o: user/lib/%.cc $(USER_CXX_TOOLCHAIN) $(SYSROOT_HEADERS)
	@mkdir -p $(@D)
	@echo "  UCXX  $<"
	@$(USER_CXX) $(USER_CXXFLAGS) -MD -MP -c -o $@ $<
$(filter %.c.o,$(USER_LIBRARY_OBJECTS)): $(USER_OUT)/obj/lib/%.c.o: user/lib/%.c $(USER_TOOLCHAIN) $(SYSROOT_HEADERS)
	@mkdir -p $(@D)
	@echo "  UCC   $<"
	@$(USER_CC) $(USER_CFLAGS) -MD -MP -c -o $@ $<
USER_LIBRARIES := $(patsubst user/lib/%/,$(USER_OUT)/lib/lib%.a,$(wildcard user/lib/*/))
$(USER_LIBRARIES): $(USER_OUT)/lib/lib%.a: $(USER_LIBRARY_OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	@$(TOOLCHAIN)/bin/x86_64-stele-elf-ar rcs $@ $(filter $(USER_OUT)/obj/lib/$*/%,$^)

# Runs once after the link of each program of the initial archive: stores in the program the addresses at which its functions return
# (docs/probes.md).
ADD_RETURNS = $(PYTHON) tools/stele/returns.py $(TOOLCHAIN)/bin/x86_64-stele-elf- $@

# Builds the third-party program or library $(1). Source archives and results are kept in $(CACHE)/ports.
PORT = HOST=x86_64-stele-elf TOOLS='$(abspath $(TOOLCHAIN))/bin' SYSROOT='$(abspath $(SYSROOT))' \
  user/ports/port $(1) '$(CACHE)/ports' $(USER_OUT)/ports/$(1) $(USER_OUT)/ports/$(1)/out
port_sources = $(wildcard user/ports/$(1)/* user/ports/$(1)/*/* user/ports/$(1)/*/*/*) user/ports/port

# The library and its headers lie in the same folder.
NCURSES := $(USER_OUT)/ports/ncurses/out/libncursesw.a
$(NCURSES): $(call port_sources,ncurses) $(SYSROOT_LIBC)
	@echo "  PORT  ncurses"
	@$(call PORT,ncurses)
	@touch $@

# Our own programs. A program with C++ files is linked with USER_LIBRARIES and the C++ library, and its unused sections are discarded.
# NAME_LIBRARIES are additional libraries for the program NAME.
kmemtop_LIBRARIES := $(NCURSES)
TESTING_PROGRAMS := clonetest filetest libctest maptest proctest sessiontest sigtest stress threadtest
$(foreach program,$(TESTING_PROGRAMS),$(eval $(program)_LIBRARIES := $(USER_OUT)/lib/libtesting.a))
USER_PROGRAM_FOLDERS := $(patsubst %/,%,$(wildcard user/bin/*/ tests/programs/*/))
USER_PROGRAMS := $(notdir $(USER_PROGRAM_FOLDERS))
TEST_PROGRAMS := $(notdir $(filter tests/%,$(USER_PROGRAM_FOLDERS)))
program_folder = $(filter %/$(1),$(USER_PROGRAM_FOLDERS))
define USER_PROGRAM
$(USER_OUT)/obj/$(call program_folder,$(1))/%.c.o: $(call program_folder,$(1))/%.c $(USER_TOOLCHAIN) $(SYSROOT_HEADERS)
	@mkdir -p $$(@D)
	@echo "  UCC   $$<"
	@$$(USER_CC) $$(USER_CFLAGS) -MD -MP -c -o $$@ $$<
$(USER_OUT)/obj/$(call program_folder,$(1))/%.cc.o: $(call program_folder,$(1))/%.cc $(USER_CXX_TOOLCHAIN) $(SYSROOT_HEADERS) $($(1)_LIBRARIES)
	@mkdir -p $$(@D)
	@echo "  UCXX  $$<"
	@$$(USER_CXX) $$(USER_CXXFLAGS) $(addprefix -isystem ,$(dir $($(1)_LIBRARIES))) -MD -MP -c -o $$@ $$<
$(USER_OUT)/bin/$(1): $(patsubst $(call program_folder,$(1))/%,$(USER_OUT)/obj/$(call program_folder,$(1))/%.o,$(wildcard $(call program_folder,$(1))/*.c $(call program_folder,$(1))/*.cc)) $(SYSROOT_LIBC) \
  $(if $(wildcard $(call program_folder,$(1))/*.cc),$(USER_LIBRARIES)) $($(1)_LIBRARIES) tools/stele/returns.py
	@mkdir -p $$(@D)
	@echo "  ULINK $$@"
	@$(if $(wildcard $(call program_folder,$(1))/*.cc),$$(USER_CXX) -Wl$$(comma)--gc-sections,$$(USER_CC)) -o $$@ $$(filter %.o,$$^) \
	  -Wl$$(comma)--start-group $$(filter %.a,$$(filter-out $$(SYSROOT_LIBC),$$^)) -Wl$$(comma)--end-group
	@$$(ADD_RETURNS)
endef
comma := ,
$(foreach program,$(USER_PROGRAMS),$(eval $(call USER_PROGRAM,$(program))))

# One C program from outside the tree, for `make leaktest ADD=…`.
.PHONY: program
program: $(SYSROOT_LIBC) ## a program for the guest from a C file anywhere: FROM=FILE.c TO=FILE
	@$(USER_CC) $(USER_CFLAGS) -o $(TO) $(FROM)

# Third-party programs.
USER_PORTS := dash busybox mksh
define USER_PORT
$(USER_OUT)/bin/$(1): $(call port_sources,$(1)) $(SYSROOT_LIBC) tools/stele/returns.py
	@mkdir -p $$(@D)
	@echo "  PORT  $(1)"
	@$(call PORT,$(1))
	@cp $(USER_OUT)/ports/$(1)/out/$(1) $$@
	@$$(ADD_RETURNS)
endef
$(foreach port,$(USER_PORTS),$(eval $(call USER_PORT,$(port))))

# $(call stripped,PROGRAMS,FOLDER): copies the programs without their debugging information to the folder.
stripped = for program in $(1); do $(TOOLCHAIN)/bin/x86_64-stele-elf-strip --strip-debug -o $(2)/$${program\#\#*/} $$program || exit 1; done
# $(call archive,FOLDER,FILE): packs the files of the folder. All belong to root.
archive = chmod -R u=rwX,go=rX $(1) && (cd $(1) && find . -mindepth 1 | LC_ALL=C sort | cpio --quiet -o -H newc -R 0:0 --reproducible) >$(2).new && mv $(2).new $(2)

# The initial archive. busybox is one file with a link for each applet.
USER_ALL := $(addprefix $(USER_OUT)/bin/,$(filter-out $(TEST_PROGRAMS),$(USER_PROGRAMS)) $(USER_PORTS))
INITRD_FOLDERS := bin dev etc home host mem proc tmp usr usr/bin usr/man usr/man/cat1
USER_MAN := $(wildcard docs/man/*.1)
$(INITRD): $(USER_ALL) $(TOOLCHAIN_SYSROOT) $(wildcard user/etc/* user/scripts/*) $(USER_MAN) user/user.mk
	@mkdir -p $(@D)
	@rm -rf $(USER_OUT)/root
	@mkdir -p $(addprefix $(USER_OUT)/root/,$(INITRD_FOLDERS))
	@$(call stripped,$(USER_ALL),$(USER_OUT)/root/bin)
	@mv $(USER_OUT)/root/bin/dash $(USER_OUT)/root/bin/sh
	@for applet in $$(cat $(USER_OUT)/ports/busybox/out/busybox.applets); do \
	  ln $(USER_OUT)/root/bin/busybox $(USER_OUT)/root/bin/$$applet || exit 1; \
	done
	@ln $(USER_OUT)/root/bin/busybox $(USER_OUT)/root/usr/bin/env
	@cp user/etc/* $(USER_OUT)/root/etc/
	@install -m 755 user/scripts/* $(USER_OUT)/root/bin/
	@for page in $(USER_MAN); do \
	  mandoc -W error -T ascii -O width=78 $$page >$(USER_OUT)/page && \
	    sed 's/.\x08//g' $(USER_OUT)/page >$(USER_OUT)/root/usr/man/cat1/$${page##*/} || exit 1; \
	done
	@echo "  CPIO  $@"
	@$(call archive,$(USER_OUT)/root,$@)

# The programs of tests, for guests that ask for them as for a port: `scripts/guest --port tests`, `make run PORTS=tests`.
TEST_ARCHIVE := $(USER_BASE)/ports/tests.cpio
TEST_ALL := $(addprefix $(USER_OUT)/bin/,$(TEST_PROGRAMS))
$(TEST_ARCHIVE): $(TEST_ALL) user/user.mk
	@mkdir -p $(@D)
	@rm -rf $(USER_OUT)/tests
	@mkdir -p $(USER_OUT)/tests/bin
	@$(call stripped,$(TEST_ALL),$(USER_OUT)/tests/bin)
	@echo "  CPIO  $@"
	@$(call archive,$(USER_OUT)/tests,$@)
.PHONY: port-tests
port-tests: $(TEST_ARCHIVE) # for scripts/guest

-include $(LIBC_OBJECTS:.o=.d) $(wildcard $(USER_OUT)/obj/*/*/*/*.d $(USER_OUT)/obj/lib/*/*.d)
