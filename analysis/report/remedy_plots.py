"""The figures of remedies: loss against the rate written, and run times with and without each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from analysis.numbers import scale
from analysis.report.palette import LEVEL_COLOURS, LEVEL_MARKERS, STYLE, light, themed_svg
from analysis.statistics.interval import Estimate
from analysis.statistics.location import Crossing

_WIDTH_IN = 5.0
_ROW_IN = 0.52
#: Field of `RemedyBars`, colour, marker, and place within the row.
_LOOKS = (("on", "on", "^", -0.22), ("off_with", "off", "o", 0.0), ("on_with", "level2", "s", 0.22))


@dataclass(frozen=True)
class SweepLine:
    """One sweep: every run, and the fitted line if a line fits."""

    label: str
    rates_b_s: list[float]
    foms: list[float]
    line_b_s: list[float]
    fitted: list[float] | None
    #: Where its loss equals the price of reserved cores; None if that is not known.
    crossover_b_s: Crossing | None


@dataclass(frozen=True)
class RemedyBars:
    """Times of one remedy relative to the baseline without it."""

    label: str
    on: Estimate | None
    off_with: Estimate | None
    on_with: Estimate | None


def sweep_plot(lines: Sequence[SweepLine], unit: str, name: str) -> str:
    """Figures of merit against the rate reached, one colour per sweep; the crossover as a band."""
    foms = [fom for line in lines for fom in line.foms]
    divisor, scaled = scale(max(foms, default=0.0), unit)
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH_IN, 3.4), layout="constrained")
        axes = figure.subplots()
        for index, line in enumerate(lines):
            colour = light(LEVEL_COLOURS[index % len(LEVEL_COLOURS)])
            marker = LEVEL_MARKERS[index % len(LEVEL_MARKERS)]
            rates = [rate / 1e9 for rate in line.rates_b_s]
            values = [fom / divisor for fom in line.foms]
            look: dict[str, Any] = {
                "ms": 3.4,
                "mew": 0,
                "color": colour,
                "alpha": 0.5,
                "gid": f"runs-{index}",
            }
            axes.plot(rates, values, ls="none", marker=marker, **look)
            if line.fitted is not None:
                fitted = [value / divisor for value in line.fitted]
                places = [rate / 1e9 for rate in line.line_b_s]
                axes.plot(places, fitted, color=colour, lw=1.6, label=line.label)
            else:
                axes.plot([], [], color=colour, marker=marker, ls="none", label=line.label)
            found = line.crossover_b_s
            if found and found.low is not None and found.high is not None:
                axes.axvspan(found.low / 1e9, found.high / 1e9, color=light("band"), alpha=0.45)
        axes.set_xlabel("writers' rate in GB/s, as measured")
        axes.set_ylabel(scaled)
        axes.set_xlim(left=0)
        axes.tick_params(length=0)
        axes.grid(axis="y")
        figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
        return themed_svg(figure, name, "Figure of merit against the rate written")


def bars_plot(rows: Sequence[RemedyBars], name: str) -> str:
    """One row per remedy: time on, time off with the remedy and time on with it, against off."""
    with mpl.rc_context(STYLE):
        height = 0.9 + _ROW_IN * len(rows)
        figure = Figure(figsize=(_WIDTH_IN, height), layout="constrained")
        axes = figure.subplots()
        axes.axvline(1, color=light("muted"), lw=1)
        for place, row in enumerate(rows):
            for field, colour, marker, aside in _LOOKS:
                found: Estimate | None = getattr(row, field)
                if found is None:
                    continue
                y = place + aside
                axes.plot([found.low, found.high], [y, y], color=light(colour), lw=3)
                axes.plot(found.value, y, marker, color=light(colour), ms=6, gid=f"{field}-{place}")
        axes.set_yticks(range(len(rows)), [row.label for row in rows])
        axes.set_ylim(len(rows) - 0.5, -0.5)
        axes.set_xlabel("time / time off without the remedy")
        axes.tick_params(length=0)
        axes.grid(axis="x")
        return themed_svg(figure, name, f"Times relative to off without the remedy. {_said(rows)}")


def _said(rows: Sequence[RemedyBars]) -> str:
    """The times with their intervals, for readers who do not see the figure."""
    names = {"on": "with traffic", "off_with": "with the remedy", "on_with": "with both"}
    return "; ".join(
        f"{row.label} {words} {found.value:.3f} ({found.low:.3f} to {found.high:.3f})".replace(
            "\n", " "
        )
        for row in rows
        for field, words in names.items()
        if (found := getattr(row, field)) is not None
    )
