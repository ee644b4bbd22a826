"""Simulated runs with the timetables of real runs, next to published and measured ones."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from analysis.effects.estimate import Result, results
from analysis.samples.columns import read_run
from analysis.simulate.progress import (
    Application,
    SimulatedRun,
    Times,
    Windows,
    rank_slowdowns,
    simulate,
)
from analysis.subjects.published import normalised, paper
from nimc.base.errors import InputError
from nimc.records.timetable import Policy, plan


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
    names = list(map(str, range(application.nodes)))
    table = plan(names, ["origin"], writers, write_s, run_s, seed, policy=policy)
    starts_s = np.array([table.start_s(number) for number in range(len(table) + writers)])
    starts_s -= table.steady_from_s  # time 0 is when all writers are active
    hits = np.array(table.hits, dtype=np.int64)
    windows = Windows(hits, starts_s[: len(table)], starts_s[writers:], run_s)
    return simulate(application, windows, slowdowns, seed)


# How much of the published slowdown at scale the published single-node figures explain: see
# docs/simulate.md#the-published-slowdown-at-scale. It compares unlike estimators: means of 10 runs
# on one node with minima of 5 at scale.


#: The paper, Table I and section VI: cores of a Sandy Bridge-X2 node, and the length of a write.
RANKS_PER_NODE = 16
WRITE_S = 1.0
#: The paper does not give the length of a time step. For 32,000 atoms on such a core a few
#: hundredths of a second are likely: the middle value is shown, the others bound it.
STEPS_S = (0.1, 0.025, 0.01)
SIMULATED_S = 25.0
#: Simulations of the scale with the published slowdown, each with the next seed.
SEEDS = 5


def explain(seed: int) -> dict[str, Any]:
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
            "slowdown_modelled_worst_rank": _modelled(ranks, writers, single, False, seed),
            "slowdown_modelled_all_ranks": _modelled(ranks, writers, single, True, seed),
        }
        for column in ("daly_qdr_onload", "constant_0.2_percent")
        for ranks, writers in zip(table["node_count"], table[column], strict=True)
    ]
    ranks, writers = table["node_count"][-1], table["daly_qdr_onload"][-1]
    by_step = {step_s: _modelled(ranks, writers, single, False, seed, step_s) for step_s in STEPS_S}
    seeds = [seed + i for i in range(SEEDS)]
    modelled = [_modelled(ranks, writers, single, False, each) for each in seeds]
    return {
        "published_constant_share": "nearly doubles at scale",
        "source": "Groves, Grant and Arnold 2016: abstract, Tables III and V, sections V to VII",
        "step_s_assumed": STEPS_S[1],
        "write_s": WRITE_S,
        "single_node_slowdown_published": single,
        "rows": rows,
        "ranks": ranks,
        "writers_published": writers,
        "slowdown_published_up_to": up_to,
        "increase_published_percent": percent,
        "estimator_single_node": "mean of 10 runs",
        "estimator_at_scale": "minimum of 5 runs",
        "seeds": seeds,
        "slowdown_modelled": median(modelled),
        "slowdown_modelled_least": min(modelled),
        "slowdown_modelled_most": max(modelled),
        "slowdown_modelled_by_step_s": [
            {"step_s": step_s, "slowdown_modelled": value} for step_s, value in by_step.items()
        ],
        "slowdown_modelled_at_most": single,
        "readings": [
            _reading(meaning, slowdown, modelled)
            | {"worst_rank_slowdown_needed": _needed(slowdown, ranks, writers, seed)}
            for meaning, slowdown in (
                (f"up to {up_to:g} times", float(up_to)),
                (f"{percent} % of the time without writers", percent / 100),
                (f"{percent} % more than the time without writers", 1 + percent / 100),
            )
        ],
    }


def _reading(meaning: str, published: float, modelled: list[float]) -> dict[str, Any]:
    """What the `modelled` slowdowns explain of the published one, read in one way."""
    shares = [(each - 1) / (published - 1) for each in modelled]
    return {
        "meaning": meaning,
        "slowdown": published,
        "explained_share_of_excess": median(shares),
        "explained_share_least": min(shares),
        "explained_share_most": max(shares),
        "unexplained_factor": published / median(modelled),
    }


def _modelled(
    ranks: int, writers: int, worst: float, all_ranks: bool, seed: int, step_s: float = STEPS_S[1]
) -> float:
    """Slowdown with a periodic 3D halo, if one rank of a hit node or all are slowed."""
    mean = worst if all_ranks else 1 + (worst - 1) / RANKS_PER_NODE
    application = Application(ranks, RANKS_PER_NODE, round(SIMULATED_S / step_s), step_s)
    slowdowns = rank_slowdowns(RANKS_PER_NODE, mean, worst)
    return run(application, slowdowns, writers, WRITE_S, seed).slowdown


def _needed(published: float, ranks: int, writers: int, seed: int) -> float:
    """Slowdown of the worst rank at which the model gives the published one, to 1 %."""
    low, high = published, 2 * published
    while high - low > 0.01 * low:
        middle = (low + high) / 2
        enough = _modelled(ranks, writers, middle, False, seed) >= published
        low, high = (low, middle) if enough else (middle, high)
    return (low + high) / 2


# Compares a run at several scales with a simulation from its single node.


#: Seeds of the simulated runs, of which the median is taken.
_SEEDS = range(1, 6)


@dataclass(frozen=True)
class Scale:
    """The scale of an accepted run under a timetable: `writers` at once, each for `write_s`."""

    ranks: int
    nodes: int
    steps: int
    writers: int
    write_s: float


def compare_scales(run: Path, halo: int, periodic: bool) -> dict[str, Any]:
    """`rows` of measured and simulated scales, and the `single` case that gives the slowdown.

    Raises InputError for a run without a case on one node with one writer.
    """
    samples = read_run(run)  # first, since it refuses invalid samples
    scale_of = scales(run)
    found = [
        (each, scale_of[each.case, each.arm])
        for each in results(samples.frame)
        if (each.case, each.arm) in scale_of and each.slowdown is not None
    ]
    single = next((each for each, scale in found if (scale.nodes, scale.writers) == (1, 1)), None)
    if single is None:
        raise InputError(f"{run}: no case on one node with one writer and 6 accepted pairs")
    rows = [_comparison(each, scale, single, halo, periodic) for each, scale in found]
    return {"single": single.case, "arm": single.arm, "rows": rows}


def _comparison(
    result: Result, scale: Scale, single: Result, halo: int, periodic: bool
) -> dict[str, Any]:
    """One arm of one scale, measured and simulated from the single node's slowdown."""
    assert result.off_median
    step_s = result.off_median / scale.steps
    per_node = scale.ranks // scale.nodes
    application = Application(scale.ranks, per_node, scale.steps, step_s, halo, periodic)

    def simulated(slowdown: float) -> float:
        # By noise a node may be faster with a writer than without; no rank is sped up.
        worst = max(slowdown, 1.0)
        slowdowns = rank_slowdowns(per_node, 1 + (worst - 1) / per_node, worst)
        return median(
            run(application, slowdowns, scale.writers, scale.write_s, seed).slowdown
            for seed in _SEEDS
        )

    sizes = {name: getattr(scale, name) for name in ("nodes", "ranks", "writers", "write_s")}
    row = {"case": result.case, "arm": result.arm, **sizes, "step_s": step_s, "pairs": result.pairs}
    for ending, part in {"": "value", "_low": "low", "_high": "high"}.items():
        row[f"measured{ending}"] = getattr(result.slowdown, part)
        row[f"simulated{ending}"] = simulated(getattr(single.slowdown, part))
    return row


def scales(run: Path) -> dict[tuple[str, str], Scale]:
    """Case and arm of a run -> its scale, from the first accepted run with writers."""
    found: dict[tuple[str, str], Scale] = {}
    for path in sorted((run / "samples").glob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                sample: dict[str, Any] = json.loads(line)
            except ValueError:  # the last line of a file, cut off by a crash
                continue
            table, of = sample.get("timetable"), sample["fom_extra"]
            if sample["outcome"] == "kept" and table and table["writers"]:
                sizes = int(of["ranks"]), len(sample["nodes"]), int(of["steps"])
                scale = Scale(*sizes, table["writers"], table["length_s"])
                found.setdefault((sample["case"], sample["arm"]), scale)
    return found
