# Everything runs from .venv, which is made on first use. Needs Python 3.11+, make and git.
PYTHON ?= python3
PYTEST_ARGS ?=
FUZZ_ARGS ?=

NODE_TOOLS := @biomejs/biome@2.6.7 axe-core@4.14.0
NODE_INSTALLED := build/node/.installed
BIOME := build/node/node_modules/.bin/biome

BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all fuzz bench pictures lint lint-pages format clean

help: ## print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(INSTALLED) ## a plan of a bundled recording, beside what happened
	@$(BIN)/stationary demo

test: lint ## lint, types, and the tests that need no server; PYTEST_ARGS='-n 0 -k gth' adds arguments
	$(BIN)/pytest -n 2 --dist loadfile -m 'not slow' $(PYTEST_ARGS)

test-all: lint ## the same with servers, clusters, a browser and long statistical loops
	$(BIN)/pytest -n 2 --dist loadfile --durations=15 $(PYTEST_ARGS)

fuzz: $(INSTALLED) ## feed 2,000 mutated files to every command; FUZZ_ARGS='--cases 100 --seed 7'
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz.py $(FUZZ_ARGS)

bench: $(INSTALLED) ## run the benchmarks
	$(BIN)/python -m benchmarks

pictures: $(INSTALLED) ## draw the pictures of README.md and docs/architecture.md (needs chromium)
	$(BIN)/python tests/rooms.py
	mkdir -p build
	$(BIN)/stationary demo -o build/demo > build/demo.txt
	cp build/demo/forecast.png docs/images/demo-forecast.png
	$(BIN)/python tests/pictures.py build

lint: $(INSTALLED) lint-pages ## ruff check, ruff format --check, mypy; biome where there is node
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pages of the studio are checked where node is installed, and always where a browser is required.
lint-pages:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NODE_INSTALLED) && $(BIOME) check; \
	elif [ "$(CI_REQUIRES_BROWSER)" = 1 ]; then echo "make: npm is not installed" >&2; exit 1; fi

$(NODE_INSTALLED): Makefile
	@npm install --silent --no-audit --no-fund --prefix build/node $(NODE_TOOLS)
	@touch $@

format: $(INSTALLED) ## fix what ruff can fix, and format
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

clean: ## remove .venv, caches and build output
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name .git -prune -o -type d \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +

# One environment for every target; rebuilt only when what it is made from changes.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' is not Python 3.11 or newer; name one: make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "make: '$(PYTHON)' has no venv module; install it (on Debian: apt-get install python3-venv)" >&2; exit 1; }
	@echo "Installing stationary and its tools into .venv (a few minutes the first time) ..."
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check 'pip>=25.1' # the first that knows --group
	@$(BIN)/python -m pip install -q -c constraints.txt -e . --group dev
	@$(BIN)/stationary demo -o build/demo >/dev/null 2>&1 || true
	@OMP_NUM_THREADS=1 $(BIN)/python tests/kernels.py # compiles for this processor
	@touch $@
