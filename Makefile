# Two commands: `make serve` builds the pages and serves them; `make test` runs every test. Both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
FACTS  ?=
PORT   ?= 8000
# Two workers, a file of tests at a time; PYTEST_ARGS="..." says it otherwise.
PYTEST_ARGS ?= -n 2 --dist loadfile

.PHONY: serve test check-data bench venv browser build lint clean help

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

serve: $(VENV)/.build-ready ## build dist/ and serve it on 127.0.0.1
	$(BIN)/python build.py serve --port $(PORT)

build: $(VENV)/.build-ready ## build dist/ with offline files and Spaces
	$(BIN)/python build.py build --offline --spaces

test: venv browser ## every test; needs nothing outside this folder
	$(BIN)/python -m pytest $(PYTEST_ARGS)

check-data: venv ## regenerate data/ from the folder of facts and compare: make check-data FACTS=DIR
	@test -n "$(FACTS)" || { echo "check-data needs the folder of facts: make check-data FACTS=../shared"; exit 2; }
	$(BIN)/python -m runtime.measure --facts "$(FACTS)" --check
	$(BIN)/python -m runtime.measure.engine_runs --check
	$(BIN)/python -m runtime.measure.consumer_silicon --check

bench: venv ## benchmarks, as ratios against a peer run beside them
	$(BIN)/python -m tests.bench

lint: venv ## ruff over everything
	$(BIN)/ruff check pycore studios runtime site tests build.py

venv: $(VENV)/.all-ready ## .venv with everything

browser: venv
	@$(BIN)/python tests/browser/setup_browser.py

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.build-ready: pyproject.toml | $(VENV)/.python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[build]'
	@touch $@

$(VENV)/.all-ready: pyproject.toml | $(VENV)/.python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[build,dev]'
	@touch $@ $(VENV)/.build-ready

clean: ## remove what was built (not .venv)
	rm -rf dist
