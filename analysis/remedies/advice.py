"""Advice on remedies from the runs of a machine: its data, and sentences that state it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from analysis.display.figures import quantity
from analysis.effects.result import Verdict
from analysis.questions.presentation import cached_answer
from analysis.questions.question import columns_of
from analysis.remedies.dynamic import dynamic_rows, strategy_sentence
from analysis.remedies.net import Remedy, remedies
from analysis.remedies.speeds import caveats_of_cases
from analysis.remedies.standing import Standing, costs_nothing, is_better, with_standings
from analysis.remedies.throttling import THROTTLING
from analysis.report.data import RunData
from records.arms import BASELINE
from records.groups import grouped
from records.units import plural

SCHEMA = 4
#: Maximum remedies named in a sentence; the others are counted.
_MAX_REMEDIES = 3


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The advice for one machine; `docs/data.md#advicejson` explains the keys of the rows."""

    machine: str
    runs: list[str]
    #: Share of time with traffic that the reader stated; None means all the time, as in the runs.
    traffic_share: float | None
    #: The cost of the traffic to each workload without any remedy.
    losses: list[dict[str, Any]]
    #: `net.remedies` of all runs, with the columns of `standing.with_standings`.
    remedies: list[Remedy]
    #: Rows of the question `throttling.THROTTLING`, with the name of the run.
    sweeps: list[dict[str, Any]]
    #: Cores reserved only under traffic: `dynamic.dynamic_rows`, with the name of the run.
    dynamic: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The advice as written to JSON."""
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
    """Return the advice from the runs of one machine; it has no remedies if none was tried."""
    share = 1.0 if traffic_share is None else traffic_share
    remedy_rows = []
    losses = []
    sweeps = []
    dynamic_cores = []
    for run in runs:
        run_name = {"run": run.header.run}
        remedy_rows += [run_name | row for row in remedies(run, share).to_dicts()]
        losses += [run_name | row for row in _losses(run, share)]
        sweeps += [run_name | row for row in cached_answer(THROTTLING, run).to_dicts()]
        dynamic_cores += [run_name | row for row in dynamic_rows(run, share)]
    return Advice(
        machine=runs[0].header.machine,
        runs=[run.header.run for run in runs],
        traffic_share=traffic_share,
        losses=losses,
        remedies=with_standings(remedy_rows, share_stated=traffic_share is not None),
        sweeps=sweeps,
        dynamic=dynamic_cores,
    )


def _losses(run: RunData, share: float) -> list[dict[str, Any]]:
    """A row for each effect that has an estimate and the baseline `off`.

    `lost` is the share of node-hours that the traffic costs: its share of time x (1 - 1 / mean). A
    negative value is a gain.
    """
    case_caveats = caveats_of_cases(run.samples)
    return [
        {
            "case": row.case,
            "workload": row.workload,
            "traffic": row.arm,
            "rate_b_s": row.writer_rate_b_s,
            "verdict": row.verdict,
            **columns_of("lost", row.mean.mapped(lambda ratio: share * (1 - 1 / ratio))),
            "emulated": case_caveats[row.case],
        }
        for row in run.results
        if row.role == "effect" and row.baseline == BASELINE and row.mean
    ]


# Advice in sentences.


def sentences(advice: Advice) -> list[str]:
    """Return three sentences: what is lost, what is recommended, and what is not decided."""
    return [
        _loss_sentence(advice),
        _recommendation_sentence(advice.remedies),
        _undecided_sentence(advice.remedies),
    ]


def dynamic_reservation_lines(advice: Advice) -> list[str]:
    """A line for each core that could be reserved only under traffic, under its fastest writes."""
    share = 1.0 if advice.traffic_share is None else advice.traffic_share
    rows_of_cores = grouped(
        ((row["run"], row["case"], row["remedy"], row["at"]), row) for row in advice.dynamic
    )
    fastest = [max(rows, key=lambda row: row["rate_b_s"] or 0.0) for rows in rows_of_cores.values()]
    lines = [strategy_sentence(row, share) for row in fastest]
    return [line for line in lines if line]


def crossing_text(row: Mapping[str, Any], name: str, unit: str) -> str:
    """A crossing of a row as text: `3.98 GB/s [3.61, 4.40]`, `above 7.2 GB/s`, `not decided`.

    With the unit `%`, the crossing is a share of time.
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
    if high is not None:
        return f"below {text(high)}"
    return "not decided"


