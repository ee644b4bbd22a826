"""Figure 5 of Groves, Grant and Arnold (2016) from a run's samples: run time against ranks.

With a table of both estimates, the paired one and the paper's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.arms import BASELINE
from analysis.estimate import Result
from analysis.numbers import scale
from analysis.pairs import in_order
from analysis.paper import paper
from analysis.report.data import RunData
from analysis.report.palette import STYLE, light, marker, themed_svg
from analysis.statistics.paper import RUNS_BEST, PaperEstimates, paper_estimates

#: Workloads run at several numbers of ranks.
WORKLOADS = ("lammps_scaling",)
#: Ranks of the published headline result.
PUBLISHED_RANKS = 8192


@dataclass(frozen=True)
class ScalingRow:
    """One treatment at one scale: the paired and the paper's estimates from the same runs."""

    ranks: int
    result: Result
    paper: PaperEstimates


@dataclass(frozen=True)
class ScalingView:
    """The figure and its table."""

    svg: Markup
    rows: list[ScalingRow]
    #: Published slowdown at `published_ranks`, printed as 'up to'.
    published: float
    published_ranks: int


def scaling_view(run: RunData, name: str) -> ScalingView | None:
    """Figure and table of a run's scales; None for fewer than two."""
    every = (
        run.samples.lazy()
        .filter(
            pl.col("workload").cast(pl.String).is_in(WORKLOADS),
            pl.col("status") != "warm-up",
            pl.col("fom").is_not_null(),
        )
        .select(
            *("case", "fom_unit", "fom", "status"),
            arm=pl.col("arm").cast(pl.String),
            role=pl.col("role").cast(pl.String),
            ranks=pl.col("fom_extra").str.json_path_match("$.ranks").cast(pl.Float64),
        )
        .filter(pl.col("role").is_in(["baseline", "effect"]), pl.col("ranks") > 0)
        .collect()
    )
    points = every.filter(status="counts")
    if points["ranks"].n_unique() < 2:
        return None
    published = float(paper()["headlines"]["lammps_slowdown_8192_up_to"])
    return ScalingView(
        Markup(_plot(every, published, name)), _rows(run, points), published, PUBLISHED_RANKS
    )


def _rows(run: RunData, points: pl.DataFrame) -> list[ScalingRow]:
    """Rows by ranks, then treatments in the order of the results."""
    rows = []
    for result in run.results:
        of_case = points.filter(pl.col("case") == result.case)
        if result.role == "effect" and of_case.height:
            sides = (result.baseline, result.arm)
            off, on = (of_case.filter(arm=name)["fom"].to_list() for name in sides)
            estimates = paper_estimates(off, on, result.better)
            rows.append(ScalingRow(int(of_case["ranks"][0]), result, estimates))
    return sorted(rows, key=lambda row: row.ranks)


def best_of_five(points: pl.DataFrame) -> pl.DataFrame:
    """The paper's estimator for each treatment and rank count: minimum of the first five runs."""
    return (
        points.group_by("arm", "ranks", maintain_order=True)
        .agg(pl.col("fom").head(RUNS_BEST).min())
        .sort("ranks")
    )


def _plot(every: pl.DataFrame, published: float, name: str) -> str:
    points = every.filter(status="counts")
    factor, unit = scale(points["fom"].to_numpy().mean(), str(points["fom_unit"][0]))
    ranks = sorted(points["ranks"].unique())
    arms = in_order(every["arm"].unique())
    # Treatments are shifted side by side; on a logarithmic axis the shift is a factor.
    step = (ranks[-1] / ranks[0]) ** 0.02
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.6), layout="constrained")
        axes = figure.subplots()
        for index, arm in enumerate(arms):
            shift = step ** (index - (len(arms) - 1) / 2)
            of_arm = every.filter(arm=arm).with_columns(
                pl.col("ranks") * shift, pl.col("fom") / factor
            )
            _points(axes, of_arm.filter(status="rejected"), light("bad"), "x")
            _points(axes, of_arm.filter(status="counts"), light(arm), marker(arm), arm)
            line = best_of_five(of_arm.filter(status="counts"))
            axes.plot(line["ranks"], line["fom"], color=light(arm), lw=1.5)
        off = best_of_five(points.filter(arm=BASELINE))
        if off.height:
            label = f"published: up to {published:g} x off at {PUBLISHED_RANKS:,} ranks"
            level = published * off["fom"][-1] / factor
            axes.axhline(level, color=light("muted"), ls=":", label=label)
        _finish(axes, ranks, unit)
        figure.legend(loc="outside upper left", ncols=3, frameon=False, fontsize=8)
        return themed_svg(figure, name, "Run time against ranks, every run")


def _points(axes: Axes, runs: pl.DataFrame, colour: str, shape: str, label: str = "") -> None:
    look: dict[str, Any] = {
        "ls": "none",
        "ms": 4.8,
        "mew": 1.0 if shape == "x" else 0.0,
        "alpha": 0.6,
    }
    if runs.height:
        axes.plot(runs["ranks"], runs["fom"], marker=shape, color=colour, label=label, **look)


def _finish(axes: Axes, ranks: list[float], unit: str) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(ranks, [f"{count:,.0f}" for count in ranks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.set_xlabel("ranks")
    axes.set_ylabel(f"time in {unit}")
    axes.grid(axis="y")
