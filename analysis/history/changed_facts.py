"""Facts of how runs were made that changed with a figure. They need not be the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

#: Runs on each side of a change whose facts are compared.
_RUNS = 6


@dataclass(frozen=True)
class ChangedFact:
    """A fact of how runs were made that differs before and after a change."""

    name: str
    #: Usual values; None if not recorded.
    before: str | None
    after: str | None


def facts_by_run(results: pl.DataFrame) -> dict[str, dict[str, str]]:
    """Run -> its facts, with its nodes and this project's commit, of tables of results."""
    rows = results.unique("run", maintain_order=True).select("run", "facts", "nodes", "commit")
    return {
        run: {fact["name"]: fact["value"] for fact in facts or []}
        | {name: text for name, text in (("nodes", nodes), ("commit", commit)) if text}
        for run, facts, nodes, commit in rows.iter_rows()
    }


def changed_facts(
    facts: Mapping[str, Mapping[str, str]], runs: Sequence[str], since: str
) -> list[ChangedFact]:
    """Facts whose usual value in the runs from `since` on is not that of the last runs before.

    The usual value is the most frequent one, so that one odd run on either side hides nothing.
    """
    position = runs.index(since) if since in runs else 0
    sides = [
        [facts[run] for run in part if run in facts]
        for part in (runs[max(0, position - _RUNS) : position], runs[position : position + _RUNS])
    ]
    if not all(sides):
        return []
    before, after = sides
    usual = [
        ChangedFact(name, before=_usual(before, name), after=_usual(after, name))
        for name in sorted(set().union(*before, *after))
    ]
    return [fact for fact in usual if fact.before != fact.after]


def _usual(side: Sequence[Mapping[str, str]], name: str) -> str | None:
    """The most frequent value; of equally frequent ones the latest."""
    values = [facts.get(name) for facts in reversed(side)]
    return Counter(values).most_common(1)[0][0]
