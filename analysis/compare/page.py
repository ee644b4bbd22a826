"""One self-contained page of a comparison, and its data next to it."""

from __future__ import annotations

import json
from pathlib import Path

from markupsafe import Markup

from analysis import numbers
from analysis.compare.dose import RATE_TOLERANCE
from analysis.compare.judge import CHANGES, LEVEL, Comparison, Shown
from analysis.compare.plots import REFERENCE, THIS, ratios_plot, slowdowns_plot
from analysis.compare.side import METRICS, Side
from analysis.compare.sides import Compared
from analysis.replacing import make_folder, replace_text
from analysis.report import words
from analysis.report.shell import render_page

#: Of compare.json, raised if a key goes or changes its meaning.
SCHEMA = 1
_DASH = "\u2013"


def write_page(folder: Path, compared: Compared) -> Path:
    """Writes compare.html and compare.json into `folder`; returns the page."""
    make_folder(folder)
    document = json.dumps({"schema": SCHEMA, **compared.document()}, indent=1) + "\n"
    replace_text(folder / "compare.json", document)
    page = folder / "compare.html"
    replace_text(page, render(compared))
    return page


def render(compared: Compared) -> str:
    """The page of a comparison."""
    sides = compared.reference, compared.this
    machines = list(dict.fromkeys(side.machine for side in sides))
    slowdowns = [row for row in compared.rows if row.metric == "slowdown"]
    return render_page(
        "analysis.compare",
        f"Memory contention compared: {' and '.join(machines)}",
        {"breakable": words.breakable},
        compared=compared,
        untrusted=compared.untrusted,
        sides=[_about(side) for side in sides],
        slowdowns=Markup(slowdowns_plot(slowdowns, "s")) if slowdowns else None,
        ratios=Markup(ratios_plot(compared.rows, "r")) if compared.rows else None,
        colours=(REFERENCE, THIS),
        metrics=METRICS,
        meaning=CHANGES,
        level=LEVEL,
        tolerance=RATE_TOLERANCE,
        shown=_shown,
        ratio=_ratio,
        p=_p,
    )


def _about(side: Side) -> tuple[str, str, str]:
    """Machine, campaign, and the nights with their dates."""
    nights = [f"{run.header.run} ({words.utc(run.header.started_s)})" for run in side.runs]
    return side.machine, side.campaign, ", ".join(nights)


def _shown(shown: Shown | None, row: Comparison) -> dict[str, str]:
    """A side's figure and interval, for the template."""
    if shown is None:
        return {"value": _DASH, "interval": ""}
    if row.metric == "slowdown":
        return _ratio(shown.value, shown.low, shown.high)
    factor, unit = numbers.scale(shown.value, row.unit)
    value, low, high = (numbers.number(v / factor) for v in (shown.value, shown.low, shown.high))
    return {"value": f"{value} {unit}", "interval": f"{low}{_DASH}{high}"}


def _ratio(value: float | None, low: float | None, high: float | None) -> dict[str, str]:
    if value is None:
        return {"value": _DASH, "interval": ""}
    text, ends = numbers.effect(value, low, high)
    return {"value": text, "interval": ends.replace("-", _DASH)}


def _p(value: float | None) -> str:
    return _DASH if value is None else f"{value:.2g}"
