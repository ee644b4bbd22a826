"""Counts without and with traffic, one panel per case: figure 4 of the paper, for this machine."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib as mpl
from matplotlib.figure import Figure

from analysis.report.log_axis import logarithmic
from analysis.report.palette import STYLE, light, themed_svg
from analysis.roles import ROLES
from analysis.why import RoleChange

_WIDTH_IN = 5.0
_ROW_IN = 0.24


def roles_plot(changes: Sequence[RoleChange], name: str) -> str:
    """One row per role and treatment: the medians off and on, on a logarithmic axis.

    Counts of events only, since bytes are another unit.
    """
    counts = [each for each in changes if ROLES[each.role].unit == "count" and each.off > 0]
    cases = list(dict.fromkeys((each.case, each.tool) for each in counts))
    rows = [[each for each in counts if (each.case, each.tool) == case] for case in cases]
    with mpl.rc_context(STYLE):
        height = sum(0.55 + _ROW_IN * len(own) for own in rows) + 0.4
        figure = Figure(figsize=(_WIDTH_IN, max(height, 1.0)), layout="constrained")
        sizes = [len(own) + 1.0 for own in rows] or [1.0]
        panels = figure.subplots(len(sizes), 1, squeeze=False, height_ratios=sizes, sharex=True)
        for (case, _), own, axes in zip(cases, rows, panels[:, 0], strict=False):
            for line, each in enumerate(own):
                axes.plot([each.off, each.on], [line, line], color=light("muted"), lw=1.5)
                axes.plot(each.off, line, "o", color=light("off"), ms=6)
                axes.plot(each.on, line, "^", color=light(each.treatment), ms=6)
            labels = [
                each.role + ("" if each.treatment == "on" else f" ({each.treatment})")
                for each in own
            ]
            axes.set_yticks(range(len(own)), labels)
            axes.set_ylim(len(own) - 0.4, -0.6)
            logarithmic(axes)
            axes.set_title(case, loc="left", fontsize=10)
            axes.tick_params(length=0)
            axes.grid(axis="x")
        panels[-1, 0].set_xlabel("count, sum over ranks")
        return themed_svg(figure, name, "Counts of each role without and with traffic, by case")
