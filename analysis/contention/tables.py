"""Output of `nimc model`: tables and JSON documents."""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

import numpy as np

from analysis.contention.evaluate import COVERAGE, FEWEST, RATES, Errors, PlacementErrors
from analysis.contention.parameters import Band, Bands, Model, Parameters, Shape
from analysis.contention.predict import Prediction
from analysis.contention.recommend import EQUAL, Choice, Recommendation
from nimc.base.tables import aligned
from nimc.base.units import plural

#: Most columns of a table of errors, beside each other.
_COLUMNS = 3


def predictions_document(model: Model, predictions: list[Prediction]) -> dict[str, Any]:
    """`nimc model predict --json`: rates in MB/s (10^6 bytes per second), as published."""
    return {
        "platform": model.name,
        "kind": model.kind,
        "published": model.published,
        "notes": model.notes,
        "cores": model.cores,
        "numa_per_socket": model.numa_per_socket,
        "placements": [
            {
                "comp_node": p.comp_node,
                "comm_node": p.comm_node,
                "bands": None if p.bands is None else asdict(p.bands),
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


def prediction_table(model: Model, p: Prediction) -> str:
    """One placement, one line per number of cores; rates with their bands, if it has some."""
    origin = "published" if model.published else f"{model.kind} model, fitted"
    lines = [
        *model.notes,
        f"{model.name} ({origin}), computations on node {p.comp_node}, "
        f"communications on node {p.comm_node}, MB/s (10^6 bytes per second)",
    ]
    columns = [
        ("comp together", p.comp_par_b_s, p.band("comp_par")),
        ("comp alone", p.comp_alone_b_s, p.band("comp_alone")),
        ("comm together", p.comm_par_b_s, p.band("comm_par")),
        ("comm alone", p.comm_alone_b_s, None),
    ]
    if p.bands is not None:
        lines.append(bands_line(p.bands))
    rows = [
        [str(n), *(_with_band(float(rates[i]), band) for _, rates, band in columns)]
        for i, n in enumerate(p.n)
    ]
    return "\n".join([*lines, aligned(["n", *(name for name, *_ in columns)], rows)])


def _with_band(rate_b_s: float, band: Band | None) -> str:
    rate = _mb_s(rate_b_s)
    if rate is None:
        return "unknown"
    return f"{rate:.1f}" if band is None else f"{rate:.1f} +- {rate * band.width:6.1f}"


def bands_line(bands: Bands) -> str:
    """What the bands are, in words."""
    found = {words: getattr(bands, rate) for rate, words in RATES.items()}
    parts = [
        f"{words} {100 * band.width:.1f} % ({_points(band)})"
        for words, band in found.items()
        if band is not None
    ]
    return (
        f"within +- of the prediction are {COVERAGE:.0%} of the measurements held out"
        f" ({bands.held_out}): {', '.join(parts)}"
    )


def _points(band: Band) -> str:
    few = f", too few for {COVERAGE:.0%}: the largest" if band.points < FEWEST else ""
    return f"{band.points}{few}"


def fit_table(model: Model) -> str:
    """The parameters, MB/s, and why some are unknown."""
    lines = [
        *model.notes,
        f"{model.name}, {model.kind} model, rates in MB/s (10^6 bytes per second)",
    ]
    sides = ("local", "remote")
    rows = [
        [each.name, *(parameter_cell(p, each.name) for p in (model.local, model.remote))]
        for each in fields(Parameters)
    ]
    rows += [
        [each.name, *(shape_cell(model.shapes.get(side), each.name) for side in sides)]
        for each in fields(Shape)
        if model.shapes
    ]
    rows = [[name.removesuffix("_b_s"), *cells] for name, *cells in rows]
    lines.append(aligned(["", *sides], rows, left=(0,)))
    lines += [f"{placement}: {bands_line(bands)}" for placement, bands in model.bands.items()]
    for placement, reasons in model.unidentified.items():
        lines += [f"{placement} {name}: {reason}" for name, reason in reasons.items()]
    return "\n".join(lines)


def parameter_cell(p: Parameters | None, name: str) -> str:
    """A parameter as text: rates in MB/s, `unknown` for None."""
    value = None if p is None else getattr(p, name)
    if value is None:
        return "unknown"
    if name.startswith("n_"):
        return str(value)
    return f"{value:.3f}" if name == "alpha" else f"{value / 1e6:.1f}"


def shape_cell(shape: Shape | None, name: str) -> str:
    """What the improved model adds, as text: rates in MB/s, `none` without a shape."""
    value = None if shape is None else getattr(shape, name)
    if value is None:
        return "none"
    return f"{value / 1e6:.1f}" if name.endswith("_b_s") else f"{value:.3f}"


def errors_table(rows: dict[str, Errors], notes: list[str]) -> str:
    """Columns are rows of Table 2 of the paper, percent, below the caveats of the measurements."""
    names = [field.name for field in fields(Errors)]
    labels = list(rows)
    parts = [labels[at : at + _COLUMNS] for at in range(0, len(labels), _COLUMNS)]
    texts = [
        aligned(
            ["", *part],
            [
                [name.replace("_", " "), *(_percent(getattr(rows[each], name)) for each in part)]
                for name in names
            ],
            left=(0,),
        )
        for part in parts
    ]
    return "\n".join([*notes, "mean absolute percentage error, %", "\n\n".join(texts)])


def placement_errors_table(rows: list[PlacementErrors]) -> str:
    """Errors on each placement, percent; `sample`: the model was fitted to it."""
    table = [
        [
            str(row.comp_node),
            str(row.comm_node),
            "yes" if row.sample else "no",
            _percent(row.comm_percent),
            _percent(row.comp_percent),
        ]
        for row in rows
    ]
    return aligned(["comp node", "comm node", "sample", "comm", "comp"], table)


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def recommendation_document(model: Model, r: Recommendation) -> dict[str, Any]:
    """`nimc model recommend --json`; rates in bytes per second."""
    return {
        "platform": model.name,
        "kind": model.kind,
        "notes": [*model.notes, *r.notes],
        "best": asdict(r.best),
        "placements": [asdict(c) for c in r.placements],
        "cores": [asdict(c) for c in r.cores],
    }


def recommendation_table(model: Model, r: Recommendation) -> str:
    """The recommendation in a sentence, and the cost of other choices."""
    best = r.best
    lines = [
        *model.notes,
        *r.notes,
        f"{model.name}: compute with {plural(best.n, 'core')}, put communication buffers on NUMA"
        f" node {best.comm_node} (computations' data on node {best.comp_node})",
        f"a step takes {best.slowdown:.2f} times as long as without memory limits{_range(best)}",
        "",
        "a step with buffers elsewhere, each with its best number of cores:",
        *(_choice_line(c) for c in r.placements),
        "",
        "a step with other numbers of cores, buffers where recommended:",
        *(_choice_line(c) for c in r.cores),
    ]
    return "\n".join(lines)


def _choice_line(c: Choice) -> str:
    rates = f"{c.comp_b_s / 1e9:7.2f} GB/s computing, {c.comm_b_s / 1e9:6.2f} GB/s received"
    longer = f"{100 * c.cost:.1f} % longer"
    if c.cost <= EQUAL:
        longer = f"no longer (within {EQUAL:.0%})"
    elif c.tied:
        longer += ", tied (error bands overlap)"
    return f"  {plural(c.n, 'core'):>8}, buffers on node {c.comm_node}: {rates}, {longer}"


def _range(c: Choice) -> str:
    if c.slowdown_low == c.slowdown_high:
        return ""
    return f" ({c.slowdown_low:.2f} to {c.slowdown_high:.2f} in the error bands)"


def _mb_s(rate_b_s: float) -> float | None:
    return None if np.isnan(rate_b_s) else float(rate_b_s) / 1e6
