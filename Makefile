# make demo: set up, run the main job on the bundled data, end with report.html
# make test: set up, lint, pass the tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all lint docs campaign fuzz kills matrix bench pictures clean
.DEFAULT_GOAL := help

help:
	@grep -E '^# make' Makefile | cut -c3-; echo "also: make lint, make test-all (heavy tests too), make docs (the site, build/site/index.html), make campaign, make fuzz, make kills, make matrix, make bench, make pictures, make clean"

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,docs,onnx,ray]'
	touch $@

demo: $(INSTALLED)
	$(BIN)/radii assess digits --out report.html

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python tests/warm_kernels.py
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not heavy' -n auto --dist worksteal  # a core for every worker

test-all: lint
	$(BIN)/pytest --cov=radii --cov-report=term:skip-covered

# SECONDS and SEED may be given: make campaign SECONDS=3600 SEED=7; it goes on where it was stopped
SECONDS ?= 600
SEED ?= 0
campaign: $(INSTALLED)
	$(BIN)/python tests/campaign/run.py --seconds $(SECONDS) --seed $(SEED) --state build/campaign-$(SEED).json

fuzz: $(INSTALLED)
	$(BIN)/python tests/campaign/fuzz.py --seed $(SEED)

kills: $(INSTALLED)
	$(BIN)/python tests/campaign/kills.py --seed $(SEED)

matrix:
	sh tests/matrix.sh

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	$(BIN)/python docs/check_search.py build/site
	@echo 'open build/site/index.html'

bench: $(INSTALLED)
	$(BIN)/pip install --quiet --no-deps -r benchmarks/peers.txt
	@for script in benchmarks/[a-z]*.py; do case $$script in */harness.py) continue;; esac; \
	  echo "== $$script"; $(BIN)/python $$script --json benchmarks/results/$$(basename $$script .py).json || exit 1; done

pictures: demo
	$(BIN)/python docs/take_pictures.py report.html docs/pictures

clean:
	rm -rf $(VENV) build radii-runs report.html .mypy_cache .ruff_cache .hypothesis
