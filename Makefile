# Two commands do everything on a machine with Python and make:
#   make demo    set up, then pack real images, embed, inspect, extract and compare
#   make test    set up, then run the tests (reference tests skip where a tool is missing)
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all test-gpu lint docs golden bench corpus clean

demo: .venv/.runtime
	@$(BIN)/python -I tools/demo/run.py

test: .venv/.dev
	@$(BIN)/python -m pytest -q -n auto -m "not slow and not gpu" $(ARGS)

# Everything, the long sweeps too: what CI and a nightly run.
test-all: .venv/.dev
	@$(BIN)/python -m pytest -q -n auto -m "not gpu" $(ARGS)

# What needs an NVIDIA GPU and its driver; nothing else runs it.
test-gpu: .venv/.dev
	@FATPACK_REQUIRE_GPU=1 $(BIN)/python -m pytest -q -m gpu tests/gpu $(ARGS)

lint: .venv/.dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m tools.docs --check

docs: .venv/.dev
	@$(BIN)/python -m tools.docs

# Regenerate the recorded `inspect --json` beside the fixtures; review the diff.
golden: .venv/.dev
	@$(BIN)/python -m tools.golden

bench: .venv/.dev
	@$(BIN)/python -m tools.bench $(ARGS)

# Real files of other people, compared with their expected numbers: make corpus ARGS="--max-mb 30"
corpus: .venv/.dev
	@$(BIN)/python -m tools.corpus $(ARGS)

.venv/.runtime: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check -U pip
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e .
	@$(BIN)/python -m compileall -q src
	@touch $@

.venv/.dev: .venv/.runtime
	@$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .reference build dist demo-out bench-out
