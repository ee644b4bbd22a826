"""Measures time and memory to read synthetic samples and make their report.

Each number of samples is measured in a process of its own.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from bench import BenchRow, Cost, cost_in_own_process, print_cost, row_with_upper_limit
from records.sample import Sample
from scripts.rechain import rechain
from tests.analysis.synthetic import LAMMPS, STREAM, header, samples, write_run

_SIZES = (10_000, 100_000, 1_000_000)
_MAX_S, _MAX_MEMORY_B = 10.0, 1 << 30
_PAIRS = 12


def run() -> list[BenchRow]:
    """Measure time and memory at each size; only the figures of the largest size have aims."""
    rows = []
    for size in _SIZES:
        cost = _report_cost(size)
        time_name, memory_name = (
            f"ingest and report, {size:,} samples",
            f"peak memory, {size:,} samples",
        )
        memory_mib = cost.memory_b / 2**20
        if size == _SIZES[-1]:
            rows.append(row_with_upper_limit(time_name, cost.wall_s, "s", _MAX_S))
            rows.append(row_with_upper_limit(memory_name, memory_mib, "MiB", _MAX_MEMORY_B / 2**20))
        else:
            rows.append(BenchRow(time_name, cost.wall_s, "s"))
            rows.append(BenchRow(memory_name, memory_mib, "MiB"))
    return rows


def _report_cost(size: int) -> Cost:
    with tempfile.TemporaryDirectory() as folder:
        write_synthetic_run(Path(folder) / "run", size)
        return cost_in_own_process("report", Path(folder) / "run")


def write_synthetic_run(run_folder: Path, size: int) -> None:
    """Write a synthetic run of about `size` samples: two cases with many copies of a block."""
    cases = [replace(STREAM, notes=["synthetic"]), LAMMPS]
    block_by_case = {case.name: samples(case, pairs=_PAIRS) for case in cases}
    first_blocks = [sample for block in block_by_case.values() for sample in block]
    write_run(run_folder, first_blocks, header(pairs_cap=1_000_000, finished_s=2e10))
    for case_index, (name, block) in enumerate(block_by_case.items()):
        templates = list(map(_template, block))
        with (run_folder / "samples" / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            for block_index in range(round(size / len(cases) / len(block))):
                # The blocks of the second case come later. No two runs take the same time.
                later_s = 1e3 * block_index + 1e9 * case_index
                longer_s = 1e-10 * block_index
                for sample, template in zip(block, templates, strict=True):
                    line = template.replace(f'"{name}/0/', f'"{name}/{block_index}/')
                    line = line.replace('"block":0', f'"block":{block_index}')
                    line = line.replace("{start_s}", str(sample.start_s + later_s))
                    line = line.replace("{elapsed_s}", str(sample.elapsed_s + longer_s))
                    file.write(f"{line}\n")
    rechain(run_folder)


def _template(sample: Sample) -> str:
    """Return the JSON of a sample with `{start_s}` and `{elapsed_s}` in place of its times."""
    line = json.dumps(sample.as_dict(), separators=(",", ":"))
    line = line.replace(f'"start_s":{sample.start_s}', '"start_s":{start_s}')
    return line.replace(f'"elapsed_s":{sample.elapsed_s}', '"elapsed_s":{elapsed_s}')


def make(run_folder: Path) -> None:
    """Make the run's report; imports are part of its cost."""
    from analysis.report.page import make_reports

    make_reports([run_folder])


if __name__ == "__main__":
    print_cost(lambda: make(Path(sys.argv[1])))
