"""The picture at the top of the report: every slowdown.

It has the style of figure 3 of Groves, Grant and Arnold (2016).
"""

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
from analysis.report.words import changed_factors
from analysis.statistics.interval import estimate_text
from analysis.subjects.paper import FIGURE_3_MACHINE, PAPER_NAMES, figure_3_rows
from analysis.subjects.paper_estimators import cases_on_one_node, writes_as_the_paper
from records.arms import arm_and_levels, in_table_order

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Width of the picture of all cases on wide screens, inches.
WIDE_IN = 9.9
#: If there are more effects, or a line of a label has more characters, the picture does not show
#: all effects.
_MAX_EFFECTS, _MAX_LINE_CHARACTERS = 12, 36


def first_picture_view(run: RunData) -> View | None:
    """The slowdown of each case next to the published slowdown; None if no case has an interval.

    If there are many effects, or their names are long, the picture leaves out some effects of cases
    with several effects. Only those at the first levels of all factors remain. The sections by
    factor show the others.
    """
    rows = [row for row in run.results if row.role == "effect" and row.slowdown]
    label_lines = [line for row in rows for line in label(row.arm).split("\n")]
    longest = max(map(len, label_lines), default=0)
    if len(rows) > _MAX_EFFECTS or longest > _MAX_LINE_CHARACTERS:
        effect_counts = Counter(row.case for row in rows)
        changed = changed_factors((row.case, row.arm) for row in rows)
        rows = [
            row for row in rows if effect_counts[row.case] == 1 or not changed[row.case, row.arm]
        ]
    if not rows:
        return None
    on_one_node = cases_on_one_node(run)
    paper_rows = [
        figure_3_rows().get(row.workload)
        if row.case in on_one_node and writes_as_the_paper(run, row)
        else None
        for row in rows
    ]
    published = {paper_row.workload: paper_row for paper_row in paper_rows if paper_row}
    published_slowdowns = [paper_row.slowdown if paper_row else None for paper_row in paper_rows]
    return View(
        pictures=[overview_plot(rows, published_slowdowns, "slowdown")],
        wide_in=WIDE_IN,
        unsteady_cases=[row.case for row in rows if not is_steady(row.noise_floor)],
        arms=in_table_order({arm_and_levels(row.arm).arm for row in rows}),
        has_control=any(row.control for row in rows),
        has_next_allocation=any(row.next for row in rows),
        published_texts=[
            f"{PAPER_NAMES[workload]} {paper_row.slowdown:.2f} ({paper_row.table})"
            for workload, paper_row in published.items()
        ],
        published_machine=FIGURE_3_MACHINE,
    )


def overview_plot(rows: Sequence[Result], published: Sequence[float | None], name: str) -> Picture:
    """The picture of all effects, with repeatability, control and published slowdown of each.

    `published` has the published slowdown of each of `rows`, or None. It is drawn as a hollow
    diamond.
    """
    labels = [
        row.case if row.arm == DEFAULT_TREATMENT else f"{row.case} {label(row.arm)}" for row in rows
    ]
    published_points = [(value, y) for y, value in enumerate(published) if value is not None]

    def draw(figure: Figure) -> Hover:
        axes = rows_axes(figure, labels, SLOWDOWN_AXIS)
        x_of_axes_y_of_data = axes.get_yaxis_transform()  # x = 1 is the right edge
        for y, row in enumerate(rows):
            draw_repeatability(axes, row.noise_floor, y)
            draw_bar(axes, row.control, y + 0.22, light_colour("spin"), 3)
            draw_slowdown(axes, row, y)
            axes.text(
                1.02,
                y,
                estimate_text(row.leading_estimate),
                va="center",
                size="small",
                transform=x_of_axes_y_of_data,
            )
        style: dict[str, Any] = {"ms": 7, "mfc": "none", "mec": light_colour("ink"), "mew": 1.4}
        if published_points:
            slowdowns, heights = zip(*published_points, strict=True)
            axes.plot(slowdowns, heights, "D", gid="published", **style)
        return {}

    estimates = zip(labels, (row.leading_estimate for row in rows), strict=True)
    alt_text = f"Slowdown of every case: {estimates_text(estimates)}"
    caption = f"Slowdown of the typical run under writes, {interval_text(rows)}. "
    caption += thin_line_caption(rows) + repeatability_caption(rows)
    if any(row.control for row in rows):
        caption += " Bar below: control, a busy process instead of the writers."
    if published_points:
        published_texts = "; ".join(f"{rows[y].case} {value:.3f}" for value, y in published_points)
        alt_text += f". Published: {published_texts}"
        caption += " Diamond: published by Groves, Grant and Arnold (2016)."
    return Picture(
        name=name, alt_text=alt_text, caption=caption, height_in=0.7 + 0.42 * len(rows), draw=draw
    )


SECTIONS = [Section(part="lead", position=0, name="picture", make_view=first_picture_view)]
