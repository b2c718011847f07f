# Every command of the project. Each one sets up what it needs on a fresh machine.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
STAMP := .venv/.stamp
JOBS ?= 2

.PHONY: help venv check format lint types imports fast test demo demo-s3 bench campaign fmt lock clean

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

venv: $(STAMP) ## set-up: Python environment in .venv, from the lock file

$(STAMP): requirements.lock requirements-build.lock pyproject.toml
	@tools/bootstrap.sh

check: format lint types imports fast ## format, lint, types, import contracts and fast tests: before every push

test: $(STAMP) ## everything that must pass, slow tests and planted bugs too: what CI runs
	@$(BIN)/python -m tools.tiers --jobs $(JOBS)

format: $(STAMP)
	@$(BIN)/ruff format --check --quiet . || { echo "format: run make fmt" >&2; exit 1; }

lint: $(STAMP)
	@$(BIN)/ruff check --quiet .

types: $(STAMP)
	@$(BIN)/mypy

imports: $(STAMP)
	@$(BIN)/python -m tools.imports

fast: $(STAMP)
	@$(BIN)/python -m pytest -q -n $(JOBS)

fmt: $(STAMP) ## format the code, and repair what the linter can
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

lock: ## resolve pyproject.toml again into requirements.lock; set-up follows it
	@tools/lock.sh

clean: ## remove what was built, measured and installed, .venv too
	rm -rf .venv .uv .bootstrap.lock build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
