# Everything that runs in user mode, and the initial archive made of it. Included by the top Makefile, which sets BUILD,
# BASE, VARIANT and TOOLCHAIN; gives $(INITRD). Programs with their debugging information are $(USER_OUT)/bin/*.
# Variants differ in the kernel, so they share what is made here.
#
#   sysroot    this system's side of the C library: headers, crt0.o, libstele.a
#   user/bin   each folder user/bin/NAME is a program /bin/NAME, from all its *.c or *.cc
#   user/lib   each folder user/lib/NAME is a static library for those: #include "NAME/file.h"; of C++, and testing of C
#   user/ports each folder with a `build` is a recipe for user/ports/port: a program, or a library for programs of our own
#   user/etc   goes to /etc as it is
#   docs/man   manual pages: formatted, for `man` in the guest

USER_BASE := $(if $(VARIANT),$(BASE),$(BUILD))
USER_OUT := $(USER_BASE)/user
INITRD := $(USER_BASE)/initrd.cpio
SYSROOT := $(USER_BASE)/sysroot
USER_CC := $(TOOLCHAIN)/bin/x86_64-stele-elf-gcc --sysroot=$(abspath $(SYSROOT))
USER_CXX := $(TOOLCHAIN)/bin/x86_64-stele-elf-g++ --sysroot=$(abspath $(SYSROOT))
USER_FLAGS := -O2 -g -Wall -Wextra -ffile-prefix-map=$(CURDIR)=. -D_GNU_SOURCE -Iuser/lib
USER_CFLAGS := -std=gnu17 $(USER_FLAGS)
USER_CXXFLAGS := -std=c++20 $(USER_FLAGS)

# The toolchain, that for C and what C++ has besides: looked at again when its recipe changes; scripts/toolchain knows whether
# anything is to be done. What is compiled with it depends on the stamps, which change when it has become another: not when
# scripts/toolchain had nothing to do, nor with the compilers' wrapper, whose flags newlib's stamp goes by.
USER_TOOLCHAIN := $(USER_OUT)/newlib.stamp
USER_CXX_TOOLCHAIN := $(USER_OUT)/libstdc++.stamp
# Changes with TOOLCHAIN, so that another one is made and linked to.
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
	@scripts/toolchain $* $(TOOLCHAIN)
	@touch $@
$(USER_TOOLCHAIN) $(USER_CXX_TOOLCHAIN): $(USER_OUT)/%.stamp: $(USER_OUT)/%.checked
	@cmp -s $(TOOLCHAIN)/$*.stamp $@ || cp $(TOOLCHAIN)/$*.stamp $@

# The C library's system side, with the toolchain's libraries beside it.
SYSROOT_HEADERS := $(SYSROOT)/headers.stamp
$(SYSROOT_HEADERS): $(USER_TOOLCHAIN_PATH) $(wildcard user/libc/include/*.h user/libc/include/sys/*.h kern/abi/*.h)
	@rm -rf $(SYSROOT)/include
	@mkdir -p $(SYSROOT)/include
	@ln -sfnT $(abspath $(TOOLCHAIN))/sysroot/newlib $(SYSROOT)/newlib
	@ln -sfnT $(abspath $(TOOLCHAIN))/sysroot/libstdc++ $(SYSROOT)/libstdc++
	@cp -pR user/libc/include/. $(SYSROOT)/include
	@cp -pR kern/abi $(SYSROOT)/include/abi
	@touch $@

# An exception of C++ passes through pthread_once.
$(USER_OUT)/libc/once.o: USER_CFLAGS += -fexceptions
LIBC_OBJECTS := $(patsubst user/libc/%.c,$(USER_OUT)/libc/%.o,$(wildcard user/libc/*.c))
$(LIBC_OBJECTS): $(USER_OUT)/libc/%.o: user/libc/%.c $(USER_TOOLCHAIN) $(SYSROOT_HEADERS)
	@mkdir -p $(@D)
	@echo "  UCC   $<"
	@$(USER_CC) $(USER_CFLAGS) -fno-builtin -Iuser/libc -MD -MP -c -o $@ $<

SYSROOT_LIBC := $(SYSROOT)/lib/libstele.a
$(SYSROOT_LIBC): $(LIBC_OBJECTS) $(SYSROOT)/lib/crt0.o
	@rm -f $@
	@$(TOOLCHAIN)/bin/x86_64-stele-elf-ar rcs $@ $(LIBC_OBJECTS)
$(SYSROOT)/lib/crt0.o: user/libc/crt0.S kern/abi/start.h $(USER_TOOLCHAIN)
	@mkdir -p $(@D)
	@$(USER_CC) $(USER_CFLAGS) -Ikern -c -o $@ $<

# The same in the toolchain's own sysroot, for compilers that are called without flags. Another tree may do so at the same time.
TOOLCHAIN_SYSROOT := $(USER_OUT)/sysroot.stamp
$(TOOLCHAIN_SYSROOT): $(SYSROOT_LIBC) $(SYSROOT_HEADERS)
	@mkdir -p $(TOOLCHAIN)/sysroot
	@flock $(TOOLCHAIN)/lock cp -pR $(SYSROOT)/include $(SYSROOT)/lib $(TOOLCHAIN)/sysroot/
	@touch $@

# What programs of our own share.
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

# Where a program's functions return (docs/probes.md). Once after each link.
ADD_RETURNS = python3 tools/stele/returns.py $(TOOLCHAIN)/bin/x86_64-stele-elf- $@

# Programs and libraries of others: sources and results are kept beside the toolchain, so that `make clean` does not build them again.
# $(1): its name
PORT = HOST=x86_64-stele-elf TOOLS='$(abspath $(TOOLCHAIN))/bin' SYSROOT='$(abspath $(SYSROOT))' \
  user/ports/port $(1) $(TOOLCHAIN)/ports $(USER_OUT)/ports/$(1) $(USER_OUT)/ports/$(1)/out
port_sources = $(wildcard user/ports/$(1)/* user/ports/$(1)/*/* user/ports/$(1)/*/*/*) user/ports/port

