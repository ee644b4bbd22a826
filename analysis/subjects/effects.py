"""Each treatment against its baseline: a table for a run, sentences and a table for each case."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from analysis.display.figures import quantity
from analysis.effects.result import Result, Verdict
from analysis.report.data import CaseData, RunData
from analysis.report.plots import View
from analysis.report.sections import Section
from analysis.report.sentences import MEANING
from analysis.report.words import change_text, range_text, traffic_words
from analysis.statistics.evidence import max_unseen_share
from analysis.statistics.interval import MIN_VALUES
from records.arms import BASELINE
from records.units import percentage, plural


def sentence(row: Result, reword: Callable[[str], str] = str, targets: int = 1) -> str:
    """The effect of one treatment on one case, in a sentence with its interval.

    `reword` rewrites the explanation of the verdict so that it fits the command that was typed. The
    case has `targets` target nodes.
    """
    if row.slowdown is None:
        return f"No estimate: {plural(row.pairs, 'pair')}, at least {MIN_VALUES} needed."
    writers = ""
    if row.writer_rate_b_s is not None:
        verb = traffic_words(row.direction).participle
        nodes = "node" if targets == 1 else f"{targets} nodes"
        writers = f" while {quantity(row.writer_rate_b_s, 'B/s', 3)} were {verb} its {nodes}"
    next_text = ""
    if row.next:
        next_text = f" Interval for the next allocation: {range_text(row.next)}."
    return (
        f"The typical run took {change_text(row.slowdown.value)} time{writers} (interval:"
        f" {range_text(row.slowdown)}, {plural(row.pairs, 'pair')}).{next_text}{_mean_text(row)}"
        f" {reword(MEANING[row.verdict])}{_limits_text(row)}"
    )


def _mean_text(row: Result) -> str:
    """Sentence on the change of the mean time, and on the number of slow outliers."""
    if row.mean is None or row.hit is None:
        return ""
    hit_runs = round(row.hit.value * row.pairs)
    outliers = "no single run with writes stands out"
    if hit_runs:
        slow_runs = f"{hit_runs} of {plural(row.pairs, 'run')} with writes"
        outliers = (
            f"{slow_runs} took unusually long (true share at most {percentage(row.hit.high)})"
        )
    return (
        f" In the mean it took {change_text(row.mean.value)} ({range_text(row.mean)}) in these"
        f" {plural(row.pairs, 'pair')}; {outliers}."
    )


def _limits_text(row: Result) -> str:
    """Sentence on the bounds of 'no effect', or on the range of effects that are still possible."""
    if row.verdict is Verdict.NO_EFFECT and row.mean and row.hit:
        low, high = (100 * (ratio - 1) for ratio in (row.mean.low, row.mean.high))
        unseen_share = percentage(max_unseen_share(row.pairs))
        unseen_hits = f"; hits of fewer than {unseen_share} of runs may have stayed unseen"
        return (
            f" Typical run within {percentage(row.margin, '.3g')}; mean {low:+.1f} to {high:+.1f} %"
            f" in these {row.pairs} pairs{'' if row.hit.value else unseen_hits}."
        )
    if row.verdict is Verdict.INCONCLUSIVE and row.leading_estimate:
        low, high = row.leading_estimate.low, row.leading_estimate.high
        more_pairs_text = f"; a verdict over {plural(row.family, 'question')} needs more pairs"
        return (
            f" Still possible: {change_text(low)} to {change_text(high)} time"
            f"{'' if low <= 1 <= high else more_pairs_text}."
        )
    return ""


#: If a case has more effects than this, its sentences are folded.
_MAX_OPEN_SENTENCES = 6


def _effects_view(run: RunData) -> View:
    return View(
        effects=run.effect_table_rows,
        # True if the baseline of a treatment is not plain `off`.
        has_other_baselines=any(row.baseline != BASELINE for row in run.results),
    )


def _sentences_view(case: CaseData) -> View:
    names_of_runs = case.samples.select("nodes").unique().collect()["nodes"]
    targets = max(1 + str(names).count(",") for names in names_of_runs)
    return View(
        effects=case.effects,
        folded=len(case.effects) > _MAX_OPEN_SENTENCES,
        sentence=partial(sentence, reword=case.run.reword, targets=targets),
    )


SECTIONS = [
    Section(part="before_cases", position=-10, name="effects", make_view=_effects_view),
    Section(part="case", position=10, name="in_words", make_view=_sentences_view),
    Section(
        part="case", position=50, name="treatments", make_view=lambda case: View(effects=case.rows)
    ),
]
