"""Verdicts: the conclusion about an effect, in one phrase."""

from __future__ import annotations

from enum import Enum

from analysis.statistics.interval import Estimate


class Verdict(str, Enum):
    """The conclusion; the value is used in text and files."""

    TOO_FEW_PAIRS = "too few pairs"
    INCONCLUSIVE = "inconclusive"
    NO_NOISE_FLOOR = "noise floor missing"
    NO_EFFECT = "no effect above the noise floor"
    SPEED_UP = "speed-up"
    NO_CONTROL = "control missing"
    NOT_ABOVE_CONTROL = "not above the control"
    CONTENTION = "memory contention"
    #: Rows that effects are compared with.
    NOISE_FLOOR = "noise floor"
    CONTROL = "control"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Whether the campaign's question is undecided."""
        return self in (Verdict.TOO_FEW_PAIRS, Verdict.INCONCLUSIVE)


#: Verdict -> its meaning, in the order in which they are decided.
MEANING: dict[Verdict, str] = {
    Verdict.TOO_FEW_PAIRS: "Fewer pairs count than the campaign requires, or fewer than six.",
    Verdict.INCONCLUSIVE: "The interval is too wide: wider than requested, or into the noise floor "
    "although the median lies beyond it.",
    Verdict.NO_NOISE_FLOOR: "No A/A interval to compare the effect with.",
    Verdict.NO_EFFECT: "The median lies within the noise floor (off against off).",
    Verdict.SPEED_UP: "Faster than off, by more than the noise floor (off against off).",
    Verdict.NO_CONTROL: "Slower, but origin and target share a host and no control was run.",
    Verdict.NOT_ABOVE_CONTROL: "Slower, but a process that only keeps a core busy may cost as"
    " much.",
    Verdict.CONTENTION: "Slower than off, by more than the noise floor and, where one is needed,"
    " the control.",
    Verdict.NOISE_FLOOR: "Off against off: the differences seen without any treatment.",
    Verdict.CONTROL: "A busy process instead of the writer: the slowdown seen without any write.",
}


def judge(
    effect: Estimate | None,
    noise_floor: Estimate | None,
    control: Estimate | None,
    *,
    pairs: int,
    pairs_floor: int,
    precision: float | None,
    same_host: bool,
) -> Verdict:
    """The verdict on the slowdown `effect`, compared with the noise floor and the control.

    An effect counts only if its whole interval lies beyond 1 and beyond the whole interval of the
    noise floor; if only its median does, it is inconclusive. If origin and target share a host, or
    a control was run anyway, the interval must lie above the control's whole interval as well. So
    the rule errs towards naming no cause.
    """
    if effect is None or pairs < pairs_floor:
        return Verdict.TOO_FEW_PAIRS
    if precision is not None and effect.half_width > precision:
        return Verdict.INCONCLUSIVE
    if noise_floor is None:
        return Verdict.NO_NOISE_FLOOR
    least, most = min(1.0, noise_floor.low), max(1.0, noise_floor.high)
    if effect.high < least:
        return Verdict.SPEED_UP
    if effect.low <= most:
        within = least <= effect.value <= most
        return Verdict.NO_EFFECT if within else Verdict.INCONCLUSIVE
    if control is None:
        return Verdict.NO_CONTROL if same_host else Verdict.CONTENTION
    return Verdict.CONTENTION if effect.low > control.high else Verdict.NOT_ABOVE_CONTROL
