"""The page of a contention model, with figures, and the tables of `nimc model`."""

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
from analysis.contention.sweep import Point, Sweep, curves_of
from analysis.display.document import Table
from analysis.report.plots import drawing, light_colour, render_page, themed_svg
from records.groups import grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Names in the report's palette, which has a colour for each arm, and `other` for all else.
COMP_COLOUR_NAME, COMM_COLOUR_NAME, ALONE_COLOUR_NAME = "spin", "off", "other"
_GB = 1e9


def stacked_plot(prediction: Prediction, points: Sequence[Point], id_prefix: str) -> Markup:
    """Draw both rates, stacked, over the number of cores, in the style of Figure 2 of RR-9451.

    Areas and the line (computations alone) are predictions; points are measured. `id_prefix` makes
    the ids in the SVG unique.
    """
    n = prediction.n
    comp_gb_s, comm_gb_s = prediction.comp_par_b_s / _GB, prediction.comm_par_b_s / _GB
    comp_colour, comm_colour = light_colour(COMP_COLOUR_NAME), light_colour(COMM_COLOUR_NAME)
    alone_colour = light_colour(ALONE_COLOUR_NAME)
    with drawing(3.1) as figure:
        axes = figure.subplots()
        axes.fill_between(n, 0, comp_gb_s, color=comp_colour, alpha=0.45, lw=0)
        axes.fill_between(n, comp_gb_s, comp_gb_s + comm_gb_s, color=comm_colour, alpha=0.45, lw=0)
        axes.plot(n, prediction.comp_alone_b_s / _GB, color=alone_colour, lw=1.6)
        measured = curves_of(points)
        total = measured.comp_par + measured.comm_par
        _draw_measured(axes, measured.n, measured.comp_alone, alone_colour, "D")
        _draw_measured(axes, measured.n, measured.comp_par, comp_colour, "s")
        _draw_measured(axes, measured.n, total, comm_colour, "o")
        _finish_axes(axes, n)
        axes.set_ylabel("GB/s")
        _start_at_zero(axes, axes.dataLim.y1)
        return themed_svg(figure, id_prefix, "Stacked bandwidth over the number of computing cores")


def grid_plot(
    predictions: Sequence[Prediction],
    points: Iterable[Point],
    calibrated_nodes: Sequence[int],
) -> Markup:
    """Draw all placements: a column per node of computations, a row per node of communications.

    Lines are predictions, and points are measured. Hollow points and dotted lines are rates of one
    side alone. The titles of calibrated placements are bold.
    """
    points_of_placements = grouped((point.placement, point) for point in points)
    comp_nodes = sorted({prediction.comp_node for prediction in predictions})
    comm_nodes = sorted({prediction.comm_node for prediction in predictions})
    height, width = 0.5 + 1.75 * len(comm_nodes), 0.6 + 2.3 * len(comp_nodes)
    with drawing(height, width, font_size=8) as figure:
        panels = figure.subplots(
            len(comm_nodes), len(comp_nodes), sharex=True, sharey=True, squeeze=False
        )
        for prediction in predictions:
            comp_node, comm_node = prediction.comp_node, prediction.comm_node
            axes = panels[comm_nodes.index(comm_node), comp_nodes.index(comp_node)]
            _draw_placement(axes, prediction, points_of_placements.get((comp_node, comm_node), []))
            is_calibrated = comp_node == comm_node and comp_node in calibrated_nodes
            title = f"computations {comp_node}, communications {comm_node}"
            axes.set_title(title, fontsize=7.5, fontweight="bold" if is_calibrated else "normal")
        _start_at_zero(panels[0, 0], max(axes.dataLim.y1 for axes in panels.flat))
        for axes in panels[:-1].flat:
            axes.set_xlabel("")
        for axes in panels[:, 0]:
            axes.set_ylabel("GB/s")
        return themed_svg(figure, "grid", "Predicted and measured bandwidth of every placement")


def _draw_placement(axes: Axes, prediction: Prediction, points: Sequence[Point]) -> None:
    n, measured = prediction.n, curves_of(points)
    for side, colour, marker in (
        ("comp", light_colour(COMP_COLOUR_NAME), "s"),
        ("comm", light_colour(COMM_COLOUR_NAME), "o"),
    ):
        together, alone = getattr(measured, f"{side}_par"), getattr(measured, f"{side}_alone")
        axes.plot(n, getattr(prediction, f"{side}_par_b_s") / _GB, color=colour, lw=1.6)
        axes.plot(n, getattr(prediction, f"{side}_alone_b_s") / _GB, color=colour, lw=0.9, ls=":")
        _draw_measured(axes, measured.n, together, colour, marker)
        _draw_measured(axes, measured.n, alone, colour, marker, hollow=True)
    _finish_axes(axes, n)


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
    """Start the axis at 0. End it a little above the highest value, or at 1 if there is none."""
    axes.set_ylim(0, 1.05 * top if np.isfinite(top) and top > 0 else 1.0)