# The library and its headers lie in the same folder.
NCURSES := $(USER_OUT)/ports/ncurses/out/libncursesw.a
$(NCURSES): $(call port_sources,ncurses) $(SYSROOT_LIBC)
	@echo "  PORT  ncurses"
	@$(call PORT,ncurses)
	@touch $@

# Programs of our own. One with C++ in it is linked with these and the C++ library, without those of its sections that nobody
# calls. NAME_LIBRARIES are others that a program needs.
kmemtop_LIBRARIES := $(NCURSES)
TEST_PROGRAMS := clonetest filetest libctest proctest sessiontest sigtest
$(foreach program,$(TEST_PROGRAMS),$(eval $(program)_LIBRARIES := $(USER_OUT)/lib/libtesting.a))
USER_PROGRAMS := $(patsubst user/bin/%/,%,$(wildcard user/bin/*/))
define USER_PROGRAM
$(USER_OUT)/obj/$(1)/%.c.o: user/bin/$(1)/%.c $(USER_TOOLCHAIN) $(SYSROOT_HEADERS)
	@mkdir -p $$(@D)
	@echo "  UCC   $$<"
	@$$(USER_CC) $$(USER_CFLAGS) -MD -MP -c -o $$@ $$<
$(USER_OUT)/obj/$(1)/%.cc.o: user/bin/$(1)/%.cc $(USER_CXX_TOOLCHAIN) $(SYSROOT_HEADERS) $($(1)_LIBRARIES)
	@mkdir -p $$(@D)
	@echo "  UCXX  $$<"
	@$$(USER_CXX) $$(USER_CXXFLAGS) $(addprefix -isystem ,$(dir $($(1)_LIBRARIES))) -MD -MP -c -o $$@ $$<
$(USER_OUT)/bin/$(1): $(patsubst user/bin/%,$(USER_OUT)/obj/%.o,$(wildcard user/bin/$(1)/*.c user/bin/$(1)/*.cc)) $(SYSROOT_LIBC) \
  $(if $(wildcard user/bin/$(1)/*.cc),$(USER_LIBRARIES)) $($(1)_LIBRARIES) tools/stele/returns.py
	@mkdir -p $$(@D)
	@echo "  ULINK $$@"
	@$(if $(wildcard user/bin/$(1)/*.cc),$$(USER_CXX) -Wl$$(comma)--gc-sections,$$(USER_CC)) -o $$@ $$(filter %.o,$$^) \
	  -Wl$$(comma)--start-group $$(filter %.a,$$(filter-out $$(SYSROOT_LIBC),$$^)) -Wl$$(comma)--end-group
	@$$(ADD_RETURNS)
endef
comma := ,
$(foreach program,$(USER_PROGRAMS),$(eval $(call USER_PROGRAM,$(program))))

# One C program from outside: for `make leaktest ADD=…`.
.PHONY: program
program: $(SYSROOT_LIBC) ## a program for the guest from a C file anywhere: FROM=FILE.c TO=FILE
	@$(USER_CC) $(USER_CFLAGS) -o $(TO) $(FROM)

# Programs of others.
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

# The initial archive. Programs go in without debugging information; busybox is one file with a name for each applet.
USER_ALL := $(addprefix $(USER_OUT)/bin/,$(USER_PROGRAMS) $(USER_PORTS))
INITRD_FOLDERS := bin dev etc home host mem proc tmp usr usr/bin usr/man usr/man/cat1
USER_MAN := $(wildcard docs/man/*.1)
$(INITRD): $(USER_ALL) $(TOOLCHAIN_SYSROOT) $(wildcard user/etc/*) $(USER_MAN) user/user.mk
	@mkdir -p $(@D)
	@rm -rf $(USER_OUT)/root
	@mkdir -p $(addprefix $(USER_OUT)/root/,$(INITRD_FOLDERS))
	@for program in $(USER_ALL); do \
	  $(TOOLCHAIN)/bin/x86_64-stele-elf-strip --strip-debug -o $(USER_OUT)/root/bin/$${program##*/} $$program || exit 1; \
	done
	@mv $(USER_OUT)/root/bin/dash $(USER_OUT)/root/bin/sh
	@for applet in $$(cat $(USER_OUT)/ports/busybox/out/busybox.applets); do \
	  ln $(USER_OUT)/root/bin/busybox $(USER_OUT)/root/bin/$$applet || exit 1; \
	done
	@ln $(USER_OUT)/root/bin/busybox $(USER_OUT)/root/usr/bin/env
	@cp user/etc/* $(USER_OUT)/root/etc/
	@for page in $(USER_MAN); do \
	  mandoc -W error -T ascii -O width=78 $$page >$(USER_OUT)/page && \
	    sed 's/.\x08//g' $(USER_OUT)/page >$(USER_OUT)/root/usr/man/cat1/$${page##*/} || exit 1; \
	done
	@chmod -R u=rwX,go=rX $(USER_OUT)/root
	@echo "  CPIO  $@"
	@cd $(USER_OUT)/root && find . -mindepth 1 | LC_ALL=C sort | \
	  cpio --quiet -o -H newc -R 0:0 --reproducible >$(abspath $@).new
	@mv $@.new $@

-include $(LIBC_OBJECTS:.o=.d) $(wildcard $(USER_OUT)/obj/*/*.d $(USER_OUT)/obj/lib/*/*.d)
