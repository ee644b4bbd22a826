"""Advice on remedies from the runs of a machine, as far as intervals carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.display.figures import quantity
from analysis.effects.result import Verdict
from analysis.questions.question import columns_of
from analysis.questions.shown import answered
from analysis.remedies.dynamic import dynamic_rows, strategy_sentence
from analysis.remedies.net import Remedy, remedies
from analysis.remedies.speeds import emulated_cases
from analysis.remedies.standing import Standing, costs_nothing, is_better, stand
from analysis.remedies.throttling import THROTTLING
from analysis.report.data import RunData
from records.arms import BASELINE
from records.groups import grouped
from records.units import plural

SCHEMA = 4
#: Most remedies in a sentence.
_MOST = 3


@dataclass(frozen=True, kw_only=True)
class Advice:
    """Of one machine; `docs/data.md#advicejson` explains the keys of the rows."""

    machine: str
    runs: list[str]
    #: Share of time with traffic, as the reader states it; None: all the time, as in the runs.
    traffic_share: float | None
    #: The cost of the traffic to each workload without any remedy.
    losses: list[dict[str, Any]]
    #: `net.remedies` of all runs, with how each stands.
    remedies: list[Remedy]
    #: Sweeps of rates: rows of `throttling.THROTTLING`, with `run`.
    sweeps: list[dict[str, Any]]
    #: Cores reserved only under traffic: rows of `dynamic.dynamic_rows`, with `run`.
    dynamic: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The advice as JSON holds it."""
        return {
            "schema": SCHEMA,
            "machine": self.machine,
            "runs": self.runs,
            "traffic_share": self.traffic_share,
            "losses": self.losses,
            "remedies": self.remedies,
            "throttling": self.sweeps,
            "dynamic": self.dynamic,
            "sentences": sentences(self),
        }


def advise(runs: Sequence[RunData], traffic_share: float | None = None) -> Advice:
    """Return what the runs of one machine say; remedies are empty if none was tried."""
    share = 1.0 if traffic_share is None else traffic_share
    tried = []
    losses = []
    sweeps = []
    cores = []
    for run in runs:
        named = {"run": run.header.run}
        tried += [named | row for row in remedies(run, share).to_dicts()]
        losses += [named | row for row in _losses(run, share)]
        sweeps += [named | row for row in answered(THROTTLING, run).to_dicts()]
        cores += [named | row for row in dynamic_rows(run, share)]
    rows = stand(tried, share_stated=traffic_share is not None)
    names = [run.header.run for run in runs]
    return Advice(
        machine=runs[0].header.machine,
        runs=names,
        traffic_share=traffic_share,
        losses=losses,
        remedies=rows,
        sweeps=sweeps,
        dynamic=cores,
    )


def _losses(run: RunData, share: float) -> list[dict[str, Any]]:
    """Of effects with an estimate, with the application as in the plain baseline.

    `lost`: share of node-hours, share of traffic x (1 - 1 / mean): what the same nodes would do
    without traffic; negative is a gain.
    """
    emulated = emulated_cases(run.samples)
    return [
        {
            **{"case": row.case, "workload": row.workload, "traffic": row.arm},
            **{"rate_b_s": row.writer_rate_b_s, "verdict": row.verdict},
            **columns_of("lost", row.mean.mapped(lambda ratio: share * (1 - 1 / ratio))),
            "emulated": emulated[row.case],
        }
        for row in run.results
        if row.role == "effect" and row.baseline == BASELINE and row.mean
    ]


# Advice in three sentences, for whoever decides; they say no more than the intervals do.


def sentences(advice: Advice) -> list[str]:
    """Return what is lost, what is recommended, and what is not decided."""
    return [_lost(advice), _recommended(advice.remedies), _open(advice.remedies)]


def dynamic_lines(advice: Advice) -> list[str]:
    """A line for each core that could be reserved only under traffic, of the fastest writes."""
    share = 1.0 if advice.traffic_share is None else advice.traffic_share
    alike = grouped(
        ((row["run"], row["case"], row["remedy"], row["at"]), row) for row in advice.dynamic
    )
    fastest = [max(rows, key=lambda row: row["rate_b_s"] or 0.0) for rows in alike.values()]
    return [text for row in fastest if (text := strategy_sentence(row, share))]


def crossing_text(row: Mapping[str, Any], name: str, unit: str) -> str:
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


