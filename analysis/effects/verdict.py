"""Verdicts: the conclusion about an effect, in one phrase; and the caveats next to a figure.

Verdicts hold for all effects that a campaign requested together: the chance that any of them is
wrong is at most 5 %, whenever one looks. So each rests on e-values, adjusted for the family.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Sized
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from analysis.statistics.aligned_ranks import FEWEST_BLOCKS
from analysis.statistics.e_values import over_family
from analysis.statistics.interval import Estimate
from records.notes import Note

if TYPE_CHECKING:
    import polars as pl


class Verdict(str, Enum):
    """The conclusion; the value is used in text and files."""

    TOO_FEW_PAIRS = "too few pairs"
    NO_WRITES = "no writes"
    NO_NOISE_FLOOR = "baseline not repeated"
    BASELINE_UNSTABLE = "baseline unstable"
    INCONCLUSIVE = "inconclusive"
    SPEED_UP = "speed-up"
    NO_EFFECT = "no effect"
    TYPICAL = "no effect on the typical run"
    SOMETIMES = "sometimes slower"
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
    def needs_pairs(self) -> bool:
        """Whether more pairs may change it."""
        return self.is_open or self is Verdict.NOT_ABOVE_CONTROL

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
    Verdict.BASELINE_UNSTABLE: "The baseline differs from its own repetition, so nothing is said"
    " of the effect.",
    Verdict.NO_CONTROL: "Slower, but origin and target share a host, and no control counts in six"
    " of the pairs.",
    Verdict.NOT_ABOVE_CONTROL: "Slower, but not shown to be slower than with a process that only"
    " keeps a core busy.",
    Verdict.EMULATED: "Slower than off, but the writes were emulated: processors took part in"
    " them, so memory is not shown to be the cause.",
    Verdict.CONTENTION: "The typical run is slower than off: the whole interval lies above 1, and"
    " the estimate above the whole interval of off against off; the mean is higher, too; where"
    " there is a control, slower than that as well.",
    Verdict.SOMETIMES: "The mean is higher, and the typical run is slower by less than half as"
    " much: some runs are hit.",
    Verdict.SPEED_UP: "Faster than off: the whole intervals of the typical run and of the mean lie"
    " below 1, and the estimate below the whole interval of off against off.",
    Verdict.NO_EFFECT: "Both the typical run and the mean lie within the campaign's margin.",
    Verdict.TYPICAL: "The typical run lies within the campaign's margin. That some runs are hit"
    " is neither shown nor ruled out: the mean needs more pairs.",
    Verdict.INCONCLUSIVE: "Neither an effect nor its absence is shown.",
    Verdict.NOISE_FLOOR: "Off against off: how well this many pairs repeat the baseline.",
    Verdict.CONTROL: "A busy process instead of the writer: the slowdown seen without any write.",
}


@dataclass(frozen=True)
class Evidence:
    """E-values (`analysis.statistics.e_values`) of what may be said of an effect."""

    #: The typical run is slower, and faster, than off.
    slower: float
    faster: float
    #: The mean is higher.
    mean_slower: float
    #: The typical run lies within the margin; and the mean as well.
    typical_within: float
    within: float
    #: Slower than off, and than the control; None without one.
    above_control: float | None
    #: The repeated baseline differs from the baseline.
    unstable: float


#: Statement -> the chance, over the whole family, that one of that kind is wrong: together 5 %.
LEVELS = {
    "slower": 0.02,
    "above_control": 0.02,
    "faster": 0.005,
    "mean_slower": 0.005,
    "typical_within": 0.01,
    "within": 0.01,
}
#: The chance that any sound baseline is called unstable.
UNSTABLE_LEVEL = 0.05


#: What the evidence on an effect shows, over the whole family: fields of `Evidence`.
Shown = Collection[str]


def shown(
    family: Sequence[Evidence], baselines: Sequence[str], asked: int, asked_baselines: int = 0
) -> list[Shown]:
    """What each of the `family` shows, of which `asked` were to be measured.

    `baselines`: of each effect, a name; effects of the same name share their baseline. Of these
    `asked_baselines` were to be repeated.
    """
    found = {
        name: [
            value >= 1 / level
            for value in over_family([getattr(each, name) or 0.0 for each in family], asked)
        ]
        for name, level in LEVELS.items()
    }
    of = {name: each.unstable for name, each in zip(baselines, family, strict=True)}
    held = dict(zip(of, over_family(list(of.values()), asked_baselines), strict=True))
    found["unstable"] = [held[name] >= 1 / UNSTABLE_LEVEL for name in baselines]
    return [{name for name, each in found.items() if each[i]} for i in range(len(family))]


def phrase(verdict: Verdict, margin: float, *, emulated: bool = False) -> str:
    """The verdict as it is shown, with what 'no effect' means: `no effect: less than 2 %`.

    Where writes were `emulated`, every verdict on the effect says so.
    """
    bounded = verdict in (Verdict.NO_EFFECT, Verdict.TYPICAL)
    text = f"{verdict}: less than {margin * 100:.3g} %" if bounded else str(verdict)
    says = bounded or verdict in (Verdict.SPEED_UP, Verdict.SOMETIMES)
    return f"{text}, under emulated writes" if emulated and says else text


def within(low: float, high: float, margin: float) -> bool:
    """Whether an interval of a ratio lies within a margin: no more slower, or faster, than that."""
    return 1 / (1 + margin) <= low and high <= 1 + margin


def judge(
    effect: Estimate | None,
    mean: Estimate | None,
    repeated: Estimate | None,
    seen: Shown | None,
    *,
    controlled: bool,
    pairs: int,
    pairs_floor: int,
    precise: bool,
    wrote: bool,
    same_host: bool,
    emulated: bool,
) -> Verdict:
    """The verdict on the slowdown `effect` of the typical run and on that of the `mean`.

    `repeated`: the repeated baseline against the baseline. `seen`: what the evidence shows.
    `controlled`: whether there is a control in six of the pairs. `precise`: whether the interval is
    as narrow as requested, which only 'no effect' needs.
    """
    if effect is None or mean is None or seen is None or pairs < pairs_floor:
        return Verdict.TOO_FEW_PAIRS
    if not wrote:
        return Verdict.NO_WRITES
    if repeated is None:
        return Verdict.NO_NOISE_FLOOR
    if "unstable" in seen:
        return Verdict.BASELINE_UNSTABLE
    if "slower" in seen and effect.low > 1 and effect.value > repeated.high and mean.value > 1:
        if same_host and not controlled:
            return Verdict.NO_CONTROL
        if controlled and "above_control" not in seen:
            return Verdict.NOT_ABOVE_CONTROL
        return Verdict.EMULATED if emulated else Verdict.CONTENTION
    if "mean_slower" in seen and effect.value - 1 < (mean.value - 1) / 2:
        return Verdict.SOMETIMES
    if "faster" in seen and effect.high < 1 and effect.value < repeated.low and mean.high < 1:
        return Verdict.SPEED_UP
    if "within" in seen and precise:
        return Verdict.NO_EFFECT
    return Verdict.TYPICAL if "typical_within" in seen and precise else Verdict.INCONCLUSIVE


# Caveats: one-line notes that a reader needs next to a figure.

#: Share of rejected runs above which a warning says so.
_MANY_REJECTED = 0.1

#: Transport of a writer -> caveat.
_EMULATIONS = {
    "shared memory": Note.SHARED_MEMORY,
    "soft-RoCE": Note.SOFT_ROCE,
    "tcp": Note.TCP,
    "two-sided": Note.TWO_SIDED,
    "copy engine": Note.COPY_ENGINE,
}


def emulations(transports: Sequence[str]) -> list[str]:
    """Caveats of `transports`, each a name or several joined with `+`."""
    names = dict.fromkeys(name for joined in transports for name in joined.split("+"))
    return [_EMULATIONS[name]() for name in names if name in _EMULATIONS]


def emulated(samples: pl.DataFrame) -> list[str]:
    """Caveats of the transports of `samples`; empty for RDMA hardware."""
    return emulations([str(name) for name in samples["transport"].unique(maintain_order=True)])


def caveats(
    own: pl.DataFrame,
    blocks: Sequence[Sized],
    effect: Estimate | None,
    precision: float | None,
    cap: int | None,
) -> list[str]:
    """Caveats of a treatment, from its samples `own`, its pairs in each block and its effect."""
    notes = [
        str(note) for note in own["notes"].explode(empty_as_null=False).unique(maintain_order=True)
    ]
    notes += emulated(own)
    pairs = sum(len(block) for block in blocks)
    if 0 < len(blocks) < FEWEST_BLOCKS:
        notes.append(Note.NEXT_ALLOCATION(blocks=len(blocks), needed=FEWEST_BLOCKS))
    if precision is not None and effect is not None and effect.half_width > precision:
        most = "" if cap is None else f" (at most {cap})"
        half = effect.half_width
        notes.append(Note.HALF_WIDTH(half_width=half, pairs=pairs, most=most, precision=precision))
    return notes


def selection(
    arm: str, figures: Mapping[str, tuple[Estimate | None, Estimate | None]], rejected_share: float
) -> list[str]:
    """Warnings where the choice of runs may have made a figure: repeated runs could select it.

    `figures` gives what each figure is called, the figure, and the same with first attempts;
    `rejected_share` is of the runs that the figures compare.
    """
    notes = []
    for name, (used, first) in figures.items():
        if used and first and abs(first.value - used.value) > (used.high - used.low) / 2:
            notes.append(Note.FIRST_ATTEMPTS(name=name, first=first.value, used=used.value))
    if rejected_share > _MANY_REJECTED:
        notes.append(Note.MANY_REJECTED(share=rejected_share, arm=arm, most=_MANY_REJECTED))
    return notes
