"""A site's own traffic, replayed: what was wanted and done, and what it costs the application."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

import numpy as np
import polars as pl

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.remedies.advice import MONTH_H
from analysis.report.data import RunData
from analysis.report.sections import Section, json_rows
from analysis.statistics.interval import Estimate


@dataclass(frozen=True)
class ReplayedTraffic:
    """What one treatment of one case was under, over the runs that count, and its effect."""

    case: str
    workload: str
    treatment: str
    #: SHA-256 of the trace, and its nodes whose bytes were written.
    trace_sha256: str
    nodes: list[str]
    #: Seconds of the trace in one of a run, and share of its rates.
    speed: int
    share: float
    runs: int
    #: Begins of the first and the last window, Unix time.
    first_window_s: int
    last_window_s: int
    #: Mean over runs, bytes per second of all writers, as wanted and as they report.
    wanted_b_s: float
    done_b_s: float
    #: Largest difference of a run's bytes, and least share of its time that agrees.
    furthest_share: float
    agreeing_share: float
    #: Time of the typical run under the traffic / of its baseline. None below six pairs, or if the
    #: runs allow no statement.
    longer: Estimate | None
    verdict: Verdict
    #: Node-hours lost in a mean month on these nodes, by the mean time with the interval that holds
    #: for all effects of the run together. Windows are drawn evenly from the trace, so that pauses
    #: are in it as often as there. None at another speed or rate, or without an estimate.
    node_hours_month: Estimate | None
    emulated: list[str]


def replayed(run: RunData) -> list[ReplayedTraffic]:
    """One for each effect under replayed traffic."""
    followed = run.samples.filter(
        (pl.col("status") == "counts") & pl.col("traffic_trace").is_not_null()
    ).with_columns(pl.col("case", "arm").cast(pl.String))
    found = []
    for row in run.results:
        own = followed.filter((pl.col("case") == row.case) & (pl.col("arm") == row.arm))
        if row.role == "effect" and not own.is_empty():
            found.append(_replayed(row, own, run.emulated([row.case])))
    return found


def _replayed(row: Result, runs: pl.DataFrame, emulated: list[str]) -> ReplayedTraffic:
    first = runs.row(0, named=True)
    nodes = str(first["traffic_nodes"]).split("+")
    wanted, done = (
        runs[f"traffic_{name}_b_s"].cast(pl.Float64).to_numpy() for name in ("wanted", "done")
    )
    windows_s = runs["traffic_window_s"].to_numpy()
    longer = None if row.verdict.is_not_compared else row.slowdown
    lost = None
    unscaled = (first["traffic_speed"], first["traffic_share"]) == (1, 1.0)
    if longer and row.family_mean and unscaled:
        lost = row.family_mean.mapped(lambda ratio: len(nodes) * MONTH_H * (1 - 1 / ratio))
    apart = np.abs(done - wanted)
    return ReplayedTraffic(
        case=row.case,
        workload=row.workload,
        treatment=row.arm,
        trace_sha256=first["traffic_trace"],
        nodes=nodes,
        speed=int(first["traffic_speed"]),
        share=float(first["traffic_share"]),
        runs=len(runs),
        first_window_s=int(np.min(windows_s)),
        last_window_s=int(np.max(windows_s)),
        wanted_b_s=float(np.mean(wanted)),
        done_b_s=float(np.mean(done)),
        furthest_share=float(np.max(apart / np.where(wanted > 0, wanted, 1.0))),
        agreeing_share=float(np.min(runs["traffic_agreeing_share"].to_numpy())),
        longer=longer,
        verdict=row.verdict,
        node_hours_month=lost,
        emulated=emulated,
    )


#: Verdicts by which the application is slower.
_SLOWER = (Verdict.CONTENTION, Verdict.EMULATED, Verdict.SOMETIMES)


def sentence(row: ReplayedTraffic) -> str:
    """What the traffic costs: 'takes 3.1 % longer [2.2, 4.0]', if it is shown to cost that."""
    first, last = (
        datetime.fromtimestamp(at_s, timezone.utc).strftime("%Y-%m-%d")
        for at_s in (row.first_window_s, row.last_window_s)
    )
    when = f"of {first}" if first == last else f"of {first} to {last}"
    scaled = ""
    if (row.speed, row.share) != (1, 1.0):
        scaled = f" at {row.share:.3g} of its rate, {row.speed} s in one,"
    begin = f"{row.case} ({row.treatment}), under your traffic {when}{scaled}"
    if row.longer is None:
        return f"{begin}: no estimate ({row.verdict})."
    low, value, high = (
        100 * (each - 1) for each in (row.longer.low, row.longer.value, row.longer.high)
    )
    longer = f"{value:.1f} % longer [{low:.1f}, {high:.1f}]"
    if row.verdict not in _SLOWER:
        return f"{begin}: {row.verdict}, {longer}."
    text = f"{begin} takes {longer}"
    if row.node_hours_month:
        hours = row.node_hours_month
        text += (
            f"; in the mean {hours.value:,.1f} node-hours a month [{hours.low:,.1f},"
            f" {hours.high:,.1f}] on the {len(row.nodes)} replayed of the trace's nodes,"
            " if they run it all the time"
        )
    return f"{text}."


def _view(run: RunData, _: str) -> list[tuple[str, ReplayedTraffic]] | None:
    """Sentence and figures of each."""
    return [(sentence(row), row) for row in replayed(run)] or None


_FILES = json_rows("traffic.json", "traffic", replayed)
SECTIONS = [Section("effects", 30, "replayed", _view, "Your traffic", _FILES)]
