# Needs make and Python 3.11 or newer with venv; everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input --quiet

# The web UI: its sources (with folders, because removing a file changes only its folder), its output folder, and npm,
# which is in .venv. The output of npm is shown only if it fails.
UI := src/fairlead/_ui
UI_SOURCES = $(shell find ui -mindepth 1 -name node_modules -prune -o ! -name schema.d.ts -print)
NPM := cd ui && PATH="$(CURDIR)/$(BIN):$$PATH" npm
quietly = out=$$($(1) 2>&1) || { echo "$$out" >&2; exit 1; }

# Tests spend half of their time waiting for processes, databases and browsers, so use more workers than cores.
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
setup: $(VENV)/.project-installed ui ## Install all dependencies into .venv
	@echo "$(VENV) is ready"

.PHONY: demo
demo: $(VENV)/.project-installed ## Run the demo (1 minute)
	@$(BIN)/python examples/demo.py

.PHONY: up
up: $(VENV)/.project-installed ui ## Start a server from this checkout, with the web UI; ARGS="--help" lists the options
	@$(BIN)/fairlead up $(ARGS)

.PHONY: ui
ui: $(UI)/index.html ## Build the web UI if it changed

.PHONY: test
test: check test-ui ui chromium ## Check, then run the fast tests: all in-process tests and one smoke test per real component
	@$(PYTEST) -m "not slow" $(ARGS)

.PHONY: test-all
test-all: check test-ui ui chromium ## Check, then run all tests that need no Kubernetes (15 minutes)
	@FAIRLEAD_SUITE=all $(PYTEST) $(ARGS)

.PHONY: test-ui
test-ui: $(VENV)/.project-installed ui/node_modules/.package-lock.json ## Test the logic of the web UI without a browser
	@$(call quietly,$(NPM) test)

.PHONY: test-cluster
test-cluster: cluster-binaries ## Test on a real Kubernetes control plane (10 minutes)
	@$(BYTECODE) $(BIN)/python -m pytest --quiet --numprocesses 3 --dist loadfile --no-loadscope-reorder tests/cluster $(ARGS)

.PHONY: cluster-binaries
cluster-binaries: $(VENV)/.project-installed ## Build Kubernetes and Kueue for the tests, once, with Go 1.25 or newer
	@$(BIN)/python -m tests.cluster.binaries

.PHONY: chromium
chromium: $(VENV)/.project-installed ## Find Chromium for browser tests; as root on Debian, install it
	@$(BIN)/python -m tests.ui.chromium

.PHONY: test-faults
test-faults: $(VENV)/.project-installed ## Run the long fault tests: crashes at every line, full disks, clocks, databases, many clients (20 minutes)
	@FAULTS=all $(BYTECODE) $(BIN)/python -m pytest --quiet --numprocesses 2 tests/faults $(ARGS)

.PHONY: coverage
coverage: ui chromium ## Measure line and branch coverage, including server processes
	@$(BIN)/coverage erase
	@FAIRLEAD_SUITE=all $(BYTECODE) $(BIN)/coverage run -m pytest --quiet --numprocesses $(WORKERS) --dist worksteal \
		-p tests.mutation.contexts $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report --skip-covered --sort cover

.PHONY: mutation
mutation: $(VENV)/.project-installed ## Run the mutation check: 150 mutants against the tests; needs make coverage first
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
format: $(VENV)/.project-installed ui/node_modules/.package-lock.json ## Format the code and apply automatic fixes
	@$(BIN)/ruff check --quiet --fix . ; status=$$?; $(BIN)/ruff format --quiet . && exit $$status
	@$(call quietly,$(NPM) run format)

.PHONY: golden
golden: $(VENV)/.project-installed ## Update golden files and the output in the documentation; review the difference
	@$(BIN)/python -m tests.golden.update
	@$(BIN)/python -m tests.bad_input.update
	@$(BIN)/python -m tests.docs.update
	@$(BIN)/python -m tests.ui.document

.PHONY: screenshots
screenshots: ui chromium ## Update docs/screenshots with a real browser
	@SCREENSHOTS=docs/screenshots $(BIN)/python -m pytest --quiet tests/ui/test_screenshots.py $(ARGS)

.PHONY: fuzz
fuzz: $(VENV)/.project-installed ## Fuzz requests and the API (10 minutes); ARGS="--help" lists the options
	@$(BIN)/python -m tests.fuzzing $(ARGS)

.PHONY: bench
bench: $(VENV)/.project-installed ## Run all benchmarks, some compared with peers from PyPI (30 minutes)
	@$(BIN)/python -m bench.planning
	@$(BIN)/python -m bench.fitting
	@$(BIN)/python -m bench.serving
	@$(BIN)/python -m bench.listing
	@$(BIN)/python -m bench.long_queue
	@$(BIN)/python -m bench.peers

.PHONY: bench-fit
bench-fit: $(VENV)/.project-installed ## Benchmark fit checks on up to 20,000 nodes (2 minutes); ARGS="--help" lists the options
	@$(BIN)/python -m bench.fitting $(ARGS)

.PHONY: bench-path
bench-path: $(VENV)/.project-installed ## Count the modules and calls on the path of one run; ARGS="--list" prints them
	@$(BIN)/python -m bench.run_path $(ARGS)

.PHONY: bench-queue
bench-queue: $(VENV)/.project-installed ## Measure a server with 100,000 waiting runs (4 minutes); ARGS="--help" lists the options
	@$(BIN)/python -m bench.long_queue $(ARGS)

.PHONY: bench-peers
bench-peers: $(VENV)/.project-installed ## Benchmark peers from PyPI (15 minutes); ARGS="--help" lists the options
	@$(BIN)/python -m bench.peers $(ARGS)

.PHONY: bench-hostile
bench-hostile: $(VENV)/.project-installed ## Measure requests while other clients attack the server (1 minute)
	@$(BIN)/python -m bench.hostile_clients

.PHONY: bench-cluster
bench-cluster: $(VENV)/.project-installed ## Benchmark runs on a real control plane, compared with a bare client (10 minutes)
	@$(BIN)/python -m bench.clusters $(ARGS)

.PHONY: bench-ui
bench-ui: ui chromium ## Benchmark the web UI: bundle size and time to a usable table
	@$(BIN)/python -m bench.pages $(ARGS)

.PHONY: wheel
wheel: $(VENV)/.project-installed ## Build the wheel into dist/, including the web UI
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist/*.whl

.PHONY: lock
lock: | $(BIN)/python ## Update requirements.lock to the newest versions that pyproject.toml allows
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

# --no-compile saves 12 of 45 seconds. Importing the server once compiles the modules that it needs, so that its first
# start is fast. A changed lock file recreates the environment, so that removed packages do not stay behind.
$(VENV)/.lock-installed: requirements.lock
	@$(create-venv)
	@echo "installing $$(grep --count '==' requirements.lock) packages into $(VENV) (half a minute or so)"
	@$(PIP) install --no-compile --require-hashes --requirement requirements.lock
	@touch $@

$(VENV)/.project-installed: $(VENV)/.lock-installed pyproject.toml
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -c 'import fairlead.app, alembic.command, httpx2'
	@touch $@

# The file that npm writes last.
ui/node_modules/.package-lock.json: ui/package-lock.json ui/package.json ui/.npmrc | $(VENV)/.project-installed
	@echo "installing npm packages into ui/node_modules"
	@$(call quietly,$(NPM) ci)
	@touch $@

$(UI)/index.html: ui/node_modules/.package-lock.json $(UI_SOURCES)
	@echo "building the web UI into $(UI)"
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
