"""The figures of the report. Every sample is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import numpy as np
import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from analysis.estimate import Result
from analysis.numbers import scale
from analysis.pairs import SILENT_ARMS, in_order
from analysis.report.palette import STYLE, light, marker, themed_svg

#: Above so many points a figure's points are drawn as one picture.
RASTER_ABOVE = 3000
#: Above so many points an arm's points are single pixels.
PIXELS_ABOVE = 20_000
_LABELS = {"spin": "spin\n(control)", "aa": "aa\n(off again)"}
_WIDTH_IN = 5.0


@contextmanager
def _figure(height_in: float) -> Iterator[tuple[Figure, Axes]]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_IN, height_in), layout="constrained")
        yield figure, figure.subplots()


def samples_plot(samples: pl.DataFrame, unit: str, name: str) -> str:
    """All samples of one case: a strip for each arm, each in order of time, with its median.

    `samples` has the columns of `analysis.pairs.judged`. A run that yielded no figure of merit is
    a cross below the edge. Runs that do not count stand at an edge where they lie beyond it, so
    that they do not press together those that do.
    """
    arms = in_order(str(arm) for arm in samples["arm"].unique())
    values = samples["fom"].drop_nulls()
    factor, scaled = scale(_float(values.median()), unit)
    edges = _edges(samples.filter(status="counts")["fom"].to_numpy() / factor)
    raster = samples.height > RASTER_ABOVE
    with _figure(2.9) as (figure, axes):
        for strip, arm in enumerate(arms):
            of_arm = samples.filter(pl.col("arm") == arm)
            x = strip + np.linspace(-0.34, 0.34, of_arm.height + 2)[1:-1]
            status = of_arm["status"].to_numpy()
            y = np.clip(of_arm["fom"].to_numpy() / factor, *edges)
            _strip(axes, x, y, status, arm, raster)
            counted = y[status == "counts"]
            if len(counted):
                axes.hlines(np.median(counted), strip - 0.42, strip + 0.42, color=light("ink"))
        axes.set_xticks(range(len(arms)), [_LABELS.get(arm, arm) for arm in arms])
        axes.tick_params(length=0)
        axes.tick_params(axis="x", labelsize=10 if len(arms) <= 4 else 8)
        axes.set_xlim(-0.55, len(arms) - 0.45)
        axes.set_ylabel(f"{'rate' if scaled.endswith('/s') else 'time'} in {scaled}")
        axes.grid(axis="y")
        axes.margins(y=0.06)
        return themed_svg(figure, name, f"Every sample in {scaled}, by arm, in order of time")


def _marker(arm: str, points: int) -> str:
    return "," if points > PIXELS_ABOVE else marker(arm)


def _edges(counted: NDArray[np.float64]) -> tuple[float, float]:
    """Lowest and highest value to draw: those that count and a quarter of their span more."""
    if not len(counted):
        return -np.inf, np.inf
    low, high = float(counted.min()), float(counted.max())
    room = (high - low or high) / 4
    return low - room, high + room


def _strip(axes: Axes, x: Any, y: Any, status: Any, arm: str, raster: bool) -> None:
    look: dict[str, dict[str, Any]] = {
        "counts": {"marker": _marker(arm, len(x)), "color": light(arm), "alpha": 0.75, "mew": 0},
        "warm-up": {"marker": "o", "mfc": "none", "color": light("bad")},
        "rejected": {"marker": "x", "color": light("bad")},
    }
    points: dict[str, Any] = {
        "ls": "none",
        "ms": 4.8 if len(x) < 200 else 2.0,
        "rasterized": raster,
    }
    for which, style in look.items():
        chosen = (status == which) & ~np.isnan(y)
        axes.plot(x[chosen], y[chosen], gid=f"points-{arm}-{which}", **points, **style)
    lost = np.isnan(y)
    below = axes.get_xaxis_transform()
    points |= {"gid": f"points-{arm}-lost", "transform": below, "clip_on": False}
    axes.plot(x[lost], 0 * x[lost], **points, **look["rejected"])


def ratios_plot(pairs: pl.DataFrame, rows: Sequence[Result], name: str) -> str:
    """The slowdown of every pair of one case by arm, each arm's interval, and the noise floor."""
    raster = pairs.height > RASTER_ABOVE
    with _figure(0.9 + 0.66 * len(rows)) as (figure, axes):
        _reference(axes, rows[0])
        for line, row in enumerate(rows):
            ratios = pairs.filter(pl.col("arm") == row.arm)["ratio"].to_numpy()
            _pairs(axes, ratios, line, row.arm, raster)
            _interval(axes, row, line - 0.27, light(row.arm))
        _finish(axes, [row.arm for row in rows])
        return themed_svg(figure, name, "Slowdown of every pair, with intervals and noise floor")


