"""Measures how the costs of commands grow with the size of their input.

Each command is measured at two sizes, each in a process of its own. CI runs this module.
`python -m bench.growth plan 4000` measures one command at one size.
"""

import gc
import json
import math
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.pages.write import machine_histories, write_pages
from bench import (
    BenchRow,
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

#: Writes a command's input of some size to a folder. Returns the work that is measured.
Prepare = Callable[[int, Path], Callable[[], object]]


def _plan(size: int, folder: Path) -> Callable[[], object]:
    file = plan.write(folder / "big.yaml", size)
    return lambda: plan.plan_json(file)


def _report(size: int, folder: Path) -> Callable[[], object]:
    report.write_synthetic_run(folder / "run", size)
    return lambda: report.make(folder / "run")


def _verify(size: int, folder: Path) -> Callable[[], object]:
    chain.write_run(folder / "run", size)
    return lambda: verify(folder / "run")


def _pack(size: int, folder: Path) -> Callable[[], object]:
    chain.write_run(folder / "run", size)
    crate = folder / "run.zip"
    return lambda: pack(folder / "run", crate, "CC-BY-4.0", ["A. Author"])


def _alarms(size: int, folder: Path) -> Callable[[], object]:
    write_nights(folder, made_table(), [1.0] * size)

    def examine() -> object:
        results, _ = read_results([folder])
        return survey(nights_of(results), results)

    return examine


def _pages(size: int, folder: Path) -> Callable[[], object]:
    write_nights(folder, made_table(), [1.0] * size)

    def make_pages() -> object:
        histories, _ = machine_histories([folder], folder / "pages")
        return write_pages(folder / "pages", histories, {})

    return make_pages


@dataclass(frozen=True)
class _Command:
    prepare: Prepare
    #: The larger size is `_SIZE_RATIO` times this one.
    smaller_size: int
    unit: str


_COMMANDS = {
    "plan": _Command(_plan, 1_000, "cases"),
    "report": _Command(_report, 10_000, "samples"),
    "verify": _Command(_verify, 250, "samples"),
    "pack": _Command(_pack, 250, "samples"),
    "pages": _Command(_pages, 200, "nights"),
    "alarms": _Command(_alarms, 200, "nights"),
}


def run() -> list[BenchRow]:
    """Measure processor time and memory of every command, and the exponents of both."""
    return [row for name, command in _COMMANDS.items() for row in _rows(name, command)]


def _rows(name: str, command: _Command) -> list[BenchRow]:
    sizes = [command.smaller_size, _SIZE_RATIO * command.smaller_size]
    costs = [cost_in_own_process("growth", name, size) for size in sizes]
    cpu_s = [cost.cpu_s for cost in costs]
    for _ in range(_MAX_RETRIES):
        if _exponent(cpu_s) < _MAX_EXPONENT:
            break
        repeated_s = [cost_in_own_process("growth", name, size).cpu_s for size in sizes]
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
    of start-up are left out. The memory is what the work adds to the peak before it.
    """
    gc.set_threshold(100_000, 20)  # as `nimc.cli.main` does
    name, size = sys.argv[1], int(sys.argv[2])
    command = _COMMANDS[name]
    fits = _MEMORY_FOLDER.exists() and disk_usage(_MEMORY_FOLDER).free > _NEEDED_SPACE_B
    with tempfile.TemporaryDirectory(dir=_MEMORY_FOLDER if fits else None) as folder:
        for purpose, work_size in (("warm-up", command.smaller_size // 10), ("measured", size)):
            path = Path(folder) / purpose
            path.mkdir()
            work = command.prepare(work_size, path)
            earlier_peak_b = peak_memory_b()
            cost = cost_of(work)
    print(json.dumps([cost.wall_s, cost.cpu_s, cost.memory_b - earlier_peak_b]))


if __name__ == "__main__":
    main()
