"""Figure 5 of the paper from one's own runs: run time against ranks, and both estimates beside."""

from __future__ import annotations

from dataclasses import dataclass

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.estimate import Result
from analysis.figures import scale
from analysis.paper import paper
from analysis.report.data import RunData
from analysis.report.palette import MARKERS, STYLE, light, themed_svg
from analysis.statistics.paper import RUNS_BEST, PaperEstimates, paper_estimates

#: Workloads that are run at several numbers of ranks, and the arms of the figure in its order.
WORKLOADS = ("lammps_scaling",)
_ARMS = ("off", "constant", "daly", "full")
#: Ranks of the published headline.
PUBLISHED_RANKS = 8192


@dataclass(frozen=True)
class ScalingRow:
    """One arm of one scale: the paired estimate, and the paper's from the same runs."""

    ranks: int
    result: Result
    paper: PaperEstimates


@dataclass(frozen=True)
class ScalingView:
    """The figure and its table."""

    svg: Markup
    rows: list[ScalingRow]
    #: Published slowdown at `published_ranks`.
    published: float
    published_ranks: int


def scaling_view(run: RunData, name: str) -> ScalingView | None:
    """Figure and table of a run's scales; None where it has fewer than two."""
    every = (
        run.samples.lazy()
        .filter(
            pl.col("workload").cast(pl.String).is_in(WORKLOADS),
            pl.col("status") != "warm-up",
            pl.col("fom").is_not_null(),
        )
        .select(
            *("case", "fom_better", "fom_unit", "fom", "status"),
            arm=pl.col("arm").cast(pl.String),
            ranks=pl.col("fom_extra").str.json_path_match("$.ranks").cast(pl.Float64),
        )
        .filter(pl.col("arm").is_in(_ARMS), pl.col("ranks") > 0)
        .collect()
    )
    points = every.filter(status="counts")
    if points["ranks"].n_unique() < 2:
        return None
    published = float(paper()["headlines"]["lammps_slowdown_8192"])
    return ScalingView(
        Markup(_plot(every, published, name)), _rows(run, points), published, PUBLISHED_RANKS
    )


def _rows(run: RunData, points: pl.DataFrame) -> list[ScalingRow]:
    """Scales in order of ranks, arms in that of the results."""
    rows = []
    for result in run.results:
        of_case = points.filter(pl.col("case") == result.case)
        if result.arm in _ARMS and of_case.height:
            off, on = (of_case.filter(arm=arm)["fom"].to_list() for arm in ("off", result.arm))
            estimates = paper_estimates(off, on, of_case["fom_better"][0])
            rows.append(ScalingRow(int(of_case["ranks"][0]), result, estimates))
    return sorted(rows, key=lambda row: row.ranks)


def best_of_five(points: pl.DataFrame) -> pl.DataFrame:
    """The paper's estimator for each arm and rank count: minimum of the first five runs."""
    return (
        points.group_by("arm", "ranks", maintain_order=True)
        .agg(pl.col("fom").head(RUNS_BEST).min())
        .sort("ranks")
    )


def _plot(every: pl.DataFrame, published: float, name: str) -> str:
    points = every.filter(status="counts")
    factor, unit = scale(points["fom"].to_numpy().mean(), str(points["fom_unit"][0]))
    best = best_of_five(points)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.2), layout="constrained")
        axes = figure.subplots()
        for arm in _ARMS:
            _scatter(axes, points.filter(arm=arm), factor, light(arm), MARKERS.get(arm, "P"))
            line = best.filter(arm=arm)
            if line.height:
                axes.plot(line["ranks"], line["fom"] / factor, color=light(arm), lw=1.5, label=arm)
        _scatter(axes, every.filter(status="rejected"), factor, light("bad"), "x")
        off = best.filter(arm="off")
        if off.height:
            label = f"published: {published:g} x off on {PUBLISHED_RANKS:,} ranks"
            level = published * off["fom"][-1] / factor
            axes.axhline(level, color=light("muted"), ls=":", label=label)
        _finish(axes, sorted(points["ranks"].unique()), unit)
        return themed_svg(figure, name, "Run time against ranks, every run")


def _scatter(axes: Axes, of_arm: pl.DataFrame, factor: float, colour: str, marker: str) -> None:
    width = 1.0 if marker == "x" else 0.0
    axes.scatter(
        *(of_arm["ranks"], of_arm["fom"] / factor),
        s=20,
        color=colour,
        marker=marker,
        alpha=0.6,
        lw=width,
    )


def _finish(axes: Axes, ranks: list[float], unit: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [f"{count:,.0f}" for count in ranks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel(f"time in {unit}")
    axes.grid(axis="y")
    axes.legend(frameon=False, fontsize=8)
