"""Pictures of a case: every sample, and the slowdown of every pair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from analysis.display.figures import divisor_and_unit, number
from analysis.effects.result import Result
from analysis.report.data import CaseData
from analysis.report.plots import (
    SLOWDOWN_AXIS,
    Hover,
    Picture,
    View,
    draw_points,
    draw_repeatability,
    draw_slowdown,
    estimates_text,
    label,
    light_colour,
    marker,
    name_rows,
    repeatability_caption,
    repeatability_colour,
    rows_axes,
    thin_line_caption,
)
from analysis.report.sections import Section
from analysis.statistics.interval import median_of
from records.arms import in_table_order
from records.text import one_line

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: If there are more points than this, they are drawn as one raster image.
RASTER_ABOVE = 3000
#: Maximum number of characters of a tooltip.
_MAX_TOOLTIP_CHARACTERS = 200
#: Columns of the samples that pictures show.
_DRAWN_COLUMNS = ["key", "arm", "status", "outcome", "reason", "fom", "nodes"]
#: Columns that the tooltip of a run shows.
_TOOLTIP_COLUMNS = ("key", "nodes", "fom", "status", "outcome", "reason")
#: Kind of runs that do not count -> marker and style of their points. The kind is the run's status,
#: or `lost` if the run has no figure of merit.
_UNCOUNTED_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "warm-up": ("o", {"mfc": "none"}),
    "rejected": ("x", {}),
    "lost": ("x", {"clip_on": False}),
}
#: Style of the points of runs that count. They have the marker and the colour of their treatment.
_COUNTED_STYLE: dict[str, Any] = {"alpha": 0.75, "mew": 0}


def samples_plot(samples: pl.DataFrame, unit: str, name: str = "runs") -> Picture:
    """The picture of all samples of one case: a strip per treatment, with the treatment's median.

    Samples are in order of time. `samples` has the columns of `pairs.judge_samples`. A run without
    a figure of merit is a cross at the left edge. If a run that does not count lies beyond an edge,
    it is drawn at the edge, so that the runs that count have enough room.
    """
    treatments = in_table_order(map(str, samples["arm"].unique(maintain_order=True)))
    divisor, scaled_unit = divisor_and_unit(median_of(samples["fom"].drop_nulls()), one_line(unit))
    counted_runs = samples.select("arm", "fom", "status").filter(status="counts")
    medians = dict(counted_runs.group_by("arm").agg(pl.median("fom") / divisor).iter_rows())
    is_rasterized = samples.height > RASTER_ABOVE
    status = pl.col("status").cast(pl.String)
    left, right = _edges(counted_runs["fom"] / divisor)
    drawn_runs = samples.select(
        "arm",
        *(() if is_rasterized else _TOOLTIP_COLUMNS),
        x=(pl.col("fom") / divisor).clip(left, right).fill_null(0),
        kind=pl.when(pl.col("fom").is_null()).then(pl.lit("lost")).otherwise(status),
    )

    def draw(figure: Figure) -> Hover:
        hover: dict[str, list[str]] = {}
        axes = figure.subplots()
        for strip, treatment in enumerate(treatments):
            runs = drawn_runs.filter(pl.col("arm") == treatment)
            heights = np.linspace(strip - 0.34, strip + 0.34, runs.height + 2)[1:-1]
            runs = runs.with_columns(y=heights)
            for (kind,), points in runs.partition_by("kind", as_dict=True).items():
                if kind == "counts":
                    colour, shape, kind_style = treatment, marker(treatment), _COUNTED_STYLE
                else:
                    colour = "uncounted"
                    shape, kind_style = _UNCOUNTED_POINTS[str(kind)]
                gid = f"points-{strip}-{kind}"
                style = {**kind_style, "gid": gid, "rasterized": is_rasterized}
                if kind == "lost":
                    style["transform"] = axes.get_yaxis_transform()
                draw_points(axes, points["x"], points["y"], colour, shape, 4.8, **style)
                hover[gid] = [] if is_rasterized else _tooltips(points, divisor, scaled_unit)
            if treatment in medians:
                low, high = strip - 0.42, strip + 0.42
                axes.vlines(medians[treatment], low, high, color=light_colour("ink"))
        name_rows(axes, [label(name) for name in treatments], len(treatments) - 0.45, -0.55)
        axes.set_xlabel(f"{'rate' if scaled_unit.endswith('/s') else 'time'} in {scaled_unit}")
        axes.margins(x=0.06)
        return hover

    medians_text = "; ".join(
        f"{treatment} {number(medians[treatment])}"
        for treatment in treatments
        if treatment in medians
    )
    return Picture(
        name=name,
        alt_text=f"Every sample in {scaled_unit}, by treatment. Medians: {medians_text}",
        caption=f"All {samples.height} runs, one point each, in order of time within each"
        " treatment. Line: median. Hollow: warm-up. Cross: rejected. Warm-ups and rejected runs out"
        " of range are drawn at the edge, and runs without a figure of merit outside it.",
        height_in=0.7 + 0.44 * len(treatments),
        draw=draw,
    )


def _tooltips(runs: pl.DataFrame, divisor: float, unit: str) -> list[str]:
    """The tooltip of each run."""
    tooltips = []
    for key, nodes, fom, status, outcome, reason in runs.select(_TOOLTIP_COLUMNS).iter_rows():
        fom_text = "no figure of merit" if fom is None else f"{number(fom / divisor)} {unit}"
        why = f"; {outcome.replace('_', ' ')}: {reason}" if status == "rejected" else ""
        tooltip = one_line(f"{key} on {nodes}, {status}: {fom_text}{why}")
        tooltips.append(tooltip[:_MAX_TOOLTIP_CHARACTERS])
    return tooltips


def _edges(figures: pl.Series) -> tuple[float, float]:
    """The ends of the range of the figures, widened by a quarter of its length on each side.

    If all figures are equal, the range is widened by a quarter of their value.
    """
    if figures.is_empty():
        return -np.inf, np.inf
    low, high = float(np.min(figures.to_numpy())), float(np.max(figures.to_numpy()))
    margin = (high - low or high) / 4
    return low - margin, high + margin


def ratios_plot(pairs: pl.DataFrame, rows: Sequence[Result], name: str = "pairs") -> Picture:
    """The picture of the slowdown of every pair of one case.

    It also has the interval and the repeatability of each treatment.
    """
    is_rasterized = pairs.height > RASTER_ABOVE
    has_one_baseline = len({row.baseline for row in rows}) == 1

    def draw(figure: Figure) -> Hover:
        hover: dict[str, list[str]] = {}
        axes = rows_axes(figure, [label(row.arm) for row in rows], SLOWDOWN_AXIS)
        repeatability = rows[0].noise_floor
        if has_one_baseline and repeatability:
            colour = light_colour(repeatability_colour(repeatability))
            axes.axvspan(repeatability.low, repeatability.high, color=colour, alpha=0.45)
        for y, row in enumerate(rows):
            if not has_one_baseline:
                draw_repeatability(axes, row.noise_floor, y)
            arm_pairs = pairs.filter(pl.col("arm") == row.arm)
            ratios = arm_pairs["ratio"].to_numpy()
            heights = y + np.linspace(-0.12, 0.3, len(ratios) + 2)[1:-1]
            style = {"alpha": 0.7, "mew": 0, "rasterized": is_rasterized, "gid": f"pairs-{y}"}
            draw_points(axes, ratios, heights, row.arm, marker(row.arm), 4.4, **style)
            if not is_rasterized:
                hover[f"pairs-{y}"] = [
                    f"block {block}, pair {pair}: {ratio:.3f}"
                    for block, pair, ratio in arm_pairs.select("block", "pair", "ratio").iter_rows()
                ]
            draw_slowdown(axes, row, y - 0.27)
        return hover

    estimates = estimates_text((row.arm, row.slowdown) for row in rows)
    return Picture(
        name=name,
        alt_text=f"Slowdown of every pair. Estimates: {estimates}",
        caption="One point per pair: the treatment against its baseline. Bar: estimate and interval"
        f" of 95 %. {thin_line_caption(rows)}{repeatability_caption(rows)}",
        height_in=0.9 + (0.66 if has_one_baseline else 0.5) * len(rows),
        draw=draw,
    )


def _pictures_view(case: CaseData) -> View:
    pairs = case.run.pairs.filter(pl.col("case") == case.name)
    samples_pictures = [
        samples_plot(
            case.samples.filter(pl.col("fom_unit") == unit).select(_DRAWN_COLUMNS).collect(),
            unit,
            f"{case.name} runs",
        )
        for unit in dict.fromkeys(row.unit for row in case.rows)
    ]
    pairs_picture = ratios_plot(pairs, case.rows, f"{case.name} pairs")
    return View(pictures=[*samples_pictures, pairs_picture])


SECTIONS = [Section(part="case", position=30, name="case_pictures", make_view=_pictures_view)]
