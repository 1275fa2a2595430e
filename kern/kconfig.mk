# Configuration: Kconfig → $(BUILD)/.config → autoconf.h, which every kernel source includes first.

KCONFIG_DIR := $(BUILD)/kconfig
DOTCONFIG   := $(KCONFIG_DIR)/.config
AUTOCONF_H  := $(KCONFIG_DIR)/include/generated/autoconf.h
FRAGMENTS   := $(wildcard configs/defconfig) $(if $(VARIANT),configs/$(VARIANT).config)
KCONFIG_ENV  = cd $(KCONFIG_DIR) && KCONFIG_CONFIG=.config

define MAKE_DEFCONFIG
@mkdir -p $(KCONFIG_DIR)/include/config $(KCONFIG_DIR)/include/generated
@cat /dev/null $(FRAGMENTS) > $(KCONFIG_DIR)/fragments
@$(KCONFIG_ENV) kconfig-conf --defconfig=fragments $(abspath Kconfig) > /dev/null
endef

# When Kconfig has changed, existing options keep their values and new options get their defaults. Then make reads .config again.
$(DOTCONFIG): $(FRAGMENTS) Kconfig | $(INSTALLED)
	$(if $(and $(wildcard $@),$(filter Kconfig,$?),$(if $(filter-out Kconfig,$?),,only)),\
	  @$(KCONFIG_ENV) kconfig-conf --olddefconfig $(abspath Kconfig) > /dev/null && touch $(abspath $@),\
	  $(MAKE_DEFCONFIG))

$(AUTOCONF_H): $(DOTCONFIG) Kconfig
	@mkdir -p $(KCONFIG_DIR)/include/config $(KCONFIG_DIR)/include/generated
	@$(KCONFIG_ENV) kconfig-conf --silentoldconfig $(abspath Kconfig) > /dev/null
	@touch $@

# CONFIG_* as make variables.
ifneq ($(filter-out clean help menuconfig defconfig format,$(or $(MAKECMDGOALS),all)),)
include $(DOTCONFIG)
endif

.PHONY: menuconfig defconfig
menuconfig: $(DOTCONFIG) ## choose options
	@$(KCONFIG_ENV) kconfig-mconf $(abspath Kconfig)
defconfig: ## back to the default options
	$(MAKE_DEFCONFIG)
