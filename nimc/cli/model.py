"""The command `nimc model`, which fits, evaluates and applies the contention model.

The model predicts the rates at which computation and communication on a node use memory. A
*placement* is the NUMA node of the computation's data and that of the communication's buffers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from itertools import product
from pathlib import Path
from typing import Any

import click

from analysis.contention import page, parameters, placement_advice, sweep
from analysis.contention.evaluate import (
    Errors,
    calibrate,
    errors_by_placement,
    evaluate,
    load_published,
    percentage_errors,
    published_errors,
    published_names,
)
from analysis.contention.parameters import Model, placements, predict
from analysis.contention.sweep import Sweep
from analysis.display.document import Table, json_file_text
from analysis.display.figures import NO_FIGURE, quantity
from analysis.display.lines import Line, visible, wrapped
from analysis.samples.integrity import require_sound
from nimc.cli.answer import Answer, Listing, prints_answer
from nimc.cli.options import RunPath, completing, output_option, reject_without
from records.errors import InputError
from records.files import replace_text
from records.units import percentage

platform_option = click.option(
    "--platform",
    metavar="NAME",
    shell_complete=completing(published_names),
    help="A published machine, such as henri.",
)
#: Path of a JSON file, which for a sweep may also be the folder of a run.
_FILE_OR_RUN = RunPath()
model_option = click.option("--model", "model_path", type=_FILE_OR_RUN, help="A fitted model.")


@click.group()
def model_command() -> None:
    """Predict how computation and communication share a node's memory."""


@model_command.command("predict")
@platform_option
@model_option
@click.option("--comp-node", type=int, help="NUMA node of the computation's data.")
@click.option("--comm-node", type=int, help="NUMA node of the communication's buffers.")
@prints_answer()
def predict_command(
    platform: str | None, model_path: Path | None, comp_node: int | None, comm_node: int | None
) -> Answer:
    """Print rates for every number of computing cores, for the placements on the given nodes.

    If no node is given, all placements are printed. Rates are in MB/s.
    """
    model = load_model(platform, model_path)
    nodes = sorted({node for node, _ in placements(model)})
    comp_nodes = nodes if comp_node is None else [comp_node]
    comm_nodes = nodes if comm_node is None else [comm_node]
    predictions = [predict(model, *placement) for placement in product(comp_nodes, comm_nodes)]
    parts: list[str | Table] = []
    for prediction in predictions:
        if parts:
            parts.append("")
        parts += page.prediction_parts(model, prediction)
    return Answer(page.predictions_document(model, predictions), _in_80_columns(parts), schema=3)


def _run_options(function: Any) -> Any:
    """Add the options with which `_load_sweep` selects a sweep in a run."""
    node_help = "NUMA node of the writers' buffers in a run."
    kernel_help = "Level of the run's factor `kernel` [default: the first]."
    function = click.option("--comm-node", type=click.IntRange(min=0), help=node_help)(function)
    return click.option("--kernel", metavar="NAME", help=kernel_help)(function)


@model_command.command("fit")
@click.argument("sweep_file", type=_FILE_OR_RUN)
@_run_options
@output_option("File for the model.")
@prints_answer()
def fit_command(
    sweep_file: Path, output: Path | None, comm_node: int | None, kernel: str | None
) -> Answer:
    """Fit a model to a sweep (JSON, or a run)."""
    _require_other_file(output, sweep_file)
    model = calibrate(_load_sweep(sweep_file, comm_node, kernel)).model
    if output is not None:
        replace_text(output, json_file_text(model.as_dict()))
    return Answer(model.as_dict(), _in_80_columns(page.fit_parts(model)), schema=4)


@model_command.command("evaluate")
@click.argument("sweep_file", type=_FILE_OR_RUN)
@_run_options
@platform_option
@model_option
@prints_answer()
def evaluate_command(
    sweep_file: Path,
    platform: str | None,
    model_path: Path | None,
    comm_node: int | None,
    kernel: str | None,
) -> Answer:
    """Print the errors of a model on a sweep.

    If no model is given, a model is fitted to the sweep and cross-validated.
    """
    measured_sweep = _load_sweep(sweep_file, comm_node, kernel)
    notes = measured_sweep.notes
    if platform is not None or model_path is not None:
        model = load_model(platform, model_path)
        notes = list(dict.fromkeys([*model.notes, *notes]))
        errors = {"given model": evaluate(model, measured_sweep)}
        if platform is not None:
            errors["published, Table 2"] = Errors(**published_errors(platform))
    else:
        calibration = calibrate(measured_sweep)
        model, notes = calibration.model, calibration.model.notes
        errors = {"fitted": evaluate(model, measured_sweep)}
        errors["cores held out"] = percentage_errors(calibration.held_out_cores)
        if calibration.held_out_placements.height:
            errors["placements held out"] = percentage_errors(calibration.held_out_placements)
    placement_errors = errors_by_placement(model, measured_sweep)
    document = {
        "sweep": measured_sweep.name,
        "notes": notes,
        "errors": {name: row.as_dict() for name, row in errors.items()},
        "placements": [asdict(row) for row in placement_errors],
    }
    parts = page.errors_parts(errors, notes)
    table = page.placement_errors_table(placement_errors)
    model_label = next(iter(errors))
    parts += ["", f"{model_label}, by placement:", table]
    return Answer(document, _in_80_columns(parts), schema=4)