def _lost(advice: Advice) -> str:
    """The dearest loss that a verdict shows, as the report of its run has it."""
    losses = [loss for loss in advice.losses if loss["verdict"] != Verdict.BASELINE_UNSTABLE]
    if not losses:
        return "No loss can be stated: no traffic was measured in six pairs with a stable baseline."
    shown = [loss for loss in losses if Verdict(loss["verdict"]).is_loss]
    measured = f"{plural(len(losses), 'measured case')} of traffic"
    if not shown:
        return f"No verdict shows a loss of node-hours, in {measured}."
    most = max(shown, key=lambda loss: loss["lost"])
    ends = [most[f"lost{end}"] for end in ("", "_low", "_high")]
    # Of work of 100 node-hours: what it takes more.
    value, low, high = (f"{100 * share / (1 - share):.1f}" for share in ends)
    time = "all the time, as in the runs"
    if advice.traffic_share is not None:
        time = f"{advice.traffic_share * 100:.3g} % of the time (assumed)"
    rate = "" if most["rate_b_s"] is None else f" ({quantity(most['rate_b_s'], 'B/s', 3)})"
    emulated = " [emulated]" if most["emulated"] else ""
    several = f", the most in {measured}" if len(losses) > 1 else ""
    doubt = "; its pairs do not show the mean more closely" if ends[1] < 0 else ""
    return (
        f"With traffic {time}, {most['traffic']}{rate}{emulated} costs {most['case']} on average"
        f" {value} [{low}, {high}] more node-hours per 100{several}{doubt}."
    )


def _recommended(rows: Sequence[Remedy]) -> str:
    if not rows:
        return "No remedy was tried, so none is recommended."
    rows_of = {
        standing: [row for row in rows if row["standing"] is standing] for standing in Standing
    }
    if all(row["emulated"] for row in rows):
        return (
            "The traffic was emulated, so no remedy is recommended for RDMA hardware"
            f" ({len(rows_of[Standing.BETTER])} of {len(rows)} were better here)."
        )
    chosen = sorted((row for row in rows if row["recommended"]), key=lambda row: -row["net"])
    worth = [row for row in rows if is_better(row) and not row["recommended"]]
    slower = {row["remedy"] for row in rows_of[Standing.SLOWER_WRITES]}
    texts_of = {
        "Recommended": [
            f"{_named(row)}, {_more_work(row)}, worth its price {_break_even(row)}"
            for row in chosen
        ],
        "Worth its price where traffic takes enough of the time (--traffic-share)": [
            f"{_named(row)}, {_break_even(row)}" for row in worth
        ],
        "Shown to cost more than it gains": [
            f"{_named(row)}, {_more_work(row)}" for row in rows_of[Standing.WORSE]
        ],
        "Helps the application by delaying the writes": sorted(slower),
    }
    parts = [] if chosen or worth else ["No remedy is recommended"]
    parts += [f"{heading}: {_some(texts)}" for heading, texts in texts_of.items() if texts]
    return f"{'. '.join(parts)}."


def _open(rows: Sequence[Remedy]) -> str:
    if not rows:
        return "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price."
    tried = f"{plural(len(rows), 'case')} of a remedy under traffic"
    undecided = [row for row in rows if row["standing"].is_open]
    if not undecided:
        return f"Nothing is open in {tried}."
    text = f"Not decided: {len(undecided)} in {tried}"
    if any(row["standing"] is Standing.HERE for row in undecided):
        text += "; other allocations, three or more together, would show whether they last"
    return f"{text}."


def _named(row: Remedy) -> str:
    """A remedy with the case and the traffic: `reserved_cores=1 for stream under on`."""
    return f"{row['remedy']} for {row['case']} under {row['traffic']}"


def _more_work(row: Remedy) -> str:
    """A net benefit as work done in the same time: `2.1 % [1.2, 3.0] more work`, or less."""
    value, *ends = (100 * (row[f"net{end}"] - 1) for end in ("", "_low", "_high"))
    way = "more"
    if value < 0:
        value = -value
        ends = [-end for end in reversed(ends)]
        way = "less"
    return f"{value:.1f} % [{ends[0]:.1f}, {ends[1]:.1f}] {way} work"


def _break_even(row: Remedy) -> str:
    if costs_nothing(row):
        return "at any share"
    text = crossing_text(row, "break_even", "%")
    return f"from {text} on" if row["break_even"] is not None else f"({text})"


def _some(texts: Sequence[str]) -> str:
    more = len(texts) - _MOST
    return "; ".join(texts[:_MOST]) + (f"; and {more} more" if more > 0 else "")
