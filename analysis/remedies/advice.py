"""What the runs of a machine say about remedies, as far as intervals carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.effects.verdict import Verdict
from analysis.questions.shown import answered
from analysis.remedies.effect import RemedyEffect
from analysis.remedies.next_pairs import NextPairs, next_allocations, next_pairs, pair_node_hours
from analysis.remedies.standing import Best, RemedyAdvice, Standing, after_holm, best, stand
from analysis.remedies.throttling import THROTTLING
from analysis.remedies.tried import emulated_cases, remedy_effects
from analysis.report.data import RunData
from analysis.statistics.interval import Estimate
from analysis.statistics.location import Crossing
from records.arms import BASELINE
from records.groups import grouped
from records.units import number, plural, quantity

SCHEMA = 2
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
    #: Share of node-hours lost at the assumed share of traffic; negative is a gain. From the mean,
    #: with its interval.
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
    #: Sweeps of rates: rows of `throttling.THROTTLING`, with `run`.
    sweeps: list[dict[str, Any]]

    @property
    def next(self) -> RemedyAdvice | None:
        """The undecided remedy with the most at stake per node-hour of measurement."""
        requested = [row for row in self.remedies if row.next and not row.effect.emulated]
        return max(requested, key=lambda row: row.next.worth if row.next else 0.0, default=None)

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON holds it; `docs/remedies.md#advice` explains the keys."""
        following = self.next
        return {
            "schema": SCHEMA,
            "machine": self.machine,
            "runs": self.runs,
            "assumed": asdict(self.assumed),
            "losses": [asdict(loss) for loss in self.losses],
            "remedies": [row.as_dict() for row in self.remedies],
            "best": [
                vars(each) | {"remedies": [row.effect.remedy for row in each.remedies]}
                for each in self.best
            ],
            "throttling": self.sweeps,
            "next": following.as_dict() if following else None,
            "sentences": sentences(self),
        }


def advise(runs: Sequence[RunData], assumed: Assumed = Assumed()) -> Advice:
    """What the runs of one machine say; remedies are empty if none was tried."""
    rows = [
        stand(run.header.run, effect, assumed.share, run.header.margin, _unstable(run, effect))
        for run in runs
        for effect in remedy_effects(run)
    ]
    judged = after_holm(rows, assumed.traffic_share is not None)
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
            {"run": run.header.run, **row}
            for run in runs
            for row in answered(THROTTLING, run).to_dicts()
        ],
    )


def _unstable(run: RunData, effect: RemedyEffect) -> bool:
    """Whether a baseline of the remedy differs from its own repetition."""
    sides = ((effect.reference_case, effect.traffic), (effect.case, effect.treatment))
    unstable = [row for row in run.results if row.verdict is Verdict.BASELINE_UNSTABLE]
    return any((row.case, row.arm) in sides for row in unstable)


def _with_next(run: RunData, row: RemedyAdvice, tested: int) -> RemedyAdvice:
    """The row with the pairs that would decide it, at the level that Holm leaves to it."""
    if not row.standing.is_open or not row.effect.paired:
        return row
    pairs, per_pair = row.effect.pairs, pair_node_hours(run.samples, row.effect.case)
    if row.standing is Standing.HERE and row.net:
        found = next_allocations(pairs, row.allocations, row.net, per_pair)
    else:
        found = next_pairs(pairs, row.net, max(tested, 1), run.header.margin, per_pair)
    return replace(row, next=found)


def _losses(run: RunData, assumed: Assumed) -> list[TrafficLoss]:
    """Of effects with an estimate, with the application as in the plain baseline.

    Of node-hours, share x (1 - 1 / mean): what the same nodes would do without traffic.
    """
    emulated = emulated_cases(run.samples)
    month_h = None if assumed.nodes is None else assumed.nodes * MONTH_H
    found = []
    for row in run.results:
        if row.role == "effect" and row.baseline == BASELINE and row.mean:
            lost = row.mean.mapped(lambda ratio: assumed.share * (1 - 1 / ratio))
            month = lost.mapped(lambda share: share * month_h) if month_h else None
            of = (run.header.run, row.case, row.workload, row.arm, row.writer_rate_b_s)
            found.append(TrafficLoss(*of, row.verdict, lost, month, emulated[row.case]))
    return found


# Advice in three sentences, for whoever decides; they say no more than the intervals do.

#: Most recommendations in the sentence.
_MOST = 3


def sentences(advice: Advice) -> list[str]:
    """What is lost, what is recommended, and what is not decided."""
    return [_lost(advice), _recommended(advice), _open(advice)]


def percent(share: Estimate) -> str:
    """A share with its interval: `3.1 % [2.5, 3.8]`."""
    return f"{share.value * 100:.1f} % [{share.low * 100:.1f}, {share.high * 100:.1f}]"


def _extra(lost: Estimate) -> str:
    """A share of node-hours that is lost, as what work of 100 node-hours takes more."""
    more = lost.mapped(lambda share: 100 * share / (1 - share))
    return f"{more.value:.1f} [{more.low:.1f}, {more.high:.1f}]"


def more_work(net: Estimate) -> str:
    """A net benefit as work done in the same time: `2.1 % [1.2, 3.0] more work`."""
    return f"{percent(net.mapped(lambda speed: speed - 1))} more work"


