"""Writes a comparison of two sides as one self-contained page, with its data next to it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from analysis.compare.mismatches import RATE_TOLERANCE
from analysis.compare.sides import (
    ERROR_LEVEL,
    METRICS,
    VERDICT_MEANINGS,
    ComparedSides,
    Comparison,
)
from analysis.display import figures
from analysis.display.document import json_file_text
from analysis.history.between_nights import (
    MIN_HISTORY_NIGHTS,
    MISSED_CHANCE,
    MISSED_CHANCE_OF_HISTORY,
)
from analysis.report import plots, words
from analysis.report.plots import DEFAULT_TREATMENT, LEVEL_COLOURS, LEVEL_MARKERS, render_page
from analysis.statistics.interval import Estimate
from analysis.subjects.scaling_section import best_of_five_figure
from records.files import make_folder, replace_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Names of the colours of the reference and of this side.
REFERENCE_COLOUR, THIS_COLOUR = LEVEL_COLOURS[1], LEVEL_COLOURS[0]
#: Colour -> marker of the side that has it.
_MARKERS = {REFERENCE_COLOUR: LEVEL_MARKERS[2], THIS_COLOUR: LEVEL_MARKERS[0]}
#: Distance of a side's interval from the middle of its row, in rows.
_SIDE_OFFSET = 0.15
#: Distance of a side's nights from its interval, in rows.
_NIGHTS_OFFSET = 0.13


def slowdowns_plot(rows: Sequence[Comparison]) -> Markup:
    """Draw the slowdowns of both sides, the reference above: a point per night, and intervals."""
    with plots.drawing(0.9 + 0.55 * len(rows)) as figure:
        axes = plots.rows_axes(figure, [_label(row) for row in rows], plots.SLOWDOWN_AXIS)
        for y, row in enumerate(rows):
            above, below = y - _SIDE_OFFSET, y + _SIDE_OFFSET
            _draw_side(axes, row.reference, row.reference_nights, above, REFERENCE_COLOUR)
            _draw_side(axes, row.this, row.this_nights, below, THIS_COLOUR)
        return plots.themed_svg(figure, "slowdowns", "Slowdowns of both sides with their intervals")


def ratios_plot(rows: Sequence[Comparison]) -> Markup:
    """Draw the ratio of every row with its interval."""
    labels = [_label(row, METRICS[row.metric]) for row in rows]
    with plots.drawing(0.9 + 0.42 * len(rows)) as figure:
        axes = plots.rows_axes(figure, labels, "this side / reference")
        for y, row in enumerate(rows):
            plots.draw_interval(axes, row.ratio, y, THIS_COLOUR)
        values = plots.estimates_text(zip(labels, (row.ratio for row in rows), strict=True))
        return plots.themed_svg(figure, "ratios", f"This side / reference: {values}")


def _label(row: Comparison, metric: str = "") -> str:
    arm = "" if row.arm in (DEFAULT_TREATMENT, "off") else plots.label(row.arm).replace("\n", " ")
    return "\n".join(filter(None, [row.case, f"{arm} {metric}".strip()]))


def _draw_side(
    axes: Axes, estimate: Estimate | None, nights: Sequence[float], y: float, colour: str
) -> None:
    """Draw a side's estimate in its colour and, if there are several, its nights beside it."""
    plots.draw_interval(axes, estimate, y, colour)
    if len(nights) > 1:
        nights_y = y + (_NIGHTS_OFFSET if colour == THIS_COLOUR else -_NIGHTS_OFFSET)
        style: dict[str, Any] = {"marker": _MARKERS[colour], "ms": 4.4, "mew": 0, "alpha": 0.7}
        style |= {"color": plots.light_colour(colour), "gid": f"nights-{colour}-{y:.2f}"}
        axes.plot(nights, [nights_y] * len(nights), ls="none", **style)


#: Schema of compare.json. The number is increased if a key is removed or changes its meaning.
SCHEMA = 3


def write_page(folder: Path, compared: ComparedSides) -> Path:
    """Write compare.html and compare.json into `folder`, and return the path of the page."""
    make_folder(folder)
    replace_text(folder / "compare.json", json_file_text({"schema": SCHEMA, **compared.document()}))
    page = folder / "compare.html"
    replace_text(page, render(compared))
    return page


def render(compared: ComparedSides) -> str:
    """Return the page of a comparison."""
    sides = compared.reference, compared.this
    machines = list(dict.fromkeys(side.header.machine for side in sides))
    slowdowns = [row for row in compared.rows if row.metric == "slowdown"]
    ratios = [row for row in compared.rows if row.ratio]
    return render_page(
        "analysis.compare",
        f"Memory contention compared: {' and '.join(machines)}",
        {"breakable": words.breakable_name, "utc": words.utc_text},
        compared=compared,
        faulty_runs=compared.faulty_checks,
        sides=sides,
        slowdowns=slowdowns_plot(slowdowns) if slowdowns else None,
        ratios=ratios_plot(ratios) if ratios else None,
        scales=best_of_five_figure([side.runs for side in sides], (REFERENCE_COLOUR, THIS_COLOUR)),
        colours=(REFERENCE_COLOUR, THIS_COLOUR),
        metrics=METRICS,
        meaning=VERDICT_MEANINGS,
        level=ERROR_LEVEL,
        tolerance=RATE_TOLERANCE,
        min_history_nights=MIN_HISTORY_NIGHTS,
        missed_chance=MISSED_CHANCE,
        missed_chance_of_history=MISSED_CHANCE_OF_HISTORY,
        side_figure=_side_figure,
        ratio=words.ratio_texts,
        p=lambda value: words.DASH if value is None else f"{value:.2g}",
    )


def _side_figure(estimate: Estimate | None, row: Comparison) -> dict[str, str]:
    """Return a side's figure and interval as texts, for the template."""
    if estimate is None or row.metric == "slowdown":
        return words.ratio_texts(estimate)
    divisor, unit = figures.divisor_and_unit(estimate.value, row.unit)
    value, low, high = (
        figures.number(figure / divisor) for figure in (estimate.value, estimate.low, estimate.high)
    )
    return {"value": f"{value} {unit}", "interval": f"{low}{words.DASH}{high}"}
