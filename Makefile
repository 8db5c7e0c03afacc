# Needs Python 3.11 or newer and make; everything else is installed into .venv from constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help demo test test-slow test-faults test-faults-short test-typescript check format lint types bench clean

help:
	@echo "make demo       install into .venv and do a published experiment, quickly: table, figure, page"
	@echo "make test       the fast tests"
	@echo "make test-slow  the long statistical tests"
	@echo "make test-faults  kill servers of live deployments 600 times, and compare the books"
	@echo "make test-faults-short  the same, 120 times"
	@echo "make test-typescript  the client for web pages: types, size and tests (needs Node 20 and npm)"
	@echo "make check      format, lint, types and the fast tests"
	@echo "make bench      episodes a second, and how long a start takes"
	@echo "make clean      remove .venv and all caches"

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: Python 3.11 or newer is needed; say which with PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: this Python cannot make virtual environments; on Debian or Ubuntu: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo: $(VENV)/made pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable '.[report,sweep]'
	@touch $@

$(VENV)/dev: $(VENV)/made pyproject.toml constraints.txt
	$(PIP) install --constraint constraints.txt --editable '.[dev]'
	@touch $@ $(VENV)/demo

demo: $(VENV)/demo
	$(BIN)/discreet reproduce --quick --resume --out demo

test: $(VENV)/dev
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: $(VENV)/dev
	$(BIN)/pytest -n 2 -m slow

# No lock file: it would record addresses. Versions of the few tools are exact in package.json.
clients/typescript/node_modules/made: clients/typescript/package.json
	@command -v npm >/dev/null && node -e 'process.exit(+(parseInt(process.versions.node) < 20))' || { echo "make: the TypeScript client needs Node 20 or newer and npm; on Debian or Ubuntu: apt install nodejs npm"; exit 1; }
	cd clients/typescript && npm install --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

test-typescript: clients/typescript/node_modules/made
	cd clients/typescript && npm run --silent build && npm run --silent size && npm test --silent

format: $(VENV)/dev
	$(BIN)/ruff format

lint: $(VENV)/dev
	$(BIN)/ruff format --check
	$(BIN)/ruff check

types: $(VENV)/dev
	$(BIN)/mypy

check: lint types test

test-faults: $(VENV)/dev
	$(BIN)/python -m tests.live.faults.campaign --kills 600

test-faults-short: $(VENV)/dev
	$(BIN)/python -m tests.live.faults.campaign --kills 120

bench: $(VENV)/dev
	$(BIN)/python benchmarks/episodes.py
	$(BIN)/python benchmarks/sums.py
	$(BIN)/python benchmarks/privatizers.py

clean:
	rm -rf $(VENV) demo clients/typescript/node_modules clients/typescript/dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
