"""Measures time and memory of a large timetable and of a large simulation, each in a process."""

import json
import sys

from analysis.simulate import Application, run_s
from bench import BenchRow, cost_in_own_process, print_cost, row_with_upper_limit
from records.timetable import staggered_writes

_RANKS = 1_000_000
_STEPS = 1_000
#: Slowdown of the first rank of a node while the node is written to.
_WORST_SLOWDOWN = 2.1


def timetable(target_count: int, writer_count: int) -> int:
    """Plan writes of 1 s to all targets for one hour, and convert the plan to JSON and back.

    Returns the number of writes.
    """
    targets = [f"node{index:05}" for index in range(target_count)]
    origins = [f"origin{index:02}" for index in range(writer_count)]
    table = staggered_writes(targets, origins, writer_count, 1.0, 3600.0, seed=1, rest_s=0.5)
    return len(json.loads(json.dumps(table.as_dict()))["hits"])


def simulation(ranks: int) -> None:
    """Simulate a periodic 3D halo on nodes of 8 ranks. Writes hit 0.8 % of the nodes at a time."""
    application = Application(ranks, 8, _STEPS, step_s=0.025)
    on_s = run_s(application, writers=ranks // 1000, worst_slowdown=_WORST_SLOWDOWN)
    assert 1.2 < on_s / application.off_s < _WORST_SLOWDOWN


def run() -> list[BenchRow]:
    """Measure time and memory of one timetable and of one simulation."""
    table = cost_in_own_process("scale", "timetable")
    simulated = cost_in_own_process("scale", "simulate")
    return [
        row_with_upper_limit("timetable, 8,192 targets, 47 writers, 1 h", table.wall_s, "s", 1.0),
        row_with_upper_limit("its memory", table.memory_b / 1e6, "MB", 200.0),
        row_with_upper_limit(
            f"simulate {_RANKS:,} ranks x {_STEPS:,} steps", simulated.wall_s, "s", 60.0
        ),
        row_with_upper_limit("its memory", simulated.memory_b / 2**30, "GiB", 2.0),
    ]


def _work() -> None:
    """Do the work that the command line names."""
    if sys.argv[1] == "timetable":
        assert timetable(8192, 47) == 169_246
    else:
        simulation(_RANKS)


if __name__ == "__main__":
    print_cost(_work)
