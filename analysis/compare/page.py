"""One self-contained page of a comparison, and its data next to it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from markupsafe import Markup

from analysis.compare.side import METRICS, RATE_TOLERANCE, Side
from analysis.compare.sides import CHANGES, LEVEL, Compared, Comparison, Shown
from analysis.report import words
from analysis.report.plots import (
    LEVEL_COLOURS,
    LEVEL_MARKERS,
    PLAIN,
    drawing,
    label,
    light,
    themed_svg,
)
from analysis.report.shell import render_page
from nimc.base import units
from nimc.base.files import make_folder, replace_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Figures of a comparison: both sides' slowdowns, and the ratios between the sides.


#: Colours and markers of the reference and of this side.
REFERENCE, THIS = LEVEL_COLOURS[1], LEVEL_COLOURS[0]
_MARKERS = {REFERENCE: LEVEL_MARKERS[2], THIS: LEVEL_MARKERS[0]}
#: Distance of a side from the middle of its row.
_APART = 0.15
#: Distance of its nights from its interval.
_ASIDE = 0.13


def slowdowns_plot(rows: Sequence[Comparison], name: str) -> str:
    """Slowdowns of both sides, the reference above: one point per night, and the interval."""
    with _drawn(rows, 0.55) as (figure, axes):
        for line, row in enumerate(rows):
            _side(axes, row.reference, line - _APART, REFERENCE)
            _side(axes, row.this, line + _APART, THIS)
        axes.set_xlabel("slowdown (1 is no effect)")
        axes.set_yticks(range(len(rows)), [_label(row) for row in rows])
        return themed_svg(figure, name, "Slowdowns of both sides with their intervals")


def ratios_plot(rows: Sequence[Comparison], name: str) -> str:
    """The ratio of every row with its interval; rows of another dose are grey."""
    with _drawn(rows, 0.42) as (figure, axes):
        for line, row in enumerate(rows):
            if row.ratio is not None and row.ratio_low is not None and row.ratio_high is not None:
                colour = light("bad" if row.verdict == "dose differs" else THIS)
                _interval(axes, row.ratio, row.ratio_low, row.ratio_high, line, colour)
        axes.set_xlabel("this side / reference")
        axes.set_yticks(range(len(rows)), [_label(row, METRICS[row.metric]) for row in rows])
        return themed_svg(figure, name, f"This side / reference: {_said(rows)}")


def _said(rows: Sequence[Comparison]) -> str:
    """The ratios with their intervals, for readers who do not see the figure."""
    return "; ".join(
        f"{_label(row, METRICS[row.metric])} {row.ratio:.3f} "
        f"({row.ratio_low:.3f} to {row.ratio_high:.3f})".replace("\n", " ")
        for row in rows
        if row.ratio is not None
    )


@contextmanager
def _drawn(rows: Sequence[Comparison], row_in: float) -> Iterator[tuple[Figure, Axes]]:
    """A figure with a row for each comparison, the first on top, and a line at 1."""
    with drawing(0.9 + row_in * len(rows)) as figure:
        axes = figure.subplots()
        axes.axvline(1, color=light("muted"), lw=1)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(length=0)
        axes.tick_params(axis="y", labelsize=9)
        axes.grid(axis="x")
        axes.spines["left"].set_visible(False)
        yield figure, axes


def _label(row: Comparison, metric: str = "") -> str:
    arm = "" if row.arm in (PLAIN, "off") else label(row.arm).replace("\n", " ")
    return "\n".join(word for word in (row.case, f"{arm} {metric}".strip()) if word)


def _side(axes: Axes, shown: Shown | None, y: float, name: str) -> None:
    if shown is None:
        return
    _interval(axes, shown.value, shown.low, shown.high, y, light(name))
    if len(shown.nights) > 1:
        axes.plot(
            shown.nights,
            [y + (_ASIDE if name == THIS else -_ASIDE)] * len(shown.nights),
            ls="none",
            marker=_MARKERS[name],
            ms=4.4,
            mew=0,
            alpha=0.7,
            color=light(name),
            gid=f"nights-{name}-{y:.2f}",
        )


def _interval(axes: Axes, value: float, low: float, high: float, y: float, colour: str) -> None:
    axes.plot([low, high], [y, y], color=colour, lw=3, solid_capstyle="butt")
    axes.plot(value, y, marker="|", ms=11, mew=2.5, color=light("ink"))


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
    factor, unit = units.scale(shown.value, row.unit)
    value, low, high = (units.number(v / factor) for v in (shown.value, shown.low, shown.high))
    return {"value": f"{value} {unit}", "interval": f"{low}{_DASH}{high}"}


def _ratio(value: float | None, low: float | None, high: float | None) -> dict[str, str]:
    if value is None:
        return {"value": _DASH, "interval": ""}
    text, ends = units.effect(value, low, high)
    return {"value": text, "interval": ends.replace("-", _DASH)}


def _p(value: float | None) -> str:
    return _DASH if value is None else f"{value:.2g}"
