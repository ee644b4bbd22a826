"""Advice on remedies, from the runs of a machine: as data, and as sentences."""

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
from analysis.remedies.speeds import caveats_of_cases, traffic_effects
from analysis.remedies.standing import Standing, costs_nothing, is_better, with_standings
from analysis.remedies.throttling import THROTTLING
from analysis.report.data import RunData
from records.arms import BASELINE
from records.groups import grouped
from records.units import percentage, plural

SCHEMA = 4
#: Largest number of remedies that are named under one heading. Further ones are only counted.
_MAX_REMEDIES = 3


@dataclass(frozen=True, kw_only=True)
class Advice:
    """The advice for one machine; `docs/data.md#advicejson` explains the keys of its rows."""

    machine: str
    runs: list[str]
    #: Share of time with traffic (writes) that the reader stated. None means that traffic is
    #: assumed all the time, as in the runs.
    traffic_share: float | None
    #: A row for each effect without a remedy: what the traffic costs.
    losses: list[dict[str, Any]]
    #: Rows of `net.remedies` of all runs, with the columns of `standing.with_standings`.
    remedies: list[Remedy]
    #: Rows of the question `throttling.THROTTLING`, each with the name of its run.
    sweeps: list[dict[str, Any]]
    #: Rows of `dynamic.dynamic_rows` (cores reserved only under traffic), each with its run's name.
    dynamic: list[dict[str, Any]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Return the advice as written to JSON."""
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
    """Return the advice from the runs of one machine. It has no remedies if no remedy was tried."""
    share = 1.0 if traffic_share is None else traffic_share
    remedy_rows = []
    losses = []
    sweeps = []
    dynamic_cores = []
    for run in runs:
        run_column = {"run": run.header.run}
        remedy_rows += [run_column | row for row in remedies(run, share).to_dicts()]
        losses += [run_column | row for row in _losses(run, share)]
        sweeps += [run_column | row for row in cached_answer(THROTTLING, run).to_dicts()]
        dynamic_cores += [run_column | row for row in dynamic_rows(run, share)]
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
    """Return a row for each effect that has an estimate and the baseline `off`.

    `share` is the share of time in which there is traffic. `lost` is the share of node-hours that
    the traffic costs: share * (1 - 1 / mean), where `mean` is the mean time of a run under traffic
    / that of a run without. A negative value is a gain.
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
        for row in traffic_effects(run)
        if row.baseline == BASELINE and row.mean
    ]


# Advice in sentences.


def sentences(advice: Advice) -> list[str]:
    """Return three sentences: what is lost, what is recommended, and what is not decided."""
    return [
        _loss_sentence(advice),
        _recommendation_sentence(advice),
        _undecided_sentence(advice.remedies),
    ]


def dynamic_reservation_lines(advice: Advice) -> list[str]:
    """Return a line for each remedy of reserved cores: the speed if reserved only under traffic.

    If a remedy was measured under several treatments, the one with the highest rate of writes is
    used.
    """
    share = 1.0 if advice.traffic_share is None else advice.traffic_share
    rows_by_remedy = grouped(
        ((row["run"], row["case"], row["remedy"], row["at"]), row) for row in advice.dynamic
    )
    lines = []
    for rows in rows_by_remedy.values():
        most_writes = max(rows, key=lambda row: row["rate_b_s"] or 0.0)
        if sentence := strategy_sentence(most_writes, share):
            lines.append(f"{sentence}{_run_text(most_writes, advice)}")
    return lines


def crossing_text(row: Mapping[str, Any], name: str, unit: str) -> str:
    """Return a crossing of a row as text, with its interval: `3.98 GB/s [3.61 GB/s, 4.40 GB/s]`.

    `name` is the column of the crossing (`analysis.statistics.location.Crossing`). If only one end
    of the interval is known, the text is `above 7.20 GB/s` or `below 7.20 GB/s`. If neither end is
    known, it is `not decided`. With the unit `%`, it is a share of time, or `never` or `always`.
    """
    crossing, low, high = (row[f"{name}{end}"] for end in ("", "_low", "_high"))

    def with_unit(value: float) -> str:
        return percentage(value) if unit == "%" else quantity(value, unit, 3)

    if unit == "%" and low == 1:
        return "never"
    if unit == "%" and high == 0:
        return "always"
    if None not in (crossing, low, high):
        return f"{with_unit(crossing)} [{with_unit(low)}, {with_unit(high)}]"
    if low is not None:
        return f"above {with_unit(low)}"
    if high is not None:
        return f"below {with_unit(high)}"
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
    lost, lost_low, lost_high = (largest[f"lost{end}"] for end in ("", "_low", "_high"))
    # Additional node-hours for work that takes 100 node-hours without traffic.
    added, added_low, added_high = (
        f"{100 * lost_share / (1 - lost_share):.1f}" for lost_share in (lost, lost_low, lost_high)
    )
    time_text = "all the time, as in the runs"
    if advice.traffic_share is not None:
        time_text = f"{percentage(advice.traffic_share, '.3g')} of the time (assumed)"
    rate_text = (
        "" if largest["rate_b_s"] is None else f" ({quantity(largest['rate_b_s'], 'B/s', 3)})"
    )
    comparison = f", the most among {cases_text}" if len(losses) > 1 else ""
    doubt = "; its pairs do not determine the mean more precisely" if lost_low < 0 else ""
    return (
        f"With traffic {time_text}, {largest['traffic']}{rate_text}{_emulation_text(largest)} costs"
        f" {largest['case']}{_run_text(largest, advice)} on average"
        f" {added} [{added_low}, {added_high}] more node-hours per 100{comparison}{doubt}."
    )


