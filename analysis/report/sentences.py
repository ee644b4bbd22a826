"""Sentences of the report on each verdict: its meaning, and what to do next."""

from __future__ import annotations

from typing import NamedTuple

from analysis.effects.result import Verdict
from analysis.effects.statements import ERROR_LEVELS, UNSTABLE_LEVEL
from records.units import percentage


class Sentences(NamedTuple):
    """The sentences on a verdict: one entry of `SENTENCES`."""

    #: The finding, how sure it is, and what it does not say.
    meaning: str
    #: The next step, with the commands that do it (`analysis.report.first_sentences.next_step`).
    action: str = ""


def _error_sentence(level: float, statement: str = "say this wrongly of any case") -> str:
    return f"At most {percentage(level)} of campaigns {statement}."


_ERROR_OF_SLOWER = _error_sentence(ERROR_LEVELS["slower"])
_SLOWER = (
    "The typical run is slower than off and its repetition: the whole interval lies above 1, and"
    " the mean is higher; if there is a control, the run is slower than that as well."
)
#: What a user with one host can do.
_ONE_NODE = "for one node alone, see 'Without a second node' in docs/what-next.md"
_MORE_PAIRS = "measure more pairs: {more}"
#: The next step if more pairs would not decide whether there is an effect.
REDUCE_SCATTER = (
    "find what makes these runs differ so much, or make them longer: at this scatter even {most:,}"
    " pairs would decide nothing"
)
#: The next step after memory contention, if the run has remedies.
WEIGH_REMEDIES = "compare the remedies of this run at a share of time with traffic: `{advise}`"
#: Verdict -> its sentences, in the order in which the next step is chosen.
SENTENCES: dict[Verdict, Sentences] = {
    Verdict.TOO_FEW_PAIRS: Sentences(
        "Fewer pairs count than the campaign requires, or fewer than six.",
        _MORE_PAIRS,
    ),
    Verdict.NO_WRITES: Sentences(
        "The timetable had no writer at this scale, so nothing was written.",
        "measure on more nodes, or with longer writes",
    ),
    Verdict.NO_NOISE_FLOOR: Sentences(
        "The baseline was repeated in fewer than six pairs, so its own differences are not known.",
        "add the arm aa, which repeats the baseline, to the campaign's `arms`",
    ),
    Verdict.BASELINE_UNSTABLE: Sentences(
        "The baseline differs from its own repetition, which ends the case."
        f" {_error_sentence(UNSTABLE_LEVEL, 'say this of any sound baseline')}"
        " Nothing is said of the effect.",
        "look for drift and other load on the nodes, and measure again: `{fresh}`",
    ),
    Verdict.NO_CONTROL: Sentences(
        "Slower, but origin and target share a host, and no control counts in six pairs or more."
        f" {_ERROR_OF_SLOWER} Lost cores may explain it.",
        "add the control spin to the campaign's `arms`, or take origins on other hosts;"
        f" {_ONE_NODE}",
    ),
    Verdict.INCONCLUSIVE: Sentences("Neither an effect nor its absence is shown.", _MORE_PAIRS),
    Verdict.NOT_ABOVE_CONTROL: Sentences(
        "Slower, but not shown to be slower than with a process that only keeps a core busy."
        f" {_ERROR_OF_SLOWER} Lost cores may explain it.",
        f"take origins on other hosts: lost cores may explain the loss; {_ONE_NODE}",
    ),
    Verdict.EMULATED: Sentences(
        f"{_SLOWER} {_ERROR_OF_SLOWER} The writes were emulated: processors took part in them, so"
        " memory is not shown to be the cause.",
        "measure with RDMA hardware; this loss is that of the emulation",
    ),
    Verdict.SLOWER: Sentences(
        f"{_SLOWER} {_ERROR_OF_SLOWER} That memory is the cause is not shown: either only the"
        " writers report the writes, or nothing shows that they left the cache.",
        "count what reaches memory, with `factors: {{tool: [none, perf_stat:dram]}}` in the"
        " campaign, or write more than the caches hold, with `injector: {{message: dram}}`",
    ),
    Verdict.CONTENTION: Sentences(
        f"{_SLOWER} The writes were seen to arrive, and reached memory. {_ERROR_OF_SLOWER}",
        "measure what remedies gain, such as a lower rate or a reserved core: `{throttling}`;"
        " `{plan}` says how long it takes",
    ),
    Verdict.SPEED_UP: Sentences(
        "Faster than off and its repetition: the whole intervals of the typical run and of the mean"
        " lie below 1."
        f" {_error_sentence(ERROR_LEVELS['faster'])}",
        "find out why runs with writes are faster before these figures are used",
    ),
    Verdict.NO_EFFECT: Sentences(
        "The typical run lies within the campaign's margin; neither the mean nor the repeated"
        f" baseline is shown to lie beyond it. {_error_sentence(ERROR_LEVELS['within'])}"
        " It does not say that no single run is hit.",
        "nothing is needed under the writes that were measured",
    ),
    Verdict.NOISE_FLOOR: Sentences(
        "Off against off: how well this many pairs repeat the baseline."
    ),
    Verdict.CONTROL: Sentences(
        "A busy process instead of the writer: the slowdown seen without any write."
    ),
}
#: Verdict -> its meaning.
MEANING = {verdict: sentences.meaning for verdict, sentences in SENTENCES.items()}
