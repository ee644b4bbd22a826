"""Ingest plus report of synthetic samples, each size in a process of its own.

python -m tests.bench.report 1000000
"""

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from tests.analysis.synthetic import LAMMPS, STREAM, header, rechain, samples, write_run
from tests.bench import BenchRow, below, in_own_process, peak_memory_b

_SIZES = (10_000, 100_000, 1_000_000)
_MOST_S, _MOST_B = 10.0, 1 << 30
#: Twice as linear allows for the fixed part at the small end and noise at the large one.
_LINEAR = 2.0
_PAIRS = 12


def run() -> list[BenchRow]:
    """Time and memory at each size, and how time grows over the last tenfold step."""
    found = {size: _in_own_process(size) for size in _SIZES}
    largest, before = found[_SIZES[-1]], found[_SIZES[-2]]
    command = "python -m tests.bench.report"
    rows = []
    for size, (took_s, peak_b) in found.items():
        of_size = f"{command} {size}"
        time, memory = (
            f"{what}, {size:,} samples" for what in ("ingest and report", "peak memory")
        )
        if size == _SIZES[-1]:
            rows.append(below(time, took_s, "s", _MOST_S, of_size))
            rows.append(below(memory, peak_b / 2**20, "MiB", _MOST_B / 2**20, of_size))
        else:
            rows.append(BenchRow(time, took_s, "s", "", None, of_size))
            rows.append(BenchRow(memory, peak_b / 2**20, "MiB", "", None, of_size))
    growth = largest[0] / before[0] / (_SIZES[-1] / _SIZES[-2])
    name = "time a sample, 1,000,000 against 100,000 (linear is 1)"
    return [*rows, below(name, growth, "", _LINEAR, command)]


def _in_own_process(size: int) -> tuple[float, float]:
    """Seconds and peak bytes of a report of `size` samples."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / "run", size)
        took_s, peak_b = in_own_process("report", size, folder)
    return took_s, peak_b


def write(run_folder: Path, size: int) -> None:
    """A synthetic run of about `size` samples: two cases, of as many like blocks as it takes."""
    cases = [replace(STREAM, notes=["synthetic"]), LAMMPS]
    of_case = {case.name: samples(case, pairs=_PAIRS) for case in cases}
    first = [sample for found in of_case.values() for sample in found]
    write_run(run_folder, first, header(pairs_cap=1_000_000, finished_s=2e10))
    for turn, (name, found) in enumerate(of_case.items()):
        lines = [json.dumps(sample.as_dict(), separators=(",", ":")) for sample in found]
        # All blocks of one case, then those of the next.
        parts = [
            (
                line.replace(f'"start_s":{sample.start_s}', '"start_s":{start_s}').replace(
                    f'"elapsed_s":{sample.elapsed_s}', '"elapsed_s":{elapsed_s}'
                ),
                sample,
            )
            for line, sample in zip(lines, found, strict=True)
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
    from analysis.report.make import make_reports

    make_reports([run_folder])


def _report(run_folder: Path) -> tuple[float, float]:
    start_s = time.perf_counter()
    make(run_folder)
    return time.perf_counter() - start_s, peak_memory_b()


if __name__ == "__main__":
    if len(sys.argv) > 2:
        print(json.dumps(_report(Path(sys.argv[2]) / "run")))
    else:
        took_s, peak_b = _in_own_process(int(sys.argv[1]))
        print(f"{took_s:.2f} s, {peak_b / 2**20:.0f} MiB")
