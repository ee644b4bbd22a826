"""One self-contained page of a model: figures, parameters and, with measurements, errors."""

from __future__ import annotations

from dataclasses import fields

from markupsafe import Markup

from analysis.contention.evaluate import Errors, evaluate
from analysis.contention.parameters import Model, Parameters, Shape
from analysis.contention.plots import ALONE, COMM, COMP, grid_plot, stacked_plot
from analysis.contention.predict import placements, predict
from analysis.contention.sweep import Sweep
from analysis.contention.tables import bands_line, parameter_cell, shape_cell
from analysis.report.shell import render_page


def render(model: Model, sweep: Sweep | None) -> str:
    """The page of a model; with a sweep, also its points and the errors on it."""
    predictions = [predict(model, *at) for at in placements(model)]
    points = [] if sweep is None else sweep.points
    nodes = model.calibrated_nodes()
    stacked = [
        (
            f"Both on NUMA node {node}",
            Markup(
                stacked_plot(
                    predict(model, node, node),
                    [p for p in points if p.comp_node == p.comm_node == node],
                    f"s{node}",
                )
            ),
        )
        for node in nodes
    ]
    errors = None if sweep is None else evaluate(model, sweep)
    names = [field.name for field in fields(Errors)]
    return render_page(
        "analysis.contention",
        f"Contention model of {model.name}",
        model=model,
        stacked=stacked,
        grid=Markup(grid_plot(predictions, points, nodes, "g")),
        columns=len({p.comp_node for p in predictions}),
        measured=bool(points),
        errors=[] if errors is None else [("this model", _cells(errors, names))],
        error_names=[name.replace("_", " ") for name in names],
        parameters=[_row(model, field.name) for field in fields(Parameters)]
        + [_shape_row(model, field.name) for field in fields(Shape) if model.shapes],
        bands=[(where, bands_line(bands)) for where, bands in model.bands.items()],
        comp=COMP,
        comm=COMM,
        alone=ALONE,
    )


def _cells(errors: Errors, names: list[str]) -> list[str]:
    values = (getattr(errors, name) for name in names)
    return ["\u2013" if value is None else f"{value:.2f} %" for value in values]


def _row(model: Model, name: str) -> tuple[str, str, str, str]:
    unit = "MB/s per core" if name.startswith("delta") else "MB/s"
    unit = {"n": "cores", "a": ""}.get(name[0], unit)
    local, remote = parameter_cell(model.local, name), parameter_cell(model.remote, name)
    return name.removesuffix("_b_s"), local, remote, unit


def _shape_row(model: Model, name: str) -> tuple[str, str, str, str]:
    units = {"softness": "", "loss_from": "cores", "loss_to": "cores", "group_b_s": "MB/s"}
    local, remote = (shape_cell(model.shapes.get(at), name) for at in ("local", "remote"))
    return name.removesuffix("_b_s"), local, remote, units.get(name, "MB/s per core")
