"""Simulated runs with the timetables of real runs, and what they explain of published ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.simulate.progress import (
    Application,
    Times,
    Windows,
    finishing_times,
    rank_slowdowns,
)
from analysis.subjects.published import normalised, paper
from records.timetable import staggered

#: Draws the targets of the writes.
_SEED = 1


def run_s(application: Application, slowdowns: Times, writers: int, write_s: float) -> float:
    """Time of an application with `writers` concurrent writes all the time, each `write_s` long.

    `slowdowns` is that of each rank of a hit node.
    """
    # No rank is ever slower than this; a step more covers rounding.
    most_s = (application.steps + 1) * application.step_s * float(slowdowns.max())
    names = list(map(str, range(application.nodes)))
    table = staggered(names, ["origin"], writers, write_s, most_s, _SEED)
    starts_s = np.array([table.start_s(number) for number in range(len(table) + writers)])
    starts_s -= table.steady_from_s  # time 0 is when all writers are active
    hits = np.array(table.hits, dtype=np.int64)
    windows = Windows(hits, starts_s[: len(table)], starts_s[writers:])
    return float(finishing_times(application, windows, slowdowns).max())


# How much of the published slowdown at scale the published single-node figures explain: see
# docs/scale.md#the-published-slowdown-at-scale. It compares unlike estimators: means of 10 runs
# on one node with minima of 5 at scale.


#: The paper, Table I and section VI: cores of a Sandy Bridge-X2 node, and the length of a write.
RANKS_PER_NODE = 16
WRITE_S = 1.0
#: The paper does not give the length of a time step. For 32,000 atoms on such a core a few
#: hundredths of a second are likely.
STEP_S = 0.025
STEPS = 1000


def explain() -> dict[str, Any]:
    """Published and modelled slowdowns at the scales of Table V, labelled."""
    single = normalised()["lammps"].slowdown
    headlines = paper()["headlines"]
    up_to = headlines["lammps_slowdown_8192_up_to"]
    percent = headlines["lammps_increase_8192_percent"]
    table = paper()["table_5_concurrent_writers"]
    rows = [
        {
            "ranks": ranks,
            "nodes": ranks // RANKS_PER_NODE,
            "column": column,
            "writers_published": writers,
            "slowdown_modelled_worst_rank": _modelled(ranks, writers, single, 1),
            "slowdown_modelled_all_ranks": _modelled(ranks, writers, single, RANKS_PER_NODE),
        }
        for column in ("constant_0.2_percent", "daly_qdr_onload")
        for ranks, writers in zip(table["node_count"], table[column], strict=True)
    ]
    modelled = rows[-1]["slowdown_modelled_worst_rank"]
    return {
        "source": "Groves, Grant and Arnold 2016: abstract, Tables III and V, sections V to VII",
        "step_s_assumed": STEP_S,
        "write_s": WRITE_S,
        "single_node_slowdown_published": single,
        "rows": rows,
        "published_constant_share": "nearly doubles at scale",
        "slowdown_published_up_to": up_to,
        "increase_published_percent": percent,
        "estimator_single_node": "mean of 10 runs",
        "estimator_at_scale": "minimum of 5 runs",
        "readings": [
            {
                "meaning": meaning,
                "slowdown": slowdown,
                "explained_share_of_excess": (modelled - 1) / (slowdown - 1),
            }
            for meaning, slowdown in (
                (f"up to {up_to:g} times", float(up_to)),
                (f"{percent} % of the time without writers", percent / 100),
                (f"{percent} % more than the time without writers", 1 + percent / 100),
            )
        ],
    }


def _modelled(ranks: int, writers: int, worst: float, slowed: int) -> float:
    """Slowdown if `slowed` ranks of a hit node, one or all, are as slow as the worst."""
    application = Application(ranks, RANKS_PER_NODE, STEPS, STEP_S)
    slowdowns = rank_slowdowns(RANKS_PER_NODE, worst, slowed)
    return run_s(application, slowdowns, writers, WRITE_S) / application.off_s
