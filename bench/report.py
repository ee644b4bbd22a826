"""Ingest plus report of synthetic samples, each size in a process of its own."""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench import BenchRow, Cost, below, in_own_process, print_cost
from scripts.rechain import rechain
from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run

_SIZES = (10_000, 100_000, 1_000_000)
_MOST_S, _MOST_B = 10.0, 1 << 30
_PAIRS = 12


def run() -> list[BenchRow]:
    """Time and memory at each size; those of the largest are limited."""
    rows = []
    for size in _SIZES:
        cost = _in_own_process(size)
        names = (f"{label}, {size:,} samples" for label in ("ingest and report", "peak memory"))
        figures = ((cost.wall_s, "s", _MOST_S), (cost.memory_b / 2**20, "MiB", _MOST_B / 2**20))
        for name, (value, unit, most) in zip(names, figures, strict=True):
            limited = size == _SIZES[-1]
            rows.append(below(name, value, unit, most) if limited else BenchRow(name, value, unit))
    return rows


def _in_own_process(size: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "run", size)
        return in_own_process("report", Path(folder) / "run")


def write(run_folder: Path, size: int) -> None:
    """A synthetic run of about `size` samples: two cases, of as many like blocks as it takes."""
    cases = [replace(STREAM, notes=["synthetic"]), LAMMPS]
    samples_by_case = {case.name: samples(case, pairs=_PAIRS) for case in cases}
    first = [sample for runs in samples_by_case.values() for sample in runs]
    write_run(run_folder, first, header(pairs_cap=1_000_000, finished_s=2e10))
    for turn, (name, runs) in enumerate(samples_by_case.items()):
        lines = [json.dumps(sample.as_dict(), separators=(",", ":")) for sample in runs]
        # All blocks of one case, then those of the next.
        parts = [
            (
                line.replace(f'"start_s":{sample.start_s}', '"start_s":{start_s}').replace(
                    f'"elapsed_s":{sample.elapsed_s}', '"elapsed_s":{elapsed_s}'
                ),
                sample,
            )
            for line, sample in zip(lines, runs, strict=True)
        ]
        with (run_folder / "samples" / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for index in range(round(size / len(cases) / len(lines))):
                # No two runs take the same time.
                later_s, longer_s = 1e3 * index + 1e9 * turn, 1e-10 * index
                file.writelines(
                    line.replace(f'"{name}/0/', f'"{name}/{index}/')
                    .replace('"block":0', f'"block":{index}')
                    .replace("{start_s}", str(sample.start_s + later_s))
                    .replace("{elapsed_s}", str(sample.elapsed_s + longer_s))
                    + "\n"
                    for line, sample in parts
                )
    rechain(run_folder)


def make(run_folder: Path) -> None:
    """The run's report; start-up is part of it."""
    from analysis.report.page import make_reports

    make_reports([run_folder])


if __name__ == "__main__":
    print_cost(lambda: make(Path(sys.argv[1])))
