"""Sections on remedies, with figures 6b and 6c of Groves, Grant and Arnold (2016) for a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analysis.questions.presentation import section
from analysis.questions.question import Question, estimate_of
from analysis.remedies.advice import advise, crossing_text, sentences
from analysis.remedies.dynamic import DYNAMIC
from analysis.remedies.net import remedy_times, typical_time
from analysis.remedies.standing import Standing
from analysis.remedies.throttling import THROTTLED_RUNS, THROTTLING
from analysis.report.data import RunData
from analysis.report.plots import View
from analysis.report.sections import Files, Section
from analysis.statistics.interval import Interval
from analysis.subjects.paper import paper

TIMES = Question(
    name="remedy_times",
    title="Times with each remedy",
    text="As in figure 6c of Groves, Grant and Arnold (2016): times with traffic, with the remedy"
    " (its price) and with both, relative to off without the remedy.",
    rows=remedy_times,
    by=("case", "remedy", "traffic", "with"),
    estimates={"time": typical_time},
    headings={"time": "time / time off"},
    plot_columns=("with",),
    picture_keys=("case",),
)

#: Standing of a remedy (whether it is better or worse than none) -> CSS class of its label.
_STANDING_CLASSES = {Standing.BETTER: "good", Standing.WORSE: "bad"}


def advice_files(runs: Sequence[RunData]) -> Files:
    """The file advice.json (`analysis.remedies.advice.Advice`), or none if no remedy was tried."""
    advice = advise(runs)
    return {"advice.json": advice.as_dict()} if advice.remedies else {}


def advice_view(runs: Sequence[RunData]) -> View | None:
    """The content of the section on all runs of a machine; None if no run tried a remedy."""
    advice = advise(runs)
    if not advice.remedies:
        return None
    rows = [
        View(
            row=row,
            css_class=_STANDING_CLASSES.get(row["standing"], "plain"),
            **{name: estimate_of(row, name) for name in ("price", "gain", "written", "net")},
            next_allocation=None
            if row["next_allocation_low"] is None
            else Interval(row["next_allocation_low"], row["next_allocation_high"]),
            break_even=crossing_text(row, "break_even", "%")
            if row["price"] and row["paired"]
            else "",
        )
        for row in advice.remedies
    ]
    has_several_runs = len({row["run"] for row in advice.remedies}) > 1
    return View(sentences=sentences(advice), rows=rows, has_several_runs=has_several_runs)


_PUBLISHED = paper()["figure_6b_regression"]
_LOW_MB_S, _HIGH_MB_S = _PUBLISHED["core_reservation_crossover_mb_s"]
_PUBLISHED_TEXT = (
    " Published for STREAM under onload InfiniBand, lost per byte written:"
    f" {-_PUBLISHED['dram_bps_per_rdma_bps']} in DRAM, {-_PUBLISHED['llc_bps_per_rdma_bps']} in"
    f" cache; loss and price are equal at {_LOW_MB_S} to {_HIGH_MB_S} MB/s."
)
SECTIONS = [
    Section(
        part="before_runs",
        position=10,
        name="advice",
        make_view=advice_view,
        title="Advice on remedies",
        make_files=advice_files,
    ),
    section(THROTTLED_RUNS, "before_cases", 10),
    section(replace(THROTTLING, text=THROTTLING.text + _PUBLISHED_TEXT), "before_cases", 11),
    section(TIMES, "before_cases", 12),
    section(DYNAMIC, "before_cases", 13),
]
