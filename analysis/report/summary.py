"""The first three sentences about a run: what was measured, what is lost, what to do next."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analysis.estimate import Result
from analysis.numbers import count, quantity
from analysis.report.words import utc
from analysis.run import RunHeader
from analysis.verdict import Verdict

#: Most cases named in one sentence.
_NAMED = 4
#: Verdicts that carry a loss: the whole interval lies above 1, and a control does not explain it.
_LOSS = (Verdict.CONTENTION, Verdict.EMULATED)
#: Verdict -> what to do next; what the figures need first comes first.
NEXT: dict[Verdict, str] = {
    Verdict.BASELINE_UNSTABLE: "look for drift and other load on the nodes, and measure again",
    Verdict.NO_NOISE_FLOOR: "add the arm aa, which repeats the baseline",
    Verdict.TOO_FEW_PAIRS: "measure more pairs; the reasons of rejected runs may say why they lack",
    Verdict.NO_WRITES: "measure on more nodes, or with longer writes",
    Verdict.NO_CONTROL: "add the control spin, or take origins on other hosts",
    Verdict.INCONCLUSIVE: "measure more pairs",
    Verdict.NOT_ABOVE_CONTROL: "take origins on other hosts: lost cores may explain the loss",
    Verdict.SPEED_UP: "find out why runs with writes are faster before these figures are used",
    Verdict.EMULATED: "measure with RDMA hardware; this loss is that of the emulation",
    Verdict.CONTENTION: "measure what remedies gain, such as a lower rate or a reserved core",
    Verdict.NO_EFFECT: "nothing is needed under the writes that were measured",
}


def summary(header: RunHeader, samples: pl.DataFrame, rows: Sequence[Result]) -> list[str]:
    """The sentences on one run, from its `analysis.pairs.judged` samples and its results."""
    if samples.is_empty():
        return ["Nothing was measured: the run has no samples."]
    effects = [row for row in rows if row.role == "effect"]
    return [_measured(header, samples), _lost(effects), _next(effects)]


def _measured(header: RunHeader, samples: pl.DataFrame) -> str:
    cases = [str(case) for case in samples["case"].unique(maintain_order=True)]
    nodes = {name for each in samples["nodes"].unique() for name in str(each).split(",")}
    rejected = samples.filter(status="rejected").height
    end = "and is not finished" if header.finished_s is None else f"to {utc(header.finished_s)}"
    return (
        f"Measured: {_some(cases)} on {count(len(nodes), 'node')} of {header.machine}, "
        f"{count(samples.height, 'run')} of which {rejected or 'none'} rejected, from "
        f"{utc(header.started_s)} {end}."
    )


def _lost(effects: Sequence[Result]) -> str:
    """Node-hours lost, of every effect whose interval carries a loss."""
    slower = sorted(
        (row for row in effects if row.verdict in _LOSS),
        key=lambda row: row.slowdown or 0.0,
        reverse=True,
    )
    shown = "; ".join(_loss(row) for row in slower[:_NAMED])
    if len(slower) > _NAMED:
        shown += f"; the table has {len(slower) - _NAMED} more"
    none = [row for row in effects if row.verdict is Verdict.NO_EFFECT]
    ruled_out = ""
    if none:
        below = max(row.margin for row in none) * 100
        cases = _some([_named(row) for row in none])
        ruled_out = f"; {below:.3g} % or more is ruled out for {cases}"
    if not shown:
        return f"Lost: no interval shows a loss of node-hours{ruled_out}."
    return f"Lost: work of 100 node-hours takes {shown}{ruled_out}."


def _loss(row: Result) -> str:
    low, value, high = (
        100 * ((ratio or 1.0) - 1) for ratio in (row.slowdown_low, row.slowdown, row.slowdown_high)
    )
    kind = "emulated writes" if row.verdict is Verdict.EMULATED else "writes"
    if row.direction == "read":
        kind = kind.replace("writes", "reads")
    rate = quantity(row.writer_rate_b_s, "B/s", 3)
    return f"{value:.1f} more ({low:.1f} to {high:.1f}) in {_named(row)} under {kind} at {rate}"


def _next(effects: Sequence[Result]) -> str:
    of = {row.verdict: row for row in reversed(effects)}
    for verdict, advice in NEXT.items():
        if verdict in of:
            return f"Next: {advice} ({_named(of[verdict])}: {verdict})."
    return "Next: measure an arm with writers; this run has none."


def _named(row: Result) -> str:
    return row.case if row.arm == "on" else f"{row.case} {row.arm}"


def _some(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    distinct = list(dict.fromkeys(names))
    more = len(distinct) - _NAMED
    return ", ".join(distinct[:_NAMED]) + (f" and {more} more" if more > 0 else "")
