"""`nimc model`: fit, predict, evaluate and apply the contention model."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import partial, wraps
from pathlib import Path
from typing import Any

import click

from analysis.contention import from_run, improved, parameters, published, sweep, tables
from analysis.contention.evaluate import (
    Errors,
    Fitter,
    Predictor,
    by_placement,
    cross_validate,
    evaluate,
)
from analysis.contention.fit import fit
from analysis.contention.parameters import Model
from analysis.contention.predict import check_node, placements, predict
from analysis.contention.recommend import Need, recommend
from analysis.contention.sweep import Sweep
from analysis.errors import InputError
from analysis.units import rate_b_s
from campaigns.document import Form, print_document
from campaigns.options import form_options, json_option, output_option
from campaigns.run_path import RunPath
from campaigns.text import wrapped

platform_option = click.option("--platform", help="A published machine, such as henri.")
file = RunPath()
model_option = click.option("--model", "model_file", type=file, help="A fitted model.")


@dataclass(frozen=True)
class _Facts:
    """What was given with a sweep: facts of the machine, and NUMA node of a run's buffers."""

    machine: dict[str, int | None]
    comm_node: int | None


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Predict how computation and communication share a node's memory."""


@command.command("predict")
@platform_option
@model_option
@click.option("--comp-node", type=int, help="NUMA node of the computation's data.")
@click.option("--comm-node", type=int, help="NUMA node of the communication's data.")
@form_options
def predict_command(
    platform: str | None,
    model_file: Path | None,
    comp_node: int | None,
    comm_node: int | None,
    form: Form | None,
) -> None:
    """Print rates for every number of computing cores, for one placement or all; JSON in MB/s."""
    model = load_model(platform, model_file)
    for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
        if node is not None:
            check_node(model, node, option)
    predictions = [
        predict(model, comp, comm)
        for comp, comm in placements(model)
        if comp_node in (None, comp) and comm_node in (None, comm)
    ]
    text = "\n\n".join(tables.prediction_table(model, p) for p in predictions)
    _say("predict", tables.predictions_document(model, predictions), text, form)


def _facts_options(function: Any) -> Any:
    """Add options for facts that a sweep lacks or has wrong, as the argument `facts`."""

    @wraps(function)
    def with_facts(
        cores: int | None,
        numa_per_socket: int | None,
        numa_nodes: int | None,
        comm_node: int | None,
        **others: Any,
    ) -> Any:
        facts = {"cores": cores, "numa_per_socket": numa_per_socket, "numa_nodes": numa_nodes}
        return function(facts=_Facts(facts, comm_node), **others)

    text = "NUMA node of the writers' buffers in a run."
    wrapped: Any = click.option("--comm-node", type=click.IntRange(min=0), help=text)(with_facts)
    for name, text in (
        ("--numa-nodes", "NUMA nodes of the machine."),
        ("--numa-per-socket", "NUMA nodes of a socket."),
        ("--cores", "Cores of a socket."),
    ):
        wrapped = click.option(name, type=click.IntRange(min=1), help=text)(wrapped)
    return wrapped


@command.command("fit")
@click.argument("sweep_file", type=file)
@_facts_options
@output_option("File for the model.")
@json_option
def fit_command(sweep_file: Path, facts: _Facts, output: Path | None, as_json: bool) -> None:
    """Fit the ten parameters of each calibrated placement to a sweep (JSON, CSV, or a run)."""
    model = fit(_load_sweep(sweep_file, facts))
    if output is not None:
        output.write_text(json.dumps(model.as_dict(), indent=1) + "\n")
    _say("fit", model.as_dict(), tables.fit_table(model), "json" if as_json else None)


