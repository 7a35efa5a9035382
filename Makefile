# Everything runs in .venv, which is made on first use and again when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
# The folder of the corpora for bench and docs.
DATA ?= $(or $(LEAFWISE_DATA),../shared/data)
# The tables and figures of the papers, for docs.
EXPERIMENTS := toutanova-table-3 toutanova-table-4 toutanova-figure-2 \
  veeramachaneni-table-2 veeramachaneni-figure-4 \
  erkan-table-1 erkan-table-2 erkan-table-3 erkan-figure-1 erkan-figure-2 erkan-figure-3 \
  erkan-figure-4 erkan-figure-5 erkan-figure-6 \
  zhu-table-2 zhu-table-3 zhu-figure-3 \
  gaussier-table-1 gaussier-figure-3 gaussier-figure-5

.PHONY: help install demo test browser lint bench docs clean

help:
	@echo "make demo     set up, and sort Python's own documentation into its sections"
	@echo "make test     set up, and run the tests"
	@echo "make lint     check format, style and types"
	@echo "make bench    compare speeds with other libraries (needs the corpora: DATA=folder)"
	@echo "make docs     make the figures in docs/ anew (needs the corpora: DATA=folder)"

install: .venv/.installed

.venv/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("leafwise needs Python 3.11 or later; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	$(BIN)/leafwise compile
	touch $@

demo: install
	$(BIN)/leafwise demo

test: install browser
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The browser tests need Chromium; where it cannot be had they are skipped, and say so.
browser:
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null \
	    && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium >/dev/null; } \
	  || echo "There is no Chromium: the tests of the page in a browser will be skipped."

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: install
	$(BIN)/python -m pip install --quiet --editable '.[bench]'
	$(BIN)/python -m pip install --quiet --no-deps 'bertopic>=0.17'  # its class-based tf-idf alone
	$(BIN)/python benchmarks/peers.py --data $(DATA) --out docs/performance.md

docs: install
	$(BIN)/leafwise demo --picture docs/demo.svg
	$(BIN)/python benchmarks/settings.py --data $(DATA) --out docs/settings.md
	$(MAKE) bench DATA=$(DATA)
	$(BIN)/python benchmarks/accuracy.py --large --again --data $(DATA) --results benchmarks/results/accuracy.jsonl --out docs/accuracy.md
	$(BIN)/python benchmarks/dirichlet.py --large --data $(DATA) --out docs/scale-dirichlet.md
	$(BIN)/python benchmarks/graph.py --data $(DATA) --out docs/scale-graph.md
	$(BIN)/python benchmarks/growth.py --data $(DATA) --out docs/scale-growth.md
	$(BIN)/python benchmarks/growth.py --data $(DATA) --tree docs/newsgroups-tree.md
	$(BIN)/python benchmarks/pictures.py docs --data $(DATA)
	$(BIN)/python benchmarks/screenshots.py
	$(BIN)/python benchmarks/recorded_review.py --data $(DATA) --out docs/recorded-review.md
	$(BIN)/python benchmarks/projects.py --out docs/scale-projects.md
	$(BIN)/python benchmarks/service.py --data $(DATA) --out docs/scale-service.md
	$(BIN)/python benchmarks/scale.py --large --data $(DATA) --results benchmarks/results/scale.jsonl --out docs/scale.md
	for name in $(EXPERIMENTS); do \
	  $(BIN)/leafwise reproduce $$name --data $(DATA) --out docs/reproduction || exit 1; \
	done

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
