"""What the runs of a machine say about remedies, as far as intervals carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.effects.verdict import Verdict
from analysis.questions.question import columns_of, estimate_of
from analysis.questions.shown import answered
from analysis.remedies.net import Remedy, remedies
from analysis.remedies.next_pairs import NextPairs, following
from analysis.remedies.standing import Standing, best, costs_nothing, is_better, stand
from analysis.remedies.throttling import THROTTLING
from analysis.remedies.tried import emulated_cases, speeds
from analysis.report.data import RunData
from records.arms import BASELINE
from records.groups import grouped
from records.units import number, plural, quantity

SCHEMA = 3
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
class Advice:
    """Of one machine; `docs/remedies.md#advice-as-json` explains the keys of the rows."""

    machine: str
    runs: list[str]
    assumed: Assumed
    #: What the traffic costs each workload without any remedy.
    losses: list[dict[str, Any]]
    #: `net.remedies` of all runs, with how each stands, and the pairs that would decide it: `next`,
    #: a `NextPairs`.
    remedies: list[Remedy]
    #: `standing.best`.
    best: list[Remedy]
    #: Sweeps of rates: rows of `throttling.THROTTLING`, with `run`.
    sweeps: list[dict[str, Any]]

    @property
    def next(self) -> Remedy | None:
        """The undecided remedy with the most at stake per node-hour of measurement."""
        requested = [row for row in self.remedies if row["next"] and not row["emulated"]]
        return max(requested, key=lambda row: row["next"].worth, default=None)

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON holds it."""
        return {
            "schema": SCHEMA,
            "machine": self.machine,
            "runs": self.runs,
            "assumed": asdict(self.assumed),
            "losses": self.losses,
            "remedies": list(map(_document, self.remedies)),
            "best": [
                group | {"remedies": [row["remedy"] for row in group["remedies"]]}
                for group in self.best
            ],
            "throttling": self.sweeps,
            "next": _document(self.next) if self.next else None,
            "sentences": sentences(self),
        }


def _document(row: Remedy) -> Remedy:
    return row | {"next": asdict(row["next"]) if row["next"] else None}


def advise(runs: Sequence[RunData], assumed: Assumed = Assumed()) -> Advice:
    """What the runs of one machine say; remedies are empty if none was tried."""
    of_run = {run.header.run: run for run in runs}
    tried = [
        {"run": name, **row}
        for name, run in of_run.items()
        for row in remedies(run, assumed.share).to_dicts()
    ]
    rows = stand(tried, share_stated=assumed.traffic_share is not None)
    tested = sum(row["p_adjusted"] is not None for row in rows)
    rows = [row | {"next": following(row, tested, of_run[row["run"]].samples)} for row in rows]
    return Advice(
        machine=runs[0].header.machine,
        runs=list(of_run),
        assumed=assumed,
        losses=[loss for run in runs for loss in _losses(run, assumed)],
        remedies=rows,
        best=best(rows, {name: speeds(run) for name, run in of_run.items()}, assumed.share),
        sweeps=[
            {"run": run.header.run, **row}
            for run in runs
            for row in answered(THROTTLING, run).to_dicts()
        ],
    )


def _losses(run: RunData, assumed: Assumed) -> list[dict[str, Any]]:
    """Of effects with an estimate, with the application as in the plain baseline.

    `lost`: share of node-hours, share of traffic x (1 - 1 / mean): what the same nodes would do
    without traffic; negative is a gain. `node_hours_month`: on all nodes in a mean month.
    """
    emulated = emulated_cases(run.samples)
    month_h = None if assumed.nodes is None else assumed.nodes * MONTH_H
    losses = []
    for row in run.results:
        if row.role == "effect" and row.baseline == BASELINE and row.mean:
            lost = row.mean.mapped(lambda ratio: assumed.share * (1 - 1 / ratio))
            month = lost.mapped(lambda share: share * month_h) if month_h else None
            losses.append(
                {
                    "run": run.header.run,
                    "case": row.case,
                    "workload": row.workload,
                    "traffic": row.arm,
                    "rate_b_s": row.writer_rate_b_s,
                    "verdict": row.verdict,
                    **columns_of("lost", lost),
                    **columns_of("node_hours_month", month),
                    "emulated": emulated[row.case],
                }
            )
    return losses


# Advice in three sentences, for whoever decides; they say no more than the intervals do.

#: Most recommendations in the sentence.
_MOST = 3


def sentences(advice: Advice) -> list[str]:
    """What is lost, what is recommended, and what is not decided."""
    return [_lost(advice), _recommended(advice), _open(advice)]


def _percent(value: float, low: float, high: float) -> str:
    """A share with its interval: `3.1 % [2.5, 3.8]`."""
    return f"{value * 100:.1f} % [{low * 100:.1f}, {high * 100:.1f}]"


def _more_work(row: Remedy) -> str:
    """A net benefit as work done in the same time: `2.1 % [1.2, 3.0] more work`."""
    return f"{_percent(row['net'] - 1, row['net_low'] - 1, row['net_high'] - 1)} more work"