def where(found: Crossing | None, unit: str) -> str:
    """A crossing as text: `3.98 GB/s [3.61, 4.40]`, `above 7.2 GB/s`, `not decided`.

    With the unit `%`, of a share of time.
    """

    def text(value: float) -> str:
        return f"{value * 100:.0f} %" if unit == "%" else quantity(value, unit, 3)

    if found is None:
        return ""
    if unit == "%" and (found.low == 1 or found.high == 0):
        return "never" if found.low == 1 else "always"
    if found.value is not None and found.low is not None and found.high is not None:
        return f"{text(found.value)} [{text(found.low)}, {text(found.high)}]"
    if found.low is not None:
        return f"above {text(found.low)}"
    return f"below {text(found.high)}" if found.high is not None else "not decided"


def named(effect: RemedyEffect) -> str:
    """A remedy with the case and the traffic: `reserved_cores=1 for stream under on`."""
    return f"{effect.remedy} for {effect.case} under {effect.traffic}"


def _lost(advice: Advice) -> str:
    losses = [loss for loss in advice.losses if loss.verdict is not Verdict.BASELINE_UNSTABLE]
    if not losses:
        return "No loss can be stated: no traffic was measured in six pairs with a stable baseline."
    most, assumed = max(losses, key=lambda loss: loss.lost.value), advice.assumed
    time = "all the time, as in the runs"
    if assumed.traffic_share is not None:
        time = f"{assumed.share * 100:.3g} % of the time (assumed)"
    rate = "" if most.rate_b_s is None else f" ({quantity(most.rate_b_s, 'B/s', 3)})"
    emulated = " [emulated]" if most.emulated else ""
    month = several = doubt = ""
    if (hours := most.node_hours_month) and assumed.nodes is not None:
        month = f", {hours.value:,.0f} [{hours.low:,.0f}, {hours.high:,.0f}] node-hours a month if"
        month += f" {plural(assumed.nodes, 'node')} (assumed) run it"
    if len(losses) > 1:
        several = f", the most of {len(losses)} measured cases of traffic"
    if most.lost.low <= 0:
        gains = "the interval holds 0" if most.lost.high >= 0 else "it gains"
        doubt = f"; {gains}, so no loss is shown"
    return (
        f"With traffic {time}, {most.traffic}{rate}{emulated} costs {most.case}"
        f" {_extra(most.lost)} more node-hours per 100{month}{several}{doubt}."
    )


def _recommended(advice: Advice) -> str:
    rows = advice.remedies
    if not rows:
        return "No remedy was tried, so none is recommended."
    of_standing = grouped((row.standing, row) for row in rows)
    if all(row.effect.emulated for row in rows):
        better = len(of_standing.get(Standing.BETTER, []))
        return (
            "The traffic was emulated, so no remedy is recommended for RDMA hardware"
            f" ({better} of {len(rows)} were better here)."
        )
    worth = [row for row in rows if row.better and not row.recommended]
    worse, slower = (of_standing.get(name, []) for name in (Standing.WORSE, Standing.SLOWER_WRITES))
    said = {
        "Recommended": [_of_best(best) for best in advice.best],
        "Worth its price where traffic takes enough of the time (--traffic-share)": [
            f"{named(row.effect)}, {_break_even(row)}" for row in worth
        ],
        "Shown to cost more than it gains": [
            f"{named(row.effect)}, {more_work(row.net)}" for row in worse if row.net
        ],
        "Helps the application by delaying the writes": sorted(
            {row.effect.remedy for row in slower}
        ),
    }
    parts = [] if advice.best or worth else ["No remedy is recommended"]
    parts += [f"{what}: {_some(names)}" for what, names in said.items() if names]
    return f"{'. '.join(parts)}."


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return "; ".join(names[:_MOST]) + (f"; and {more} more" if more > 0 else "")


def _break_even(row: RemedyAdvice) -> str:
    if row.costs_nothing:
        return "at any share"
    found = where(row.break_even, "%")
    return f"from {found} on" if row.break_even.value is not None else f"({found})"


def _of_best(best: Best) -> str:
    first, *others = best.remedies
    text = named(first.effect)
    if first.net:
        text += f", {more_work(first.net)}, worth its price {_break_even(first)}"
    if others:
        rest = ", ".join(row.effect.remedy for row in others)
        text += f" (better than {rest})" if best.decided else f" (or {rest}: not decided which)"
    return text


def _open(advice: Advice) -> str:
    rows = advice.remedies
    if not rows:
        return "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price."
    undecided = sum(row.standing.is_open or row.standing is Standing.UNSTABLE for row in rows)
    tried = f"{plural(len(rows), 'case')} of a remedy under traffic"
    if not undecided:
        return f"Nothing is open in {tried}."
    row = advice.next
    following = f"; {_following(row, row.next)}" if row and row.next else ""
    return f"Not decided: {undecided} in {tried}{following}."


def _following(row: RemedyAdvice, more: NextPairs) -> str:
    remedy = named(row.effect)
    text = f"would show a net difference of {(more.finds or 0.0) * 100:.1f} % of {remedy}"
    if more.allocations is not None:
        others = plural(more.allocations, "other allocation")
        text = f"in {others}, to see whether {remedy} does the same there"
    elif more.finds is None:
        text = f"for a first interval of {remedy}"
    hours = f"{number(more.node_hours, 2)} node-hours"
    return f"next {plural(more.pairs, 'more pair')} ({hours}) {text}"
