"""What may be said of an effect, in one phrase."""

from __future__ import annotations

from enum import Enum

from analysis.statistics.interval import Estimate


class Verdict(str, Enum):
    """What may be said; the value is what people and files read."""

    TOO_FEW_PAIRS = "too few pairs"
    INCONCLUSIVE = "inconclusive"
    NO_NOISE_FLOOR = "noise floor missing"
    NO_EFFECT = "no effect above the noise floor"
    SPEED_UP = "speed-up"
    NO_CONTROL = "control missing"
    NOT_ABOVE_CONTROL = "not above the control"
    CONTENTION = "memory contention"
    #: Rows that are themselves what others are held against.
    NOISE_FLOOR = "noise floor"
    CONTROL = "control"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Whether the campaign's question is left open."""
        return self in (Verdict.TOO_FEW_PAIRS, Verdict.INCONCLUSIVE)


#: Verdict -> what it tells; the order is that in which they are decided.
MEANING: dict[Verdict, str] = {
    Verdict.TOO_FEW_PAIRS: "Fewer pairs count than the campaign asks for, or fewer than six.",
    Verdict.INCONCLUSIVE: "The interval is too wide: wider than asked for, or into the noise floor "
    "although the median lies beyond it.",
    Verdict.NO_NOISE_FLOOR: "No A/A interval: nothing to hold the effect against.",
    Verdict.NO_EFFECT: "The median lies within what off against off shows.",
    Verdict.SPEED_UP: "Faster than off by more than off against off shows.",
    Verdict.NO_CONTROL: "Slower, but origin and target share a host and no control was run.",
    Verdict.NOT_ABOVE_CONTROL: "Slower, but a process that only keeps a core busy may cost as"
    " much.",
    Verdict.CONTENTION: "Slower than off against off and than the control, where one is needed.",
    Verdict.NOISE_FLOOR: "Off against off: what is seen when nothing is done.",
    Verdict.CONTROL: "A busy process in the writer's place: what is seen without any write.",
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
    """The verdict on the slowdown `effect`, held against the noise floor and the control.

    An effect counts only where its whole interval lies beyond 1 and beyond the whole interval of
    the noise floor; where only its median does, nothing is decided. Where origin and target share
    a host, or a control was run anyway, the interval must lie above the control's whole interval
    as well. So the rule errs towards naming no cause.
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
