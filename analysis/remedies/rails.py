"""Speed of the application under each rail policy: figure 2 of the multirail study as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.arms import LEVELS
from analysis.contrasts import Contrast
from analysis.estimate import Result
from analysis.statistics.interval import CONFIDENCE, Estimate, known
from analysis.verdict import within

MPI, WRITERS = "mpi_rail", "writer_rail"
_TOOL = "tool"
Finding = Literal[
    "more", "less", "no difference", "not decided", "baseline unstable", "baseline not repeated",
    "too few pairs",
]  # fmt: skip


@dataclass(frozen=True)
class PolicyEffect:
    """One policy of one case, compared with the factor's first one within pairs."""

    case: str
    factor: str
    policy: str
    reference: str
    #: The arm under which both ran: `on`, or `off` without writers.
    arm: str
    pairs: int
    unit: str
    #: Median figures of merit of all runs.
    fom: float | None
    fom_reference: float | None
    #: Speed of the application at the policy / at the reference; None below six pairs.
    speed: float | None
    speed_low: float | None
    speed_high: float | None
    #: Repeatability of the baselines at both, as such a ratio.
    floor_low: float | None
    floor_high: float | None
    finding: Finding


def policies(
    results: Sequence[Result], contrasts: Sequence[Contrast], margin: float
) -> list[PolicyEffect]:
    """Figure 2: MPI's policies without writers, then under them, then the writers' policies."""
    medians = {(row.case, row.arm): row.on_median for row in results}
    medians |= {(row.case, row.baseline): row.off_median for row in results}
    chosen = [c for c in contrasts if c.factor in (MPI, WRITERS) and _TOOL not in c.at]
    chosen.sort(key=lambda each: (each.factor != MPI, each.kind == "gain"))
    return [_policy(each, medians, margin) for each in chosen]


def decided(effect: Estimate | None, floor: Estimate | None, margin: float) -> Finding:
    """What an interval carries, by the rules of `verdict.judge`.

    `floor`: the repeated baseline against the baseline. A difference needs the whole interval on
    one side of 1, and the estimate beyond the whole of `floor`.
    """
    if effect is None:
        return "too few pairs"
    if floor is None:
        return "baseline not repeated"
    if not floor.low <= 1 <= floor.high:
        return "baseline unstable"
    if effect.low > 1 and effect.value > floor.high:
        return "more"
    if effect.high < 1 and effect.value < floor.low:
        return "less"
    same = within(effect.low, effect.high, margin)
    return "no difference" if same else "not decided"


def _policy(
    each: Contrast, medians: Mapping[tuple[str, str], float | None], margin: float
) -> PolicyEffect:
    """A price is a ratio of times, so that its inverse is one of speeds; a gain is one already."""
    speed = known(each.ratio, each.ratio_low, each.ratio_high)
    if speed and each.kind == "price":
        speed = Estimate(1 / speed.value, 1 / speed.high, 1 / speed.low, speed.confidence)
    low, high = each.noise_floor_low, each.noise_floor_high
    floor = None
    if low is not None and high is not None:
        floor = Estimate((1 / low + 1 / high) / 2, 1 / high, 1 / low, CONFIDENCE)
    return PolicyEffect(
        case=each.case,
        factor=each.factor,
        policy=str(each.level),
        reference=str(each.reference),
        arm=each.treatment.partition(LEVELS)[0],
        pairs=each.pairs,
        unit=each.unit,
        fom=medians.get((each.case, each.treatment)),
        fom_reference=medians.get((each.case, each.against)),
        speed=speed.value if speed else None,
        speed_low=speed.low if speed else None,
        speed_high=speed.high if speed else None,
        floor_low=floor.low if floor else None,
        floor_high=floor.high if floor else None,
        finding=decided(speed, floor, margin),
    )
