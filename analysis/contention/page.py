"""One self-contained page of a model: figures, parameters and, with measurements, errors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.contention.evaluate import evaluate
from analysis.contention.parameters import Cores, Model, Prediction, Rates, placements, predict
from analysis.contention.sweep import Point, Sweep, curves
from analysis.contention.tables import bands_line, parameter_rows
from analysis.report.plots import drawing, light, render_page, themed_svg
from nimc.base.groups import grouped

# Figures of the contention model: stacked bandwidth, and the grid of placements.


#: The report's colours for computations, communications, and either alone.
COMP, COMM, ALONE = "spin", "off", "other"
_GB = 1e9


def stacked_plot(prediction: Prediction, points: Sequence[Point], name: str) -> Markup:
    """Both rates, stacked, over the number of cores, as Figure 2 of the paper.

    Areas are predictions; measured totals are points, and computations alone points and a line.
    """
    n = prediction.n
    comp, comm = prediction.comp_par_b_s / _GB, prediction.comm_par_b_s / _GB
    with drawing(3.1) as figure:
        axes = figure.subplots()
        axes.fill_between(n, 0, comp, color=light(COMP), alpha=0.45, lw=0)
        axes.fill_between(n, comp, comp + comm, color=light(COMM), alpha=0.45, lw=0)
        axes.plot(n, prediction.comp_alone_b_s / _GB, color=light(ALONE), lw=1.6)
        c = curves(points)
        _dots(axes, c.n, c.comp_alone, light(ALONE), "D")
        _dots(axes, c.n, c.comp_par, light(COMP), "s")
        _dots(axes, c.n, c.comp_par + c.comm_par, light(COMM), "o")
        _finish(axes, n)
        axes.set_ylabel("GB/s")
        _from_zero(axes, axes.dataLim.y1)
        return themed_svg(figure, name, "Stacked bandwidth over the number of computing cores")


def grid_plot(
    predictions: Sequence[Prediction], points: Iterable[Point], calibrated: Sequence[int], name: str
) -> Markup:
    """All placements: one column per node of computations, one row per node of communications.

    Lines are predictions, with their error bands. Filled points are measured with both sides
    running, hollow ones alone. The titles of calibrated placements are bold.
    """
    by_place = grouped((point.at, point) for point in points)
    columns = sorted({p.comp_node for p in predictions})
    rows = sorted({p.comm_node for p in predictions})
    with drawing(0.5 + 1.75 * len(rows), 0.6 + 2.3 * len(columns), font_size=8) as figure:
        panels = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
        for p in predictions:
            axes = panels[rows.index(p.comm_node), columns.index(p.comp_node)]
            _placement(axes, p, by_place.get((p.comp_node, p.comm_node), []))
            sample = p.comp_node == p.comm_node and p.comp_node in calibrated
            title = f"computations {p.comp_node}, communications {p.comm_node}"
            axes.set_title(title, fontsize=7.5, fontweight="bold" if sample else "normal")
        _from_zero(panels[0, 0], max(axes.dataLim.y1 for axes in panels.flat))
        for axes in panels[:-1].flat:
            axes.set_xlabel("")
        for axes in panels[:, 0]:
            axes.set_ylabel("GB/s")
        return themed_svg(figure, name, "Predicted and measured bandwidth of every placement")


def _placement(axes: Axes, p: Prediction, points: Sequence[Point]) -> None:
    c = curves(points)
    for side, colour, marker in (("comp", light(COMP), "s"), ("comm", light(COMM), "o")):
        together, alone = (getattr(p, f"{side}_{how}_b_s") / _GB for how in ("par", "alone"))
        if band := p.band(f"{side}_par"):
            low, high = together * (1 - band.width), together * (1 + band.width)
            axes.fill_between(p.n, np.maximum(low, 0), high, color=colour, alpha=0.2, lw=0)
        axes.plot(p.n, together, color=colour, lw=1.6)
        axes.plot(p.n, alone, color=colour, lw=0.9, ls=":")
        _dots(axes, c.n, getattr(c, f"{side}_par"), colour, marker)
        _dots(axes, c.n, getattr(c, f"{side}_alone"), colour, marker, hollow=True)
    _finish(axes, p.n)


def _dots(
    axes: Axes, n: Cores, rates_b_s: Rates, colour: str, marker: str, hollow: bool = False
) -> None:
    """The rates that were measured."""
    seen = np.isfinite(rates_b_s)
    if seen.any():
        look: dict[str, Any] = {"facecolor": "none" if hollow else colour, "edgecolor": colour}
        axes.scatter(n[seen], rates_b_s[seen] / _GB, s=11, marker=marker, lw=0.8, **look)


def _from_zero(axes: Axes, top: float) -> None:
    """Axis from 0 to a little above the highest value; to 1 if there is none."""
    axes.set_ylim(0, 1.05 * top if np.isfinite(top) and top > 0 else 1.0)


def _finish(axes: Axes, n: Any) -> None:
    axes.set_xlim(0.5, n[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.grid(axis="y")
    axes.set_xlabel("computing cores")


def render(model: Model, sweep: Sweep | None) -> str:
    """The page of a model; with a sweep, also its points and the errors on it."""
    predictions = [predict(model, *at) for at in placements(model)]
    points = [] if sweep is None else sweep.points
    nodes = model.calibrated_nodes()
    stacked = []
    for node in nodes:
        own = [p for p in points if p.at == (node, node)]
        svg = stacked_plot(predict(model, node, node), own, f"s{node}")
        stacked.append((f"Both on NUMA node {node}", svg))
    errors = asdict(evaluate(model, sweep)) if sweep else {}
    cells = ["\u2013" if value is None else f"{value:.2f} %" for value in errors.values()]
    return render_page(
        "analysis.contention",
        f"Contention model of {model.name}",
        model=model,
        stacked=stacked,
        grid=grid_plot(predictions, points, nodes, "g"),
        columns=len({p.comp_node for p in predictions}),
        measured=bool(points),
        errors=[("this model", cells)] if sweep else [],
        error_names=[name.replace("_", " ") for name in errors],
        parameters=parameter_rows(model),
        bands=[(where, bands_line(bands)) for where, bands in model.bands.items()],
        comp=COMP,
        comm=COMM,
        alone=ALONE,
    )
