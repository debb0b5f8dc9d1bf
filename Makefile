# Two commands are enough on a machine with Python and make:
#   make demo    set up, then pack real images, embed, inspect, extract and compare
#   make test    set up, then run the tests; a reference test skips where its tool is missing
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test test-all test-gpu lint docs site golden bench corpus fuzz clean

demo: .venv/.runtime
	@$(BIN)/python -I tools/demo/run.py

test: .venv/.dev
	@echo "About 7 minutes on two cores. One part: make test ARGS=tests/io"
	@$(BIN)/python -m pytest -q -n auto -m "not slow and not gpu" $(ARGS)

# All tests, also the long sweeps. CI and nightly runs call this.
test-all: .venv/.dev
	@$(BIN)/python -m pytest -q -n auto -m "not gpu" $(ARGS)

# The tests that need an NVIDIA GPU and its driver. No other target runs them.
test-gpu: .venv/.dev
	@FATPACK_REQUIRE_GPU=1 $(BIN)/python -m pytest -q -m gpu tests/gpu $(ARGS)

# Every tool runs, then the target fails if one of them did: one run shows all there is to mend.
lint: .venv/.dev
	@failed=; \
	$(BIN)/ruff check . || failed="$$failed ruff-check"; \
	$(BIN)/ruff format --check . || failed="$$failed ruff-format"; \
	$(BIN)/mypy || failed="$$failed mypy"; \
	$(BIN)/python -m tools.docs --check || failed="$$failed documents"; \
	test -z "$$failed" || { echo "lint failed:$$failed"; exit 1; }

docs: .venv/.dev
	@$(BIN)/python -m tools.docs

# The documents as a site, in site-out/: a link that leads nowhere fails it.
site: .venv/.dev
	@$(BIN)/python -m tools.site $(ARGS)

# Record `inspect --json` of every fixture again, beside it; review the diff.
golden: .venv/.dev
	@$(BIN)/python -m tools.golden

bench: .venv/.dev
	@$(BIN)/python -m tools.bench $(ARGS)

# Compare real files of other people with the numbers known of them: make corpus ARGS="--max-mb 30"
corpus: .venv/.dev
	@$(BIN)/python -m tools.corpus $(ARGS)

# Break real files at random and look for what must not happen: make fuzz ARGS="--minutes 10" (docs/testing.md)
fuzz: .venv/.dev
	@$(BIN)/python -m tools.fuzz $(ARGS)

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
	rm -rf .venv .reference build dist demo-out bench-out site-out