def overview_plot(rows: Sequence[Result], name: str) -> str:
    """The effects of all cases below one another, each with its noise floor and its control."""
    effects = [row for row in rows if row.arm not in SILENT_ARMS]
    with _figure(0.7 + 0.42 * len(effects)) as (figure, axes):
        axes.axvline(1, color=light("muted"), lw=1)
        for line, row in enumerate(effects):
            _bar(axes, row.noise_floor_low, row.noise_floor_high, line, light("band"), 10)
            _bar(axes, row.control_low, row.control_high, line + 0.22, light("spin"), 3)
            _interval(axes, row, line, light(row.arm))
        labels = [row.case if row.arm == "on" else f"{row.case} {row.arm}" for row in effects]
        _finish(axes, labels)
        return themed_svg(figure, name, "Slowdown of every case with its interval")


@dataclass(frozen=True)
class Normalised:
    """A row of `normalised_plot`; without a result only the published slowdown is drawn."""

    label: str
    published: float
    result: Result | None = None
    ratios: Sequence[float] = ()


def normalised_plot(rows: Sequence[Normalised], name: str) -> str:
    """Run time against off, a row a workload: every pair, interval and noise floor, and published.

    A published value is a hollow diamond.
    """
    raster = sum(len(row.ratios) for row in rows) > RASTER_ABOVE
    with _figure(0.7 + 0.5 * len(rows)) as (figure, axes):
        axes.axvline(1, color=light("muted"), lw=1)
        for line, row in enumerate(rows):
            if row.result is not None:
                floor = row.result.noise_floor_low, row.result.noise_floor_high
                _bar(axes, *floor, line, light("band"), 16)
                _pairs(axes, row.ratios, line, row.result.arm, raster, f"pairs-{line}")
                _interval(axes, row.result, line - 0.27, light(row.result.arm))
        published = [row.published for row in rows]
        look: dict[str, Any] = {"ms": 7, "mfc": "none", "mec": light("ink"), "mew": 1.4}
        axes.plot(published, range(len(rows)), "D", gid="published", **look)
        _finish(axes, [row.label for row in rows])
        axes.set_xlabel("run time against off (1 is no effect)")
        for row, label in zip(rows, axes.get_yticklabels(), strict=True):
            label.set_color(light("ink" if row.result else "muted"))
        return themed_svg(figure, name, "Run time against off by workload, measured and published")


def _reference(axes: Axes, row: Result) -> None:
    if row.noise_floor_low is not None and row.noise_floor_high is not None:
        axes.axvspan(row.noise_floor_low, row.noise_floor_high, color=light("band"), alpha=0.45)
    axes.axvline(1, color=light("muted"), lw=1)


def _interval(axes: Axes, row: Result, y: float, colour: str) -> None:
    if row.slowdown is None:
        return
    _bar(axes, row.slowdown_low, row.slowdown_high, y, colour, 3)
    axes.plot(row.slowdown, y, marker="|", ms=11, mew=2.5, color=light("ink"))


def _pairs(
    axes: Axes, ratios: Any, line: int, arm: str, raster: bool, gid: str | None = None
) -> None:
    axes.plot(
        ratios,
        line + np.linspace(-0.12, 0.3, len(ratios) + 2)[1:-1],
        ls="none",
        marker=_marker(arm, len(ratios)),
        ms=4.4 if len(ratios) < 200 else 1.8,
        mew=0,
        color=light(arm),
        alpha=0.7,
        gid=gid,
        rasterized=raster,
    )


def _bar(
    axes: Axes, low: float | None, high: float | None, y: float, colour: str, width: float
) -> None:
    if low is not None and high is not None:
        axes.plot([low, high], [y, y], color=colour, lw=width, solid_capstyle="butt")


def _finish(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.tick_params(length=0)
    axes.grid(axis="x")
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("slowdown against off (1 is no effect)")


def _float(value: object) -> float | None:
    return value if isinstance(value, float) else None
