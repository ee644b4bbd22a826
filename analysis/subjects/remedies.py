"""Remedies on the page: figures 6b and 6c of Groves, Grant and Arnold (2016) for a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from analysis.questions.estimators import stated
from analysis.questions.question import Question
from analysis.questions.shown import section
from analysis.remedies.advice import advise, sentences, where
from analysis.remedies.effect import exponential
from analysis.remedies.standing import Standing
from analysis.remedies.throttling import RUNS, THROTTLING
from analysis.remedies.tried import remedy_effects
from analysis.report.data import RunData
from analysis.report.plots import View
from analysis.report.sections import Files, Section
from analysis.statistics.location import location
from analysis.subjects.published import paper

# Figure 6c: times with traffic, with a remedy, and with both.


def _times(run: RunData) -> pl.DataFrame:
    """A row per time of each remedy that has a price, relative to off without the remedy."""
    rows = []
    for each in remedy_effects(run):
        if each.price is None or not each.paired:
            continue
        off = each.speeds.without[:, 0]
        speeds = {"traffic": each.speeds.without[:, 1], "both": each.speeds.with_remedy[:, 1]}
        times = {what: exponential(location(np.log(off / of))) for what, of in speeds.items()}
        for what in ("traffic", "remedy", "both"):
            of = times.get(what, each.price)
            names = {"case": each.case, "remedy": each.remedy, "traffic": each.traffic}
            ends = {"time": of.value, "time_low": of.low, "time_high": of.high} if of else {}
            rows.append({**names, "with": what, "pairs": each.pairs, **ends})
    return pl.DataFrame(rows)


TIMES = Question(
    name="remedy_times",
    title="Times with each remedy",
    text="As figure 6c of Groves, Grant and Arnold (2016): times relative to off without the"
    " remedy, with traffic, with the remedy (its price) and with both.",
    rows=_times,
    by=("case", "remedy", "traffic", "with"),
    estimates={"time": stated("time")},
    facts={"n": pl.col("pairs").first()},
    headings={"time": "time / time off"},
    axes=("with",),
    apart=("case",),
)


#: Standing -> class of its label.
_STANDING_LOOKS = {Standing.BETTER: "good", Standing.WORSE: "bad"}


def advice_files(runs: Sequence[RunData]) -> Files:
    """advice.json (`analysis.remedies.advice.Advice`), if a remedy was tried."""
    found = advise(runs)
    return {"advice.json": found.as_dict()} if found.remedies else {}


def advice_view(runs: Sequence[RunData], _: str) -> View | None:
    """The section of a machine's runs; None if none tried a remedy."""
    found = advise(runs)
    if not found.remedies:
        return None
    return View(
        sentences=sentences(found),
        rows=[
            View(
                row=row,
                look=_STANDING_LOOKS.get(row.standing, "plain"),
                break_even=where(row.break_even, "%") if row.effect.price else "",
                # The pairs that would decide it.
                next=f"{more.pairs} more ({more.node_hours:.2g} node-hours)" if more else "",
                emulated=bool(row.effect.emulated),
            )
            for row in found.remedies
            for more in [row.next]
        ],
        several=len({row.run for row in found.remedies}) > 1,
    )


_PUBLISHED = paper()["figure_6b_regression"]
_LOW, _HIGH = _PUBLISHED["core_reservation_crossover_mb_s"]
_TEXT = (
    f" Published of STREAM, onload InfiniBand: {-_PUBLISHED['dram_bps_per_rdma_bps']} in DRAM,"
    f" {-_PUBLISHED['llc_bps_per_rdma_bps']} in cache, equal at {_LOW} to {_HIGH} MB/s."
)
SECTIONS = [
    Section("machine", 10, "advice", advice_view, "Advice on remedies", advice_files),
    section(RUNS, "run", 10),
    section(replace(THROTTLING, text=THROTTLING.text + _TEXT), "run", 11),
    section(TIMES, "run", 12),
]
