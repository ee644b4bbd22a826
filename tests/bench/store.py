"""Reading one machine's history from a store of all machines, each figure in its own process.

python -m tests.bench.store 10000000

The store is made of one synthetic run of about 5,000 samples, which is entered as a night of each
machine again and again.
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl

from analysis.history.extract import run_row
from analysis.history.store import add_run, load_nights, load_runs, put, scan_samples
from analysis.report.data import load_run
from tests.analysis.synthetic import LAMMPS, STARTED_S, header, samples, write_run
from tests.bench import BenchRow, below, in_own_process, peak_memory_b

_SIZES = (100_000, 1_000_000)
_MACHINES, _CASES, _PAIRS = 5, 12, 104
#: Samples of one run: a warm-up and four arms a case.
_OF_RUN = _CASES * (1 + 4 * _PAIRS)
_MOST_S, _MOST_B = 10.0, 1 << 30
#: Growth with the number of runs is linear, and the start of a process does not grow.
_LINEAR = 2.0
_DAY_S = 86_400.0


def run() -> list[BenchRow]:
    """Every figure at two sizes, and how the time grows from one to the other."""
    found = {size: measure(size) for size in _SIZES}
    rows = [row for size in _SIZES for row in _rows(size, found[size])]
    small, large = (found[size]["nights"][0] for size in _SIZES)
    growth = large / small / (_SIZES[1] / _SIZES[0])
    name = f"nights' time a sample, {_SIZES[1]:,} against {_SIZES[0]:,} (linear is 1)"
    return [*rows, below(name, growth, "", _LINEAR, "python -m tests.bench store")]


def measure(size: int) -> dict[str, tuple[float, float]]:
    """Figure -> seconds and peak bytes, of a store of about `size` samples."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        make(results, round(size / _OF_RUN))
        return {name: _in_own_process(name, results) for name in _FIGURES}


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


def _in_own_process(name: str, results: Path) -> tuple[float, float]:
    took_s, peak_b = in_own_process("store", name, results)
    return took_s, peak_b


def _rows(size: int, found: dict[str, tuple[float, float]]) -> list[BenchRow]:
    command = f"python -m tests.bench.store {size}"
    rows = []
    for name, (took_s, peak_b) in found.items():
        of_size = f"{_NAMES[name]}, {size:,} samples in the store"
        peak_mib = peak_b / 2**20
        if name == "nights":
            rows.append(below(of_size, took_s, "s", _MOST_S, command))
            rows.append(below("its peak memory", peak_mib, "MiB", _MOST_B / 2**20, command))
        else:
            rows.append(BenchRow(of_size, took_s, "s", "", None, command))
            rows.append(BenchRow("its peak memory", peak_mib, "MiB", "", None, command))
    return rows


def _main() -> None:
    if len(sys.argv) > 2:
        start_s = time.perf_counter()
        _FIGURES[sys.argv[1]](Path(sys.argv[2]))
        print(json.dumps([time.perf_counter() - start_s, peak_memory_b()]))
    else:
        for row in _rows(int(sys.argv[1]), measure(int(sys.argv[1]))):
            print(f"{row.name}: {row.value:.4g} {row.unit}")


if __name__ == "__main__":
    _main()
