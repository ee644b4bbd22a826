"""How time and memory grow: each piece at two sizes, each in a process of its own. CI runs it.

python -m tests.bench.growth plan 4000
"""

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from analysis.history.alarms import survey
from analysis.history.nights import nights_of, read_results
from analysis.report.data import load_run
from analysis.report.table import results_table
from tests.analysis.history.tables import write_nights
from tests.bench import (
    BenchRow,
    below,
    cost_of,
    in_own_process,
    peak_memory_b,
    plan,
    report,
    scale,
)

#: Times the growth of the size; 1 is linear. The larger size is four times the smaller one, so
#: what grows with its square has 4.
_MOST = 1.4
#: Memory below this is the allocator's, not the data's.
_LEAST_B = 8 << 20
#: Measurements of each size.
_ROUNDS = 2

#: Prepares a piece of a size in a folder; what is called next is measured.
Prepare = Callable[[int, Path], Callable[[], object]]


def _plan(size: int, folder: Path) -> Callable[[], object]:
    file = plan.write(folder / "big.yaml", size)
    return lambda: plan.planned(file)


def _report(size: int, folder: Path) -> Callable[[], object]:
    report.write(folder / "run", size)
    return lambda: report.make(folder / "run")


def _timetable(size: int, _folder: Path) -> Callable[[], object]:
    return lambda: scale.timetable(size, writers=size // 128)


def _simulate(size: int, _folder: Path) -> Callable[[], object]:
    return lambda: scale.simulation(size)


def _history(size: int, folder: Path) -> Callable[[], object]:
    report.write(folder / "run", 60)
    write_nights(folder, results_table([load_run(folder / "run")]), [1.0] * size)

    def look() -> object:
        results, _ = read_results([folder])
        return survey(nights_of(results), results)

    return look


@dataclass(frozen=True)
class _Piece:
    prepare: Prepare
    sizes: tuple[int, int]
    unit: str
    #: How often it is done: a tenth of a second varies by half beside other work.
    times: int = 1


_PIECES = {
    "plan": _Piece(_plan, (1_000, 4_000), "cases"),
    "report": _Piece(_report, (20_000, 80_000), "samples"),
    "timetable": _Piece(_timetable, (1_024, 4_096), "targets", 20),
    "history": _Piece(_history, (200, 800), "nights", 4),
    "simulate": _Piece(_simulate, (16_000, 64_000), "ranks"),
}


def run() -> list[BenchRow]:
    """Growth of processor time and of memory of every piece."""
    return [row for name, piece in _PIECES.items() for row in _rows(name, piece)]


def _rows(name: str, piece: _Piece) -> list[BenchRow]:
    small, large = _costs(name, piece.sizes)
    times = piece.sizes[1] / piece.sizes[0]
    sizes = f"a unit (linear is 1): {name}, {piece.sizes[0]:,} to {piece.sizes[1]:,} {piece.unit}"
    memory = large[1] / max(small[1], _LEAST_B) / times
    return [
        below(f"processor time {sizes}", large[0] / small[0] / times, "x", _MOST),
        below(f"memory {sizes}", memory, "x", _MOST),
    ]


def _costs(name: str, sizes: tuple[int, int]) -> list[tuple[float, float]]:
    """The least of each size: what runs beside takes caches and so processor time."""
    rounds = [[in_own_process("growth", name, size) for size in sizes] for _ in range(_ROUNDS)]
    return [
        (min(each.cpu_s for each in costs), min(each.memory_b for each in costs))
        for costs in zip(*rounds, strict=True)
    ]


def _repeat(work: Callable[[], object], times: int) -> None:
    for _ in range(times):
        work()


def main() -> None:
    """Do one piece in this process; a tenth of its size first, so that all is loaded.

    Start-up is left out.
    """
    piece, size = _PIECES[sys.argv[1]], int(sys.argv[2])
    with tempfile.TemporaryDirectory() as folder:
        for part, of_size in (("first", piece.sizes[0] // 10), ("then", size)):
            place = Path(folder) / part
            place.mkdir()
            work = piece.prepare(of_size, place)
            before_b = peak_memory_b()
            cost = cost_of(partial(_repeat, work, piece.times))
    print(json.dumps([cost.wall_s, cost.cpu_s, cost.memory_b - before_b]))


if __name__ == "__main__":
    main()
