# Every target sets up what it needs and is quick the second time. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := .stamps
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# More than the usual two cores: a third of the time, tests wait for processes.
JOBS ?= 3
# SMOKE=1 runs the marked part of test-frameworks, test-ui and test-cluster, which is what CI does.
SMOKE ?=
AND_SMOKE := $(if $(SMOKE), and smoke)
PARTS ?= $(if $(SMOKE),kwok node volcano argo s3)
UI := src/muster/server/platform/ui
NODE_MODULES := ui/node_modules/.package-lock.json
UI_SOURCES := $(shell find ui/src ui/public ui/index.html ui/vite.config.ts ui/tsconfig.json -type f ! -name schema.d.ts ! -name schema.ts) $(wildcard ui/scripts/*)
API_SOURCES := $(wildcard src/muster/server/platform/*.py)
BENCHES := store pods scheduler kill restart training workflows pipelines platform_lists training_operator hostile dispatch event_files proxy notebooks

.PHONY: help setup ui test-ui screenshots demo up down test test-all test-frameworks fuzz test-cluster cluster-up cluster-down cluster-status schemas conformance test-conformance test-argo-suites lock lint format bench clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMPS)/dev ## the virtual environment with everything a developer needs

ui: $(UI)/index.html ## build the web UI into the package (needs Node.js 20; quick when nothing has changed)

test-ui: ui $(STAMPS)/dev ## the web UI's own tests, and by mouse in Debian's Chromium against a real server
	@scripts/apt-install chromium fonts-noto-cjk
	cd ui && npm test --silent && npm run --silent e2e$(if $(SMOKE),:smoke)

screenshots: ui $(STAMPS)/dev ## every page in both languages and themes, into ui/screenshots
	@scripts/apt-install chromium fonts-noto-cjk
	cd ui && npm run --silent screenshots

demo: $(STAMPS)/run ## train a model with two real processes on this machine
	@scripts/demo

up: $(STAMPS)/run ## start the cluster in a box in the background
	@$(BIN)/muster up -d

down: $(STAMPS)/run ## stop it; running Pods go on and are adopted by the next start
	@$(BIN)/muster down

test: lint $(STAMPS)/dev ## lint, type check, layering and all quick tests
	$(BIN)/pytest -n $(JOBS) --dist worksteal

test-all: test test-frameworks test-ui test-cluster ## every suite, whole

test-frameworks: $(STAMPS)/dev ## train with every framework for real (3 GB, once), and all else that is slow
	$(BIN)/pytest -m "slow$(AND_SMOKE)"

fuzz: $(STAMPS)/dev ## send odd requests to every API, FUZZ_SECONDS=240 for each
	@$(PIP) --require-hashes -r requirements/fuzz.txt
	$(BIN)/pytest -m fuzz tests/fuzz -s

test-cluster: cluster-up $(if $(SMOKE),,ui) ## what only a real Kubernetes can show; starts one (TESTS=... says which, as pytest takes it)
	@$(if $(SMOKE),,scripts/apt-install chromium fonts-noto-cjk)
	$(BIN)/pytest -m "cluster$(AND_SMOKE)" $(TESTS)

cluster-up: $(STAMPS)/dev ## start a real Kubernetes for tests (root; the first time builds it: PARTS="kwok volcano" or all)
	@$(BIN)/python -m tools.cluster up $(PARTS)

cluster-down: $(STAMPS)/dev ## remove it
	@$(BIN)/python -m tools.cluster down

cluster-status: $(STAMPS)/dev ## what of it runs
	@$(BIN)/python -m tools.cluster status

schemas: $(STAMPS)/dev ## regenerate the schemas of the built-in kinds from upstream's documents (needs Go)
	$(BIN)/python -m tools.schemas

conformance: $(STAMPS)/dev ## run the workflows that other people wrote, and report on each
	@scripts/apt-install curl
	$(BIN)/python -m tools.conformance
	$(BIN)/python -m tools.pipeline_conformance

test-conformance: $(STAMPS)/dev ## Kubernetes' own conformance suite on the embedded cluster (root; the first time builds it, with Go)
	@scripts/apt-install curl
	$(BIN)/python -m tools.kubernetes_conformance

test-argo-suites: $(STAMPS)/dev ## Argo Workflows' own end-to-end suites on the embedded cluster (root; the first time builds them, with Go)
	@scripts/apt-install busybox-static bash-static
	$(BIN)/python -m tools.argo_suites

lock: $(STAMPS)/dev ## renew the lock of the Python dependencies (requirements/); needs Python 3.11, 3.12 and 3.13
	$(BIN)/python -m tools.lock

lint: $(STAMPS)/dev $(NODE_MODULES) ## ruff, strict types, layering; Biome for the web UI
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	cd ui && npm run --silent lint

format: $(STAMPS)/dev $(NODE_MODULES) ## put the code into the house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	cd ui && npm run --silent format

bench: $(STAMPS)/dev ## every benchmark; each prints a ratio against a floor of the same run
	@missed=; for bench in $(BENCHES); do \
	  echo "== $$bench"; $(BIN)/python -m benchmarks.$$bench || missed="$$missed $$bench"; \
	done; test -z "$$missed" || { echo "not as it should be:$$missed" >&2; exit 1; }

$(UI)/index.html: $(NODE_MODULES) $(STAMPS)/openapi.json docs/graph.schema.json $(UI_SOURCES)
	cd ui && npx --no openapi-typescript ../$(STAMPS)/openapi.json -o src/api/schema.d.ts >/dev/null
	cd ui && npm run --silent generate
	cd ui && npm run --silent build

# The UI is built again only if the API has another shape, not whenever one of its files is touched.
$(STAMPS)/openapi.json: $(STAMPS)/openapi.asked ;
$(STAMPS)/openapi.asked: $(API_SOURCES) | $(STAMPS)/run
	@$(BIN)/muster openapi > $(STAMPS)/openapi.new
	@cmp -s $(STAMPS)/openapi.new $(STAMPS)/openapi.json || mv $(STAMPS)/openapi.new $(STAMPS)/openapi.json
	@touch $@

$(NODE_MODULES): ui/package.json ui/package-lock.json
	@command -v npm >/dev/null || { echo "Node.js 20 or newer is needed: apt-get install nodejs npm" >&2; exit 1; }
	cd ui && npm ci --no-audit --no-fund
	@touch $@

clean: ## remove what make created
	rm -rf $(VENV) $(STAMPS) $(UI) ui/node_modules ui/screenshots ui/test-results dist .mypy_cache .ruff_cache .pytest_cache

$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || { echo "Python 3.11 or newer is needed: apt-get install python3 python3-venv" >&2; exit 1; }
	@echo "Creating $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); scripts/apt-install python3-venv && $(PYTHON) -m venv $(VENV); }

# Only what is in the lock is installed, with the hashes in it; then Muster itself, without asking for anything else.
$(STAMPS)/run: pyproject.toml requirements/run.txt | $(BIN)/python
	@echo "Installing Muster into $(VENV)"
	@$(PIP) --require-hashes -r requirements/run.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/dev: pyproject.toml requirements/dev.txt | $(BIN)/python
	@echo "Installing Muster and its development tools into $(VENV)"
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation --editable .
	@mkdir -p $(STAMPS) && touch $@ $(STAMPS)/run
