"""Verdicts: the conclusion about an effect, in one word and one row of sentences.

What a verdict rests on is shown over all that a campaign asks (`analysis.effects.hypotheses`), so
that the chance of any wrong one of a kind is at most 5 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from analysis.effects.hypotheses import LEVELS, UNSTABLE_LEVEL, Shown
from records.notes import Note

if TYPE_CHECKING:
    import polars as pl

    from analysis.effects.estimate import Result


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
    DEVICE = "slower under a GPU's writes"
    SLOWER = "slower under RDMA writes"
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
    def is_loss(self) -> bool:
        """Whether the typical run is shown to be slower, and not by lost cores alone."""
        return self in (Verdict.EMULATED, Verdict.DEVICE, Verdict.SLOWER, Verdict.CONTENTION)

    @property
    def is_not_compared(self) -> bool:
        """Whether the runs allow no statement on the effect, not even that there is none."""
        return self in (
            Verdict.TOO_FEW_PAIRS,
            Verdict.NO_WRITES,
            Verdict.NO_NOISE_FLOOR,
            Verdict.BASELINE_UNSTABLE,
        )


class Sentences(NamedTuple):
    """What is said of a verdict: one row of the table below."""

    #: What was seen, how sure that is, and what it does not say.
    meaning: str
    #: What to do next, with the command that does it, in which `{run}` is `nimc run CAMPAIGN
    #: --machine M`, `{machine}` the machine and `{pairs}` the next look.
    do: str = ""


def _error(level: float, says: str = "say this wrongly of any case") -> str:
    return f"At most {level:.0%} of campaigns {says}."


_SURE = _error(LEVELS["slower"])
_SLOWER = (
    "The typical run is slower than off: the whole interval lies above 1, the estimate above that"
    " of off against off, and the mean is higher; where there is a control, slower than that as"
    " well."
)
_MORE = "`{run} --pairs {pairs}`"
#: What the figures need comes first, before what they show.
SENTENCES: dict[Verdict, Sentences] = {
    Verdict.TOO_FEW_PAIRS: Sentences(
        "Fewer pairs count than the campaign requires, or fewer than six.",
        f"measure more pairs, {_MORE}; the reasons of rejected runs may say why they lack",
    ),
    Verdict.NO_WRITES: Sentences(
        "The timetable had no writer at this scale, so nothing was written.",
        "measure on more nodes, or with longer writes",
    ),
    Verdict.NO_NOISE_FLOOR: Sentences(
        "The baseline was not repeated in six pairs, so its own differences are not known.",
        "add the arm aa, which repeats the baseline, to the campaign's `arms`",
    ),
    Verdict.BASELINE_UNSTABLE: Sentences(
        "The baseline differs from its own repetition, which ends the case."
        f" {_error(UNSTABLE_LEVEL, 'say this of any sound baseline')}"
        " Nothing is said of the effect.",
        "look for drift and other load on the nodes, and measure again: `{run} --fresh`",
    ),
    Verdict.NO_CONTROL: Sentences(
        "Slower, but origin and target share a host, and no control counts in six of the pairs."
        f" {_SURE} Lost cores may explain it.",
        "add the control spin to the campaign's `arms`, or take origins on other hosts",
    ),
    Verdict.INCONCLUSIVE: Sentences(
        "Neither an effect nor its absence is shown.", f"measure more pairs: {_MORE}"
    ),
    Verdict.NOT_ABOVE_CONTROL: Sentences(
        "Slower, but not shown to be slower than with a process that only keeps a core busy."
        f" {_SURE} Lost cores may explain it.",
        "take origins on other hosts: lost cores may explain the loss",
    ),
    Verdict.EMULATED: Sentences(
        f"{_SLOWER} {_SURE} The writes were emulated: processors took part in them, so memory is"
        " not shown to be the cause.",
        "measure with RDMA hardware; this loss is that of the emulation",
    ),
    Verdict.DEVICE: Sentences(
        f"{_SLOWER} {_SURE} A GPU wrote over PCIe, no network card: what RDMA costs is not shown.",
        "measure with RDMA hardware; compare the losses at the same rate",
    ),
    Verdict.SLOWER: Sentences(
        f"{_SLOWER} {_SURE} That memory is the cause is not shown: nothing but the writers' reports"
        " shows the writes, or nothing shows that they left the cache.",
        "count what reaches memory, with `factors: {{tool: [none, perf_stat:dram]}}` in the"
        " campaign, or write more than the caches hold, with `injector: {{message: dram}}`",
    ),
    Verdict.CONTENTION: Sentences(
        f"{_SLOWER} The writes were seen to arrive, and reached memory. {_SURE}",
        "measure what remedies gain, such as a lower rate or a reserved core: `nimc run throttling"
        " --machine {machine}`",
    ),
    Verdict.SPEED_UP: Sentences(
        "Faster than off: the whole intervals of the typical run and of the mean lie below 1, and"
        f" the estimate below the whole interval of off against off. {_error(LEVELS['faster'])}",
        "find out why runs with writes are faster before these figures are used",
    ),
    Verdict.NO_EFFECT: Sentences(
        "The typical run lies within the campaign's margin; neither the mean nor the repeated"
        f" baseline is shown to lie beyond it. {_error(LEVELS['within'])}"
        " That no single run is hit is not said.",
        "nothing is needed under the writes that were measured",
    ),
    Verdict.NOISE_FLOOR: Sentences(
        "Off against off: how well this many pairs repeat the baseline."
    ),
    Verdict.CONTROL: Sentences(
        "A busy process instead of the writer: the slowdown seen without any write."
    ),
}
#: Verdict -> its meaning, for lists of them.
MEANING = {verdict: sentences.meaning for verdict, sentences in SENTENCES.items()}


def phrase(verdict: Verdict, margin: float, *, emulated: bool = False) -> str:
    """The verdict as it is shown: `no effect: typical run within 2 %`.

    Where writes were `emulated`, every verdict on the effect says so.
    """
    bounded = verdict is Verdict.NO_EFFECT
    text = f"{verdict}: typical run within {margin * 100:.3g} %" if bounded else str(verdict)
    says = bounded or verdict is Verdict.SPEED_UP
    return f"{text}, under emulated writes" if emulated and says else text


def judge(
    row: Result, shown: Shown, pairs_floor: int, *, same_host: bool = False, by_gpu: bool = False
) -> Verdict:
    """The verdict on an effect, of which all but the verdict is in its row.

    `shown`: what the pairs show, over all that is asked. `by_gpu`: whether a GPU made all writes.
    What shows that memory is the cause comes later (`analysis.effects.facts.name_contention`).
    """
    effect, mean, repeated = row.slowdown, row.mean, row.noise_floor
    if effect is None or mean is None or row.pairs < pairs_floor:
        return Verdict.TOO_FEW_PAIRS
    if row.writer_rate_b_s is None:
        return Verdict.NO_WRITES
    if repeated is None:
        return Verdict.NO_NOISE_FLOOR
    if "unstable" in shown:
        return Verdict.BASELINE_UNSTABLE
    if "slower" in shown and effect.low > 1 and effect.value > repeated.high and mean.value > 1:
        if same_host and row.over_control is None:
            return Verdict.NO_CONTROL
        if row.over_control and "above_control" not in shown:
            return Verdict.NOT_ABOVE_CONTROL
        if row.emulated:
            return Verdict.DEVICE if by_gpu else Verdict.EMULATED
        return Verdict.SLOWER
    if "faster" in shown and effect.high < 1 and effect.value < repeated.low and mean.high < 1:
        return Verdict.SPEED_UP
    # A mean beyond the margin is an effect, if not one on the typical run; or the baseline drifts.
    least, most = 1 / (1 + row.margin), 1 + row.margin
    beyond = any(of.low > most or of.high < least for of in (mean, repeated))
    return Verdict.NO_EFFECT if "within" in shown and not beyond else Verdict.INCONCLUSIVE


#: Transport of a writer -> caveat. A GPU's writes are no emulation, but no RDMA either.
_EMULATIONS = {
    "shared memory": Note.SHARED_MEMORY,
    "soft-RoCE": Note.SOFT_ROCE,
    "tcp": Note.TCP,
    "two-sided": Note.TWO_SIDED,
    "copy engine": Note.COPY_ENGINE,
}


def emulations(transports: Iterable[str]) -> list[str]:
    """Caveats of `transports`, each a name or several joined with `+`; none for RDMA hardware."""
    names = dict.fromkeys(name for joined in transports for name in joined.split("+"))
    return [_EMULATIONS[name]() for name in names if name in _EMULATIONS]


def emulated(samples: pl.DataFrame) -> list[str]:
    """Caveats of the transports of `samples`."""
    return emulations(map(str, samples["transport"].unique(maintain_order=True)))
