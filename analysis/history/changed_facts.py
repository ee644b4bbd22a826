"""Facts on how runs were made that changed when a figure changed. They need not be the cause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

#: Number of nights on each side of a change whose facts are compared.
_COMPARED_NIGHTS = 6


@dataclass(frozen=True)
class ChangedFact:
    """A fact on how runs were made that differs before and after a change."""

    name: str
    #: Usual values before and after the change; None if the fact was not recorded.
    before: str | None
    after: str | None


#: Name and start of a run. Runs of several results folders may have the same name.
RunKey = tuple[str, float]


def facts_by_run(results: pl.DataFrame) -> dict[RunKey, dict[str, str]]:
    """Return run -> its facts and this project's commit, from tables of results."""
    key = ["run", "started_s"]
    rows = results.unique(key, maintain_order=True).select(*key, "facts", "commit")
    facts_of_runs: dict[RunKey, dict[str, str]] = {}
    for run, started_s, facts, commit in rows.iter_rows():
        named_facts = {fact["name"]: fact["value"] for fact in facts or []}
        if commit:
            named_facts["commit"] = commit
        facts_of_runs[run, started_s] = named_facts
    return facts_of_runs


def changed_facts(facts: Sequence[Mapping[str, str]], since: int) -> list[ChangedFact]:
    """Return facts whose usual value changed with the night of index `since`.

    `facts` has the facts of each night, in order. The usual value is the most frequent value, so
    that one odd night on a side hides no change.
    """
    before = facts[max(0, since - _COMPARED_NIGHTS) : since]
    after = facts[since : since + _COMPARED_NIGHTS]
    if not before:
        return []
    names = {name for facts_of_night in [*before, *after] for name in facts_of_night}
    candidates = [
        ChangedFact(name, before=_usual_value(before, name), after=_usual_value(after, name))
        for name in sorted(names)
    ]
    return [fact for fact in candidates if fact.before != fact.after]


def _usual_value(facts: Sequence[Mapping[str, str]], name: str) -> str | None:
    """Return the most frequent value of a fact. If several are most frequent, return the latest."""
    values = [facts_of_night.get(name) for facts_of_night in reversed(facts)]
    return Counter(values).most_common(1)[0][0]
