# `make` lists the targets. Whatever needs .venv makes it first, and a second time costs nothing.

PY := .venv/bin/python

# The stamp holds the path of the folder it was made in. In a copy of that folder, or once the interpreter behind .venv is
# gone, it does not count.
READY := .venv/.ready
PREPARED := .venv/.prepared
ifneq ($(shell test -x $(PY) && cat $(READY) 2>/dev/null),$(CURDIR))
STALE := stale
endif

.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix bench chaos build clean stale

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s%s\n", $$1, $$2 }' Makefile

setup: $(READY) ## make .venv with everything in it (PYTHON=python3.12 to choose one)

$(READY): pyproject.toml constraints.txt scripts/setup.sh $(STALE)
	@PYTHON="$(PYTHON)" bash scripts/setup.sh

# Who starts Spark many times prepares it once. Without that everything works as well, only slower.
$(PREPARED): $(READY)
	-@$(PY) -m viewkeeper prepare && touch $@

demo: $(READY) ## see views follow their tables
	@$(PY) -m viewkeeper.demo $(ARGS)

test: $(PREPARED) ## run the tests (ARGS="-k name" for some of them)
	@$(PY) -m pytest -n 2 --dist loadfile --no-loadscope-reorder $(ARGS)

check: $(READY) ## lint, formatting and types; changes nothing
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@$(PY) -m mypy

fix: $(READY) ## mend what ruff can mend, and format
	@$(PY) -m ruff check --fix
	@$(PY) -m ruff format

bench: $(PREPARED) ## measure (QUICK=1 for a short run, ARGS=... for options)
	@$(PY) -m viewkeeper.bench $(if $(QUICK),--quick) $(ARGS); code=$$?; \
		$(if $(QUICK),,$(PY) -m viewkeeper.bench.page;) exit $$code

chaos: $(PREPARED) ## faults of every kind against a running database (ARGS="--seconds 3600 --seed 7")
	@$(PY) tests/chaos/campaign.py $(ARGS)

build: $(READY) ## make the wheel and the source archive in dist/
	@$(PY) -m build --outdir dist

clean: ## remove .venv, caches and what was built
	@rm -rf .venv build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis metastore_db spark-warehouse artifacts derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
