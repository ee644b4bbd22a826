"""Alarms of machines from their nights, and the state of every watched series.

    surveyed = survey(nights, runs)    # tables of `analysis.history.tables`
    surveyed.alarms, surveyed.watches

The same tables give the same alarms. `save` keeps them in a store, where the runs that an alarm
rests on are not pruned.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from analysis.history.alarm import Alarm, Change, ChangedFact, NodeRatio, SeriesWatch
from analysis.history.confirm import confirmed
from analysis.history.monitor import Followed, Found, detectable, follow
from analysis.history.series import Series, series_of
from analysis.statistics.nights import ratio_of_nights
from nimc.base.errors import MachineError
from nimc.base.files import replace_text, require_own, share_as_above
from nimc.base.text import one_line

# What changed at the same time as a series: facts of how runs were made, and nodes.
#
# It narrows the search for a cause and names none: what changed at the same time need not be why.


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


#: Folder of alarms in a store.
FOLDER = "alarms"


@dataclass(frozen=True)
class Survey:
    """What is known of all watched series."""

    alarms: list[Alarm]
    watches: list[SeriesWatch]


def alarms(nights: pl.DataFrame, runs: pl.DataFrame) -> list[Alarm]:
    """All alarms of all machines in the tables, by night."""
    return survey(nights, runs).alarms


def survey(nights: pl.DataFrame, runs: pl.DataFrame) -> Survey:
    """Alarms and watched series of all machines in the tables `NIGHTS` and `RUNS`."""
    facts = {
        machine: facts_of(own)
        for (machine,), own in runs.partition_by("machine", as_dict=True).items()
    }
    by_machine: dict[str, list[Series]] = {}
    for each in series_of(nights):
        by_machine.setdefault(each.machine, []).append(each)
    followed = [one for series in by_machine.values() for one in follow(series)]
    found = [
        confirmed(_alarm(each, change, facts.get(each.series.machine, {})), nights)
        for each in followed
        for change in each.found
        if change.worse
    ]
    return Survey(sorted(found, key=lambda alarm: alarm.night), [_watch(one) for one in followed])


def _alarm(each: Followed, found: Found, facts: Mapping[str, Mapping[str, str]]) -> Alarm:
    series = each.series
    old = slice(min(found.baseline.first, found.since - 1), found.since)
    new = slice(found.since, found.noticed + 1)
    before, since = series.runs[old], series.runs[new]
    ratio = _ratio(series, old, new)
    runs = [*before, *since]
    both = slice(old.start, new.stop)
    return Alarm(
        **series.names(),
        night=series.nights[found.noticed].isoformat(),
        since=series.nights[found.since].isoformat(),
        run=series.runs[found.noticed],
        runs=runs,
        nodes=series.nodes[found.noticed],
        ratio=ratio[0],
        ratio_low=ratio[1],
        ratio_high=ratio[2],
        reference=series.value(float(np.median(series.worse[old]))),
        detectable=detectable(series, found.baseline),
        changed=changed_facts(facts, before, since),
        worst_node=worst_node(series.worse[both].tolist(), series.nodes[both]),
    )


def _ratio(series: Series, old: slice, new: slice) -> tuple[float, float | None, float | None]:
    """Geometric mean of the new nights against the old ones with its interval; above 1 is worse."""
    sides = [np.exp(series.worse[part]).tolist() for part in (new, old)]
    difference = ratio_of_nights(*sides)
    if difference is None:
        return sides[0][0] / sides[1][0], None, None
    return difference.ratio.value, difference.ratio.low, difference.ratio.high


def _watch(each: Followed) -> SeriesWatch:
    series, base = each.series, each.baseline
    nights = series.nights
    return SeriesWatch(
        **series.names(),
        first=nights[0].isoformat(),
        last=nights[-1].isoformat(),
        nights=len(nights),
        baseline_nights=base.end - base.first if base else None,
        level=series.value(base.level) if base else None,
        spread=float(np.expm1(base.spread)) if base else None,
        score=float(each.state[0, 0]) if base else None,
        limit=base.limit if base else None,
        detectable=detectable(series, base) if base else None,
        drift=float(np.exp(base.level - each.first.level)) if base and each.first else None,
        changes=[_change(series, found) for found in each.found],
    )


def _change(series: Series, found: Found) -> Change:
    old = series.worse[found.baseline.first : found.since]
    new = series.worse[found.since : found.noticed + 1]
    ratio = float(np.exp(np.median(new) - np.median(old)))
    return Change(
        since=series.nights[found.since].isoformat(),
        noticed=series.nights[found.noticed].isoformat(),
        ratio=ratio,
    )


def save(store: Path, found: Iterable[Alarm]) -> list[Path]:
    """Write each alarm to the store, one file each; an alarm known before is replaced.

    Raises InputError for a folder that is somebody else's, MachineError if writing fails.
    """
    folder = store / FOLDER
    require_own(folder, FOLDER, or_root=True, team="owns")
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            share_as_above(folder)
        return [_save(folder, alarm) for alarm in found]
    except OSError as error:
        raise MachineError(f"{folder}: {error.strerror}") from error


def _save(folder: Path, alarm: Alarm) -> Path:
    named = (alarm.machine, alarm.campaign, alarm.case, alarm.arm, alarm.quantity)
    digest = hashlib.sha256("\0".join(named).encode()).hexdigest()[:12]
    path = folder / f"{alarm.night}-{digest}.json"
    replace_text(path, json.dumps(alarm.as_dict(), indent=1) + "\n")
    return path
