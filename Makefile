# `make demo` and `make test` each work alone in a fresh clone: they need Python 3.10 to 3.14 with venv, and make.

PYTHON ?= python3
DATA ?=
CHECKPOINT ?=
# One process for each core. PYTEST_ARGS= runs all tests in one.
PYTEST_ARGS ?= -n auto --dist worksteal

VENV := .venv
BIN := $(VENV)/bin
# Written last, so that an install that was cut short is started afresh.
INSTALLED := $(VENV)/.installed

export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.PHONY: help demo test coverage docs notebooks bench steps clean

help:
	@echo "make demo               run the demo"
	@echo "make test               lint, check formatting and types, run the tests"
	@echo "make coverage           run the tests and say which share of the code they reach"
	@echo "make docs               build the documentation into build/site"
	@echo "make notebooks [KEEP=1] run the examples as notebooks, in build/notebooks, or keep them in examples"
	@echo "make bench [DATA=dir] [CHECKPOINT=file]"
	@echo "                        measure what a request costs, with the data in dir and the public ResNet-20 if given"
	@echo "make steps [DATA=dir]   compare the step rules"
	@echo "make clean              remove the environment, caches and build output"
	@echo "Another Python: make demo PYTHON=python3.12"

demo: $(INSTALLED)
	@$(BIN)/unsc demo --overwrite

test: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/pyright -p pyright-core.json
	@# The tests' models are small: more than one thread slows them down.
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_ARGS)

coverage: $(INSTALLED)
	OMP_NUM_THREADS=1 $(BIN)/pytest $(PYTEST_ARGS) --cov

docs: $(INSTALLED)
	@# Not -q: with it, warnings are not counted as errors.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "The documentation is in build/site/index.html"

notebooks: $(INSTALLED)
	@OMP_NUM_THREADS=1 $(BIN)/python docs/site/notebooks.py $(if $(KEEP),--keep)

bench: $(INSTALLED)
	@$(BIN)/unsc bench speed $(if $(DATA),--folder "$(DATA)") $(if $(CHECKPOINT),--checkpoint "$(CHECKPOINT)")

steps: $(INSTALLED)
	@$(BIN)/unsc bench steps $(if $(DATA),--folder "$(DATA)")

# The old environment goes first: if it is activated, PYTHON may be its interpreter.
$(INSTALLED): pyproject.toml constraints.txt
	@rm -rf $(VENV)
	@command -v "$(PYTHON)" >/dev/null || { \
	    echo "'$(PYTHON)' was not found. Install Python 3.10 to 3.14, or name one: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 14))' || { \
	    echo "unsc needs Python 3.10 to 3.14, but '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1)." >&2; \
	    echo "Name a suitable one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@echo "First run: downloading and installing PyTorch and the other dependencies into $(VENV); this takes a few minutes."
	@"$(PYTHON)" -m venv $(VENV) || { \
	    echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu, install the package python3-venv." >&2; exit 1; }
	@$(BIN)/python -m pip install -qq -c constraints.txt -e '.[dev]' || { \
	    echo "The install failed. To see every step: $(BIN)/python -m pip install -c constraints.txt -e '.[dev]'" >&2; \
	    echo "The same make command starts it afresh." >&2; exit 1; }
	@touch $@
	@echo "Installed."

clean:
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	find src tests examples -type d -name __pycache__ -prune -exec rm -rf {} +
