# The commands of this repository. Each brings .venv up to date first (tools/setup), so none needs preparation.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules

# The commands use .venv and nothing of the caller's Python environment. Bytecode is kept: tests, Spark and benchmarks
# start hundreds of processes, each of which would compile the package anew.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

python := .venv/bin/python
benchmarks = $(shell grep -l '^if __name__ == "__main__":' benchmarks/*.py)

# Settings, e.g. `make test PYTEST_ARGS='-k container' WORKERS=4`
WORKERS ?= 2
PYTEST_ARGS ?=
DEMO_ARGS ?=
BENCH_ARGS ?= --quick
LOCK_ARGS ?=

# Workers share sessions that are dear (Spark) by xdist groups.
pytest = $(python) -m pytest --numprocesses=$(WORKERS) --dist=loadgroup

.PHONY: help demo test lint bench soak docs lock clean distclean setup-demo setup-full kernels classes

help: ## list the commands
	@echo 'usage: make COMMAND'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

demo: setup-demo ## events that survive a killed writer, and a pipeline on Spark that is killed and resumed
	@$(python) tools/warm_kernels.py
	@$(python) demo/demo.py $(DEMO_ARGS)

test: lint kernels classes ## everything a change must pass: lint, then the test suite
	$(pytest) --durations=25 $(PYTEST_ARGS)

lint: setup-full ## style, types (strict) and layer rules
	$(python) -m ruff check .
	$(python) -m ruff format --check .
	$(python) -m mypy
	$(python) -c 'from importlinter.cli import lint_imports_command as lint; lint()'

bench: setup-full kernels ## run every benchmark against its peers, at small sizes
	@failed=; \
	for benchmark in $(benchmarks); do \
	    echo "== $$benchmark"; \
	    $(python) "$$benchmark" $(BENCH_ARGS) || failed="$$failed $$benchmark"; \
	done; \
	if [ -n "$$failed" ]; then echo "failed:$$failed" >&2; exit 1; fi; \
	if [ -z '$(benchmarks)' ]; then echo 'no file in benchmarks/ can be run by itself' >&2; exit 1; fi

soak: setup-full kernels ## hours instead of minutes: long campaigns, and all tests with many more examples
	$(pytest) -m 'soak or not soak' --hypothesis-profile=thorough -o faulthandler_timeout=14400 $(PYTEST_ARGS)

docs: setup-full kernels ## check the documentation: run its snippets, look up its commands, follow its links
	$(python) -m pytest tests/docs $(PYTEST_ARGS)

lock: setup-full ## write requirements.lock anew from pyproject.toml (LOCK_ARGS=--upgrade for newer versions)
	$(python) -m uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --all-extras \
	    --group demo --group setup --custom-compile-command 'make lock' $(LOCK_ARGS) \
	    pyproject.toml --output-file requirements.lock

clean: ## remove caches and build results
	rm -rf .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dist
	find src tests tools benchmarks demo -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## remove .venv too
	rm -rf .venv

setup-demo:
	@sh tools/setup demo

setup-full:
	@sh tools/setup full

kernels: setup-full
	@$(python) tools/warm_kernels.py

classes: setup-full
	@$(python) tools/archive_classes.py
