"""The picture at the top: every slowdown, as figure 3 of Groves, Grant and Arnold (2016)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from analysis.effects.result import Result
from analysis.report.data import RunData
from analysis.report.plots import (
    DEFAULT_TREATMENT,
    SLOWDOWN_AXIS,
    Hover,
    Picture,
    View,
    draw_bar,
    draw_repeatability,
    draw_slowdown,
    estimates_text,
    interval_text,
    is_steady,
    label,
    light_colour,
    repeatability_caption,
    rows_axes,
    thin_line_caption,
)
from analysis.report.sections import Section
from analysis.statistics.interval import estimate_text
from analysis.subjects.paper_estimators import cases_on_one_node, writes_as_the_paper
from analysis.subjects.published import MACHINE, NAMES, normalised
from records.arms import arm_and_levels, in_table_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Width of the picture of all cases on wide screens, inches.
WIDE_IN = 9.9
#: Most effects of the first picture that has all of them, and characters of a line of their labels.
_MOST_ROWS, _LONGEST = 12, 36


def picture(run: RunData) -> View | None:
    """Every case's slowdown next to the published ones; None without an interval.

    If there are many, or their names are long, levels of factors are left to those by factor.
    """
    rows = [row for row in run.results if row.role == "effect" and row.slowdown]
    labels = [text for row in rows for text in label(row.arm).split("\n")]
    if len(rows) > _MOST_ROWS or max(map(len, labels), default=0) > _LONGEST:
        effects_of_case = Counter(row.case for row in rows)
        rows = [
            row for row in rows if effects_of_case[row.case] == 1 or not arm_and_levels(row.arm)[1]
        ]
    if not rows:
        return None
    on_one_node = cases_on_one_node(run)
    published_rows = [
        normalised().get(row.workload)
        if row.case in on_one_node and writes_as_the_paper(row)
        else None
        for row in rows
    ]
    published = {row.workload: row for row in published_rows if row}
    slowdowns = [row.slowdown if row else None for row in published_rows]
    return View(
        pictures=[overview_plot(rows, slowdowns, "slowdown")],
        wide_in=WIDE_IN,
        unsteady=[row.case for row in rows if not is_steady(row.noise_floor)],
        arms=in_table_order({arm_and_levels(row.arm)[0] for row in rows}),
        controlled=any(row.control for row in rows),
        following=any(row.next for row in rows),
        published=[
            f"{NAMES[workload]} {row.slowdown:.2f} ({row.table})"
            for workload, row in published.items()
        ],
        machine=MACHINE,
    )


def overview_plot(rows: Sequence[Result], published: Sequence[float | None], name: str) -> Picture:
    """The effects of all cases, one row each, with repeatability, control and published slowdown.

    A published one is a hollow diamond; None where there is none.
    """
    labels = [
        row.case if row.arm == DEFAULT_TREATMENT else f"{row.case} {label(row.arm)}" for row in rows
    ]
    others = [(value, line) for line, value in enumerate(published) if value is not None]

    def draw(figure: Figure) -> Hover:
        axes = rows_axes(figure, labels, SLOWDOWN_AXIS)
        beside = axes.get_yaxis_transform()
        for line, row in enumerate(rows):
            draw_repeatability(axes, row.noise_floor, line)
            draw_bar(axes, row.control, line + 0.22, light_colour("spin"), 3)
            draw_slowdown(axes, row, line)
            axes.text(
                1.02, line, estimate_text(row.leading), va="center", size="small", transform=beside
            )
        style: dict[str, Any] = {"ms": 7, "mfc": "none", "mec": light_colour("ink"), "mew": 1.4}
        if others:
            axes.plot(*zip(*others, strict=True), "D", gid="published", **style)
        return {}

    title = estimates_text((label, row.leading) for label, row in zip(labels, rows, strict=True))
    texts = "; ".join(f"{rows[line].case} {value:.3f}" for value, line in others)
    title += f". Published: {texts}" if others else ""
    caption = f"Slowdown of the typical run under writes, {interval_text(rows)}. "
    caption += thin_line_caption(rows) + repeatability_caption(rows)
    if any(row.control for row in rows):
        caption += " Bar below: control, a busy process instead of the writers."
    if others:
        caption += " Diamond: published by Groves, Grant and Arnold (2016)."
    title = f"Slowdown of every case: {title}"
    return Picture(
        name=name, title=title, caption=caption, height_in=0.7 + 0.42 * len(rows), draw=draw
    )


SECTIONS = [Section(part="lead", position=0, name="picture", view=picture)]
