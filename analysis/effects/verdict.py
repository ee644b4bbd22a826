"""Verdicts: the conclusion about an effect, in one phrase."""

from __future__ import annotations

from enum import Enum

from analysis.statistics.interval import Estimate


class Verdict(str, Enum):
    """The conclusion; the value is used in text and files."""

    TOO_FEW_PAIRS = "too few pairs"
    NO_WRITES = "no writes"
    NO_NOISE_FLOOR = "baseline not repeated"
    BASELINE_UNSTABLE = "baseline unstable"
    INCONCLUSIVE = "inconclusive"
    SPEED_UP = "speed-up"
    NO_EFFECT = "no effect"
    NO_CONTROL = "control missing"
    NOT_ABOVE_CONTROL = "not above the control"
    EMULATED = "slower under emulated writes"
    CONTENTION = "memory contention"
    #: Rows that effects are compared with.
    NOISE_FLOOR = "baseline repeatability"
    CONTROL = "control"

    __str__ = str.__str__

    @property
    def is_open(self) -> bool:
        """Whether the campaign's question is undecided."""
        return self in (Verdict.TOO_FEW_PAIRS, Verdict.INCONCLUSIVE)

    @property
    def is_not_compared(self) -> bool:
        """Whether the runs allow no statement on the effect, not even that there is none."""
        return self in (
            Verdict.TOO_FEW_PAIRS,
            Verdict.NO_WRITES,
            Verdict.NO_NOISE_FLOOR,
            Verdict.BASELINE_UNSTABLE,
        )


#: Verdict -> its meaning, in the order in which they are decided.
MEANING: dict[Verdict, str] = {
    Verdict.TOO_FEW_PAIRS: "Fewer pairs count than the campaign requires, or fewer than six.",
    Verdict.NO_WRITES: "The timetable had no writer at this scale, so nothing was written.",
    Verdict.NO_NOISE_FLOOR: "The baseline was not repeated in six pairs, so its own differences"
    " are not known.",
    Verdict.BASELINE_UNSTABLE: "The baseline differs from its own repetition: the interval of"
    " off against off excludes 1, so nothing is said of the effect.",
    Verdict.INCONCLUSIVE: "Neither an effect nor its absence is shown: the interval reaches beyond"
    " the campaign's margin, lies off 1 by less than the baseline repeats itself, or is wider than"
    " requested.",
    Verdict.SPEED_UP: "Faster than off: the whole interval lies below 1, and the estimate below"
    " the whole interval of off against off.",
    Verdict.NO_EFFECT: "The whole interval contains 1 and lies within the campaign's margin.",
    Verdict.NO_CONTROL: "Slower, but origin and target share a host, and no control counts in six"
    " of the pairs.",
    Verdict.NOT_ABOVE_CONTROL: "Slower, but not shown to be slower than with a process that only"
    " keeps a core busy.",
    Verdict.EMULATED: "Slower than off, but the writes were emulated: processors took part in"
    " them, so memory is not shown to be the cause.",
    Verdict.CONTENTION: "Slower than off: the whole interval lies above 1, and the estimate above"
    " the whole interval of off against off; where there is a control, slower than that as well.",
    Verdict.NOISE_FLOOR: "Off against off: how well this many pairs repeat the baseline.",
    Verdict.CONTROL: "A busy process instead of the writer: the slowdown seen without any write.",
}


def phrase(verdict: Verdict, margin: float) -> str:
    """The verdict as it is shown, with what 'no effect' means: `no effect: less than 2 %`."""
    limit = f": less than {margin * 100:.3g} %" if verdict is Verdict.NO_EFFECT else ""
    return f"{verdict}{limit}"


def within(low: float, high: float, margin: float) -> bool:
    """Whether an interval of a ratio lies within a margin: no more slower, or faster, than that."""
    return 1 / (1 + margin) <= low and high <= 1 + margin


def judge(
    effect: Estimate | None,
    repeated: Estimate | None,
    over_control: Estimate | None,
    *,
    pairs: int,
    pairs_floor: int,
    precision: float | None,
    margin: float,
    wrote: bool,
    same_host: bool,
    emulated: bool,
) -> Verdict:
    """The verdict on the slowdown `effect`.

    `repeated`: the repeated baseline against the baseline. `over_control`: the effect against the
    control, within pairs. A difference counts if the whole interval lies beyond 1, which happens
    by chance in at most 2.5 % of cases on each side, and the estimate beyond the whole interval of
    `repeated`. 'No effect' is an equivalence within `margin`.
    """
    if effect is None or pairs < pairs_floor:
        return Verdict.TOO_FEW_PAIRS
    if not wrote:
        return Verdict.NO_WRITES
    if repeated is None:
        return Verdict.NO_NOISE_FLOOR
    if not repeated.low <= 1 <= repeated.high:
        return Verdict.BASELINE_UNSTABLE
    if precision is not None and effect.half_width > precision:
        return Verdict.INCONCLUSIVE
    if effect.high < 1 and effect.value < repeated.low:
        return Verdict.SPEED_UP
    if effect.low > 1 and effect.value > repeated.high:
        return _slower(over_control, same_host=same_host, emulated=emulated)
    equivalent = effect.low <= 1 <= effect.high and within(effect.low, effect.high, margin)
    return Verdict.NO_EFFECT if equivalent else Verdict.INCONCLUSIVE


def _slower(over_control: Estimate | None, *, same_host: bool, emulated: bool) -> Verdict:
    if over_control is None and same_host:
        return Verdict.NO_CONTROL
    if over_control is not None and over_control.low <= 1:
        return Verdict.NOT_ABOVE_CONTROL
    return Verdict.EMULATED if emulated else Verdict.CONTENTION
