"""What the runs of a machine say about remedies, and no more than their intervals carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.arms import BASELINE
from analysis.estimate import Result
from analysis.remedies.effect import RemedyEffect
from analysis.remedies.next_pairs import next_pairs, pair_node_hours
from analysis.remedies.reservation import EstimatedRun, emulated_cases, remedy_effects
from analysis.remedies.standing import Best, RemedyAdvice, after_holm, best, stand
from analysis.remedies.throttling import Throttling, throttling
from analysis.remedies.unpaired import between_jobs
from analysis.statistics.interval import CONFIDENCE, Estimate
from analysis.verdict import Verdict

SCHEMA = 1
#: Hours of a mean month: a twelfth of 365.25 days.
MONTH_H = 365.25 * 24 / 12


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
        stand(run.header.run, effect, assumed.share, run.header.margin, _unstable(run, effect))
        for run in runs
        for effect in [*remedy_effects(run), *between_jobs(run)]
    ]
    judged = after_holm(rows)
    tested = sum(row.p_adjusted is not None for row in judged)
    of_run = {run.header.run: run for run in runs}
    judged = [_with_next(of_run[row.run], row, tested) for row in judged]
    return Advice(
        machine=runs[0].header.machine,
        runs=[run.header.run for run in runs],
        assumed=assumed,
        losses=[loss for run in runs for loss in _losses(run, assumed)],
        remedies=judged,
        best=best(judged, assumed.share),
        sweeps=[
            (run.header.run, sweep) for run in runs for sweep in throttling(run.results, run.pairs)
        ],
    )


def _unstable(run: EstimatedRun, effect: RemedyEffect) -> bool:
    """Whether a baseline of the remedy differs from its own repetition."""
    sides = ((effect.reference_case, effect.traffic), (effect.case, effect.treatment))
    return any(
        row.verdict is Verdict.BASELINE_UNSTABLE
        for row in run.results
        if (row.case, row.arm) in sides
    )


def _with_next(run: EstimatedRun, row: RemedyAdvice, tested: int) -> RemedyAdvice:
    """The row with the pairs that would decide it, at the level that Holm leaves to it."""
    if not row.standing.is_open or not row.effect.paired:
        return row
    per_pair = pair_node_hours(run.samples, row.effect.case)
    found = next_pairs(row.effect.pairs, row.net, max(tested, 1), run.header.margin, per_pair)
    return replace(row, next=found)


def _losses(run: EstimatedRun, assumed: Assumed) -> list[TrafficLoss]:
    """Of effects with an estimate, with the application as in the plain baseline."""
    emulated = emulated_cases(run.samples)
    return [
        _loss(run.header.run, row, assumed, emulated[row.case])
        for row in run.results
        if row.role == "effect" and row.baseline == BASELINE and row.slowdown is not None
    ]


def _loss(run: str, row: Result, assumed: Assumed, emulated: list[str]) -> TrafficLoss:
    """Of node-hours, share x (1 - 1 / slowdown): what the same nodes would do without traffic."""
    slowdowns = (row.slowdown_low or 1.0, row.slowdown or 1.0, row.slowdown_high or 1.0)
    low, value, high = (assumed.share * (1 - 1 / each) for each in slowdowns)
    month_h = None if assumed.nodes is None else assumed.nodes * MONTH_H
    return TrafficLoss(
        run=run,
        case=row.case,
        workload=row.workload,
        traffic=row.arm,
        rate_b_s=row.writer_rate_b_s,
        verdict=row.verdict,
        lost=Estimate(value, low, high, CONFIDENCE),
        node_hours_month=Estimate(value * month_h, low * month_h, high * month_h, CONFIDENCE)
        if month_h
        else None,
        emulated=emulated,
    )
