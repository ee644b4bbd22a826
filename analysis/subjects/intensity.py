"""Loss against arithmetic intensity: from how many operations per byte contention does not matter.

As in figures of Denis, Jeannot and Swartvagher (Interferences between Communications and
Computations in Distributed HPC Systems, ICPP 2021).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict, within
from analysis.samples.columns import MOST
from analysis.statistics.interval import Estimate, known
from nimc.records.arms import LEVELS
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
        found = None
        for level in reversed(self.levels):
            if not level.within:
                break
            found = level.flops_per_b
        return found

    @property
    def matters_at(self) -> float | None:
        """Highest intensity whose loss is not within the margin; None if there is none."""
        outside = [level.flops_per_b for level in self.levels if not level.within]
        return max(outside, default=None)

    def as_dict(self) -> dict[str, Any]:
        """The curve as JSON holds it."""
        return asdict(self) | {
            "harmless_from_flops_per_b": self.harmless_from,
            "matters_at_flops_per_b": self.matters_at,
        }


def curves(results: Sequence[Result]) -> list[IntensityCurve]:
    """One curve for each case and treatment with at least two intensities, in their order."""
    groups: dict[tuple[str, str, tuple[tuple[str, Level], ...]], list[Result]] = {}
    for row in results:
        if row.workload == WORKLOAD and row.role == "effect" and _flops(row):
            at = tuple(sorted((k, v) for k, v in row.factors.items() if k != FLOPS))
            groups.setdefault((row.case, row.arm.partition(LEVELS)[0], at), []).append(row)
    return [
        IntensityCurve(
            case, arm, dict(at), rows[0].margin, sorted(map(_level, rows), key=_by_intensity)
        )
        for (case, arm, at), rows in groups.items()
        if len(rows) > 1
    ]


def _flops(row: Result) -> float:
    """Flops per element; 0 without that level, or if it is no number."""
    flops = row.factors.get(FLOPS)
    return float(flops) if isinstance(flops, int | float) and 0 < flops <= MOST else 0.0


def _by_intensity(level: Intensity) -> float:
    return level.flops_per_b


def _level(row: Result) -> Intensity:
    loss = control = None
    harmless = False
    reason = str(row.verdict) if row.verdict.is_not_compared else ""
    if slowdown := known(row.slowdown, row.slowdown_low, row.slowdown_high):
        low, high = slowdown.low - 1, slowdown.high - 1
        loss = Estimate(slowdown.value - 1, low, high, slowdown.confidence)
        harmless = within(slowdown.low, slowdown.high, row.margin) and not reason
    else:
        reason = reason or str(Verdict.TOO_FEW_PAIRS)
    if row.control_low is not None and row.control_high is not None:
        control = (row.control_low - 1, row.control_high - 1)
    return Intensity(
        flops_per_b=_flops(row) / ELEMENT_B,
        loss=loss,
        control=control,
        off_b_s=row.off_median,
        on_b_s=row.on_median,
        pairs=row.pairs,
        within=harmless,
        reason=reason,
    )
