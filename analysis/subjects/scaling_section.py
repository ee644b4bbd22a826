"""Figure 5 of Groves, Grant and Arnold (2016) for a run: run time against ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

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
from analysis.subjects.paper import paper
from analysis.subjects.paper_estimators import RUNS_FOR_BEST
from records.arms import BASELINE, arm_and_levels, in_table_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The workload with a constant amount of work per rank.
SCALING_WORKLOAD = "lammps_scaling"
#: Ranks of the published slowdowns.
PUBLISHED_RANKS = 8192
#: Arm -> published slowdown, from section VI and from the abstract ('up to 3X'), since the figure
#: prints no values.
PUBLISHED_SLOWDOWNS = {
    "daly": float(paper()["headlines"]["lammps_slowdown_8192_up_to"]),
    "constant": 2.0,
}
_TEXT = (
    "Comparison with figure 5 of Groves, Grant and Arnold (2016), which has no values. Published"
    " for an onload InfiniBand machine: up to 3 times as long with Daly's number of writers (also"
    " printed as an increase of 330 %), nearly twice with the constant share. The best of 5 runs"
    " has no interval: prefer the paired slowdown, as in Estimators of Groves, Grant and Arnold"
    " (2016)."
)


def scaling_view(run: RunData) -> View | None:
    """The figure of a run at several numbers of ranks; None if there are fewer than two numbers."""
    runs = _scaling_runs(run)
    if runs["ranks"].drop_nulls().n_unique() < 2:
        return None
    return View(
        text=_TEXT,
        sentences=(),
        pictures=[_run_time_picture(runs)],
        rows=(),
        emulation_caveats=run.emulation_caveats(),
    )


def _scaling_runs(run: RunData) -> pl.DataFrame:
    """The runs of the scaling workload that count, with their number of ranks.

    Only baselines and effects are included.
    """
    labels = pl.col("workload", "role", "arm").cast(pl.String)
    runs = run.samples.lazy().filter(
        pl.col("status") == "counts",
        pl.col("fom").is_not_null(),
        pl.col("workload") == SCALING_WORKLOAD,
        pl.col("role").is_in(["baseline", "effect"]),
    )
    return runs.select(labels, "fom", "fom_unit", ranks=extra_figure("ranks")).collect()


def best_of_five_figure(
    sides: Sequence[Sequence[RunData]], colours: Sequence[str]
) -> Markup | None:
    """Figure 6a of the paper: the best of five runs on two machines.

    None if a machine has runs at fewer than two numbers of ranks. `sides` has the runs of the
    reference and the runs of the other side. `colours` has the names of their colours.
    """
    runs_of_sides = [pl.concat(map(_scaling_runs, runs)) for runs in sides]
    if any(runs["ranks"].drop_nulls().n_unique() < 2 for runs in runs_of_sides):
        return None
    divisor, unit = divisor_and_unit(
        median_of(pl.concat(runs_of_sides)["fom"]), str(runs_of_sides[0]["fom_unit"][0])
    )
    point_texts = []
    with drawing(3.6) as figure:
        axes = figure.subplots()
        side_names = ("reference", "this side")
        for side, colour, runs in zip(side_names, colours, runs_of_sides, strict=True):
            best = best_of_five(runs.with_columns(pl.col("fom") / divisor)).sort("ranks")
            for arm in in_table_order(best["arm"].unique(maintain_order=True)):
                line = best.filter(arm=arm)
                style = "-" if arm == BASELINE else "--"
                label = f"{arm}, {side}"
                axes.plot(
                    line["ranks"],
                    line["fom"],
                    style,
                    marker=marker(arm),
                    color=light_colour(colour),
                    label=label,
                )
                point_texts += [
                    f"{label}, {ranks:,.0f} ranks {fom:.4g}" for _, ranks, fom in line.rows()
                ]
        _finish_rank_axes(figure, axes, set(pl.concat(runs_of_sides)["ranks"]), unit)
        alt_text = f"Run time against ranks, best of five in {unit}: {'; '.join(point_texts)}"
        return themed_svg(figure, "best-of-five", alt_text)


def best_of_five(runs: pl.DataFrame) -> pl.DataFrame:
    """The paper's estimator: the shortest time of the first five runs of each arm and `ranks`.

    Arms with fewer than five runs at a number of ranks are left out there.
    """
    first_runs = runs.group_by("arm", "ranks", maintain_order=True).agg(
        pl.col("fom").head(RUNS_FOR_BEST)
    )
    return first_runs.filter(pl.col("fom").list.len() == RUNS_FOR_BEST).with_columns(
        pl.col("fom").list.min()
    )


def _run_time_picture(runs: pl.DataFrame) -> Picture:
    divisor, unit = divisor_and_unit(median_of(runs["fom"]), str(runs["fom_unit"][0]))
    runs = runs.with_columns(pl.col("fom") / divisor)
    best = best_of_five(runs).sort("ranks")
    arms = in_table_order(runs["arm"].unique(maintain_order=True))

    def draw(figure: Figure) -> Hover:
        axes = figure.subplots()
        for index, arm in enumerate(arms):
            arm_runs, line = runs.filter(arm=arm), best.filter(arm=arm)
            # Arms are drawn side by side. On a logarithmic axis, a shift is a multiplication.
            shift = 1.04 ** (index - (len(arms) - 1) / 2)
            shifted_ranks = arm_runs["ranks"] * shift
            fom = arm_runs["fom"]
            draw_points(axes, shifted_ranks, fom, arm, marker(arm), 4.8, alpha=0.5, mew=0)
            style = "--" if arm_and_levels(arm).levels else "-"
            axes.plot(line["ranks"], line["fom"], style, color=light_colour(arm), lw=1.6, label=arm)
        best_off = best.filter(arm=BASELINE)["fom"]
        ranks = set(runs["ranks"])
        for arm, slowdown in PUBLISHED_SLOWDOWNS.items():
            if arm not in arms:
                continue
            ranks.add(PUBLISHED_RANKS)
            if len(best_off):
                axes.plot(
                    PUBLISHED_RANKS,
                    slowdown * best_off[-1],
                    marker="D",
                    ls="none",
                    ms=7,
                    mfc="none",
                    mec=light_colour(arm),
                    mew=1.4,
                    gid="published",
                    label=f"{arm}, published",
                )
        _finish_rank_axes(figure, axes, ranks, unit)
        return {}

    points_text = "; ".join(
        f"{arm}, {ranks:,.0f} ranks {fom:.4g}" for arm, ranks, fom in best.rows()
    )
    return Picture(
        name="scaling",
        alt_text=f"Run time against ranks, best of five in {unit}: {points_text}",
        caption="One point per run that counts; lines join the best of the first 5 of each arm."
        f" Hollow: slowdown published by Groves, Grant and Arnold (2016) for {PUBLISHED_RANKS:,}"
        " ranks, times the best baseline with the most ranks here.",
        height_in=3.6,
        draw=draw,
    )


def _finish_rank_axes(figure: Figure, axes: Axes, ranks: set[float], unit: str) -> None:
    """Finish the axes of run time against ranks, and put the legend above them."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ranks), [f"{count:,.0f}" for count in sorted(ranks)])
    axes.minorticks_off()
    finish_axes(axes, "ranks", f"time in {unit}", ylim=(0, None))
    figure.legend(loc="outside upper left", ncols=3)


SECTIONS = [
    Section(
        part="after_cases",
        position=91,
        name="scaling",
        make_view=scaling_view,
        title="Run time against ranks",
        link="Run time against ranks, as in figure 5 of the paper.",
        template="question",
    )
]
