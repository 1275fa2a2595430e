# Third-party programs outside the initial archive, and their tests. The top Makefile includes this file after user/user.mk, which builds
# the other recipes of user/ports. A recipe with a file `tests` makes an archive of its own, $(BASE)/ports/NAME.cpio. `scripts/guest --port
# NAME`, `make run PORTS=…` and `make leaktest PORTS=…` append this archive to the initial archive. The archive has these files:
#
#   /bin/*                    its programs (RESULT/bin)
#   /usr/ports/NAME/tests/*   files of its tests (RESULT/tests, and the recipe's folder `files`)
#   /usr/ports/NAME/large/*   large files of a few tests, not copied for each test (RESULT/large)
#   /usr/ports/NAME/list      the tests: lines `[+-]TEST COMMAND`, + for the short form, - for long tests (the recipe's file `tests`)
#   /bin/port-tests           runs them
#   /bin/port-load            runs the tests of all ports at random, for `make load`
#
# $(BASE)/ports/native/NAME has the same files, built for this machine: `make test-ports` compares the tests' output here and in the guest.
# The recipe's file `skipped` lists the tests of upstream that do not run, and says why.

PORTS_OUT := $(BASE)/ports
PORTS_OF_OTHERS := $(patsubst user/ports/%/tests,%,$(wildcard user/ports/*/tests))
PORTS_IN_SHORT := $(patsubst user/ports/%/tests,%,$(shell grep -l '^+' user/ports/*/tests))
PORT_SCRIPTS := user/ports/port-tests user/ports/port-load
PORT_NATIVE = HOST= user/ports/port $(1) '$(CACHE)/ports' $(PORTS_OUT)/native/work/$(1) $(PORTS_OUT)/native/work/$(1)/out

# Copies the files of the port $(2) from the folder $(1), which has `bin` and `tests`, to the folder $(3). The layout of $(3) is that of the
# archive.
port_files = mkdir -p $(3)/bin $(3)/usr/ports/$(2)/tests && \
  { [ ! -d $(1)/bin ] || cp -pP $(1)/bin/* $(3)/bin/; } && \
  cp -Rp $$(ls -d $(1)/large 2>/dev/null) $(1)/tests $(wildcard user/ports/$(2)/files) $(3)/usr/ports/$(2)/ && \
  { [ ! -d $(3)/usr/ports/$(2)/files ] || { cp -R $(3)/usr/ports/$(2)/files/. $(3)/usr/ports/$(2)/tests/ && rm -r $(3)/usr/ports/$(2)/files; }; } && \
  cp user/ports/$(2)/tests $(3)/usr/ports/$(2)/list && cp $(PORT_SCRIPTS) $(3)/bin/

define PORT_OF_OTHERS
$(1)_NEEDS := $(shell cat user/ports/$(1)/needs 2>/dev/null)
PORT_BUILT_BY_$(1) := $(filter-out user/ports/$(1)/tests user/ports/$(1)/skipped user/ports/$(1)/files%,$(call port_sources,$(1)))

$(USER_OUT)/ports/$(1)/built: $$(PORT_BUILT_BY_$(1)) $(SYSROOT_LIBC) $$($(1)_NEEDS:%=$(USER_OUT)/ports/%/built)
	@mkdir -p $$(@D)
	@echo "  PORT  $(1)"
	@$$(call PORT,$(1))
	@touch $$@
$(PORTS_OUT)/native/work/$(1)/built: $$(PORT_BUILT_BY_$(1)) $$($(1)_NEEDS:%=$(PORTS_OUT)/native/work/%/built)
	@mkdir -p $$(@D)
	@echo "  PORT  $(1) (native)"
	@$$(call PORT_NATIVE,$(1))
	@touch $$@

$(PORTS_OUT)/$(1).cpio: $(USER_OUT)/ports/$(1)/built $(PORT_SCRIPTS) user/ports/$(1)/tests $(wildcard user/ports/$(1)/files/*) user/ports/ports.mk
	@rm -rf $(PORTS_OUT)/root/$(1)
	@$$(call port_files,$(USER_OUT)/ports/$(1)/out,$(1),$(PORTS_OUT)/root/$(1))
	@find $(PORTS_OUT)/root/$(1) -type f -perm /100 | while read -r file; do \
	  ! $(TOOLCHAIN)/bin/x86_64-stele-elf-readelf -h $$$$file >/dev/null 2>&1 || $(TOOLCHAIN)/bin/x86_64-stele-elf-strip --strip-debug $$$$file || exit 1; \
	done
	@chmod -R u=rwX,go=rX $(PORTS_OUT)/root/$(1)
	@echo "  CPIO  $$@"
	@cd $(PORTS_OUT)/root/$(1) && find . -mindepth 1 | LC_ALL=C sort | \
	  cpio --quiet -o -H newc -R 0:0 --reproducible >$(abspath $(PORTS_OUT))/$(1).cpio.new
	@mv $$@.new $$@
$(PORTS_OUT)/native/$(1): $(PORTS_OUT)/native/work/$(1)/built $(PORT_SCRIPTS) user/ports/$(1)/tests $(wildcard user/ports/$(1)/files/*) user/ports/ports.mk
	@rm -rf $$@
	@$$(call port_files,$(PORTS_OUT)/native/work/$(1)/out,$(1),$$@)
	@touch $$@
endef
$(foreach port,$(PORTS_OF_OTHERS),$(eval $(call PORT_OF_OTHERS,$(port))))

# Builds mksh for this machine. tests/guest/mksh_test.py compares the mksh of the initial archive with this native mksh.
$(PORTS_OUT)/native/mksh/mksh: $(call port_sources,mksh)
	@echo "  PORT  mksh (native)"
	@$(call PORT_NATIVE,mksh)
	@mkdir -p $(@D)
	@cp $(PORTS_OUT)/native/work/mksh/out/mksh $@

PORTS_NATIVE := $(PORTS_OF_OTHERS:%=$(PORTS_OUT)/native/%) $(PORTS_OUT)/native/mksh/mksh
.PHONY: ports test-ports $(PORTS_OF_OTHERS:%=port-%)
ports: $(PORTS_OF_OTHERS:%=$(PORTS_OUT)/%.cpio) ## third-party programs outside the initial archive
$(PORTS_OF_OTHERS:%=port-%): port-%: $(PORTS_OUT)/%.cpio # for scripts/guest
test-ports: all ports $(PORTS_NATIVE) ## run their tests here and in the guest, and compare
	@$(PYTEST) tests/guest/ports_test.py tests/guest/mksh_test.py tests/guest/sqlite_test.py
