# attnlim: every task a developer needs. Bare `make` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTRAS := models,report,cluster,test,docs
# the oldest transformers that attnlim takes, and the tests of what hooks into it
FLOOR := .venv-floor
FLOOR_TESTS := tests/models/test_hook.py tests/models/test_query_places.py tests/rules/test_attach.py \
  tests/rules/test_attach_generation.py tests/rules/test_attach_learned.py tests/rules/test_attach_modes.py \
  tests/rules/test_attach_reference.py tests/rules/test_folding.py tests/rules/test_sidecar.py
# a CPU-only torch where the default index serves another build: make demo TORCH_INDEX=https://...
PIP_INSTALL := $(BIN)/python -m pip install --quiet -c constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

.DEFAULT_GOAL := help
.PHONY: help demo test test-floor test-gpu lint bench docs clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "attnlim needs Python 3.11 or newer: set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(PIP_INSTALL) -e '.[$(EXTRAS)]'
	@touch $@

demo: $(VENV)/installed  ## audit SmolLM2-135M on this machine, from nothing to a report
	$(BIN)/attnlim models get smollm2
	$(BIN)/attnlim audit smollm2 --context 512,2048,8192 --overwrite

test: $(VENV)/installed chromium  ## the whole test suite (under 10 minutes on two cores)
	$(BIN)/attnlim models get smollm2
	$(BIN)/attnlim models get minilm
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n logical --maxprocesses 4 --dist worksteal

$(FLOOR)/installed: pyproject.toml constraints.txt constraints-floor.txt
	$(PYTHON) -m venv $(FLOOR)
	cut -d= -f1 constraints-floor.txt | grep -v '^#' | sed 's/.*/^&==/' | grep -vf - constraints.txt | cat - constraints-floor.txt > $(FLOOR)/constraints.txt
	$(FLOOR)/bin/python -m pip install --quiet -c $(FLOOR)/constraints.txt $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX)) -e '.[models]' pytest pytest-xdist hypothesis
	@touch $@

test-floor: $(FLOOR)/installed  ## attention hooks and attached rules with the oldest transformers
	OMP_NUM_THREADS=1 $(FLOOR)/bin/python -m pytest -n logical --maxprocesses 4 --dist worksteal $(FLOOR_TESTS)

test-gpu: $(VENV)/installed  ## the tests that need a CUDA device
	$(BIN)/python -m pytest -m gpu

.PHONY: chromium
chromium:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; \
	  else echo "make test needs a Chromium browser for the report's test: sudo apt-get install chromium" >&2; exit 1; fi; }

lint: $(VENV)/installed  ## formatting, lint rules and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/installed  ## measure speed and memory as ratios in one run, into benchmarks/results/
	$(PIP_INSTALL) -e '.[bench]'
	$(BIN)/attnlim models get smollm2
	$(BIN)/python -m benchmarks.audit
	$(BIN)/python -m benchmarks.context
	$(BIN)/python -m benchmarks.depth
	$(BIN)/python -m benchmarks.rules

docs: $(VENV)/installed  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean:  ## remove what was built here
	rm -rf $(VENV) $(FLOOR) site runs dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