def _loss_sentence(advice: Advice) -> str:
    """State the largest loss that a verdict shows."""
    losses = [loss for loss in advice.losses if loss["verdict"] != Verdict.BASELINE_UNSTABLE]
    if not losses:
        return "No loss can be stated: no traffic was measured in six pairs with a stable baseline."
    shown_losses = [loss for loss in losses if Verdict(loss["verdict"]).is_loss]
    cases_text = f"{plural(len(losses), 'measured case')} of traffic"
    if not shown_losses:
        return f"No verdict shows a loss of node-hours, in {cases_text}."
    largest = max(shown_losses, key=lambda loss: loss["lost"])
    ends = [largest[f"lost{end}"] for end in ("", "_low", "_high")]
    # Additional node-hours of work that takes 100 node-hours without traffic.
    value, low, high = (f"{100 * share / (1 - share):.1f}" for share in ends)
    time = "all the time, as in the runs"
    if advice.traffic_share is not None:
        time = f"{advice.traffic_share * 100:.3g} % of the time (assumed)"
    rate = "" if largest["rate_b_s"] is None else f" ({quantity(largest['rate_b_s'], 'B/s', 3)})"
    emulated = " [emulated]" if largest["emulated"] else ""
    comparison = f", the most in {cases_text}" if len(losses) > 1 else ""
    doubt = "; its pairs do not show the mean more closely" if ends[1] < 0 else ""
    return (
        f"With traffic {time}, {largest['traffic']}{rate}{emulated} costs {largest['case']}"
        f" on average {value} [{low}, {high}] more node-hours per 100{comparison}{doubt}."
    )


def _recommendation_sentence(rows: Sequence[Remedy]) -> str:
    if not rows:
        return "No remedy was tried, so none is recommended."
    better, worse, delaying = (
        [row for row in rows if row["standing"] is standing]
        for standing in (Standing.BETTER, Standing.WORSE, Standing.SLOWER_WRITES)
    )
    if all(row["emulated"] for row in rows):
        return (
            "The traffic was emulated, so no remedy is recommended for RDMA hardware"
            f" ({len(better)} of {len(rows)} were better here)."
        )
    recommended = sorted((row for row in rows if row["recommended"]), key=lambda row: -row["net"])
    conditional = [row for row in rows if is_better(row) and not row["recommended"]]
    sections = {
        "Recommended": [
            f"{_remedy_name(row)}, {_more_work(row)}, worth its price {_break_even(row)}"
            for row in recommended
        ],
        "Worth its price where traffic takes enough of the time (--traffic-share)": [
            f"{_remedy_name(row)}, {_break_even(row)}" for row in conditional
        ],
        "Shown to cost more than it gains": [
            f"{_remedy_name(row)}, {_more_work(row)}" for row in worse
        ],
        "Helps the application by delaying the writes": sorted({row["remedy"] for row in delaying}),
    }
    parts = [] if recommended or conditional else ["No remedy is recommended"]
    parts += [f"{heading}: {_first_texts(texts)}" for heading, texts in sections.items() if texts]
    return f"{'. '.join(parts)}."


def _undecided_sentence(rows: Sequence[Remedy]) -> str:
    if not rows:
        return "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price."
    cases = f"{plural(len(rows), 'case')} of a remedy under traffic"
    undecided = [row for row in rows if row["standing"].is_open]
    if not undecided:
        return f"Nothing is open in {cases}."
    text = f"Not decided: {len(undecided)} in {cases}"
    if any(row["standing"] is Standing.ONLY_HERE for row in undecided):
        text += "; other allocations, three or more together, would show whether they last"
    return f"{text}."


def _remedy_name(row: Remedy) -> str:
    """The name of a remedy with case and traffic: `reserved_cores=1 for stream under on`."""
    return f"{row['remedy']} for {row['case']} under {row['traffic']}"


def _more_work(row: Remedy) -> str:
    """The net benefit as work in the same time: `2.1 % [1.2, 3.0] more work`, or less work."""
    value, low, high = (100 * (row[f"net{end}"] - 1) for end in ("", "_low", "_high"))
    if value < 0:
        return f"{-value:.1f} % [{-high:.1f}, {-low:.1f}] less work"
    return f"{value:.1f} % [{low:.1f}, {high:.1f}] more work"


def _break_even(row: Remedy) -> str:
    if costs_nothing(row):
        return "at any share"
    text = crossing_text(row, "break_even", "%")
    return f"from {text} on" if row["break_even"] is not None else f"({text})"


def _first_texts(texts: Sequence[str]) -> str:
    remaining = len(texts) - _MAX_REMEDIES
    return "; ".join(texts[:_MAX_REMEDIES]) + (f"; and {remaining} more" if remaining > 0 else "")
