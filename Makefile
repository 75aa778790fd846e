# Everything a developer runs. `make` alone lists the targets.
#
#   make test                             with python3, in .venv
#   make test PYTHON=python3.13           with another Python, in .venv-python3.13
#   make test PYTEST_ARGS='-k manifest'   some of the tests, without the check of coverage

PYTHON ?= python3
VENV ?= $(if $(filter python3,$(PYTHON)),.venv,.venv-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Test processes, further arguments to pytest, and the least coverage of the byte layer and the storage layer.
JOBS ?= 2
PYTEST_ARGS ?=
COVERAGE_MIN ?= 95

PIP := $(BIN)/python -m pip --disable-pip-version-check
COVERAGE_REPORT := $(BIN)/coverage report --fail-under=$(COVERAGE_MIN) \
	--include='*/zarr_vectors/encoding/*,*/zarr_vectors/core/*'

.DEFAULT_GOAL := help
.PHONY: help venv demo test coverage check format format-check lint types contracts fuzz schema clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(STAMP) ## make the virtual environment and install the package in it, with the tools

# Runs again only when pyproject.toml has changed.
$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' || \
		{ echo "make: zarr-vectors needs Python 3.11, 3.12 or 3.13: try make PYTHON=python3.13" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install -q -e '.[dev]'
	@touch $@

demo: $(STAMP) ## install, then show what the zv command does
	$(BIN)/zv demo

test: $(STAMP) ## run all tests, and check the coverage of encoding/ and core/
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --cov --cov-report= $(PYTEST_ARGS)
	$(if $(PYTEST_ARGS),,$(COVERAGE_REPORT))

coverage: $(STAMP) ## check the coverage that the last `make test` measured
	$(COVERAGE_REPORT)

check: format-check lint types contracts test ## everything that must hold before a merge

format: $(STAMP) ## format the code, and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

format-check: $(STAMP) ## is the code formatted?
	$(BIN)/ruff format --check

lint: $(STAMP) ## ruff's rules
	$(BIN)/ruff check

types: $(STAMP) ## mypy, strict, over src and tests
	$(BIN)/mypy

contracts: $(STAMP) ## do all imports point downwards?
	$(BIN)/lint-imports --no-logo

fuzz: $(STAMP) ## the property tests, with many more examples
	HYPOTHESIS_PROFILE=fuzz $(BIN)/python -m pytest -n $(JOBS) $(PYTEST_ARGS) tests/properties

schema: $(STAMP) ## write the JSON schemas of the metadata to docs/schema
	$(BIN)/python -m zarr_vectors.core.schema docs/schema

clean: ## remove caches, coverage data and build results; virtual environments stay
	rm -rf .coverage .coverage.* htmlcov build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
