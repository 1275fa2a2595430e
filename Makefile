# Stele. `make help` lists the targets. Everything that is made lies under $(BUILD).
#
#   BUILD=dir       where to build (build)
#   VARIANT=name    build with configs/name.config on top of the configuration, into $(BUILD)/variant/name
#   TOOLCHAIN=dir   where newlib and the ports are built, shared by all variants ($(BUILD)/toolchain)

ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc)
endif
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DELETE_ON_ERROR:
.SUFFIXES:

BASE ?= build
VARIANT ?=
BUILD ?= $(BASE)$(if $(VARIANT),/variant/$(VARIANT))
TOOLCHAIN ?= $(abspath $(BASE))/toolchain

all: kernel initrd

include kern/kconfig.mk
include kern/kern.mk
-include user/user.mk
-include tests/host/host.mk
-include scripts/targets.mk

.PHONY: all kernel initrd clean
kernel: $(KERNEL)
initrd: $(BUILD)/initrd.cpio

clean:
	rm -rf $(BASE)
