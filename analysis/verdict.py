"""What may be said of an effect, in one phrase."""

from __future__ import annotations

from typing import Literal

from analysis.statistics.interval import Estimate

Verdict = Literal[
    "too few pairs",
    "inconclusive",
    "noise floor missing",
    "no effect above the noise floor",
    "speed-up",
    "control missing",
    "not above the control",
    "memory contention",
    # Rows that are themselves what others are held against.
    "noise floor",
    "control",
]

#: Verdict -> what it tells; the order is that in which they are decided.
MEANING: dict[Verdict, str] = {
    "too few pairs": "Fewer pairs count than the campaign asks for, or fewer than six.",
    "inconclusive": "The interval is too wide: wider than asked for, or into the noise floor "
    "although the median lies beyond it.",
    "noise floor missing": "No A/A interval: nothing to hold the effect against.",
    "no effect above the noise floor": "The median lies within what off against off shows.",
    "speed-up": "Faster than off by more than off against off shows.",
    "control missing": "Slower, but origin and target share a host and no control was run.",
    "not above the control": "Slower, but a process that only keeps a core busy may cost as much.",
    "memory contention": "Slower than off against off and than the control, where one is needed.",
    "noise floor": "Off against off: what is seen when nothing is done.",
    "control": "A busy process in the writer's place: what is seen without any write.",
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
        return "too few pairs"
    if precision is not None and effect.half_width > precision:
        return "inconclusive"
    if noise_floor is None:
        return "noise floor missing"
    least, most = min(1.0, noise_floor.low), max(1.0, noise_floor.high)
    if effect.high < least:
        return "speed-up"
    if effect.low <= most:
        within = least <= effect.value <= most
        return "no effect above the noise floor" if within else "inconclusive"
    if control is None:
        return "control missing" if same_host else "memory contention"
    return "memory contention" if effect.low > control.high else "not above the control"
