# Builds the HTML page of reports (tools/stele/report/page.py): bundles the sources in src/ with the
# libraries of package.json. package-lock.json gives the exact versions and checksums of the libraries.

PAGE := $(BASE)/report
PAGE_SOURCES := $(wildcard tools/report-page/src/*)

.PHONY: report-page
report-page: $(PAGE)/page.js $(PAGE)/page.css $(PAGE)/page.html ## bundle the page of reports with its libraries, from npm (build/report)

# Installs the packages of package.json and package-lock.json into the target's folder. The target is a stamp file. If there is no
# network, the options make npm fail after some seconds. This matters because `make leaktest` waits for npm. If npm fails, `make leaktest`
# continues without a page.
define NPM_INSTALL
@echo "  NPM   $(@D)/node_modules"
@mkdir -p $(@D)
@cp $^ $(@D)
@npm ci --prefix $(@D) --ignore-scripts --no-audit --no-fund --loglevel error --fetch-retry-mintimeout 1000 \
  --fetch-retry-maxtimeout 5000 --fetch-timeout 20000 >$(@D)/npm.log 2>&1 || { cat $(@D)/npm.log >&2; false; }
@touch $@
endef

$(PAGE)/npm.stamp: tools/report-page/package.json tools/report-page/package-lock.json
	$(NPM_INSTALL)

# page.js imports the style, which becomes page.css. The option --keep-names is there because the flame graph's library tests the name of a
# class.
$(PAGE)/page.js $(PAGE)/page.css &: $(PAGE)/npm.stamp $(PAGE_SOURCES)
	@echo "  PAGE  $(PAGE)/page.js"
	@NODE_PATH=$(PAGE)/node_modules $(PAGE)/node_modules/.bin/esbuild tools/report-page/src/page.js --bundle --minify --keep-names \
	  --target=es2020 --charset=ascii --legal-comments=eof --log-level=warning --outdir=$(PAGE)
	@touch $(PAGE)/page.js $(PAGE)/page.css

$(PAGE)/page.html: tools/report-page/src/page.html
	@mkdir -p $(PAGE)
	@cp $< $@

.PHONY: pictures
pictures: all report-page ## make the pictures of docs/tutorial.md anew
	@$(PYTHON) tests/guest/kmemtop_pictures.py
	@scripts/pictures
