"""Each treatment against its baseline: table of a run; words, pictures and table of a case."""

from __future__ import annotations

import polars as pl

from analysis.effects.result import Result, Verdict
from analysis.report.data import CaseData, RunData
from analysis.report.plots import View, ratios_plot, samples_plot
from analysis.report.sections import Section
from analysis.report.sentences import MEANING
from analysis.report.words import change_text, kind, pairs_needed, pairs_text, range_text
from analysis.statistics.interval import FEWEST
from analysis.statistics.looks import unseen
from records.arms import BASELINE
from records.units import plural, quantity


def sentence(row: Result) -> str:
    """The effect of one treatment on one case, in a sentence with its interval."""
    if row.slowdown is None:
        return f"No estimate: {plural(row.pairs, 'pair')}, at least {FEWEST} needed."
    writers = ""
    if row.writer_rate_b_s is not None:
        done = kind(row.direction)[1]
        writers = f" while {quantity(row.writer_rate_b_s, 'B/s', 3)} were {done} its node"
    following = f"next allocation: {range_text(row.next)}; these: " if row.next else "interval: "
    return (
        f"The typical run took {change_text(row.slowdown.value)} time{writers} ({following}"
        f"{range_text(row.slowdown)}, {plural(row.pairs, 'pair')}).{_of_mean(row)}"
        f" {MEANING[row.verdict]}{_limits(row)}"
    )


def _of_mean(row: Result) -> str:
    """What is paid for, and what so few pairs have met of runs that are hit."""
    if row.mean is None or row.hit is None:
        return ""
    hit = round(row.hit.value * row.pairs)
    met = "no single run with writes stands out"
    if hit:
        runs = f"{hit} of {plural(row.pairs, 'run')} with writes"
        met = f"{runs} took unusually long (true share at most {row.hit.high:.0%})"
    return (
        f" In the mean it took {change_text(row.mean.value)} ({range_text(row.mean)}) in these"
        f" {plural(row.pairs, 'pair')}; {met}."
    )


def _limits(row: Result) -> str:
    """Within what there is no effect, and what may have stayed unseen; or what is possible."""
    if row.verdict is Verdict.NO_EFFECT and row.mean and row.hit:
        low, high = (100 * (ratio - 1) for ratio in (row.mean.low, row.mean.high))
        missed = f"; hits of fewer than {unseen(row.pairs):.0%} of runs may have stayed unseen"
        return (
            f" Typical run within {row.margin * 100:.3g} %; mean {low:+.1f} to {high:+.1f} % in"
            f" these {row.pairs} pairs{'' if row.hit.value else missed}."
        )
    if row.verdict is Verdict.INCONCLUSIVE and row.slowdown:
        least, most = map(change_text, (row.slowdown.low, row.slowdown.high))
        takes = f"; {pairs_text(row, enough)}" if (enough := pairs_needed(row)) > row.pairs else ""
        return f" Still possible: {least} to {most} time{takes}."
    return ""


#: A case with more effects has its sentences folded, below the pictures.
_FEW = 6
#: Columns of the samples that pictures show.
_DRAWN = ["key", "arm", "status", "outcome", "reason", "fom", "nodes"]


def _table(run: RunData, _: str) -> View:
    return View(
        effects=run.shown,
        # Whether a treatment is paired with a baseline other than plain `off`.
        baselines=any(row.baseline != BASELINE for row in run.results),
    )


def _in_words(case: CaseData, *, folded: bool) -> View | None:
    many = len(case.effects) > _FEW
    return View(effects=case.effects, folded=folded, sentence=sentence) if many == folded else None


def _pictures(case: CaseData, _: str) -> View:
    pairs = case.run.pairs.filter(pl.col("case") == case.name)
    samples = [
        samples_plot(
            case.samples.filter(pl.col("fom_unit") == unit).select(_DRAWN).collect(),
            unit,
            f"{case.name} runs",
        )
        for unit in dict.fromkeys(row.unit for row in case.rows)
    ]
    return View(pictures=[*samples, ratios_plot(pairs, case.rows, f"{case.name} pairs")])


SECTIONS = [
    Section("run", -10, "effects", _table),
    Section("case", 10, "in_words", lambda case, _: _in_words(case, folded=False)),
    Section("case", 30, "pictures", _pictures, template="case_pictures"),
    Section(
        "case",
        40,
        "all_words",
        lambda case, _: _in_words(case, folded=True),
        template="in_words",
    ),
    Section("case", 50, "treatments", lambda case, _: View(effects=case.rows)),
]