def _recommendation_sentence(advice: Advice) -> str:
    """Name the remedies by their standing: the recommended ones first."""
    rows = advice.remedies
    if not rows:
        return "No remedy was tried, so none is recommended."
    better = _with_standing(rows, Standing.BETTER)
    worse = _with_standing(rows, Standing.WORSE)
    delaying = _with_standing(rows, Standing.SLOWER_WRITES)
    if all(row["emulated"] for row in rows):
        return (
            "The traffic was emulated, so no remedy is recommended for RDMA hardware"
            f" ({len(better)} of {len(rows)} were better here)."
        )
    recommended = sorted((row for row in rows if row["recommended"]), key=lambda row: -row["net"])
    conditional = [row for row in rows if is_better(row) and not row["recommended"]]
    sections = {
        "Recommended": [
            f"{_remedy_name(row, advice)}, {_more_work_text(row)},"
            f" worth its price {_break_even_text(row)}"
            for row in recommended
        ],
        "Worth its price if traffic takes enough of the time (--traffic-share)": [
            f"{_remedy_name(row, advice)}, {_break_even_text(row)}" for row in conditional
        ],
        "Shown to cost more than it gains": [
            f"{_remedy_name(row, advice)}, {_more_work_text(row)}" for row in worse
        ],
        "Helps the application by delaying the writes": sorted(
            {f"{row['remedy']}{_emulation_text(row)}" for row in delaying}
        ),
    }
    parts = [] if recommended or conditional else ["No remedy is recommended"]
    parts += [f"{heading}: {_first_texts(texts)}" for heading, texts in sections.items() if texts]
    return f"{'. '.join(parts)}."


def _with_standing(rows: Sequence[Remedy], standing: Standing) -> list[Remedy]:
    return [row for row in rows if row["standing"] is standing]


def _undecided_sentence(rows: Sequence[Remedy]) -> str:
    if not rows:
        return "A campaign with a remedy, such as campaigns/throttling.yaml, would show its price."
    cases = f"{plural(len(rows), 'case')} of a remedy under traffic"
    undecided = [row for row in rows if row["standing"].is_open]
    if not undecided:
        return f"Nothing is open in {cases}."
    sentence = f"Not decided: {len(undecided)} of {cases}"
    if _with_standing(undecided, Standing.ONLY_HERE):
        sentence += "; more allocations, at least three in all, would show whether effects hold"
        sentence += " in the next one"
    return f"{sentence}."


def _remedy_name(row: Remedy, advice: Advice) -> str:
    """Return the name of a remedy with case and traffic: `reserved_cores=1 for stream under on`.

    It says if the traffic was emulated, and names the run if the advice is from several runs.
    """
    name = f"{row['remedy']} for {row['case']} under {row['traffic']}"
    return f"{name}{_emulation_text(row)}{_run_text(row, advice)}"


def _emulation_text(row: Mapping[str, Any]) -> str:
    return " [emulated]" if row["emulated"] else ""


def _run_text(row: Mapping[str, Any], advice: Advice) -> str:
    """Return the name of a row's run in brackets; empty if the advice is from one run."""
    return f" (run {row['run']})" if len(advice.runs) > 1 else ""


def _more_work_text(row: Remedy) -> str:
    """Return the net benefit as work in the same time: `2.1 % [1.2, 3.0] more work`, or less."""
    percent, low, high = (100 * (row[f"net{end}"] - 1) for end in ("", "_low", "_high"))
    if percent < 0:
        return f"{-percent:.1f} % [{-high:.1f}, {-low:.1f}] less work"
    return f"{percent:.1f} % [{low:.1f}, {high:.1f}] more work"


def _break_even_text(row: Remedy) -> str:
    """Return the shares of time with traffic at which a remedy is worth its price."""
    if costs_nothing(row):
        return "at any share"
    crossing, low, high = (row[f"break_even{end}"] for end in ("", "_low", "_high"))
    if low is None and high is None:
        # Unpaired remedies have no break-even.
        return "from an unknown share on"
    text = crossing_text(row, "break_even", "%")
    return f"from {text} on" if crossing is not None else f"({text})"


def _first_texts(texts: Sequence[str]) -> str:
    remaining = len(texts) - _MAX_REMEDIES
    return "; ".join(texts[:_MAX_REMEDIES]) + (f"; and {remaining} more" if remaining > 0 else "")
