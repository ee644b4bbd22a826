"""What changed at the same time as a series: facts of how runs were made, and nodes.

It narrows the search for a cause and names none: what changed at the same time need not be why.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import polars as pl

from analysis.escape import one_line
from analysis.history.alarm import ChangedFact, NodeRatio

#: Runs before a change whose facts are compared with those since.
_BEFORE_RUNS = 7
#: Columns of a run that are facts as well: its nodes, and this project's commit.
_COLUMNS = ("nodes", "commit")


def facts_of(runs: pl.DataFrame) -> dict[str, dict[str, str]]:
    """Run of one machine -> its recorded facts (`made` of `tables.RUNS`), with its nodes."""
    found = {}
    for run, made, *others in runs.select("run", "made", *_COLUMNS).iter_rows():
        named = zip(_COLUMNS, others, strict=True)
        found[run] = {**facts_in(made), **{name: text for name, text in named if text}}
    return found


def facts_in(made: str | None) -> dict[str, str]:
    """The facts in `made` of a run; none if they cannot be read."""
    try:
        record = json.loads(made or "{}")
    except (ValueError, RecursionError):
        return {}
    if not isinstance(record, dict):
        return {}
    return {one_line(str(name)): one_line(str(value)) for name, value in record.items()}


def changed_facts(
    facts: Mapping[str, Mapping[str, str]], before: Sequence[str], since: Sequence[str]
) -> list[ChangedFact]:
    """Facts whose usual value in the runs `since` a change is not that of the last `before` it.

    The usual value is the most frequent one, so that one odd run on either side hides nothing.
    """
    sides = [
        [facts[run] for run in runs if run in facts]
        for runs in (list(before)[-_BEFORE_RUNS:], since)
    ]
    if not all(sides):
        return []
    names = sorted({name for side in sides for made in side for name in made})
    usual = [ChangedFact(name, _usual(sides[0], name), _usual(sides[1], name)) for name in names]
    return [fact for fact in usual if fact.before != fact.after]


def _usual(side: Sequence[Mapping[str, str]], name: str) -> str | None:
    """The most frequent value; of equally frequent ones the latest."""
    values = [made.get(name) for made in reversed(side)]
    return Counter(values).most_common(1)[0][0]


def worst_node(worse: Sequence[float], nodes: Sequence[Sequence[str]]) -> NodeRatio | None:
    """The node whose nights are worst, against the median of the others.

    `worse` are logarithms (`Series.worse`) of nights, `nodes` those that each ran on. None if all
    nights ran on the same nodes.
    """
    by_node: dict[str, list[float]] = {}
    for value, names in zip(worse, nodes, strict=True):
        for name in names:
            by_node.setdefault(name, []).append(float(value))
    if len({tuple(names) for names in nodes if names}) < 2:
        return None
    medians = {name: median(values) for name, values in by_node.items()}
    worst = max(medians, key=lambda name: medians[name])
    others = median(value for name, value in medians.items() if name != worst)
    return NodeRatio(worst, float(np.exp(medians[worst] - others)), len(by_node[worst]))
