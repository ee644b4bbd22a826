"""Reading one machine's history from a store of all machines, each figure in its own process.

NIMC_BENCH_SAMPLES=10000000 python -m tests.bench store

The store is made of one synthetic run of about 5,000 samples, which is entered as a night of each
machine again and again.
"""

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from analysis.history.extract import run_row
from analysis.history.store import add_run, load_nights, load_runs, put, scan_samples
from analysis.report.data import load_run
from tests.analysis.synthetic import LAMMPS, STARTED_S, header, samples, write_run
from tests.bench import BenchRow, below, in_own_process, print_cost

SAMPLES = int(os.environ.get("NIMC_BENCH_SAMPLES", "1000000"))
_MACHINES, _CASES, _PAIRS = 5, 12, 104
#: Samples of one run: a warm-up and four arms a case.
_OF_RUN = _CASES * (1 + 4 * _PAIRS)
_MOST_S, _MOST_B = 10.0, 1 << 30
_DAY_S = 86_400.0


def run() -> list[BenchRow]:
    """Every figure, of a store of about so many samples."""
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), round(SAMPLES / _OF_RUN))
        costs = {name: in_own_process("store", name, folder) for name in _FIGURES}
    rows = []
    for name, cost in costs.items():
        of_size = f"{_NAMES[name]}, {SAMPLES:,} samples in the store"
        memory_mib = cost.memory_b / 2**20
        if name == "nights":
            rows.append(below(of_size, cost.wall_s, "s", _MOST_S))
            rows.append(below("its peak memory", memory_mib, "MiB", _MOST_B / 2**20))
        else:
            rows.append(BenchRow(of_size, cost.wall_s, "s"))
            rows.append(BenchRow("its peak memory", memory_mib, "MiB"))
    return rows


def make(results: Path, runs: int, pairs: int = _PAIRS) -> None:
    """A store of so many runs, by turns of each machine, and a run that is not in it."""
    cases = [replace(LAMMPS, name=f"lammps@{n}") for n in range(_CASES)]
    of_case = (samples(case, pairs=pairs, seed=n) for n, case in enumerate(cases))
    found = [sample for each in of_case for sample in each]
    path = write_run(results / "new", found, header(run="new", machine="m0", pairs_cap=pairs))
    data = load_run(path)
    for number in range(runs):
        night, machine = divmod(number, _MACHINES)
        head = replace(
            data.header,
            run=f"nightly-m{machine}-{night}",
            machine=f"m{machine}",
            started_s=STARTED_S - night * _DAY_S,
        )
        entered = replace(data, header=head)
        put(results / "store", entered, run_row(entered, "0" * 64, 10_000_000))


def _nights(results: Path) -> None:
    """What a page of one machine shows."""
    runs, nights = (load(results / "store", machine="m0") for load in (load_runs, load_nights))
    # Of each case one effect: its slowdown and rate, and two figures of merit.
    assert nights.height == 4 * _CASES * runs.height


def _samples(results: Path) -> None:
    medians = (
        scan_samples(results / "store", machine="m0")
        .filter(pl.col("status") == "counts")
        .group_by("run", "case", "arm")
        .agg(pl.col("fom").median())
        .collect()
    )
    assert medians.height % (4 * _CASES) == 0


def _add(results: Path) -> None:
    assert add_run(results / "store", results / "new").state == "new"


_FIGURES: dict[str, Callable[[Path], None]] = {"nights": _nights, "samples": _samples, "add": _add}
_NAMES = {
    "nights": "one machine's runs and nights",
    "samples": "medians of one machine's samples",
    "add": f"adding a run of {_OF_RUN:,} samples",
}


if __name__ == "__main__":
    print_cost(lambda: _FIGURES[sys.argv[1]](Path(sys.argv[2])))