@command.command("evaluate")
@click.argument("sweep_file", type=file)
@_facts_options
@platform_option
@model_option
@click.option("--folds", type=click.IntRange(min=2), default=8, show_default=True)
@form_options
def evaluate_command(
    sweep_file: Path,
    facts: _Facts,
    platform: str | None,
    model_file: Path | None,
    folds: int,
    form: Form | None,
) -> None:
    """Print errors on a sweep: of a given model, or of both models fitted and cross-validated."""
    measured = _load_sweep(sweep_file, facts)
    if platform is not None or model_file is not None:
        judged: Predictor = partial(predict, load_model(platform, model_file))
        rows = {"given model": evaluate(judged, measured)}
        if platform is not None:
            rows["published, Table 2"] = Errors(**published.errors_percent(platform))
    else:
        rows = {}
        judged = _published_model(measured)
        for name, fitter in FITTERS.items():
            rows[name] = evaluate(fitter(measured), measured)
            rows[f"{name}, held out"] = cross_validate(fitter, measured, folds)
    placed = by_placement(judged, measured)
    text = f"{tables.errors_table(rows, measured.notes)}\n\n{next(iter(rows))}, by placement:\n"
    _say(
        "evaluate",
        {"sweep": measured.name, "notes": measured.notes, "folds": folds}
        | {"errors": {name: errors.as_dict() for name, errors in rows.items()}}
        | {"placements": [asdict(row) for row in placed]},
        text + tables.placement_errors_table(placed),
        form,
    )


@command.command("recommend")
@platform_option
@model_option
@click.option("--cores", type=int, help="Cores the application could use [default: all].")
@click.option("--per-core", help="Memory bandwidth used by a core, such as 3GB/s.")
@click.option("--traffic", help="Incoming traffic, such as 10GB/s.")
@click.option("--comp-node", type=int, default=0, show_default=True)
@form_options
def recommend_command(
    platform: str | None,
    model_file: Path | None,
    cores: int | None,
    per_core: str | None,
    traffic: str | None,
    comp_node: int,
    form: Form | None,
) -> None:
    """Recommend a number of cores and a NUMA node for buffers, and show what others would cost."""
    model = load_model(platform, model_file)
    check_node(model, comp_node, "--comp-node")
    need = Need(
        cores=model.cores if cores is None else cores,
        per_core_b_s=None if per_core is None else rate_b_s(per_core, "--per-core"),
        traffic_b_s=None if traffic is None else rate_b_s(traffic, "--traffic"),
    )
    advice = recommend(model, need, comp_node)
    document = tables.recommendation_document(model, advice)
    _say("recommend", document, tables.recommendation_table(model, advice), form)


@command.command("plot")
@platform_option
@model_option
@click.option("--sweep", "sweep_file", type=file, help="Measurements to draw as well.")
@_facts_options
@output_option("HTML file.", required=True)
def plot_command(
    platform: str | None,
    model_file: Path | None,
    sweep_file: Path | None,
    facts: _Facts,
    output: Path,
) -> None:
    """Write a self-contained page: stacked bandwidth, grid of placements, parameters, errors."""
    from analysis.contention import page  # matplotlib takes a second to load

    model = load_model(platform, model_file)
    measured = None if sweep_file is None else _load_sweep(sweep_file, facts)
    output.write_text(page.render(model, measured), encoding="utf-8")
    click.echo(str(output))


def _published_model(measured: Sweep) -> Predictor:
    return partial(predict, fit(measured))


def _improved_model(measured: Sweep) -> Predictor:
    return improved.fit(measured).predict


#: Models that are evaluated side by side; the first is the default.
FITTERS: dict[str, Fitter] = {"published": _published_model, "improved": _improved_model}


def load_model(platform: str | None, model_file: Path | None) -> Model:
    """The published model of that name, or the one in the file; exactly one must be given."""
    if platform is not None and model_file is None:
        return published.load(platform)
    if model_file is not None and platform is None:
        try:
            document = json.loads(model_file.read_text())
        except OSError as error:
            raise InputError(f"{model_file}: {error.strerror}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{model_file}: not JSON ({error})") from None
        return parameters.from_dict(document, str(model_file))
    raise InputError("give --platform NAME or --model FILE (one of them)")


def _load_sweep(path: Path, facts: _Facts) -> Sweep:
    """The sweep in a file, or in the samples of a run's folder."""
    if path.is_dir():
        return sweep.overruled(from_run.load(path, facts.comm_node), facts.machine, path)
    if facts.comm_node is not None:
        raise InputError(f"--comm-node: {path} gives it for each point; allowed: with runs only")
    return sweep.load(path, facts.machine)


def _say(subcommand: str, document: dict[str, Any], text: str, form: Form | None) -> None:
    if form:
        print_document(f"model {subcommand}", document, form)
    else:
        click.echo(wrapped(text))
