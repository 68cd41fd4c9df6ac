# Needs make and Python 3.11 or newer with venv; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet

# The web page: its sources, folders too (to remove a file changes its folder), what they are built into, and npm,
# which is in .venv. npm talks much where all is well: what it says is shown where something failed.
UI := src/fairlead/_ui
UI_SOURCES = $(shell find ui -mindepth 1 -name node_modules -prune -o ! -name schema.d.ts -print)
NPM := cd ui && PATH="$(CURDIR)/$(BIN):$$PATH" npm
quietly = out=$$($(1) 2>&1) || { echo "$$out" >&2; exit 1; }

# Tests wait for processes, databases and browsers for half of their time: more workers than cores use that time.
WORKERS ?= $(shell expr 2 '*' $$(getconf _NPROCESSORS_ONLN))
# Workers and the processes that tests start load bytecode instead of compiling all modules, which takes 10 s each.
BYTECODE = PYTHONDONTWRITEBYTECODE= PYTHONPYCACHEPREFIX=$(CURDIR)/.pytest_cache/bytecode
PYTEST = $(BYTECODE) $(BIN)/python -m pytest --quiet --numprocesses $(WORKERS) --dist worksteal

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: $(VENV)/.project-installed ui ## Install everything that this checkout needs into .venv
	@echo "$(VENV) is ready"

.PHONY: demo
demo: $(VENV)/.project-installed ## Show what Fairlead does, in a minute
	@$(BIN)/python examples/demo.py

.PHONY: up
up: $(VENV)/.project-installed ui ## Start a server of this checkout, with its page; ARGS="--help" says what can be chosen
	@$(BIN)/fairlead up $(ARGS)

.PHONY: ui
ui: $(UI)/index.html ## Build the web page, where something of it changed

.PHONY: test
test: check test-ui ui chromium ## Check, then run the fast tests: all that run in process, and one of each real component
	@$(PYTEST) -m "not slow" $(ARGS)

.PHONY: test-all
test-all: check test-ui ui chromium ## Check, then run every test that needs no Kubernetes, in a quarter of an hour
	@FAIRLEAD_SUITE=all $(PYTEST) $(ARGS)

.PHONY: test-ui
test-ui: $(VENV)/.project-installed ui/node_modules/.package-lock.json ## Test the logic of the web page, without a browser
	@$(call quietly,$(NPM) test)

.PHONY: test-cluster
test-cluster: cluster-binaries ## Test on a real Kubernetes control plane, in ten minutes
	@$(BYTECODE) $(BIN)/python -m pytest --quiet --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/cluster $(ARGS)

.PHONY: cluster-binaries
cluster-binaries: $(VENV)/.project-installed ## Build Kubernetes and Kueue for the tests, once, with Go 1.25 or newer
	@$(BIN)/python -m tests.cluster.binaries

.PHONY: chromium
chromium: $(VENV)/.project-installed ## Find Chromium for the tests of the web page; on Debian, root gets it installed
	@$(BIN)/python -m tests.ui.chromium

.PHONY: test-faults
test-faults: $(VENV)/.project-installed ## Test faults at length: kill -9 at every line, full disks, clocks, databases, a crowd; in twenty minutes
	@FAULTS=all $(BYTECODE) $(BIN)/python -m pytest --quiet --numprocesses 2 tests/faults $(ARGS)

.PHONY: coverage
coverage: ui chromium ## Measure which lines and branches the tests execute, in servers that they start too
	@$(BIN)/coverage erase
	@FAIRLEAD_SUITE=all $(BYTECODE) $(BIN)/coverage run -m pytest --quiet --numprocesses $(WORKERS) --dist worksteal \
		-p tests.mutation.contexts $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --sort cover

.PHONY: mutation
mutation: $(VENV)/.project-installed ## Plant 150 faults one by one and count those that tests notice; after make coverage
	@$(BIN)/python -m tests.mutation $(ARGS)

