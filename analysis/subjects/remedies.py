"""Remedies on the page: figures 6b and 6c of Groves, Grant and Arnold (2016) for a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from analysis.questions.estimators import stated
from analysis.questions.question import Question
from analysis.questions.shown import section
from analysis.remedies.advice import Standing, advise, per_byte, sentences, where
from analysis.remedies.effect import exponential, remedy_effects
from analysis.remedies.throttling import RATE, RESERVED, Throttling, throttling
from analysis.report.data import RunData
from analysis.report.plots import (
    View,
    drawing,
    finish,
    legend,
    level_look,
    light,
    themed_svg,
)
from analysis.report.sections import Files, Section
from analysis.samples.pairs import of_treatment
from analysis.statistics.location import location
from analysis.subjects.published import paper
from records.groups import grouped
from records.units import NONE, scale


def sweep_plot(lines: Sequence[View], unit: str, name: str) -> Markup:
    """Figures of merit against the rate reached, one colour per sweep; the crossover as a band."""
    divisor, scaled = scale(max(float(line.foms.max(initial=0.0)) for line in lines), unit)
    with drawing(3.4) as figure:
        axes = figure.subplots()
        for index, line in enumerate(lines):
            css, marker = level_look(index)
            colour = light(css)
            runs: dict[str, Any] = {"ms": 3.4, "mew": 0, "alpha": 0.5, "gid": f"runs-{index}"}
            axes.plot(line.rates_b_s / 1e9, line.foms / divisor, marker, color=colour, **runs)
            if line.fitted is not None:
                places, fitted = line.line_b_s / 1e9, line.fitted / divisor
                axes.plot(places, fitted, color=colour, lw=1.6, label=line.label)
            else:
                axes.plot([], [], marker, color=colour, label=line.label)
            found = line.crossover_b_s
            if found and found.low is not None and found.high is not None:
                axes.axvspan(found.low / 1e9, found.high / 1e9, color=light("band"), alpha=0.45)
        finish(axes, "writers' rate in GB/s, as measured", scaled, xlim=(0, None))
        legend(figure, 2)
        return themed_svg(figure, name, "Figure of merit against the rate written")


def remedies_view(run: RunData, name: str) -> View | None:
    """The section of a run; None if it has no sweep of rates."""
    sweeps = throttling(run.results, run.pairs)
    if not sweeps:
        return None
    published = paper()["figure_6b_regression"]
    return View(
        sweeps_svgs=[
            (case, sweep_plot(lines, unit, f"{name}s{index}"))
            for index, (case, unit, lines) in enumerate(_figures(run, sweeps))
        ],
        sweeps=[_row(sweep) for sweep in sweeps],
        dram=-published["dram_bps_per_rdma_bps"],
        llc=-published["llc_bps_per_rdma_bps"],
        crossover_mb_s=published["core_reservation_crossover_mb_s"],
        emulated=run.emulated(),
    )


def _figures(run: RunData, sweeps: Sequence[Throttling]) -> list[tuple[str, str, list[View]]]:
    """Case, unit and lines of each figure: sweeps that differ in reserved cores only share one."""
    # Of a sweep that is compared with several numbers of reserved cores, the first.
    once = grouped(((each.case, each.arm, *each.at.items()), each) for each in sweeps)
    groups = grouped(
        ((case, arm, *(level for level in at if level[0] != RESERVED)), own[0])
        for (case, arm, *at), own in once.items()
    )
    return [
        (own[0].case, own[0].unit, [_line(run, each) for each in own]) for own in groups.values()
    ]


def _line(run: RunData, sweep: Throttling) -> View:
    """Every run of a sweep, and the fitted line if a line fits."""
    arms = {
        row.arm: row.baseline
        for row in run.results
        if row.case == sweep.case
        and row.role == "effect"
        and row.arm.startswith(sweep.arm)
        and {key: value for key, value in row.factors.items() if key != RATE} == sweep.at
    }
    own = of_treatment(run.pairs, sweep.case, *arms)
    baselines = own.unique(["block", "pair"], keep="first", maintain_order=True)["off"]
    off = float(np.median(baselines.to_numpy()))
    top = np.linspace(0, sweep.highest_b_s, 50)
    fitted = None
    if sweep.slope and sweep.line_fits:
        better = next(row.better for row in run.results if row.case == sweep.case)
        lost = sweep.slope.value * top
        rates = off - lost if sweep.bandwidth else off / (1 + lost)
        fitted = rates if better == "higher" else off * (1 + lost)
    return View(
        label=_at(sweep) or "all levels as at first",
        rates_b_s=np.array([0.0] * len(baselines) + own["writer_rate_b_s"].to_list()),
        foms=np.array([*baselines.to_list(), *own["on"].to_list()]),
        line_b_s=top,
        fitted=fitted,
        # Where its loss equals the price of reserved cores; None if that is not known.
        crossover_b_s=sweep.crossover_b_s if sweep.line_fits else None,
    )


def _at(sweep: Throttling) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {level}" for name, level in sweep.at.items())


def _row(sweep: Throttling) -> View:
    value, low, high, unit = per_byte(sweep)
    crossings = (sweep.crossover_b_s, sweep.same_rate_b_s)
    crossover, same_rate = (where(each, "B/s") if sweep.line_fits else "" for each in crossings)
    at = _at(sweep)
    if sweep.reserved is not None:
        at += f"; compared with {sweep.reserved}"
    return View(
        sweep=sweep,
        at=at,
        slope=(value, f"{low} to {high}" if sweep.slope else ""),
        unit=unit,
        line={True: "yes", False: "no: the loss is curved", None: NONE}[sweep.line_fits],
        crossover=crossover,
        same_rate=same_rate,
    )


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


SECTIONS = [
    Section("machine", 10, "advice", advice_view, "Advice on remedies", advice_files),
    Section("run", 10, "remedies", remedies_view, "Remedies"),
    section(TIMES, "run", 11),
]
