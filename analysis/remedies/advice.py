"""What the runs of a machine say about remedies, and no more than their intervals carry.

A remedy is recommended only if the whole interval of its net benefit lies on the better side, its p
value holds after Holm over all remedies of the advice, the writes were not emulated, and the
writers are not slowed down instead. Everything else is 'not decided', or worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from analysis.arms import BASELINE
from analysis.estimate import Result
from analysis.remedies.effect import Net, RemedyEffect, break_even, compared, mean_speed, net
from analysis.remedies.next_pairs import NextPairs, next_pairs, pair_node_hours
from analysis.remedies.reservation import EstimatedRun, emulated, remedy_effects
from analysis.remedies.throttling import Throttling, throttling
from analysis.remedies.unpaired import between_jobs
from analysis.statistics.holm import holm
from analysis.statistics.interval import CONFIDENCE, Estimate
from analysis.statistics.location import Crossing
from analysis.verdict import Verdict

SCHEMA = 1
_LEVEL = 1 - CONFIDENCE
#: Hours of a mean month: a twelfth of 365.25 days.
MONTH_H = 365.25 * 24 / 12


class Standing(str, Enum):
    """What is known of a remedy; the value is used in text and files."""

    BETTER = "better"
    WORSE = "worse"
    OPEN = "not decided"
    FEW = "too few pairs"
    UNSTABLE = "baseline unstable"
    SLOWER_WRITES = "slower writes"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Whether more pairs could decide."""
        return self in (Standing.OPEN, Standing.FEW)


@dataclass(frozen=True)
class Assumed:
    """What the reader states of the machine's traffic; nothing of it was measured."""

    #: Nodes of the machine; None: losses are per node-hour.
    nodes: int | None = None
    #: Share of time with traffic as measured; None: all the time, as in the runs.
    traffic_share: float | None = None

    @property
    def share(self) -> float:
        """The share used in all figures."""
        return 1.0 if self.traffic_share is None else self.traffic_share


@dataclass(frozen=True)
class TrafficLoss:
    """What the traffic costs a workload without any remedy."""

    run: str
    case: str
    workload: str
    traffic: str
    rate_b_s: float | None
    verdict: Verdict
    #: Share of node-hours lost at the assumed share of traffic; negative is a gain.
    lost: Estimate
    #: The same on all nodes in a mean month; None without a number of nodes.
    node_hours_month: Estimate | None
    emulated: list[str]


@dataclass(frozen=True)
class RemedyAdvice:
    """One remedy, what it comes to, and what is missing."""

    run: str
    effect: RemedyEffect
    #: Speed with the remedy / without, at the assumed share of traffic.
    net: Estimate | None
    #: After Holm over all remedies that can be recommended; None for the others.
    p_adjusted: float | None
    standing: Standing
    recommended: bool
    #: Share of time with traffic from which on it is worth its price.
    break_even: Crossing
    #: Pairs that would decide; None if decided, or if pairs cannot.
    next: NextPairs | None = None

    def as_dict(self) -> dict[str, Any]:
        """The row as JSON holds it."""
        of_effect = self.effect.as_dict()
        own = {name: value for name, value in vars(self).items() if name != "effect"}
        for name in ("net", "break_even", "next"):
            own[name] = asdict(own[name]) if own[name] else None
        return of_effect | own


@dataclass(frozen=True)
class Best:
    """The remedies recommended for one case and traffic."""

    run: str
    case: str
    traffic: str
    #: By estimate, the largest first.
    remedies: list[RemedyAdvice]
    #: Whether the first is shown to be better than each of the others.
    decided: bool


