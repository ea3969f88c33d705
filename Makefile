# The doors of the house; `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
# Of `make fuzz`, for each reader.
MINUTES ?= 5
# Three test workers for two cores: a third of the time tests wait for browsers, servers and disks.
WORKERS ?= 3

# A worker that is done takes over tests of the other: a file's fixtures are seldom made twice.
PARALLEL = -n $(WORKERS) --dist worksteal

BIN := $(VENV)/bin
# What cog writes into.
PAGES = README.md $(sort $(wildcard docs/*.md docs/*/*.md))
PIP_INSTALL := $(BIN)/python -m pip install --constraint constraints.txt --editable

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test quick check format lint types imports pages docs pythons test-all fuzz test-lowest notebooks fix bench clean clean-all

help:  ## list what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## */\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 12
	@echo "Options: PYTHON=python3.12  VENV=.venv  WORKERS=3  MINUTES=5"

demo: $(VENV)/.installed  ## watch SortNet learn to sort handwritten digits (ARGS=...)
	$(BIN)/sortnet demo $(ARGS)

# Names choose among all tests, the slow ones too.
test: $(VENV)/.installed-dev  ## run the tests but the slow ones, or some: make test k=name
	$(BIN)/python -m pytest $(if $(k),-k '$(k)',$(PARALLEL) -m 'not slow') $(ARGS)

test-all: $(VENV)/.installed-dev  ## run every test
	$(BIN)/python -m pytest $(PARALLEL) $(ARGS)

quick: $(VENV)/.installed-dev  ## the tests of a minute
	$(BIN)/python -m pytest $(PARALLEL) -m quick tests $(ARGS)

check: format lint types imports pages pythons test-all  ## all that must hold before a commit; CI runs this

# It comes before test-all, whose count of tests is the last output of CI.
pythons: $(VENV)/.installed-dev  ## the quick tests on each other Python of this machine
	VENV=$(VENV) .ci/pythons

format: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .

types: $(VENV)/.installed-dev
	$(BIN)/mypy
	$(BIN)/mypy --config-file benchmarks/mypy.ini benchmarks

imports: $(VENV)/.installed-dev
	$(BIN)/lint-imports

# What cog writes is taken from the code of this checkout.
pages: $(VENV)/.installed-dev
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cog --check --diff -I docs $(PAGES)

# `check` builds it too, in a test that looks at what was built.
docs: pages  ## build the documentation into site/, warnings are errors
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/zensical build --clean --strict

# The compiled reader is compiled again, with a check of every index.
fuzz: $(VENV)/.installed-dev  ## damage files for MINUTES=30 a reader; `make check` does it for one in all
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=build/numba-checked SORTNET_FUZZ_MINUTES=$(MINUTES) \
	  $(BIN)/python -m pytest $(PARALLEL) -m 'not slow' tests/test_fuzz_*.py $(ARGS)

# torch is not held down: indexes of CPU builds keep its newest versions only.
# Old packages call what newer ones of others deprecate.
test-lowest: $(VENV)-lowest/.installed  ## the quick tests on the lowest versions that pyproject.toml names
	$(VENV)-lowest/bin/python -m pytest $(PARALLEL) -m 'not slow and not browser and not postgresql' \
	  -W ignore::DeprecationWarning $(ARGS)

fix: $(VENV)/.installed-dev  ## format, mend what ruff can, renew what cog writes in the pages
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/cog -r -I docs $(PAGES)

notebooks: $(VENV)/.installed-dev  ## run the notebooks and store their outputs in them (ARGS=02)
	$(BIN)/python notebooks/stored_outputs.py $(ARGS)

bench: $(VENV)/.installed-dev  ## measure against peers (ARGS="--quick", ARGS="sort letor")
	$(BIN)/python benchmarks/run.py $(ARGS)

clean:  ## remove caches and build folders
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
	rm -rf .import_linter_cache .cache site
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

clean-all: clean  ## ... and the virtual environment
	rm -rf $(VENV) $(VENV)-*

# Order-only: an environment is made once, whatever the age of its files.
$(VENV)/.installed: pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP_INSTALL) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(BIN)/pip
	$(PIP_INSTALL) '.[dev]'
	@touch $(VENV)/.installed $@

$(VENV)-lowest/.installed: pyproject.toml constraints.txt tests/lowest.py | $(VENV)/.installed-dev
	$(PYTHON) -m venv $(VENV)-lowest
	$(BIN)/python tests/lowest.py > $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/python -m pip install --requirement $(VENV)-lowest/lowest.txt --editable .
	@touch $@

$(BIN)/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "SortNet needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
