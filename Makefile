# Every target sets up what it needs in .venv from a fresh clone: Python 3.11+, make and the package registries suffice.
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
DPMM := .venv-dpmm
BENCH ?=
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
PYTEST_ARGS ?=
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell expr $(CORES) + 1)
FAST ?=
PAPER ?=

.PHONY: help demo test quick slow mutants check format coverage oldest bench dist paper docs clean

help:  ## Show the targets.
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras, touched only after pip has succeeded.
$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[cli]' scikit-learn
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[spark,learn,torch,cli,studio,plot,fast,postgres,sql,docs,test]'
	@touch $@

demo: $(VENV)/.demo  ## Release thirty means and tables of a medical table, and leave a report in out/.
	$(BIN)/inid demo --out out

# Tests of one file share a worker, so that a server is started once, and all tests with Spark one (tests/work_units.py).
# There is one worker more than cores, since tests wait for servers; each computes with one thread, since several wait
# for each other. Bytecode is kept, since every worker, and every process that a test starts, would otherwise compile
# the same files again.
THREADS := env -u PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PYTEST = $(THREADS) $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile

test: $(VENV)/.test  ## Run the tests that this machine can run; prints how many were skipped and why.
	$(PYTEST) -m "not slow" $(PYTEST_ARGS)

quick: WORKERS = $(CORES)  # nothing there waits for a server
quick: $(VENV)/.test  ## Run the unit tests and the examples of the docstrings: minutes.
	$(PYTEST) -m "not slow" tests/unit src $(PYTEST_ARGS)

slow: $(VENV)/.test  ## Run what make test leaves out: convex solvers, long Monte Carlo runs, the other examples of property tests.
	INID_EXAMPLES=many $(PYTEST) -m "slow or examples" $(PYTEST_ARGS)

mutants: $(VENV)/.test  ## Change single lines that privacy depends on: a test must fail for each (tests/mutants.py).
	$(THREADS) $(BIN)/python tests/mutants.py

coverage: $(VENV)/.test  ## Which lines of the package the tests run, in per cent.
	$(PIP) pytest-cov
	$(PYTEST) -m "not slow" --cov=inid --cov-branch --cov-report=term:skip-covered $(PYTEST_ARGS)

# The least version that pyproject.toml allows of everything but PyTorch, which constraints.txt pins, and but the tools
# of the tests, of which some need newer libraries. Old libraries meet new ones there, whose warnings are no errors.
TOOLS := pytest pytest-xdist hypothesis mpmath pandas polars httpx cvxpy dp-accounting
oldest:  ## Run the unit tests on the oldest allowed dependencies, in an environment of its own.
	$(PYTHON) -m venv out/oldest/venv
	$(PYTHON) tests/oldest.py > out/oldest/constraints.txt
	out/oldest/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt \
	  -c out/oldest/constraints.txt -e '.[learn,torch,cli,studio,postgres,plot,fast]' $(TOOLS)
	$(THREADS) out/oldest/venv/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" -o filterwarnings=default tests/unit $(PYTEST_ARGS)

check: $(VENV)/.test  ## Formatting, lint, types and the layers of the design.
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.test  ## Format and mend what can be mended.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Peers have an environment of their own, since their pins would hold back everybody else.
$(PEERS)/.peers: bench/requirements.txt constraints.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -r bench/requirements.txt
	@touch $@

$(DPMM)/.peers: bench/requirements-dpmm.txt
	$(PYTHON) -m venv $(DPMM)
	$(DPMM)/bin/python -m pip install --quiet --disable-pip-version-check -r bench/requirements-dpmm.txt
	@touch $@

bench: $(VENV)/.test $(PEERS)/.peers $(DPMM)/.peers  ## Print performance ratios, each against a named peer in the same run.
	INID_BENCH_PYTHON=$(CURDIR)/$(PEERS)/bin/python INID_BENCH_DPMM=$(CURDIR)/$(DPMM)/bin/python \
	  $(BIN)/python -m bench $(BENCH)

# The wheel is installed in an environment of its own, and the tests that the sdist carries run against it there.
DIST_TESTS ?= tests/unit tests/test_readme.py
dist: | $(BIN)/python  ## Build wheel and sdist; the sdist's own tests run against the installed wheel.
	$(PIP) build
	rm -rf dist out/dist
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv out/dist/venv
	out/dist/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "$$(ls dist/*.whl)[all,docs,test]"
	tar -xzf dist/*.tar.gz -C out/dist
	cd out/dist/inid-*/ && $(THREADS) ../venv/bin/python -m pytest -n $(WORKERS) --dist loadfile -m "not slow" $(DIST_TESTS)

$(VENV)/.paper: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[learn,plot,fast]'
	@touch $@

paper: $(VENV)/.paper  ## Recompute the paper's figures and tables: results/ with verdicts.md, reading recorded runs; PAPER=--fresh draws anew; FAST=1: into out/paper.
	$(BIN)/python -m experiments $(if $(FAST),--fast) $(PAPER)

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[tables,learn,torch,cli,plot,docs]' pandas transformers lightning
	@touch $@

docs: $(VENV)/.docs  ## Build the documentation site into out/docs; warnings are errors.
	$(BIN)/python -m sphinx -W --keep-going -q -b html -d out/doctrees docs out/docs
	@echo "the site: out/docs/index.html"

clean:  ## Remove what the other targets made.
	rm -rf $(VENV) $(PEERS) $(DPMM) out build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