@dataclass(frozen=True)
class Advice:
    """Of one machine."""

    machine: str
    runs: list[str]
    assumed: Assumed
    losses: list[TrafficLoss]
    remedies: list[RemedyAdvice]
    best: list[Best]
    #: Run and sweep of rates.
    sweeps: list[tuple[str, Throttling]]
    schema: int = SCHEMA

    @property
    def next(self) -> RemedyAdvice | None:
        """The undecided remedy with the most at stake per node-hour of measurement."""
        asked = [row for row in self.remedies if row.next and not row.effect.emulated]
        return max(asked, key=lambda row: row.next.worth if row.next else 0.0, default=None)

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON holds it; `docs/advise.md` explains the keys."""
        following = self.next
        return {
            "schema": self.schema,
            "machine": self.machine,
            "runs": self.runs,
            "assumed": asdict(self.assumed),
            "losses": [asdict(loss) for loss in self.losses],
            "remedies": [row.as_dict() for row in self.remedies],
            "best": [
                {
                    **{"run": each.run, "case": each.case, "traffic": each.traffic},
                    "remedies": [row.effect.remedy for row in each.remedies],
                    "decided": each.decided,
                }
                for each in self.best
            ],
            "throttling": [{"run": run, **sweep.as_dict()} for run, sweep in self.sweeps],
            "next": following.as_dict() if following else None,
        }


def advise(runs: Sequence[EstimatedRun], assumed: Assumed = Assumed()) -> Advice:
    """What the runs of one machine say; remedies are empty if none was tried."""
    rows = [
        _row(run, effect, assumed.share)
        for run in runs
        for effect in [*remedy_effects(run), *between_jobs(run)]
    ]
    judged = _judged(rows)
    tested = sum(row.p_adjusted is not None for row in judged)
    of_run = {run.header.run: run for run in runs}
    judged = [_with_next(of_run[row.run], row, tested) for row in judged]
    return Advice(
        machine=runs[0].header.machine,
        runs=[run.header.run for run in runs],
        assumed=assumed,
        losses=[_loss(run, row, assumed) for run in runs for row in _plain_effects(run)],
        remedies=judged,
        best=_best(judged, assumed.share),
        sweeps=[
            (run.header.run, sweep) for run in runs for sweep in throttling(run.results, run.pairs)
        ],
    )


def _row(run: EstimatedRun, effect: RemedyEffect, share: float) -> RemedyAdvice:
    """The row before Holm, with its own p value."""
    found = net(effect, share)
    unstable = any(
        row.verdict is Verdict.BASELINE_UNSTABLE
        for row in run.results
        if row.case == effect.case and row.arm in (effect.traffic, effect.treatment)
    )
    slower = effect.written is not None and effect.written.high < 1 / (1 + run.header.margin)
    standing = Standing.FEW
    if found:
        standing = _side(found.ratio)
        if unstable:
            standing = Standing.UNSTABLE
        elif slower and standing is Standing.BETTER:
            standing = Standing.SLOWER_WRITES
    return RemedyAdvice(
        run=run.header.run,
        effect=effect,
        net=found.ratio if found else None,
        p_adjusted=found.p if found and not slower else None,
        standing=standing,
        recommended=False,
        break_even=break_even(effect),
    )


def _side(ratio: Estimate) -> Standing:
    if ratio.low > 1:
        return Standing.BETTER
    return Standing.WORSE if ratio.high < 1 else Standing.OPEN


def _judged(rows: Sequence[RemedyAdvice]) -> list[RemedyAdvice]:
    """Rows whose side holds after Holm keep it; the others are not decided."""
    adjusted = iter(holm([row.p_adjusted for row in rows if row.p_adjusted is not None]))
    found = []
    for row in rows:
        if row.p_adjusted is not None:
            p = next(adjusted)
            sided = row.standing in (Standing.BETTER, Standing.WORSE)
            standing = Standing.OPEN if sided and p > _LEVEL else row.standing
            row = replace(row, p_adjusted=p, standing=standing)
        recommended = row.standing is Standing.BETTER and not row.effect.emulated
        found.append(replace(row, recommended=recommended))
    return found


def _with_next(run: EstimatedRun, row: RemedyAdvice, tested: int) -> RemedyAdvice:
    """The row with the pairs that would decide it, at the level that Holm leaves to it."""
    if not row.standing.is_open or not row.effect.paired:
        return row
    per_pair = pair_node_hours(run.samples, row.effect.case)
    found = next_pairs(row.effect.pairs, row.net, max(tested, 1), run.header.margin, per_pair)
    return replace(row, next=found)


def _best(rows: Sequence[RemedyAdvice], share: float) -> list[Best]:
    groups: dict[tuple[str, str, str], list[RemedyAdvice]] = {}
    for row in rows:
        if row.recommended and row.net:
            key = (row.run, row.effect.case, row.effect.traffic)
            groups.setdefault(key, []).append(row)
    return [
        Best(*key, ordered, _leads(ordered, share))
        for key, own in groups.items()
        if (ordered := sorted(own, key=lambda row: -row.net.value if row.net else 0.0))
    ]


def _leads(ordered: Sequence[RemedyAdvice], share: float) -> bool:
    """Whether the first is shown to be better than each other one, in the pairs of both."""
    first, *others = (row.effect for row in ordered)
    found = [_against(first, other, share) for other in others]
    p = holm([each.p if each and each.ratio.low > 1 else 1.0 for each in found])
    return all(each <= _LEVEL for each in p)


def _against(one: RemedyEffect, other: RemedyEffect, share: float) -> Net | None:
    rows = {key: row for row, key in enumerate(other.speeds.keys)}
    common = [(at, rows[key]) for at, key in enumerate(one.speeds.keys) if key in rows]
    if not common:
        return None
    mine, theirs = zip(*common, strict=True)
    speeds = mean_speed(one.speeds.with_remedy[list(mine)], share)
    return compared(np.log(speeds / mean_speed(other.speeds.with_remedy[list(theirs)], share)))


def _plain_effects(run: EstimatedRun) -> list[Result]:
    """Effects with an estimate, with the application as in the plain baseline."""
    return [
        row
        for row in run.results
        if row.role == "effect" and row.baseline == BASELINE and row.slowdown is not None
    ]


def _loss(run: EstimatedRun, row: Result, assumed: Assumed) -> TrafficLoss:
    """Of node-hours, share x (1 - 1 / slowdown): what the same nodes would do without traffic."""
    slowdowns = (row.slowdown_low or 1.0, row.slowdown or 1.0, row.slowdown_high or 1.0)
    low, value, high = (assumed.share * (1 - 1 / each) for each in slowdowns)
    month_h = None if assumed.nodes is None else assumed.nodes * MONTH_H
    return TrafficLoss(
        run=run.header.run,
        case=row.case,
        workload=row.workload,
        traffic=row.arm,
        rate_b_s=row.writer_rate_b_s,
        verdict=row.verdict,
        lost=Estimate(value, low, high, CONFIDENCE),
        node_hours_month=Estimate(value * month_h, low * month_h, high * month_h, CONFIDENCE)
        if month_h
        else None,
        emulated=emulated(run.samples, row.case),
    )
