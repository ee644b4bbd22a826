"""Remedies of a run on the page: figures 6b and 6c of Groves, Grant and Arnold (2016) for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from markupsafe import Markup

from analysis.caveats import emulations
from analysis.numbers import NONE
from analysis.paper import paper
from analysis.remedies.effect import RemedyEffect, exponential
from analysis.remedies.reservation import remedy_effects
from analysis.remedies.sentences import per_byte, where
from analysis.remedies.throttling import RATE, RESERVED, Throttling, throttling
from analysis.remedies.unpaired import between_jobs
from analysis.report.data import RunData
from analysis.report.remedy_plots import RemedyBars, SweepLine, bars_plot, sweep_plot
from analysis.statistics.interval import Estimate
from analysis.statistics.location import location

#: Most rows of the figure of prices and gains; the table of the advice has all.
MOST_ROWS = 16


@dataclass(frozen=True)
class SweepRow:
    """One sweep in the table."""

    sweep: Throttling
    #: Its levels other than the first ones: `reserved cores 1`.
    at: str
    slope: tuple[str, str]
    unit: str
    line: str
    crossover: str
    same_rate: str


@dataclass(frozen=True)
class RemediesView:
    """The section of one run."""

    #: One figure per case and arm with a sweep of rates, with its case.
    sweeps_svgs: list[tuple[str, Markup]]
    sweeps: list[SweepRow]
    #: None without a remedy that has a price.
    bars_svg: Markup | None
    bars: int
    rows: int
    #: Published slopes in DRAM and in the last-level cache, and the published crossover, MB/s.
    dram: float
    llc: float
    crossover_mb_s: list[float]
    emulated: list[str]


def remedies_view(run: RunData, name: str) -> RemediesView | None:
    """The section of a run; None if it has neither a sweep of rates nor a remedy with a price."""
    sweeps = throttling(run.results, run.pairs)
    priced = [each for each in [*remedy_effects(run), *between_jobs(run)] if each.price]
    if not sweeps and not priced:
        return None
    published = paper()["figure_6b_regression"]
    bars = [_bars(each) for each in priced if each.paired][:MOST_ROWS]
    return RemediesView(
        sweeps_svgs=[
            (case, Markup(sweep_plot(lines, own[0].unit, f"{name}s{index}")))
            for index, ((case, own), lines) in enumerate(_figures(run, sweeps))
        ],
        sweeps=[_row(sweep) for sweep in sweeps],
        bars_svg=Markup(bars_plot(bars, f"{name}b")) if bars else None,
        bars=len(bars),
        rows=len(priced),
        dram=-published["dram_bps_per_rdma_bps"],
        llc=-published["llc_bps_per_rdma_bps"],
        crossover_mb_s=published["core_reservation_crossover_mb_s"],
        emulated=emulations([str(text) for text in run.samples["transport"].unique()]),
    )


def _figures(
    run: RunData, sweeps: Sequence[Throttling]
) -> list[tuple[tuple[str, list[Throttling]], list[SweepLine]]]:
    """Sweeps that differ in reserved cores only share a figure, one line each."""
    groups: dict[str, list[Throttling]] = {}
    for sweep in sweeps:
        others = {key: value for key, value in sweep.at.items() if key != RESERVED}
        own = groups.setdefault(f"{sweep.case}{sweep.arm}{others}", [])
        if sweep.at not in [each.at for each in own]:
            own.append(sweep)
    return [((own[0].case, own), [_line(run, each) for each in own]) for own in groups.values()]


def _line(run: RunData, sweep: Throttling) -> SweepLine:
    arms = {
        row.arm: row.baseline
        for row in run.results
        if row.case == sweep.case
        and row.role == "effect"
        and row.arm.startswith(sweep.arm)
        and {key: value for key, value in row.factors.items() if key != RATE} == sweep.at
    }
    own = run.pairs.filter(
        pl.col("case").cast(pl.String) == sweep.case, pl.col("arm").cast(pl.String).is_in(arms)
    )
    baselines = own.unique(["block", "pair"], keep="first", maintain_order=True)["off"]
    label = _at(sweep) or "all levels as at first"
    off = float(np.median(baselines.to_numpy()))
    slope = sweep.slope.value if sweep.slope and sweep.line_fits else None
    top = np.linspace(0, sweep.highest_b_s, 50)
    fitted = None
    if slope is not None:
        better = next(row.better for row in run.results if row.case == sweep.case)
        times = 1 + slope * top
        fitted = off - slope * top if sweep.bandwidth else off * times
        if better == "higher" and not sweep.bandwidth:
            fitted = off / times
    return SweepLine(
        label,
        [0.0] * len(baselines) + own["writer_rate_b_s"].to_list(),
        [*baselines.to_list(), *own["on"].to_list()],
        top.tolist(),
        None if fitted is None else fitted.tolist(),
        sweep.crossover_b_s if sweep.line_fits else None,
    )


def _at(sweep: Throttling) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {level}" for name, level in sweep.at.items())


def _row(sweep: Throttling) -> SweepRow:
    value, low, high, unit = per_byte(sweep)
    ends = f"{low} to {high}" if sweep.slope else ""
    line = {True: "yes", False: "no: the loss is curved", None: NONE}[sweep.line_fits]
    crossings = (sweep.crossover_b_s, sweep.same_rate_b_s)
    texts = [where(each, "B/s") if sweep.line_fits else "" for each in crossings]
    at = _at(sweep)
    if sweep.reserved is not None:
        at += f"; compared with {sweep.reserved}"
    return SweepRow(sweep, at, (value, ends), unit, line, *texts)


def _bars(effect: RemedyEffect) -> RemedyBars:
    """Times relative to the plain baseline: with traffic, with the remedy, with both."""
    without, with_remedy, _ = effect.speeds
    off = without[:, 0]

    def time(speed: np.ndarray) -> Estimate | None:
        return exponential(location(np.log(off / speed)))

    label = f"{effect.case}: {effect.remedy}"
    if effect.traffic != "on":
        label += f"\n{effect.traffic}"
    return RemedyBars(
        label, on=time(without[:, 1]), off_with=effect.price, on_with=time(with_remedy[:, 1])
    )
