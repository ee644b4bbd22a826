"""The page of a model, with figures, and the tables of `nimc model`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from analysis.contention.evaluate import Errors, PlacementErrors, evaluate
from analysis.contention.parameters import (
    CoreCounts,
    Model,
    Parameters,
    Prediction,
    Rates,
    placements,
    predict,
)
from analysis.contention.sweep import Point, Sweep, curves
from analysis.display.document import Table
from analysis.report.plots import drawing, light_colour, render_page, themed_svg
from records.groups import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The report's colours for computations, communications, and either alone.
COMP_COLOUR, COMM_COLOUR, ALONE_COLOUR = "spin", "off", "other"
_GB = 1e9


def stacked_plot(prediction: Prediction, points: Sequence[Point], name: str) -> Markup:
    """Draw both rates, stacked, over the number of cores, as Figure 2 of the paper.

    Areas and the line (computations alone) are predictions; points are measured.
    """
    n = prediction.n
    comp, comm = prediction.comp_par_b_s / _GB, prediction.comm_par_b_s / _GB
    with drawing(3.1) as figure:
        axes = figure.subplots()
        axes.fill_between(n, 0, comp, color=light_colour(COMP_COLOUR), alpha=0.45, lw=0)
        axes.fill_between(n, comp, comp + comm, color=light_colour(COMM_COLOUR), alpha=0.45, lw=0)
        axes.plot(n, prediction.comp_alone_b_s / _GB, color=light_colour(ALONE_COLOUR), lw=1.6)
        c = curves(points)
        _draw_measured(axes, c.n, c.comp_alone, light_colour(ALONE_COLOUR), "D")
        _draw_measured(axes, c.n, c.comp_par, light_colour(COMP_COLOUR), "s")
        _draw_measured(axes, c.n, c.comp_par + c.comm_par, light_colour(COMM_COLOUR), "o")
        _finish_axes(axes, n)
        axes.set_ylabel("GB/s")
        _start_at_zero(axes, axes.dataLim.y1)
        return themed_svg(figure, name, "Stacked bandwidth over the number of computing cores")


def grid_plot(
    predictions: Sequence[Prediction], points: Iterable[Point], calibrated: Sequence[int], name: str
) -> Markup:
    """Draw all placements: a column per node of computations, a row per node of communications.

    Lines are predictions, points are measured; hollow points and dotted lines are rates alone. The
    titles of calibrated placements are bold.
    """
    points_of_placements = grouped((point.placement, point) for point in points)
    columns = sorted({p.comp_node for p in predictions})
    rows = sorted({p.comm_node for p in predictions})
    with drawing(0.5 + 1.75 * len(rows), 0.6 + 2.3 * len(columns), font_size=8) as figure:
        panels = figure.subplots(len(rows), len(columns), sharex=True, sharey=True, squeeze=False)
        for p in predictions:
            axes = panels[rows.index(p.comm_node), columns.index(p.comp_node)]
            _draw_placement(axes, p, points_of_placements.get((p.comp_node, p.comm_node), []))
            sample = p.comp_node == p.comm_node and p.comp_node in calibrated
            title = f"computations {p.comp_node}, communications {p.comm_node}"
            axes.set_title(title, fontsize=7.5, fontweight="bold" if sample else "normal")
        _start_at_zero(panels[0, 0], max(axes.dataLim.y1 for axes in panels.flat))
        for axes in panels[:-1].flat:
            axes.set_xlabel("")
        for axes in panels[:, 0]:
            axes.set_ylabel("GB/s")
        return themed_svg(figure, name, "Predicted and measured bandwidth of every placement")


def _draw_placement(axes: Axes, p: Prediction, points: Sequence[Point]) -> None:
    c = curves(points)
    for side, colour, marker in (
        ("comp", light_colour(COMP_COLOUR), "s"),
        ("comm", light_colour(COMM_COLOUR), "o"),
    ):
        axes.plot(p.n, getattr(p, f"{side}_par_b_s") / _GB, color=colour, lw=1.6)
        axes.plot(p.n, getattr(p, f"{side}_alone_b_s") / _GB, color=colour, lw=0.9, ls=":")
        _draw_measured(axes, c.n, getattr(c, f"{side}_par"), colour, marker)
        _draw_measured(axes, c.n, getattr(c, f"{side}_alone"), colour, marker, hollow=True)
    _finish_axes(axes, p.n)


def _draw_measured(
    axes: Axes, n: CoreCounts, rates_b_s: Rates, colour: str, marker: str, hollow: bool = False
) -> None:
    """Draw a point for each rate that was measured."""
    is_measured = np.isfinite(rates_b_s)
    if is_measured.any():
        rates_gb_s = rates_b_s[is_measured] / _GB
        colours: dict[str, Any] = {"facecolor": "none" if hollow else colour, "edgecolor": colour}
        axes.scatter(n[is_measured], rates_gb_s, s=11, marker=marker, lw=0.8, **colours)


def _start_at_zero(axes: Axes, top: float) -> None:
    """Start the axis at 0, and end it a little above the highest value; at 1 if there is none."""
    axes.set_ylim(0, 1.05 * top if np.isfinite(top) and top > 0 else 1.0)


def _finish_axes(axes: Axes, n: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.5, n[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.grid(axis="y")
    axes.set_xlabel("computing cores")


def render(model: Model, sweep: Sweep | None) -> str:
    """The page of a model; with a sweep, also its points and the errors on it."""
    predictions = [predict(model, *placement) for placement in placements(model)]
    points = [] if sweep is None else sweep.points
    nodes = model.calibrated_nodes()
    stacked = []
    for node in nodes:
        node_points = [p for p in points if p.placement == (node, node)]
        svg = stacked_plot(predict(model, node, node), node_points, f"s{node}")
        stacked.append((f"Both on NUMA node {node}", svg))
    errors = asdict(evaluate(model, sweep)) if sweep else {}
    return render_page(
        "analysis.contention",
        f"Contention model of {model.name}",
        model=model,
        stacked=stacked,
        grid=grid_plot(predictions, points, nodes, "g"),
        columns=len({p.comp_node for p in predictions}),
        measured=bool(points),
        errors={
            name.replace("_", " "): "\u2013" if value is None else f"{value:.2f} %"
            for name, value in errors.items()
        },
        parameters=parameter_rows(model),
        comp=COMP_COLOUR,
        comm=COMM_COLOUR,
        alone=ALONE_COLOUR,
    )


# Tables and JSON documents.

#: Parameter -> its unit; all others are rates.
_UNITS = {
    **dict.fromkeys(("n_par_max", "n_seq_max"), "cores"),
    **dict.fromkeys(("delta_l_b_s", "delta_r_b_s"), "MB/s per core"),
    "alpha": "",
}


def predictions_document(model: Model, predictions: list[Prediction]) -> dict[str, Any]:
    """`nimc model predict --json`: rates in MB/s (10^6 bytes per second), as published."""
    return {
        "platform": model.name,
        "published": model.published,
        "notes": model.notes,
        "cores": model.cores,
        "numa_per_socket": model.numa_per_socket,
        "placements": [
            {
                "comp_node": p.comp_node,
                "comm_node": p.comm_node,
                "points": [
                    {
                        "n": int(n),
                        "comp_mb_s": _mb_s(p.comp_par_b_s[i]),
                        "comm_mb_s": _mb_s(p.comm_par_b_s[i]),
                        "comp_alone_mb_s": _mb_s(p.comp_alone_b_s[i]),
                        "comm_alone_mb_s": _mb_s(p.comm_alone_b_s[i]),
                    }
                    for i, n in enumerate(p.n)
                ],
            }
            for p in predictions
        ],
    }


def prediction_parts(model: Model, p: Prediction) -> list[str | Table]:
    """The caveats, and the rates on one placement: a row per number of cores."""
    origin = "published" if model.published else "fitted"
    lines = [
        *model.notes,
        f"{model.name} ({origin}), computations on node {p.comp_node}, "
        f"communications on node {p.comm_node}, MB/s (10^6 bytes per second)",
    ]
    rates = (p.comp_par_b_s, p.comp_alone_b_s, p.comm_par_b_s, p.comm_alone_b_s)
    rows = [[str(n), *(_rate(rate[i]) for rate in rates)] for i, n in enumerate(p.n)]
    header = ["n", "comp together", "comp alone", "comm together", "comm alone"]
    return [*lines, Table(header, rows)]


def _rate(rate_b_s: float) -> str:
    rate = _mb_s(rate_b_s)
    return "unknown" if rate is None else f"{rate:.1f}"


def fit_parts(model: Model) -> list[str | Table]:
    """The parameters, MB/s, and why some are unknown."""
    rows = [[name, local, remote] for name, local, remote, _ in parameter_rows(model)]
    unknown = [
        f"{placement} {name}: {reason}"
        for placement, reasons in model.unidentified.items()
        for name, reason in reasons.items()
    ]
    rates = f"{model.name}, rates in MB/s (10^6 bytes per second)"
    return [*model.notes, rates, Table(["", "local", "remote"], rows, left=(0,)), *unknown]


def parameter_rows(model: Model) -> list[tuple[str, str, str, str]]:
    """The name, local value, remote value and unit of each parameter."""
    return [
        (
            parameter.name.removesuffix("_b_s"),
            _cell(getattr(model.local, parameter.name), parameter.name),
            _cell(getattr(model.remote, parameter.name, None), parameter.name),
            _UNITS.get(parameter.name, "MB/s"),
        )
        for parameter in fields(Parameters)
    ]


def _cell(value: float | None, name: str) -> str:
    """A parameter as text: rates in MB/s, numbers of cores whole."""
    if value is None:
        return "unknown"
    if name.endswith("_b_s"):
        return f"{value / 1e6:.1f}"
    return str(value) if name.startswith("n_") else f"{value:.3f}"


def errors_parts(rows: dict[str, Errors], notes: list[str]) -> list[str | Table]:
    """The caveats, and the errors in percent: a column for each row of Table 2 of the paper."""
    cells = [
        [name.replace("_", " "), *(_percent(getattr(errors, name)) for errors in rows.values())]
        for name in (field.name for field in fields(Errors))
    ]
    table = Table(["", *rows], cells, left=(0,))
    return [*notes, "mean absolute percentage error, %", table]


def placement_errors_table(rows: list[PlacementErrors]) -> Table:
    """Errors on each placement, percent; `sample`: the model was fitted to it."""
    cells = [
        [
            str(row.comp_node),
            str(row.comm_node),
            "yes" if row.sample else "no",
            _percent(row.comm_percent),
            _percent(row.comp_percent),
        ]
        for row in rows
    ]
    return Table(["comp node", "comm node", "sample", "comm", "comp"], cells)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _mb_s(rate_b_s: float) -> float | None:
    return None if np.isnan(rate_b_s) else float(rate_b_s) / 1e6
