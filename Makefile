.PHONY: campaign test test-all test-long fuzz bench lint lock clean minicluster

MACHINE ?= localhost
RESULTS ?= results
READY = .venv/.ready
BIN = .venv/bin

# The quick campaign on this machine, and its report.
campaign: $(READY)
	$(BIN)/nimc run campaigns/quick.yaml --machine $(MACHINE) --results $(RESULTS)

# `make test` needs neither root nor a cluster, and runs JOBS processes. `make test-all` adds what
# takes long, and what needs Slurm or Spack, one by one.
JOBS ?= 2
PARALLEL = -n $(JOBS) --dist loadfile
test: $(READY)
	$(BIN)/python -m pytest -m "not (slow or long or minicluster or spack)" $(PARALLEL) $(PYTEST_ARGS)

test-all: $(READY)
	$(BIN)/python -m pytest -m "not (long or minicluster or spack)" $(PARALLEL) $(PYTEST_ARGS)
	$(BIN)/python -m pytest -m "(minicluster or spack) and not long" $(PYTEST_ARGS)

# Tests of some minutes each: five nights, faults, two rails, a node that is switched off, and others.
test-long: $(READY)
	$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

# Every parser of outside text and membench's command line (docs/reliability.md).
FUZZ_SECONDS ?= 3600
fuzz: $(READY)
	$(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

# STREAM and LAMMPS with real writers on a minicluster (as root): FABRIC=veth or rxe.
FABRIC ?= veth
minicluster: $(READY)
	sh site/minicluster/try.sh $(FABRIC)

bench: $(READY)
	$(BIN)/python -m tests.bench

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	git ls-files '*.sh' .ci/run | xargs $(BIN)/shellcheck

# Pins every dependency but those of the extra pandas, with hashes; the index's URL is not written to the file.
lock:
	uv pip compile --universal --python-version 3.10 --generate-hashes --extra wheels --extra spack --extra dev \
	    --no-emit-index-url --no-emit-find-links --quiet -o requirements.lock pyproject.toml

$(READY): requirements.lock pyproject.toml scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh

clean:
	rm -rf .venv build *.egg-info output stage perflogs
