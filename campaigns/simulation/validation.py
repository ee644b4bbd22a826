"""Compares a run at several scales with a simulation from its single node."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from analysis.columns import read_run
from analysis.errors import InputError
from analysis.estimate import Result, results
from analysis.simulate.hits import rank_slowdowns
from analysis.simulate.progress import Application
from campaigns.simulation.simulate import run as simulated_run

#: Seeds of the simulated runs, of which the median is taken.
_SEEDS = range(1, 6)


@dataclass(frozen=True)
class _Scale:
    """The scale of an accepted run under a timetable."""

    ranks: int
    nodes: int
    steps: int
    writers: int
    write_s: float


@dataclass(frozen=True)
class ScaleComparison:
    """One arm of one scale: measured, and simulated from the single node's slowdown."""

    case: str
    arm: str
    nodes: int
    ranks: int
    writers: int
    write_s: float
    #: Length of a step without writes, seconds.
    step_s: float
    pairs: int
    measured: float
    measured_low: float
    measured_high: float
    #: From the single node's estimate and the ends of its interval.
    simulated: float
    simulated_low: float
    simulated_high: float


def compare_scales(run: Path, halo: int, periodic: bool) -> dict[str, Any]:
    """`rows` of `ScaleComparison`, and the `single` case that gives the slowdown of a hit node.

    Raises InputError for a run without a case on one node with one writer.
    """
    samples = read_run(run)  # first, since it refuses invalid samples
    scales = _scales(run)
    found = [
        (each, scales[each.case, each.arm])
        for each in results(samples.frame)
        if (each.case, each.arm) in scales and each.slowdown is not None
    ]
    single = next((each for each, scale in found if (scale.nodes, scale.writers) == (1, 1)), None)
    if single is None:
        raise InputError(f"{run}: no case on one node with one writer and 6 accepted pairs")
    rows = [_comparison(each, scale, single, halo, periodic) for each, scale in found]
    return {"single": single.case, "arm": single.arm, "rows": [asdict(row) for row in rows]}


def _comparison(
    result: Result, scale: _Scale, single: Result, halo: int, periodic: bool
) -> ScaleComparison:
    assert result.slowdown
    assert result.off_median
    step_s = result.off_median / scale.steps
    per_node = scale.ranks // scale.nodes
    application = Application(scale.ranks, per_node, scale.steps, step_s, halo, periodic)

    def simulated(slowdown: float | None) -> float:
        assert slowdown is not None
        # By noise a node may be faster with a writer than without; no rank is sped up.
        worst = max(slowdown, 1.0)
        slowdowns = rank_slowdowns(per_node, 1 + (worst - 1) / per_node, worst)
        return statistics.median(
            simulated_run(application, slowdowns, scale.writers, scale.write_s, seed).slowdown
            for seed in _SEEDS
        )

    return ScaleComparison(
        case=result.case,
        arm=result.arm,
        nodes=scale.nodes,
        ranks=scale.ranks,
        writers=scale.writers,
        write_s=scale.write_s,
        step_s=step_s,
        pairs=result.pairs,
        measured=result.slowdown,
        measured_low=result.slowdown_low or 0.0,
        measured_high=result.slowdown_high or 0.0,
        simulated=simulated(single.slowdown),
        simulated_low=simulated(single.slowdown_low),
        simulated_high=simulated(single.slowdown_high),
    )


def _scales(run: Path) -> dict[tuple[str, str], _Scale]:
    """Case and arm -> its scale, from the first accepted run with writers."""
    found: dict[tuple[str, str], _Scale] = {}
    for sample in _kept(sorted((run / "samples").glob("*.jsonl"))):
        table = sample.get("timetable")
        if table and table["writers"]:
            scale = _Scale(
                ranks=int(sample["fom_extra"]["ranks"]),
                nodes=len(sample["nodes"]),
                steps=int(sample["fom_extra"]["steps"]),
                writers=table["writers"],
                write_s=table["length_s"],
            )
            found.setdefault((sample["case"], sample["arm"]), scale)
    return found


def _kept(paths: Iterable[Path]) -> Iterable[dict[str, Any]]:
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                sample: dict[str, Any] = json.loads(line)
            except ValueError:  # the last line of a file, cut off by a crash
                continue
            if sample["outcome"] == "kept":
                yield sample
