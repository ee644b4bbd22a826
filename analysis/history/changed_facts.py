"""Facts on how runs were made that changed when a figure changed. They need not be the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

#: Number of runs on each side of a change whose facts are compared.
_COMPARED_RUNS = 6


@dataclass(frozen=True)
class ChangedFact:
    """A fact on how runs were made that differs before and after a change."""

    name: str
    #: Usual values before and after the change; None if the fact was not recorded.
    before: str | None
    after: str | None


def facts_by_run(results: pl.DataFrame) -> dict[str, dict[str, str]]:
    """Return run -> its facts, its nodes and this project's commit, from tables of results."""
    rows = results.unique("run", maintain_order=True).select("run", "facts", "nodes", "commit")
    facts_of_runs = {}
    for run, facts, nodes, commit in rows.iter_rows():
        facts_of_runs[run] = {fact["name"]: fact["value"] for fact in facts or []}
        if nodes:
            facts_of_runs[run]["nodes"] = nodes
        if commit:
            facts_of_runs[run]["commit"] = commit
    return facts_of_runs


def changed_facts(
    facts: Mapping[str, Mapping[str, str]], runs: Sequence[str], since: str
) -> list[ChangedFact]:
    """Return facts whose usual value differs between the runs before `since` and from `since` on.

    The usual value is the most frequent value, so that one odd run on a side hides no change.
    """
    if since not in runs:
        return []
    position = runs.index(since)
    runs_before = runs[max(0, position - _COMPARED_RUNS) : position]
    runs_after = runs[position : position + _COMPARED_RUNS]
    before = [facts[run] for run in runs_before if run in facts]
    after = [facts[run] for run in runs_after if run in facts]
    if not before or not after:
        return []
    names = {name for facts_of_run in before + after for name in facts_of_run}
    candidates = [
        ChangedFact(name, before=_usual_value(before, name), after=_usual_value(after, name))
        for name in sorted(names)
    ]
    return [fact for fact in candidates if fact.before != fact.after]


def _usual_value(facts_of_runs: Sequence[Mapping[str, str]], name: str) -> str | None:
    """Return the most frequent value of a fact. If several are most frequent, return the latest."""
    values = [facts.get(name) for facts in reversed(facts_of_runs)]
    return Counter(values).most_common(1)[0][0]
