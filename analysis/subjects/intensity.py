"""Loss against arithmetic intensity: from how many operations per byte contention does not matter.

As in figures of Denis, Jeannot and Swartvagher (Interferences between Communications and
Computations in Distributed HPC Systems, ICPP 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import takewhile
from typing import Any

from markupsafe import Markup

from analysis.effects.estimate import Result, by_level
from analysis.effects.verdict import Verdict, within
from analysis.report.data import RunData
from analysis.report.plots import View, drawing, finish, legend, level_line, light, themed_svg
from analysis.report.sections import Section, json_rows
from analysis.samples.columns import MOST
from analysis.statistics.interval import Estimate
from nimc.records.sample import Level

WORKLOAD = "intensity"
FLOPS = "flops_per_element"
#: Bytes of an element: two doubles read and one written, as STREAM counts its triad.
ELEMENT_B = 24


@dataclass(frozen=True)
class Intensity:
    """One level of a curve."""

    flops_per_b: float
    #: Time with writers / without - 1, and the same with the control; None below six pairs.
    loss: Estimate | None
    control: tuple[float, float] | None
    #: Median rates without and with writers, bytes per second.
    off_b_s: float | None
    on_b_s: float | None
    pairs: int
    #: Whether the whole interval of the loss lies within the margin.
    within: bool
    #: Why nothing is said of the loss; empty otherwise.
    reason: str


@dataclass(frozen=True)
class IntensityCurve:
    """The levels of one treatment, by intensity."""

    case: str
    arm: str
    #: Levels of all other factors.
    at: dict[str, Level]
    margin: float
    levels: list[Intensity]

    @property
    def harmless_from(self) -> float | None:
        """Least intensity from which on every loss is within the margin, flops per byte.

        None if that of the highest intensity is not.
        """
        harmless = takewhile(lambda level: level.within, reversed(self.levels))
        return min((level.flops_per_b for level in harmless), default=None)

    @property
    def matters_at(self) -> float | None:
        """Highest intensity whose loss is not within the margin; None if there is none."""
        outside = [level.flops_per_b for level in self.levels if not level.within]
        return max(outside, default=None)

    @property
    def label(self) -> str:
        """Case, treatment and the levels of its other factors."""
        levels = ", ".join(f"{name} {level}" for name, level in self.at.items())
        return f"{self.case} {self.arm}" + (f" ({levels})" if levels else "")

    @property
    def finding(self) -> str:
        """From which intensity contention does not matter, in words."""
        share = f"{100 * self.margin:g} %"
        lowest, highest = self.levels[0].flops_per_b, self.levels[-1].flops_per_b
        if self.harmless_from is None:
            return f"the loss is not shown to be within {share} at {highest:.3g} flops per byte"
        if self.harmless_from == lowest:
            return f"the loss is within {share} from the lowest intensity on, {lowest:.3g} flops/B"
        return (
            f"the loss is within {share} from {self.harmless_from:.3g} flops per byte on; at"
            f" {self.matters_at:.3g} it is not"
        )

    def as_dict(self) -> dict[str, Any]:
        """The curve as JSON holds it."""
        return asdict(self) | {
            "harmless_from_flops_per_b": self.harmless_from,
            "matters_at_flops_per_b": self.matters_at,
        }


def curves(results: Sequence[Result]) -> list[IntensityCurve]:
    """One curve for each case and treatment with at least two intensities, in their order."""
    own = [row for row in results if row.workload == WORKLOAD and _flops(row)]
    return [
        IntensityCurve(
            case, arm, dict(at), rows[0].margin, [_level(row) for row in sorted(rows, key=_flops)]
        )
        for (case, arm, at), rows in by_level(own, FLOPS).items()
    ]


def _flops(row: Result) -> float:
    """Flops per element; 0 without that level, or if it is no number."""
    flops = row.factors.get(FLOPS)
    return float(flops) if isinstance(flops, int | float) and 0 < flops <= MOST else 0.0


def _level(row: Result) -> Intensity:
    slowdown, control = row.slowdown, row.control
    reason = str(row.verdict) if row.verdict.is_not_compared else ""
    if slowdown is None:
        reason = reason or str(Verdict.TOO_FEW_PAIRS)
    return Intensity(
        flops_per_b=_flops(row) / ELEMENT_B,
        loss=slowdown.mapped(lambda ratio: ratio - 1) if slowdown else None,
        control=(control.low - 1, control.high - 1) if control else None,
        off_b_s=row.off_median,
        on_b_s=row.on_median,
        pairs=row.pairs,
        within=slowdown is not None
        and not reason
        and within(slowdown.low, slowdown.high, row.margin),
        reason=reason,
    )


def intensity_view(run: RunData, name: str) -> View | None:
    """The curves of a run; None if it has none."""
    found = curves(run.results)
    if not found:
        return None
    emulated = run.emulated({curve.case for curve in found})
    return View(curves=found, svg=_plot(found, name), emulated=emulated)


def _plot(found: Sequence[IntensityCurve], name: str) -> Markup:
    margin = 100 * found[0].margin
    with drawing(3.4) as figure:
        axes = figure.subplots()
        axes.axhspan(-margin, margin, color=light("band"), alpha=0.45)
        for index, curve in enumerate(found):
            points = [
                (each.flops_per_b, 100 * loss.value, 100 * loss.low, 100 * loss.high)
                for each in curve.levels
                if (loss := each.loss)
            ]
            level_line(axes, index, curve.label, points)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:.3g}")
        finish(axes, "flops per byte", "loss, %")
        legend(figure, 2)
        findings = "; ".join(f"{curve.label}: {curve.finding}" for curve in found)
        return themed_svg(figure, name, f"Loss against arithmetic intensity. {findings}")


_FILES = json_rows(
    "intensity.json", "curves", lambda run: curves(run.results), IntensityCurve.as_dict
)
SECTIONS = [
    Section("run", 60, "intensity", intensity_view, "Loss against arithmetic intensity", _FILES)
]
