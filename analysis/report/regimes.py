"""Regimes on the page: a map of kernels and directions over numbers of cores, and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis.effects.caveats import emulations
from analysis.report.data import RunData
from analysis.report.plots import STYLE, light, themed_svg
from analysis.subjects.regimes import MEANING, Regime, RegimePoint
from nimc.base.units import plural

#: Regime -> colour and marker, so that neither alone is needed to tell them apart.
LOOKS: dict[Regime, tuple[str, str]] = {
    Regime.BLUE: ("level1", "s"),
    Regime.RED: ("level0", "D"),
    Regime.NETWORK: ("level4", "^"),
    Regime.NONE: ("level2", "o"),
    Regime.UNKNOWN: ("bad", "x"),
}
#: Regime -> the shape of its mark, in words.
MARKS = {
    Regime.BLUE: "square",
    Regime.RED: "diamond",
    Regime.NETWORK: "triangle",
    Regime.NONE: "circle",
    Regime.UNKNOWN: "cross",
}
_BY_BLOCK = (
    "the writers' rate before is not known for every run, so that their loss is relative to one"
    " measurement of each block, whose error the interval does not include"
)


@dataclass(frozen=True)
class RegimesView:
    """The section of one run."""

    points: list[RegimePoint]
    svg: Markup
    #: Regimes in the map -> meaning and colour.
    legend: dict[Regime, tuple[str, str]]
    margin: float
    notes: list[str]
    emulated: list[str]


def regimes_view(run: RunData, name: str) -> RegimesView | None:
    """The regimes of a run; None without membench under writers."""
    points = run.regimes()
    if not points:
        return None
    cases = {point.case for point in points}
    own = run.samples.filter(pl.col("case").cast(pl.String).is_in(cases))
    shown = [regime for regime in Regime if any(point.regime is regime for point in points)]
    by_block = any(point.device and not point.device_by_run for point in points)
    return RegimesView(
        points=points,
        svg=Markup(_map(points, name)),
        legend={regime: (MEANING[regime], LOOKS[regime][0]) for regime in shown},
        margin=run.header.margin,
        notes=[_BY_BLOCK] if by_block else [],
        emulated=emulations([str(text) for text in own["transport"].unique(maintain_order=True)]),
    )


def label(point: RegimePoint) -> str:
    """Kernel, direction and, if bound, nodes: `copy, device writes, nodes 0 and 1`."""
    nodes = [node for node in (point.comp_node, point.comm_node) if node is not None]
    where = f", nodes {' and '.join(map(str, nodes))}" if any(nodes) else ""
    return f"{point.kernel}, device {point.direction}s{where}"


def _map(points: Sequence[RegimePoint], name: str) -> str:
    """One row for each kernel, direction and placement; the number of cores as categories."""
    rows = list(dict.fromkeys(map(label, points)))
    cores = sorted({point.cores for point in points})
    with mpl.rc_context(STYLE):
        width = 3.6 + 0.45 * len(cores)
        figure = Figure(figsize=(width, 0.9 + 0.34 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for point in points:
            colour, marker = LOOKS[point.regime]
            place = cores.index(point.cores), rows.index(label(point))
            axes.plot(*place, marker=marker, color=light(colour), ms=9, mew=2, ls="none")
        axes.set_xticks(range(len(cores)), [str(n) for n in cores])
        axes.set_yticks(range(len(rows)), rows)
        axes.set_xlim(-0.6, len(cores) - 0.4)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.set_xlabel("cores of the application")
        axes.tick_params(length=0)
        axes.grid()
        said = "; ".join(f"{label(p)}, {plural(p.cores, 'core')}: {p.regime}" for p in points)
        return themed_svg(figure, name, f"Map of regimes. {said}")
