"""Simulated runs with the timetables of real runs."""

from __future__ import annotations

import numpy as np

from analysis.simulate.grid import Times
from analysis.simulate.hits import Windows
from analysis.simulate.progress import Application, SimulatedRun, simulate
from injection.timetable import Origin, Policy, plan


def run(
    application: Application,
    slowdowns: Times,
    writers: int,
    write_s: float,
    seed: int,
    policy: Policy = "sweep",
) -> SimulatedRun:
    """An application with `writers` concurrent writes all the time, each `write_s` long.

    `slowdowns` is that of each rank of a hit node; `seed` is for targets and noise. Raises
    InputError for invalid arguments.
    """
    application.check()
    steps_s = application.steps * application.step_s
    longest = application.noise.longest(application.steps * application.ranks)
    # No rank is ever slower than this; a step more covers rounding.
    run_s = (steps_s + application.step_s) * longest * float(slowdowns.max())
    windows = _windows(application.nodes, writers, write_s, run_s, seed, policy)
    return simulate(application, windows, slowdowns, seed)


def _windows(
    nodes: int, writers: int, write_s: float, run_s: float, seed: int, policy: Policy
) -> Windows:
    """The timetable's writes; time 0 is when all writers are active."""
    names = [str(node) for node in range(nodes)]
    table = plan(names, [Origin("origin", writers)], writers, write_s, run_s, seed, policy=policy)
    starts_s = np.array([table.start_s(number) for number in range(len(table) + writers)])
    starts_s -= table.steady_from_s
    return Windows(
        node=np.array(table.hits, dtype=np.int64),
        start_s=starts_s[: len(table)],
        end_s=starts_s[writers:],
        until_s=run_s,
    )