def where(row: Mapping[str, Any], name: str, unit: str) -> str:
    """A crossing of a row as text: `3.98 GB/s [3.61, 4.40]`, `above 7.2 GB/s`, `not decided`.

    With the unit `%`, of a share of time.
    """
    value, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))

    def text(value: float) -> str:
        return f"{value * 100:.0f} %" if unit == "%" else quantity(value, unit, 3)

    if unit == "%" and (low == 1 or high == 0):
        return "never" if low == 1 else "always"
    if None not in (value, low, high):
        return f"{text(value)} [{text(low)}, {text(high)}]"
    if low is not None:
        return f"above {text(low)}"
    return f"below {text(high)}" if high is not None else "not decided"


def named(row: Remedy) -> str:
    """A remedy with the case and the traffic: `reserved_cores=1 for stream under on`."""
    return f"{row['remedy']} for {row['case']} under {row['traffic']}"


def _lost(advice: Advice) -> str:
    losses = [loss for loss in advice.losses if loss["verdict"] != Verdict.BASELINE_UNSTABLE]
    if not losses:
        return "No loss can be stated: no traffic was measured in six pairs with a stable baseline."
    most, assumed = max(losses, key=lambda loss: loss["lost"]), advice.assumed
    time = "all the time, as in the runs"
    if assumed.traffic_share is not None:
        time = f"{assumed.share * 100:.3g} % of the time (assumed)"
    rate = "" if most["rate_b_s"] is None else f" ({quantity(most['rate_b_s'], 'B/s', 3)})"
    emulated = " [emulated]" if most["emulated"] else ""
    lost, low, high = most["lost"], most["lost_low"], most["lost_high"]
    month = several = doubt = ""
    if (hours := estimate_of(most, "node_hours_month")) and assumed.nodes is not None:
        month = f", {hours.value:,.0f} [{hours.low:,.0f}, {hours.high:,.0f}] node-hours a month if"
        month += f" {plural(assumed.nodes, 'node')} (assumed) run it"
    if len(losses) > 1:
        several = f", the most of {len(losses)} measured cases of traffic"
    if low <= 0:
        gains = "the interval holds 0" if high >= 0 else "it gains"
        doubt = f"; {gains}, so no loss is shown"
    return (
        f"With traffic {time}, {most['traffic']}{rate}{emulated} costs {most['case']}"
        f" {_percent(lost, low, high)} of its node-hours{month}{several}{doubt}."
    )


def _recommended(advice: Advice) -> str:
    rows = advice.remedies
    if not rows:
        return "No remedy was tried, so none is recommended."
    of_standing = grouped((row["standing"], row) for row in rows)
    if all(row["emulated"] for row in rows):
        better = len(of_standing.get(Standing.BETTER, []))
        return (
            "The traffic was emulated, so no remedy is recommended for RDMA hardware"
            f" ({better} of {len(rows)} were better here)."
        )
    worth = [row for row in rows if is_better(row) and not row["recommended"]]
    worse, slower = (of_standing.get(name, []) for name in (Standing.WORSE, Standing.SLOWER_WRITES))
    said = {
        "Recommended": list(map(_of_best, advice.best)),
        "Worth its price where traffic takes enough of the time (--traffic-share)": [
            f"{named(row)}, {_break_even(row)}" for row in worth
        ],
        "Shown to cost more than it gains": [f"{named(row)}, {_more_work(row)}" for row in worse],
        "Helps the application by delaying the writes": sorted({row["remedy"] for row in slower}),
    }
    parts = [] if advice.best or worth else ["No remedy is recommended"]
    parts += [f"{what}: {_some(names)}" for what, names in said.items() if names]
    return f"{'. '.join(parts)}."


def _some(names: Sequence[str]) -> str:
    more = len(names) - _MOST
    return "; ".join(names[:_MOST]) + (f"; and {more} more" if more > 0 else "")


def _break_even(row: Remedy) -> str:
    if costs_nothing(row):
        return "at any share"
    text = where(row, "break_even", "%")
    return f"from {text} on" if row["break_even"] is not None else f"({text})"


def _of_best(group: Remedy) -> str:
    first, *others = group["remedies"]
    text = f"{named(first)}, {_more_work(first)}, worth its price {_break_even(first)}"
    if others:
        rest = ", ".join(row["remedy"] for row in others)
        text += f" (better than {rest})" if group["decided"] else f" (or {rest}: not decided which)"
    return text


def _open(advice: Advice) -> str:
    rows = advice.remedies
    if not rows:
        return "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price."
    standings = [row["standing"] for row in rows]
    undecided = sum(of.is_open or of is Standing.UNSTABLE for of in standings)
    tried = f"{plural(len(rows), 'case')} of a remedy under traffic"
    if not undecided:
        return f"Nothing is open in {tried}."
    row = advice.next
    more = f"; {_following(named(row), row['next'])}" if row else ""
    return f"Not decided: {undecided} in {tried}{more}."


def _following(remedy: str, more: NextPairs) -> str:
    text = f"would show a net difference of {(more.finds or 0.0) * 100:.1f} % of {remedy}"
    if more.allocations is not None:
        others = plural(more.allocations, "other allocation")
        text = f"in {others}, to see whether {remedy} does the same there"
    elif more.finds is None:
        text = f"for a first interval of {remedy}"
    hours = f"{number(more.node_hours, 2)} node-hours"
    return f"next {plural(more.pairs, 'more pair')} ({hours}) {text}"
