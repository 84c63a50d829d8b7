# The commands of this project; `make` alone lists them. Nothing here needs more than Python 3.11 and pip.
# `ARGS` goes to pytest (make test ARGS="-k lease"); `PYTHON` chooses the interpreter (make PYTHON=python3.12 test).

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test check crash bench docs setup-system environment ci clean

BIN := .venv/bin
REPORTS := build/reports

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: setup-system environment ## see mail and picture analysis killed twice and finish with nothing lost
	@$(BIN)/perenne evidence demo || { test $$? -eq 4 && ! command -v exiftool >/dev/null \
	    && echo "The picture waits for ExifTool (make setup-system); the mails are done."; }
	@$(BIN)/python examples/evidence/demo.py

test: setup-system environment ## run the tests, but for those that kill processes for minutes
	@$(BIN)/pytest -m "not crash" --junitxml=$(REPORTS)/test.xml $(ARGS)

crash: setup-system environment ## kill child processes at every named point and at random; try the ledger beside a model
	@$(BIN)/pytest -m crash --junitxml=$(REPORTS)/crash.xml tests/crash tests/contract/machine tests/contract/governed $(ARGS)

check: environment ## formatter, linter, types, import rules, spelling
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/codespell

bench: environment ## measure, as ratios within one run; the JSON is kept
	$(BIN)/python benchmarks/run.py

docs: environment ## write the pages that are generated from the code
	$(BIN)/python docs/generate.py

setup-system: ## install ExifTool when root (apt), else say the command
	@sh .ci/setup-system

environment:
	@sh .ci/environment

ci: ## what the machines run: check, test, a bounded crash
	@bash .ci/run

clean: ## remove the virtual environment, caches and reports
	rm -rf .venv build dist src/perenne.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
