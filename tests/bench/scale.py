"""Timetables and simulation at scale. Each figure comes from a process of its own.

python -m tests.bench.scale timetable
python -m tests.bench.scale simulate 1000000 none
"""

import json
import sys
import time
from dataclasses import dataclass

from analysis.simulate.campaign import run as simulate
from analysis.simulate.progress import Application, parse_noise, rank_slowdowns
from nimc.records.timetable import Origin, plan
from tests.bench import BenchRow, below, in_own_process, peak_memory_b

_RANKS = (1_000, 10_000, 100_000, 1_000_000)
_STEPS = 1_000
_NOISE = "exponential:2%"


def timetable(count: int, writers: int) -> int:
    """How many writes of 1 s go to `count` targets in one hour; as JSON, too."""
    targets = [f"node{i:05}" for i in range(count)]
    origins = [Origin(f"origin{i:02}", 1) for i in range(writers)]
    table = plan(targets, origins, writers, 1.0, 3600.0, seed=1, setup_s=0.5)
    return len(json.loads(json.dumps(table.as_dict()))["hits"])


def simulation(ranks: int, noise: str) -> None:
    """A periodic 3D halo; 0.8 % of the nodes of 8 ranks written to at a time, for 1 s each."""
    application = Application(ranks, 8, _STEPS, step_s=0.025, noise=parse_noise(noise, "noise"))
    outcome = simulate(application, rank_slowdowns(8, 1.2, 2.1), ranks // 1000, 1.0, seed=1)
    assert 1.2 < outcome.slowdown < 2.1


@dataclass(frozen=True)
class _Cost:
    """What one piece took: time that passed, processor time, memory of the whole process."""

    wall_s: float
    cpu_s: float
    memory_b: float
    command: str


def _cost(*arguments: str) -> _Cost:
    """Do one piece in a new process."""
    command = " ".join(["python -m tests.bench.scale", *arguments])
    return _Cost(*in_own_process("scale", *arguments), command)


def run() -> list[BenchRow]:
    """Time and memory of one timetable; time, memory and growth of the simulation."""
    table = _cost("timetable")
    rows = [
        below("timetable, 8,192 targets, 47 writers, 1 h", table.wall_s, "s", 1.0, table.command),
        below("its memory", table.memory_b / 1e6, "MB", 200.0, table.command),
    ]
    costs = [_cost("simulate", str(ranks), "none") for ranks in _RANKS]
    for ranks, cost in zip(_RANKS, costs, strict=True):
        each_ns = cost.cpu_s / ranks / _STEPS * 1e9
        name = f"processor time a rank and step, {ranks:,} ranks, 3D halo"
        rows.append(BenchRow(name, each_ns, "ns", "", None, cost.command))
    growth = costs[-1].cpu_s / costs[0].cpu_s / (_RANKS[-1] / _RANKS[0])
    last, noisy = costs[-1], _cost("simulate", str(_RANKS[-1]), _NOISE)
    return [
        *rows,
        below("growth of time over growth of ranks", growth, "x", 1.0, last.command),
        below("simulate 1,000,000 ranks x 1,000 steps", last.wall_s, "s", 60.0, last.command),
        below("its memory", last.memory_b / 2**30, "GiB", 2.0, last.command),
        below(f"the same with noise {_NOISE}", noisy.wall_s, "s", 60.0, noisy.command),
    ]


def main() -> None:
    """Do one piece in this process, and print what it took as JSON."""
    piece, *rest = sys.argv[1:]
    start_s, start_cpu_s = time.perf_counter(), time.process_time()
    if piece == "timetable":
        assert timetable(8192, 47) == 169_246
    else:
        simulation(int(rest[0]), rest[1])
    wall_s = time.perf_counter() - start_s
    cpu_s = time.process_time() - start_cpu_s
    memory_b = peak_memory_b()
    print(json.dumps([wall_s, cpu_s, memory_b]))


if __name__ == "__main__":
    main()
