"""Figure 5 of Groves, Grant and Arnold (2016) for a run: run time against ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import polars as pl
from markupsafe import Markup

from analysis.display.figures import divisor_and_unit
from analysis.report.data import RunData
from analysis.report.plots import (
    Hover,
    Picture,
    View,
    draw_points,
    drawing,
    finish_axes,
    light_colour,
    marker,
    themed_svg,
)
from analysis.report.sections import Section
from analysis.samples.pairs import extra_figure
from analysis.statistics.interval import median_of
from analysis.subjects.paper_estimators import RUNS_BEST
from analysis.subjects.published import paper
from records.arms import BASELINE, arm_and_levels, in_table_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Run at several numbers of ranks, with as much work for each.
WORKLOAD = "lammps_scaling"
#: Ranks of the published slowdowns, and the arms that they are of: section VI in words, 'up to 3X'
#: in the abstract. The figure itself has no values.
PUBLISHED_RANKS = 8192
PUBLISHED = {"daly": float(paper()["headlines"]["lammps_slowdown_8192_up_to"]), "constant": 2.0}
_TEXT = (
    "Comparison with figure 5 of Groves, Grant and Arnold (2016), which has no values. Published of"
    " an onload InfiniBand machine: up to 3 times as long with Daly's number of writers (also"
    " printed as an increase of 330 %), nearly twice with the constant share. The best of 5 runs"
    " has no interval: prefer the paired slowdown, as in Estimators of Groves, Grant and Arnold"
    " (2016)."
)


def scaling_view(run: RunData) -> View | None:
    """The figure of a run's scales; None for fewer than two."""
    runs = _runs_of(run)
    if runs["ranks"].drop_nulls().n_unique() < 2:
        return None
    return View(
        text=_TEXT,
        sentences=(),
        pictures=[_plot(runs)],
        rows=(),
        emulated=run.emulation_caveats(),
    )


def _runs_of(run: RunData) -> pl.DataFrame:
    """Baselines and effects at each number of ranks."""
    names = pl.col("workload", "role", "arm").cast(pl.String)
    runs = run.samples.lazy().filter(
        pl.col("status") == "counts",
        pl.col("fom").is_not_null(),
        pl.col("workload") == WORKLOAD,
        pl.col("role").is_in(["baseline", "effect"]),
    )
    return runs.select(names, "fom", "fom_unit", ranks=extra_figure("ranks")).collect()


def sides_plot(
    sides: Sequence[Sequence[RunData]], names: Sequence[str], name: str
) -> Markup | None:
    """Figure 6a: the best of five on two machines; None unless both ran at several scales.

    `sides`: the runs of each; `names`: their colours, by the names of levels.
    """
    runs_of_sides = [pl.concat(map(_runs_of, runs)) for runs in sides]
    if any(runs["ranks"].drop_nulls().n_unique() < 2 for runs in runs_of_sides):
        return None
    divisor, unit = divisor_and_unit(
        median_of(pl.concat(runs_of_sides)["fom"]), str(runs_of_sides[0]["fom_unit"][0])
    )
    texts = []
    with drawing(3.6) as figure:
        axes = figure.subplots()
        for side, (colour, runs) in enumerate(zip(names, runs_of_sides, strict=True)):
            best = best_of_five(runs.with_columns(pl.col("fom") / divisor)).sort("ranks")
            for arm in in_table_order(best["arm"].unique(maintain_order=True)):
                line = best.filter(arm=arm)
                style = "-" if arm == BASELINE else "--"
                label = f"{arm}, {('reference', 'this side')[side]}"
                drawn_line = line["ranks"], line["fom"], style
                axes.plot(*drawn_line, marker=marker(arm), color=light_colour(colour), label=label)
                texts += [f"{label}, {n:,.0f} ranks {fom:.4g}" for _, n, fom in line.rows()]
        _over_ranks(figure, axes, {*runs_of_sides[0]["ranks"], *runs_of_sides[1]["ranks"]}, unit)
        title = f"Run time against ranks, best of five in {unit}: {'; '.join(texts)}"
        return themed_svg(figure, name, title)


def best_of_five(runs: pl.DataFrame) -> pl.DataFrame:
    """The paper's estimator, by `arm` and `ranks`: the shortest of the first five runs."""
    first_runs = runs.group_by("arm", "ranks", maintain_order=True).agg(
        pl.col("fom").head(RUNS_BEST)
    )
    return first_runs.filter(pl.col("fom").list.len() == RUNS_BEST).with_columns(
        pl.col("fom").list.min()
    )


def _plot(runs: pl.DataFrame) -> Picture:
    divisor, unit = divisor_and_unit(median_of(runs["fom"]), str(runs["fom_unit"][0]))
    runs = runs.with_columns(pl.col("fom") / divisor)
    best = best_of_five(runs).sort("ranks")
    arms = in_table_order(runs["arm"].unique(maintain_order=True))

    def draw(figure: Figure) -> Hover:
        axes = figure.subplots()
        for index, arm in enumerate(arms):
            arm_runs, line = runs.filter(arm=arm), best.filter(arm=arm)
            # Side by side: on this axis a shift is a factor.
            shift = 1.04 ** (index - (len(arms) - 1) / 2)
            drawn = arm_runs["ranks"] * shift, arm_runs["fom"]
            draw_points(axes, *drawn, arm, marker(arm), 4.8, alpha=0.5, mew=0)
            style = "--" if arm_and_levels(arm)[1] else "-"
            axes.plot(line["ranks"], line["fom"], style, color=light_colour(arm), lw=1.6, label=arm)
        off = best.filter(arm=BASELINE)["fom"]
        style_of_published: dict[str, Any] = {"ls": "none", "ms": 7, "mfc": "none", "mew": 1.4}
        for arm in [arm for arm in PUBLISHED if arm in arms and len(off)]:
            label = f"{arm}, published"
            drawn = (PUBLISHED_RANKS, PUBLISHED[arm] * off[-1])
            axes.plot(
                *drawn,
                marker="D",
                mec=light_colour(arm),
                gid="published",
                label=label,
                **style_of_published,
            )
        published = {PUBLISHED_RANKS} if {*arms} & {*PUBLISHED} else set()
        _over_ranks(figure, axes, {*runs["ranks"], *published}, unit)
        return {}

    text = "; ".join(f"{arm}, {ranks:,.0f} ranks {fom:.4g}" for arm, ranks, fom in best.rows())
    return Picture(
        name="scaling",
        title=f"Run time against ranks, best of five in {unit}: {text}",
        caption="One point per run that counts; lines join the best of the first 5 of each arm."
        f" Hollow: published by Groves, Grant and Arnold (2016) for {PUBLISHED_RANKS:,} ranks,"
        " times the baseline of the most ranks here.",
        height_in=3.6,
        draw=draw,
    )


def _over_ranks(figure: Figure, axes: Axes, ranks: set[float], unit: str) -> None:
    """The axes of run time against ranks, and the legend above them."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ranks), [f"{count:,.0f}" for count in sorted(ranks)])
    axes.minorticks_off()
    finish_axes(axes, "ranks", f"time in {unit}", ylim=(0, None))
    figure.legend(loc="outside upper left", ncols=3)


SECTIONS = [
    Section(
        part="end",
        position=91,
        name="scaling",
        view=scaling_view,
        title="Run time against ranks",
        link="Run time against ranks, as in figure 5 of the paper.",
        template="question",
    )
]
