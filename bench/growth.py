"""The cost of commands, and its growth: each at three sizes, in processes of their own.

CI runs it. `python -m bench.growth plan 4000` does one piece.
"""

import gc
import json
import math
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage

from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.pages.write import gather, write_pages
from bench import (
    BenchRow,
    below,
    chain,
    cost_of,
    in_own_process,
    peak_memory_b,
    plan,
    report,
)
from nimc.crate.pack import pack
from nimc.run.verify import verify
from tests.analysis.history.tables import made_table, write_nights

#: Largest exponent of cost over size, where 1 is linear and 2 quadratic. On an idle host most are
#: below 1.1; CI runs beside other work.
_MOST = 1.4
#: How often a piece whose time seems to grow faster is measured again; the least times count, since
#: other programs lengthen the others.
_REPETITIONS = 3
#: Memory below this is the allocator's, not the data's.
_LEAST_B = 8 << 20
#: Where pieces are made if they fit: samples are flushed one by one, which takes a disk minutes.
_IN_MEMORY, _LARGEST_B = Path("/dev/shm"), 1 << 30

#: Prepares a piece of a size in a folder. What it returns is called and measured.
Prepare = Callable[[int, Path], Callable[[], object]]


def _plan(size: int, folder: Path) -> Callable[[], object]:
    file = plan.write(folder / "big.yaml", size)
    return lambda: plan.planned(file)


def _report(size: int, folder: Path) -> Callable[[], object]:
    report.write(folder / "run", size)
    return lambda: report.make(folder / "run")


def _verify(size: int, folder: Path) -> Callable[[], object]:
    chain.make(folder / "run", size)
    return lambda: verify(folder / "run")


def _pack(size: int, folder: Path) -> Callable[[], object]:
    chain.make(folder / "run", size)
    to = folder / "run.zip"
    return lambda: pack(folder / "run", to, "CC-BY-4.0", ["A. Author"])


def _alarms(size: int, folder: Path) -> Callable[[], object]:
    write_nights(folder, made_table(), [1.0] * size)

    def examine() -> object:
        results, _ = read_results([folder])
        return survey(nights_of(results), results)

    return examine


def _pages(size: int, folder: Path) -> Callable[[], object]:
    write_nights(folder, made_table(), [1.0] * size)
    return lambda: write_pages(folder / "pages", gather([folder], folder / "pages")[0], {})


@dataclass(frozen=True)
class _Piece:
    prepare: Prepare
    #: The smallest size; the others are two and four times as large.
    size: int
    unit: str
    #: How often it is done. The least time counts, since other programs lengthen the others.
    times: int = 2


_PIECES = {
    "plan": _Piece(_plan, 1_000, "cases"),
    "report": _Piece(_report, 20_000, "samples"),
    "verify": _Piece(_verify, 500, "samples", 4),
    "pack": _Piece(_pack, 500, "samples"),
    "pages": _Piece(_pages, 200, "nights"),
    "alarms": _Piece(_alarms, 200, "nights", 4),
}


def run() -> list[BenchRow]:
    """Processor time, memory, and the exponents of both, of every piece."""
    return [row for name, piece in _PIECES.items() for row in _rows(name, piece)]


def _rows(name: str, piece: _Piece) -> list[BenchRow]:
    sizes = [piece.size, 2 * piece.size, 4 * piece.size]
    costs = [in_own_process("growth", name, size) for size in sizes]
    cpu_s = [cost.cpu_s for cost in costs]
    for _ in range(_REPETITIONS):
        if _exponent(sizes, cpu_s) < _MOST:
            break
        again = [in_own_process("growth", name, size).cpu_s for size in sizes]
        cpu_s = [min(times_s) for times_s in zip(cpu_s, again, strict=True)]
    memory_b = [max(cost.memory_b, _LEAST_B) for cost in costs]
    largest = f"{name}, {sizes[-1]:,} {piece.unit}"
    return [
        BenchRow(f"{largest}: processor time", cpu_s[-1], "s"),
        below(f"{name}: its exponent", _exponent(sizes, cpu_s), "", _MOST),
        BenchRow(f"{largest}: memory", memory_b[-1] / 2**20, "MiB"),
        below(f"{name}: its exponent", _exponent(sizes, memory_b), "", _MOST),
    ]


def _exponent(sizes: list[int], costs: list[float]) -> float:
    """The power of the size with which a cost grows."""
    log_sizes = [math.log(size) for size in sizes]
    log_costs = [math.log(cost) for cost in costs]
    return statistics.linear_regression(log_sizes, log_costs).slope


def main() -> None:
    """Do one piece in this process; a tenth of its size first, so that all is loaded.

    Start-up is left out.
    """
    gc.set_threshold(100_000, 20)  # as `nimc.cli.main` does
    name, size = sys.argv[1], int(sys.argv[2])
    piece = _PIECES[name]
    fits = _IN_MEMORY.exists() and disk_usage(_IN_MEMORY).free > _LARGEST_B
    with tempfile.TemporaryDirectory(dir=_IN_MEMORY if fits else None) as folder:
        for part, part_size in (("first", piece.size // 10), ("then", size)):
            path = Path(folder) / part
            path.mkdir()
            work = piece.prepare(part_size, path)
            before_b = peak_memory_b()
            costs = [cost_of(work) for _ in range(piece.times)]
    wall_s = min(cost.wall_s for cost in costs)
    cpu_s = min(cost.cpu_s for cost in costs)
    memory_b = min(cost.memory_b for cost in costs) - before_b
    print(json.dumps([wall_s, cpu_s, memory_b]))


if __name__ == "__main__":
    main()
