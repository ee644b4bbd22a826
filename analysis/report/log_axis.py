"""Logarithmic axes whose ticks are plain numbers: figures do not set formulas (palette.STYLE)."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import LogFormatter


def logarithmic(axes: Axes) -> None:
    """Makes the horizontal axis logarithmic; ticks between powers of ten have numbers if few."""
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(LogFormatter())
    axes.xaxis.set_minor_formatter(LogFormatter(labelOnlyBase=False, minor_thresholds=(1, 0.4)))
