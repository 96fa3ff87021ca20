# make demo: set up, run the main job on the bundled data, end with report.html
# make test: set up, lint, pass the tests
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: demo test test-all lint docs bench pictures clean
.DEFAULT_GOAL := help

help:
	@grep -E '^# make' Makefile | cut -c3-; echo "also: make lint, make test-all (heavy tests too), make docs (the site, build/site/index.html), make bench, make pictures, make clean"

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
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not heavy' -n auto --dist loadfile  # a core for every worker

test-all: lint
	$(BIN)/pytest --cov=radii --cov-report=term:skip-covered

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo 'open build/site/index.html'

bench: $(INSTALLED)
	$(BIN)/pip install --quiet --no-deps -r benchmarks/peers.txt
	@for script in benchmarks/[a-z]*.py; do case $$script in */harness.py) continue;; esac; \
	  echo "== $$script"; $(BIN)/python $$script --json benchmarks/results/$$(basename $$script .py).json || exit 1; done

pictures: $(INSTALLED)
	$(BIN)/python docs/take_pictures.py

clean:
	rm -rf $(VENV) build radii-runs report.html .mypy_cache .ruff_cache .hypothesis
