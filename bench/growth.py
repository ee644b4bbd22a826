"""Measures how the costs of commands grow with the size of their input.

Each command is measured at two sizes, each in a process of its own. CI runs this module.
`python -m bench.growth plan 4000 FOLDER` measures one command at one size. An input is written to
the folder once, for all commands that read it.
"""

import gc
import json
import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import disk_usage

from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.pages.write import machine_histories, write_pages
from bench import (
    BenchRow,
    Cost,
    chain,
    cost_in_own_process,
    cost_of,
    peak_memory_b,
    plan,
    report,
    row_with_upper_limit,
)
from nimc.crate.pack import pack
from nimc.run.verify import verify
from tests.analysis.history.tables import made_table, write_nights

#: Largest exponent of cost over size, where 1 is linear and 2 quadratic. On an idle host most are
#: below 1.1. The limit is higher, since CI measures while other programs run.
_MAX_EXPONENT = 1.4
#: Ratio of the larger size to the smaller size.
_SIZE_RATIO = 4
#: A command whose exponent of processor time exceeds the limit is measured again, at most so many
#: times. The shortest time at each size is used, since other programs can only lengthen a time.
_MAX_RETRIES = 3
#: Less memory than this is rounded up to it, since it belongs to the allocator and not to the data.
_MIN_MEMORY_B = 8 << 20
#: Inputs are written to memory if there is space, since samples are flushed one by one, which takes
#: minutes on a disk.
_MEMORY_FOLDER = Path("/dev/shm")
_NEEDED_SPACE_B = 1 << 30


def _write_cases(folder: Path, size: int) -> None:
    plan.write(folder / "big.yaml", size)


def _write_samples(folder: Path, size: int) -> None:
    report.write_synthetic_run(folder / "run", size)


def _write_chained_samples(folder: Path, size: int) -> None:
    chain.write_run(folder / "run", size)


def _write_nights(folder: Path, size: int) -> None:
    write_nights(folder, made_table(), [1.0] * size)


def _pack(folder: Path) -> None:
    pack(folder / "run", folder / "run.zip", "CC-BY-4.0", ["A. Author"])


def _alarms(folder: Path) -> None:
    results, _ = read_results([folder])
    survey(nights_of(results), results)


def _pages(folder: Path) -> None:
    histories, _ = machine_histories([folder], folder / "pages")
    write_pages(folder / "pages", histories, {})


@dataclass(frozen=True)
class _Command:
    #: Writes an input of some size to a folder.
    write_input: Callable[[Path, int], None]
    #: Does the work that is measured, on the input in a folder.
    work: Callable[[Path], object]
    #: The larger size is `_SIZE_RATIO` times this one.
    smaller_size: int
    unit: str


_COMMANDS = {
    "plan": _Command(
        _write_cases, lambda folder: plan.plan_json(folder / "big.yaml"), 1_000, "cases"
    ),
    "report": _Command(
        _write_samples, lambda folder: report.make(folder / "run"), 10_000, "samples"
    ),
    "verify": _Command(
        _write_chained_samples, lambda folder: verify(folder / "run"), 250, "samples"
    ),
    "pack": _Command(_write_chained_samples, _pack, 250, "samples"),
    "pages": _Command(_write_nights, _pages, 200, "nights"),
    "alarms": _Command(_write_nights, _alarms, 200, "nights"),
}


def run() -> list[BenchRow]:
    """Measure processor time and memory of every command, and the exponents of both."""
    fits = _MEMORY_FOLDER.exists() and disk_usage(_MEMORY_FOLDER).free > _NEEDED_SPACE_B
    with tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER if fits else None) as folder:
        return [row for name, command in _COMMANDS.items() for row in _rows(name, command, folder)]


def _rows(name: str, command: _Command, folder: str) -> list[BenchRow]:
    sizes = [command.smaller_size, _SIZE_RATIO * command.smaller_size]

    def measured(size: int) -> Cost:
        return cost_in_own_process("growth", name, size, folder)

    costs = [measured(size) for size in sizes]
    cpu_s = [cost.cpu_s for cost in costs]
    for _ in range(_MAX_RETRIES):
        if _exponent(cpu_s) < _MAX_EXPONENT:
            break
        repeated_s = [measured(size).cpu_s for size in sizes]
        cpu_s = [min(times_s) for times_s in zip(cpu_s, repeated_s, strict=True)]
    memory_b = [max(cost.memory_b, _MIN_MEMORY_B) for cost in costs]
    larger_input = f"{name}, {sizes[-1]:,} {command.unit}"
    return [
        BenchRow(f"{larger_input}: processor time", cpu_s[-1], "s"),
        row_with_upper_limit(
            f"{name}: exponent of processor time", _exponent(cpu_s), "", _MAX_EXPONENT
        ),
        BenchRow(f"{larger_input}: memory", memory_b[-1] / 2**20, "MiB"),
        row_with_upper_limit(f"{name}: exponent of memory", _exponent(memory_b), "", _MAX_EXPONENT),
    ]


def _exponent(costs: list[float]) -> float:
    """Return the exponent of a cost that grows as a power of the size, from its two values."""
    smaller, larger = costs
    return math.log(larger / smaller, _SIZE_RATIO)


def main() -> None:
    """Measure a command at one size in this process; print its cost.

    The work is first done on a tenth of the smaller size, so that all modules are loaded. The costs
    of start-up are left out. The memory is what the work adds to the peak before it. The inputs
    stay in the folder, for other commands.
    """
    gc.set_threshold(100_000, 20)  # as `nimc.cli.main` does
    name, size, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    command = _COMMANDS[name]
    for work_size in (command.smaller_size // 10, size):
        path = folder / f"{command.write_input.__name__}-{work_size}"
        if not path.exists():
            path.mkdir()
            command.write_input(path, work_size)
        earlier_peak_b = peak_memory_b()
        cost = cost_of(partial(command.work, path))
    print(json.dumps([cost.wall_s, cost.cpu_s, cost.memory_b - earlier_peak_b]))


if __name__ == "__main__":
    main()
