"""The advice of a page: the first section, if a run of the machine tried a remedy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.remedies.advice import Advice, advise
from analysis.remedies.sentences import named, sentences, where
from analysis.remedies.standing import RemedyAdvice, Standing
from analysis.report.data import RunData

#: Standing -> class of its label.
_LOOKS = {Standing.BETTER: "good", Standing.WORSE: "bad"}


@dataclass(frozen=True)
class AdviceRow:
    """One remedy under one traffic, for the template."""

    row: RemedyAdvice
    look: str
    break_even: str
    #: The pairs that would decide it, with their node-hours; empty if it is decided.
    next: str
    #: Whether the figures are of emulated writes.
    emulated: bool


@dataclass(frozen=True)
class AdviceView:
    """The section of one machine."""

    sentences: list[str]
    rows: list[AdviceRow]
    #: Names of remedies, case and traffic that are recommended.
    recommended: list[str]
    #: Whether rows come from several runs.
    several: bool


def advice_view(runs: Sequence[RunData]) -> AdviceView | None:
    """The section of a machine's runs; None if none tried a remedy."""
    found = advise(runs)
    return _view(found) if found.remedies else None


def _view(found: Advice) -> AdviceView:
    return AdviceView(
        sentences=sentences(found),
        rows=[_row(each) for each in found.remedies],
        recommended=[named(row.effect) for row in found.remedies if row.recommended],
        several=len({row.run for row in found.remedies}) > 1,
    )


def _row(row: RemedyAdvice) -> AdviceRow:
    asked = row.next
    following = f"{asked.pairs} more ({asked.node_hours:.2g} node-hours)" if asked else ""
    return AdviceRow(
        row=row,
        look=_LOOKS.get(row.standing, "plain"),
        break_even=where(row.break_even, "%") if row.effect.price else "",
        next=following,
        emulated=bool(row.effect.emulated),
    )