.PHONY: check
check: $(VENV)/.project-installed ui/node_modules/.package-lock.json ## Check format, lint, types and the layers of the code
	@$(BIN)/ruff format --quiet --check --output-format concise . || { echo "try: make format" >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(call quietly,$(BIN)/lint-imports --no-logo)
	@$(call quietly,$(NPM) run check)
	@echo "format, lint, types and layers: all good"

.PHONY: format
format: $(VENV)/.project-installed ui/node_modules/.package-lock.json ## Format the code and fix what can be fixed
	@$(BIN)/ruff check --quiet --fix . ; status=$$?; $(BIN)/ruff format --quiet . && exit $$status
	@$(call quietly,$(NPM) run format)

.PHONY: golden
golden: $(VENV)/.project-installed ## Write anew what tests and pages show of the output; read the difference before you commit it
	@$(BIN)/python -m tests.golden.update
	@$(BIN)/python -m tests.bad_input.update
	@$(BIN)/python -m tests.docs.update
	@$(BIN)/python -m tests.ui.document

.PHONY: screenshots
screenshots: ui chromium ## Take the screenshots in docs/screenshots again, with a real browser
	@SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest --quiet tests/ui/test_screenshots.py $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.project-installed ## Fuzz the requirements language and the API, in ten minutes; ARGS="--help" says what can be chosen
	@$(BIN)/python -m tests.fuzzing $(ARGS)

.PHONY: bench
bench: $(VENV)/.project-installed ## Measure planning, fitting, serving and running, the last beside peers from PyPI, in half an hour
	@$(BIN)/python -m bench.planning
	@$(BIN)/python -m bench.fitting
	@$(BIN)/python -m bench.serving
	@$(BIN)/python -m bench.listing
	@$(BIN)/python -m bench.peers

.PHONY: bench-fit
bench-fit: $(VENV)/.project-installed ## Measure fits on up to 20,000 nodes beside plain loops, in two minutes; ARGS="--help" says more
	@$(BIN)/python -m bench.fitting $(ARGS)

.PHONY: bench-peers
bench-peers: $(VENV)/.project-installed ## Measure peers from PyPI, in a quarter of an hour; ARGS="--help" says what can be chosen
	@$(BIN)/python -m bench.peers $(ARGS)

.PHONY: bench-cluster
bench-cluster: $(VENV)/.project-installed ## Measure runs on a real control plane beside a bare client, in ten minutes
	@$(BIN)/python -m bench.clusters $(ARGS)

.PHONY: bench-ui
bench-ui: ui chromium ## Measure the web page: what is shipped, and the time to a usable table
	@$(BIN)/python -m bench.pages $(ARGS)

.PHONY: wheel
wheel: $(VENV)/.project-installed ## Build the wheel into dist/, with the web page in it
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

.PHONY: lock
lock: | $(BIN)/python ## Write requirements.lock anew, with the newest versions that pyproject.toml allows
	@$(PIP) install uv
	@UV_PYTHON_DOWNLOADS=never $(BIN)/uv export --quiet --upgrade --python $(BIN)/python \
		--all-extras --all-groups --no-emit-project --no-header --output-file requirements.lock > /dev/null
	@! grep --line-number --extended-regexp '://|--(extra-)?index-url|--find-links' requirements.lock
	@echo "requirements.lock: $$(grep --count '==' requirements.lock) packages"

.PHONY: clean
clean: ## Remove .venv, caches and everything built
	@rm -rf $(VENV) .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist uv.lock \
		$(UI) ui/node_modules ui/src/api/schema.d.ts
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --no-compile: compiling all of it takes 12 of 45 seconds. What the server imports is compiled by importing it once,
# so that its first start is as fast as every other.
# A changed lock starts from an empty environment, so that nothing it no longer names stays behind.
$(VENV)/.lock-installed: requirements.lock
	@$(create-venv)
	@echo "installing $$(grep --count '==' requirements.lock) packages into $(VENV) (half a minute or so)"
	@$(PIP) install --no-compile --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/.project-installed: $(VENV)/.lock-installed pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import fairlead.app, alembic.command, httpx2'
	@touch $@

# What npm itself writes last when it has installed everything.
ui/node_modules/.package-lock.json: ui/package-lock.json ui/package.json ui/.npmrc | $(VENV)/.project-installed
	@echo "installing what builds the web page into ui/node_modules"
	@$(call quietly,$(NPM) ci)
	@touch $@

$(UI)/index.html: ui/node_modules/.package-lock.json $(UI_SOURCES)
	@echo "building the web page into $(UI)"
	@$(call quietly,$(NPM) run build)
	@touch $@

$(BIN)/python:
	@$(create-venv)

define create-venv
command -v $(PYTHON) > /dev/null \
	|| { echo "error: there is no '$(PYTHON)': install Python 3.11 or newer, or name one: make setup PYTHON=..." >&2; exit 1; }; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	|| { echo "error: $$($(PYTHON) --version) is too old: install Python 3.11 or newer, or name one: make setup PYTHON=..." >&2; exit 1; }; \
$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null \
	|| { echo "error: $(PYTHON) has no venv: install it (on Debian: apt install python3-venv)" >&2; exit 1; }; \
$(PYTHON) -m venv --clear $(VENV)
endef
