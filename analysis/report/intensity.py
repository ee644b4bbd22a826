"""Loss against arithmetic intensity on the page: a figure, and from where it does not matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
import polars as pl
from markupsafe import Markup
from matplotlib.figure import Figure

from analysis.effects.caveats import emulations
from analysis.report.data import RunData
from analysis.report.plots import LEVEL_COLOURS, LEVEL_MARKERS, STYLE, light, themed_svg
from analysis.subjects.intensity import WORKLOAD, IntensityCurve, curves


@dataclass(frozen=True)
class IntensityView:
    """The section of one run."""

    curves: list[IntensityCurve]
    svg: Markup
    emulated: list[str]


def intensity_view(run: RunData, name: str) -> IntensityView | None:
    """The curves of a run; None if it has none."""
    found = curves(run.results)
    if not found:
        return None
    own = run.samples.filter(pl.col("workload").cast(pl.String) == WORKLOAD)
    emulated = emulations([str(text) for text in own["transport"].unique(maintain_order=True)])
    return IntensityView(found, Markup(_plot(found, name)), emulated)


def curve_label(curve: IntensityCurve) -> str:
    """Case, treatment and the levels of its other factors."""
    levels = ", ".join(f"{name} {level}" for name, level in curve.at.items())
    return f"{curve.case} {curve.arm}" + (f" ({levels})" if levels else "")


def harmless(curve: IntensityCurve) -> str:
    """From which intensity contention does not matter, in words."""
    share = f"{100 * curve.margin:g} %"
    lowest, highest = curve.levels[0].flops_per_b, curve.levels[-1].flops_per_b
    if curve.harmless_from is None:
        return f"the loss is not shown to be within {share} at {highest:.3g} flops per byte"
    if curve.harmless_from == lowest:
        return f"the loss is within {share} from the lowest intensity on, {lowest:.3g} flops/B"
    return (
        f"the loss is within {share} from {curve.harmless_from:.3g} flops per byte on; at"
        f" {curve.matters_at:.3g} it is not"
    )


def _plot(found: Sequence[IntensityCurve], name: str) -> str:
    margin = 100 * found[0].margin
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(5.0, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.axhspan(-margin, margin, color=light("band"), alpha=0.45)
        for index, curve in enumerate(found):
            known = [level for level in curve.levels if level.loss is not None]
            at = [level.flops_per_b for level in known]
            colour = light(LEVEL_COLOURS[index % len(LEVEL_COLOURS)])
            marker = LEVEL_MARKERS[index % len(LEVEL_MARKERS)]
            middle = [100 * level.loss.value for level in known if level.loss]
            label = curve_label(curve)
            axes.plot(at, middle, color=colour, marker=marker, ms=5, lw=1.4, label=label)
            for x, level in zip(at, known, strict=True):
                if level.loss:
                    ends = [100 * level.loss.low, 100 * level.loss.high]
                    axes.plot([x, x], ends, color=colour, lw=2.5, alpha=0.6)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.3g}")
        axes.set_xlabel("flops per byte")
        axes.set_ylabel("loss, %")
        axes.tick_params(length=0)
        axes.grid(axis="y")
        figure.legend(loc="outside upper left", ncols=2, frameon=False, fontsize=8)
        said = "; ".join(f"{curve_label(curve)}: {harmless(curve)}" for curve in found)
        return themed_svg(figure, name, f"Loss against arithmetic intensity. {said}")