def _finish_axes(axes: Axes, n: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0.5, n[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.grid(axis="y")
    axes.set_xlabel("computing cores")


def render(model: Model, sweep: Sweep | None) -> str:
    """Return the page of a model; with a sweep, also its points and the model's errors on them."""
    predictions = [predict(model, *placement) for placement in placements(model)]
    points = [] if sweep is None else sweep.points
    nodes = model.calibrated_nodes()
    stacked = []
    for node in nodes:
        node_points = [point for point in points if point.placement == (node, node)]
        svg = stacked_plot(predict(model, node, node), node_points, f"s{node}")
        stacked.append((f"Both on NUMA node {node}", svg))
    errors = asdict(evaluate(model, sweep)) if sweep else {}
    notes = [*model.notes, *(sweep.notes if sweep else [])]
    return render_page(
        "analysis.contention",
        f"Contention model of {model.name}",
        model=model,
        sweep=sweep,
        notes=list(dict.fromkeys(notes)),
        stacked=stacked,
        grid=grid_plot(predictions, points, nodes),
        column_count=len({prediction.comp_node for prediction in predictions}),
        has_points=bool(points),
        errors={
            name.replace("_", " "): "\u2013" if value is None else f"{value:.2f} %"
            for name, value in errors.items()
        },
        parameters=parameter_rows(model),
        comp=COMP_COLOUR_NAME,
        comm=COMM_COLOUR_NAME,
        alone=ALONE_COLOUR_NAME,
    )


# Tables and JSON documents.

#: Parameter -> its unit. Parameters that are not listed are rates.
_UNITS = {
    **dict.fromkeys(("n_par_max", "n_seq_max"), "cores"),
    **dict.fromkeys(("delta_l_b_s", "delta_r_b_s"), "MB/s per core"),
    "alpha": "",
}


def predictions_document(model: Model, predictions: list[Prediction]) -> dict[str, Any]:
    """Return the JSON of `nimc model predict`, with rates in MB/s (10^6 bytes per second)."""
    return {
        "platform": model.name,
        "published": model.published,
        "notes": model.notes,
        "cores": model.cores,
        "numa_per_socket": model.numa_per_socket,
        "placements": [
            {
                "comp_node": prediction.comp_node,
                "comm_node": prediction.comm_node,
                "points": [
                    {
                        "n": int(n),
                        "comp_mb_s": _mb_s(prediction.comp_par_b_s[index]),
                        "comm_mb_s": _mb_s(prediction.comm_par_b_s[index]),
                        "comp_alone_mb_s": _mb_s(prediction.comp_alone_b_s[index]),
                        "comm_alone_mb_s": _mb_s(prediction.comm_alone_b_s[index]),
                    }
                    for index, n in enumerate(prediction.n)
                ],
            }
            for prediction in predictions
        ],
    }


def prediction_parts(model: Model, prediction: Prediction) -> list[str | Table]:
    """Return the caveats, and the rates on one placement: a row per number of cores."""
    source = "published" if model.published else "fitted"
    lines = [
        *model.notes,
        f"{model.name} ({source}), computations on node {prediction.comp_node}, "
        f"communications on node {prediction.comm_node}, MB/s (10^6 bytes per second)",
    ]
    curves_b_s = (
        prediction.comp_par_b_s,
        prediction.comp_alone_b_s,
        prediction.comm_par_b_s,
        prediction.comm_alone_b_s,
    )
    rates_by_n = zip(prediction.n, *curves_b_s, strict=True)
    rows = [[str(n), *map(_rate_text, rates_b_s)] for n, *rates_b_s in rates_by_n]
    header = ["n", "comp together", "comp alone", "comm together", "comm alone"]
    return [*lines, Table(header, rows)]


def _rate_text(rate_b_s: float) -> str:
    rate = _mb_s(rate_b_s)
    return "unknown" if rate is None else f"{rate:.1f}"


def fit_parts(model: Model) -> list[str | Table]:
    """Return the caveats, the parameters with rates in MB/s, and why parameters are unknown."""
    rows = [[name, local, remote] for name, local, remote, _ in parameter_rows(model)]
    unknown = [
        f"{placement} {name}: {reason}"
        for placement, reasons in model.unidentified.items()
        for name, reason in reasons.items()
    ]
    title = f"{model.name}, rates in MB/s (10^6 bytes per second)"
    return [*model.notes, title, Table(["", "local", "remote"], rows, left_aligned=(0,)), *unknown]


def parameter_rows(model: Model) -> list[tuple[str, str, str, str]]:
    """Return the name, local value, remote value and unit of each parameter."""
    return [
        (
            parameter.name.removesuffix("_b_s"),
            _parameter_text(getattr(model.local, parameter.name), parameter.name),
            _parameter_text(getattr(model.remote, parameter.name, None), parameter.name),
            _UNITS.get(parameter.name, "MB/s"),
        )
        for parameter in fields(Parameters)
    ]


def _parameter_text(value: float | None, name: str) -> str:
    """Return a parameter as text: a rate in MB/s, a number of cores as a whole number."""
    if value is None:
        return "unknown"
    if name.endswith("_b_s"):
        return f"{value / 1e6:.1f}"
    return str(value) if name.startswith("n_") else f"{value:.3f}"


def errors_parts(errors_by_model: dict[str, Errors], notes: list[str]) -> list[str | Table]:
    """Return the caveats, and the errors in percent with a column for each model.

    In Table 2 of RR-9451, each model is a row.
    """
    rows = [
        [
            field.name.replace("_", " "),
            *(_percent(getattr(errors, field.name)) for errors in errors_by_model.values()),
        ]
        for field in fields(Errors)
    ]
    table = Table(["", *errors_by_model], rows, left_aligned=(0,))
    return [*notes, "mean absolute percentage error, %", table]


def placement_errors_table(errors: list[PlacementErrors]) -> Table:
    """Return a table of the errors on each placement, percent.

    A placement that the model was calibrated on is a `sample`, as in RR-9451.
    """
    rows = [
        [
            str(placement.comp_node),
            str(placement.comm_node),
            "yes" if placement.sample else "no",
            _percent(placement.comm_percent),
            _percent(placement.comp_percent),
        ]
        for placement in errors
    ]
    return Table(["comp node", "comm node", "sample", "comm", "comp"], rows)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _mb_s(rate_b_s: float) -> float | None:
    return None if np.isnan(rate_b_s) else float(rate_b_s) / 1e6
