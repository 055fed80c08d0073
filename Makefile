# Every target with a `##` explains itself: `make help`.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := build/venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UV := build/uv/bin/uv
CLUSTER := $(BIN)/python -m e2e.cluster
# With KUBECONTEXT=NAME every target uses that context of your kubeconfig, and never any other.
export KUBECONTEXT

.PHONY: help
help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

$(UV): e2e/cluster/requirements/uv.txt
	@mkdir -p build
	@$(PYTHON) -m venv build/uv
	@build/uv/bin/pip install --quiet --disable-pip-version-check -r $<
	@touch $@

$(READY): pyproject.toml requirements/dev.txt $(UV)
	@echo "installing the development environment into $(VENV)"
	@$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet -r requirements/dev.txt
	@VIRTUAL_ENV=$(VENV) $(UV) pip install --quiet --no-deps -e .
	@touch $@

.PHONY: venv
venv: $(READY) ## Install the development environment

.PHONY: pins
pins: $(READY) ## Pin the development requirements anew
	$(UV) pip compile --quiet --universal --upgrade --no-emit-index-url --no-annotate --no-header --extra dev pyproject.toml -o requirements/dev.txt

# --- the two commands of the README -------------------------------------------------------------------------------

.PHONY: demo
demo: $(READY) ## Set everything up and play the main job on a real cluster with real vLLM
	@$(BIN)/python -m e2e.demo

.PHONY: test
test: lint unit integration smoke ## Set up and pass the tests: unit, integration, one e2e per feature

.PHONY: e2e
e2e: $(READY) cluster-up ## All end-to-end tests on the local cluster
	@$(BIN)/pytest e2e/tests

# --- parts of the tests ---------------------------------------------------------------------------------------------

.PHONY: lint
lint: $(READY) crds-check ## Formatting, lint, types, import rules
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

.PHONY: unit
unit: $(READY) ## Unit tests
	@$(BIN)/pytest tests/unit

.PHONY: integration
integration: $(READY) ## Tests on a real API server with FakeKubelet
	@$(BIN)/pytest tests/integration -n 3 --dist loadfile

.PHONY: smoke
smoke: $(READY) cluster-up ## The demo and one end-to-end test per feature
	@$(BIN)/pytest e2e/tests -m smoke

# --- the local cluster ------------------------------------------------------------------------------------------------

.PHONY: cluster-up
cluster-up: $(READY) ## Start the local cluster, or keep the living one
	@$(CLUSTER) up

.PHONY: cluster-down
cluster-down: $(READY) ## End the local cluster and remove all it left
	@$(CLUSTER) down

.PHONY: cluster-status
cluster-status: $(READY) ## Show what of the local cluster runs
	@$(CLUSTER) status

# --- development ------------------------------------------------------------------------------------------------------

.PHONY: crds
crds: $(READY) ## Write crds/ and the chart's copy from the models
	@$(BIN)/python -m tailguard_operator.api.crds --chart charts/tailguard crds

.PHONY: crds-check
crds-check: $(READY) ## Fail when crds/ differs from the models
	@$(BIN)/python -m tailguard_operator.api.crds --check --chart charts/tailguard crds

.PHONY: install
install: $(READY) cluster-up ## Install the operator into the cluster with Helm
	@$(BIN)/python -m e2e.demo.install

.PHONY: run
run: $(READY) cluster-up ## Run the operator on this host against the cluster
	@$(BIN)/python -m e2e.demo.host

.PHONY: bench-demo
bench-demo: $(READY) ## Seconds of each phase of the demo, memory and API calls of the operator
	@$(BIN)/python -m e2e.demo.bench