@model_command.command("advise")
@platform_option
@model_option
@click.option("--cores", type=int, help="Computing cores [default: all that the model has].")
@click.option("--comp-node", type=int, help="NUMA node of the computation's data [default: any].")
@click.option(
    "--sweep", "sweep_file", type=_FILE_OR_RUN, help="Measurements, whose placements are marked."
)
@_run_options
@prints_answer(tables=True)
def advise_command(
    platform: str | None,
    model_path: Path | None,
    cores: int | None,
    comp_node: int | None,
    sweep_file: Path | None,
    comm_node: int | None,
    kernel: str | None,
) -> Answer:
    """Say where to put data and buffers.

    Also print from how many cores on computations and communications both lose.
    """
    if sweep_file is None:
        reject_without("--sweep", "--kernel", "--comm-node")
    model = load_model(platform, model_path)
    measured_placements: list[tuple[int, int]] = []
    if sweep_file is not None:
        measured_placements = _load_sweep(sweep_file, comm_node, kernel).placements()
    cores = model.cores if cores is None else cores
    rows = placement_advice.advise(model, cores, comp_node, measured_placements)
    sentences = placement_advice.sentences(model, cores, rows)
    document = {
        "model": model.name,
        "published": model.published,
        "cores": cores,
        "notes": model.notes,
        "placements": [asdict(row) for row in rows],
        "sentences": sentences,
    }
    listing = Listing(
        header=_PLACEMENTS_HEADER,
        lines=[_placement_line(model, row) for row in rows],
        min_columns=len(_PLACEMENTS_HEADER),
        notes=model.notes,
        legend=_PLACEMENTS_LEGEND,
        conclusions=sentences,
    )
    return Answer(document, [listing])


_PLACEMENTS_HEADER = (
    "data",
    "buffers",
    "computations",
    "communications",
    "unharmed",
    "both lose",
    "placement",
)
_PLACEMENTS_LEGEND = (
    "rates of the model with both running, and their shares of the best rate alone in any"
    " placement; unharmed: the most cores with which neither loses more than 1 % of its rate alone"
    " there; both lose: the fewest with which both do"
)


def _placement_line(model: Model, row: placement_advice.PlacementRates) -> Line:
    rates = [
        NO_FIGURE if share is None else f"{quantity(rate_b_s, 'B/s', 3)}, {percentage(share)}"
        for rate_b_s, share in ((row.comp_b_s, row.comp_share), (row.comm_b_s, row.comm_share))
    ]
    counts = [
        NO_FIGURE if count is None else str(count)
        for count in (row.unharmed_cores, row.both_lose_cores)
    ]
    nodes = [f"node {row.comp_node}", f"node {row.comm_node}"]
    return Line([*nodes, *rates, *counts, placement_advice.placement_basis(model, row)])


@model_command.command("plot")
@platform_option
@model_option
@click.option("--sweep", "sweep_file", type=_FILE_OR_RUN, help="Measurements to draw as well.")
@_run_options
@output_option("HTML file.", required=True)
def plot_command(
    platform: str | None,
    model_path: Path | None,
    sweep_file: Path | None,
    output: Path,
    comm_node: int | None,
    kernel: str | None,
) -> None:
    """Write a page with stacked bandwidths, a grid of placements, parameters and errors."""
    if sweep_file is None:
        reject_without("--sweep", "--kernel", "--comm-node")
    _require_other_file(output, model_path, sweep_file)
    model = load_model(platform, model_path)
    measured_sweep = None if sweep_file is None else _load_sweep(sweep_file, comm_node, kernel)
    replace_text(output, page.render(model, measured_sweep))
    click.echo(str(output))


def _require_other_file(output: Path | None, *inputs: Path | None) -> None:
    """Raise InputError if the file of `--output` is one of the files that the command reads.

    All files of a run count as such.
    """
    if output is None or not output.exists():
        return
    for path in filter(None, inputs):
        if output.samefile(path) or path.resolve() in output.resolve().parents:
            raise InputError(f"--output: {output} is read by this command; allowed: another file")


def load_model(platform: str | None, model_path: Path | None) -> Model:
    """Return the published model of a platform, or the model in a file.

    Raises InputError unless exactly one of the two is given.
    """
    if platform is not None and model_path is None:
        return load_published(platform)
    if model_path is not None and platform is None:
        return parameters.load_model(model_path)
    raise InputError("give --platform NAME or --model FILE (one of them)")


def _load_sweep(path: Path, comm_node: int | None, kernel: str | None) -> Sweep:
    """Return the sweep in a file, or in the samples of a run."""
    if path.is_dir():
        require_sound(path)
        return sweep.sweep_of_run(path, comm_node, kernel)
    if comm_node is not None:
        raise InputError(f"--comm-node: {path} gives it for each point; allowed: with runs only")
    if kernel is not None:
        raise InputError(f"--kernel: {path} is of one kernel; allowed: with runs only")
    return sweep.load_sweep(path)


def _in_80_columns(parts: Iterable[str | Table]) -> list[str | Table]:
    """Return the parts of a text, with each text wrapped to 80 columns.

    Characters that could control the terminal are replaced.
    """
    return [wrapped(visible(part)) if isinstance(part, str) else part for part in parts]
