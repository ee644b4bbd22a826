.PHONY: campaign test test-all test-slow test-clusters test-guests test-long fuzz bench lint docs picture lock clean minicluster

# Two set-ups at once would install into one .venv; the tests have JOBS.
.NOTPARALLEL:

MACHINE ?= localhost
RESULTS ?= results
READY = .venv/.ready
DEV = .venv/.dev
BIN = .venv/bin
# What is installed besides the base (docs/benchmarks.md): `make NIMC_EXTRAS=` on a machine with
# workloads and injectors of its own.
NIMC_EXTRAS ?= wheels ucx

# The quick campaign on this machine, and its report.
campaign: $(READY)
	$(BIN)/nimc run campaigns/quick.yaml --machine $(MACHINE) --results $(RESULTS)

# `make test` needs neither root, cluster nor browser. `make test-all` adds slow tests and a browser's
# (test-slow), and, one by one, those that need Slurm or Spack (test-clusters) and those on virtual
# machines (test-guests). JOBS processes share the tests, for two cores: at any time some of them wait.
JOBS ?= 3
# Images of containers often set it; each of some hundred processes would then compile all it imports.
export PYTHONDONTWRITEBYTECODE =
PYTEST = $(BIN)/python -m pytest
PARALLEL = -n $(JOBS) --dist loadfile --no-loadscope-reorder
# The files to collect: TESTS, or all in which one of the marks stands.
TESTS ?=
marked = $(or $(TESTS),$(shell grep -rlE --include='test_*.py' 'mark\.($(1))\b' tests))
test: $(DEV)
	$(PYTEST) -m "not (slow or long or browser or minicluster or spack)" $(PARALLEL) $(PYTEST_ARGS) $(TESTS)

test-all: test test-slow test-clusters test-guests

test-slow: $(DEV)
	$(PYTEST) -m "(slow or browser) and not (long or minicluster or spack)" $(PARALLEL) $(PYTEST_ARGS) \
		$(call marked,slow|browser)

test-clusters: $(DEV)
	$(PYTEST) -m "(minicluster or spack) and not (long or guests)" $(PYTEST_ARGS) \
		$(call marked,minicluster|spack)

test-guests: $(DEV)
	$(PYTEST) -m "guests and not long" $(PYTEST_ARGS) $(call marked,guests)

# Tests of some minutes each: five nights, faults, two rails, daemons or nodes that go away, and others.
test-long: $(DEV)
	$(PYTEST) -m long $(PYTEST_ARGS) $(call marked,long)

# Damaged inputs to every parser of outside text (docs/reliability.md).
FUZZ_SECONDS ?= 3600
fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

# STREAM and LAMMPS with real writers on a minicluster (as root): FABRIC=veth or rxe.
FABRIC ?= veth
minicluster: $(READY)
	sh site/minicluster/try.sh $(FABRIC)

bench: $(DEV)
	$(BIN)/python -m bench

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files '*.sh' .ci | PATH="$(CURDIR)/$(BIN):$$PATH" xargs shellcheck

# The pages of docs/ as a site in build/site/; a broken link fails. Needs no network.
docs: $(DEV)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# docs/report.png, with chromium; RUN=results/latest makes that run the sample (CONTRIBUTING.md).
picture: $(DEV)
	$(BIN)/python -m scripts.sample_run $(RUN)

# Pins every dependency, with hashes; UPGRADE=1 takes newer versions.
lock:
	UPGRADE=$(UPGRADE) sh scripts/lock.sh

# These files name the checkout's folder and the extras of the last set-up. A copied checkout is set
# up anew; an extra that is not named is installed.
named = $(shell cat .venv/.folder $(READY) 2>/dev/null)
ifneq ($(filter-out $(named),$(CURDIR) $(NIMC_EXTRAS)),)
.PHONY: $(READY) $(DEV)
endif

SETUP = $(wildcard requirements/*.lock) pyproject.toml scripts/setup.sh scripts/pythonpath_last.pth
$(READY): $(SETUP)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(NIMC_EXTRAS)

# What tests, checks and benchmarks need, the base included.
$(DEV): $(SETUP)
	@PYTHON="$(PYTHON)" sh scripts/setup.sh wheels ucx spack dev docs
	@touch $(DEV)

clean:
	rm -rf .venv build *.egg-info output stage perflogs
