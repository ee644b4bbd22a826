"""`nimc model`: fit, predict, evaluate and apply the contention model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import numpy as np

from analysis.contention import parameters, published
from analysis.contention.parameters import Model
from analysis.contention.predict import Prediction, check_node, placements, predict
from analysis.errors import InputError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """Predict how computations and communications share a node's memory."""


@command.command("predict")
@click.option("--platform", help="A published machine, such as henri.")
@click.option("--model", "model_file", type=click.Path(path_type=Path), help="A fitted model.")
@click.option("--comp-node", type=int, help="NUMA node of the computations' data.")
@click.option("--comm-node", type=int, help="NUMA node of the communications' data.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document, rates in MB/s.")
def predict_command(
    platform: str | None,
    model_file: Path | None,
    comp_node: int | None,
    comm_node: int | None,
    as_json: bool,
) -> None:
    """Rates of both sides for every number of computing cores, for one placement or all."""
    model = load_model(platform, model_file)
    for option, node in (("--comp-node", comp_node), ("--comm-node", comm_node)):
        if node is not None:
            check_node(model, node, option)
    predictions = [
        predict(model, comp, comm)
        for comp, comm in placements(model)
        if comp_node in (None, comp) and comm_node in (None, comm)
    ]
    if as_json:
        click.echo(json.dumps(_document(model, predictions), indent=1))
    else:
        for prediction in predictions:
            click.echo(_table(model, prediction))


def load_model(platform: str | None, model_file: Path | None) -> Model:
    """The published model of that name, or the one in the file; exactly one must be given."""
    if platform is not None and model_file is None:
        return published.load(platform)
    if model_file is not None and platform is None:
        try:
            document = json.loads(model_file.read_text())
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{model_file}: not JSON ({error})") from None
        return parameters.from_dict(document, str(model_file))
    raise InputError("give --platform NAME or --model FILE (one of them)")


def _document(model: Model, predictions: list[Prediction]) -> dict[str, Any]:
    return {
        "platform": model.name,
        "published": model.published,
        "cores": model.cores,
        "numa_per_socket": model.numa_per_socket,
        "placements": [
            {
                "comp_node": p.comp_node,
                "comm_node": p.comm_node,
                "points": [
                    {
                        "n": int(p.n[i]),
                        "comp_mb_s": _mb_s(p.comp_par_b_s[i]),
                        "comm_mb_s": _mb_s(p.comm_par_b_s[i]),
                        "comp_alone_mb_s": _mb_s(p.comp_alone_b_s[i]),
                        "comm_alone_mb_s": _mb_s(p.comm_alone_b_s[i]),
                    }
                    for i in range(len(p.n))
                ],
            }
            for p in predictions
        ],
    }


def _mb_s(rate_b_s: float) -> float | None:
    return None if np.isnan(rate_b_s) else float(rate_b_s) / 1e6


def _table(model: Model, p: Prediction) -> str:
    origin = "published" if model.published else "fitted"
    lines = [
        f"{model.name} ({origin}), computations on node {p.comp_node}, "
        f"communications on node {p.comm_node}, MB/s (10^6 bytes per second)",
        "   n  comp together     comp alone  comm together     comm alone",
    ]
    columns = (p.comp_par_b_s, p.comp_alone_b_s, p.comm_par_b_s, p.comm_alone_b_s)
    for i, n in enumerate(p.n):
        cells = (_mb_s(column[i]) for column in columns)
        lines.append(f"{n:4d}" + "".join(f"{_cell(cell):>15}" for cell in cells))
    return "\n".join(lines) + "\n"


def _cell(rate_mb_s: float | None) -> str:
    return "unknown" if rate_mb_s is None else f"{rate_mb_s:.1f}"
