"""Alarms of machines from their nights, and the state of every watched series.

    surveyed = survey(nights, runs)    # tables of `analysis.history.tables`
    surveyed.alarms, surveyed.watches

The same tables give the same alarms. `save` keeps them in a store, where the runs that an alarm
rests on are not pruned.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import numpy as np
import polars as pl
from pydantic import Field

from analysis.history.files import Naming
from analysis.history.monitor import WITHIN_NIGHTS, Baseline, Followed, Found, detectable, follow
from analysis.history.tables import KEY, NIGHT_S, Series, Watched, series_of
from analysis.statistics.interval import CONFIDENCE, Estimate, Interval
from analysis.statistics.nights import mean_of_nights, ratio_of_nights
from nimc.base.errors import InputError, MachineError
from nimc.base.files import distrust, replace_text, require_own, share_as_above
from nimc.base.groups import grouped
from nimc.base.json_limits import read_json, validated
from nimc.base.text import one_line

#: Number of the schema of an alarm's file.
ALARM_SCHEMA = 1

#: Days before its last baseline that a level is compared with; and two-sided 95 % of the normal.
_MONTH, _YEAR = 30, 365
_NORMAL = 1.96

#: Longest reason of an acknowledgement, characters; escaped ones take up to ten.
LONGEST_REASON = 1000

AlarmState = Literal["suspected", "confirmed", "dismissed"]


@dataclass(frozen=True)
class ChangedFact:
    """A fact of how runs were made that differs before and after a change; not its cause."""

    name: str
    #: Values of the last run before, and of the first one since the change; None if not recorded.
    before: str | None
    after: str | None


@dataclass(frozen=True)
class NodeRatio:
    """A node against the other nodes, by the nights that ran on it; above 1 is worse."""

    node: str
    ratio: float
    #: Nights that ran on it, of those considered.
    nights: int


@dataclass(frozen=True)
class Acknowledgement:
    """That a user has acknowledged an alarm."""

    #: Name of the user, and why the alarm may be left.
    by: Annotated[str, Field(max_length=256)]
    reason: Annotated[str, Field(max_length=10 * LONGEST_REASON)]
    #: Unix time.
    at_s: Annotated[float, Field(ge=0, lt=1e11)]


@dataclass(frozen=True)
class Alarm(Watched):
    """A series got worse. Ratios are of times or slowdowns: above 1 is worse."""

    #: Night on which it was raised (ISO date), and the first night of the changed ones.
    night: str
    since: str
    #: The run that raised it, and all runs that it rests on: baseline and changed nights.
    run: str
    runs: list[str]
    #: Target nodes of the run that raised it.
    nodes: list[str]
    #: Changed nights against the baseline, with its interval; null bounds if too few nights.
    ratio: float
    ratio_low: float | None
    ratio_high: float | None
    #: What was expected of the night that raised it, in `unit`.
    reference: float
    #: Loss that is found within `WITHIN_NIGHTS` with `POWER`, as a share; None if there is none.
    detectable: float | None
    state: AlarmState = "suspected"
    #: Runs that confirmed or dismissed it.
    confirmed_by: list[str] = field(default_factory=list)
    #: What changed at the same time; not said to be the cause.
    changed: list[ChangedFact] = field(default_factory=list)
    #: The node that was worst, where nights ran on different nodes.
    worst_node: NodeRatio | None = None
    #: First of `WITHIN_NIGHTS` nights in a row nearer to what was expected than to the loss.
    back: str | None = None
    #: Who has seen it; kept in a file of its own, since each night replaces that of the alarm.
    acknowledged: Acknowledgement | None = None
    schema: int = ALARM_SCHEMA

    @property
    def name(self) -> str:
        """Of its files in a store: the night, and a digest of the series."""
        digest = hashlib.sha256("\0".join((self.machine, *self.key)).encode()).hexdigest()
        return f"{self.night}-{digest[:12]}"

    @property
    def interval(self) -> Interval | None:
        """That of the ratio."""
        if self.ratio_low is None or self.ratio_high is None:
            return None
        return Interval(self.ratio_low, self.ratio_high)


@dataclass(frozen=True)
class Change:
    """The level of a series changed, for the worse or the better."""

    #: First night of the new level, and the night on which it was noticed (ISO dates).
    since: str
    noticed: str
    #: New level against the old one; above 1 is worse.
    ratio: float

    @property
    def worse(self) -> bool:
        """Whether the new level is worse."""
        return self.ratio > 1


@dataclass(frozen=True)
class SeriesWatch(Watched):
    """One watched series as it is after its last night."""

    #: First and last measured night (ISO dates), and their number.
    first: str
    last: str
    nights: int
    #: Nights of the baseline in use; None while there are too few to watch the series.
    baseline_nights: int | None = None
    #: Expected level, in `unit`, and the relative night-to-night spread around it (0.01 is 1 %).
    level: float | None = None
    spread: float | None = None
    #: Evidence of a loss now, and the limit at which an alarm is raised, log likelihood ratios.
    score: float | None = None
    limit: float | None = None
    #: Loss that is found within `WITHIN_NIGHTS` nights with `POWER`, as a share; None if unknown.
    detectable: float | None = None
    #: Baseline in use against the series' first one; above 1 is worse. Slow drift moves it.
    drift: float | None = None
    changes: list[Change] = field(default_factory=list)
    #: Slow swing: the level against that a month and a year before, with its interval; above 1 is
    #: worse. None if unknown.
    month: Estimate | None = None
    year: Estimate | None = None


# What changed at the same time as a series: facts of how runs were made, and nodes. No cause.


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
    by_node = grouped(
        (name, float(value)) for value, names in zip(worse, nodes, strict=True) for name in names
    )
    if len({tuple(names) for names in nodes if names}) < 2:
        return None
    medians = {name: median(values) for name, values in by_node.items()}
    worst = max(medians, key=lambda name: medians[name])
    others = median(value for name, value in medians.items() if name != worst)
    return NodeRatio(worst, float(np.exp(medians[worst] - others)), len(by_node[worst]))


# Confirmation of an alarm (docs/alarms.md#confirmation).
#
# Old and new nights cannot be paired: the old state of the machine is gone. What can be excluded is
# that a few unlucky allocations or nights made the alarm. Runs of one night differ less than
# nights, so any small difference from the old level would be outside of their interval: it has to
# lie beyond half of the loss.


#: Runs of a confirmation.
REPEATS = 5


def confirmation(alarm: Alarm) -> dict[str, Any]:
    """What would confirm or dismiss an alarm: `repeats` runs, each in an allocation of its own."""
    names = ("machine", "campaign", "case", "nodes")
    return {name: getattr(alarm, name) for name in names} | {"repeats": REPEATS}


def confirmed(alarm: Alarm, nights: pl.DataFrame) -> Alarm:
    """The alarm with its state, from the first night on which it was run again often enough.

    Without such a night it stays suspected.
    """
    rows = _again(alarm, nights)
    started_s = pl.col("started_s")
    for first_s in rows["started_s"]:
        night = rows.filter(started_s.is_between(first_s, first_s + NIGHT_S, closed="left"))
        if len(night) >= REPEATS:
            estimate = mean_of_nights(night["value"].to_list())
            assert estimate is not None
            half = alarm.ratio**0.5
            if night["better"][0] == "lower":
                worse = estimate.low > alarm.reference * half
            else:
                worse = estimate.high < alarm.reference / half
            return replace(
                alarm,
                state="confirmed" if worse else "dismissed",
                confirmed_by=night["run"].to_list(),
            )
    return alarm


def _again(alarm: Alarm, nights: pl.DataFrame) -> pl.DataFrame:
    """Runs of the alarm's series on the same nodes after those that it rests on."""
    same = [pl.col(name) == getattr(alarm, name) for name in ("machine", *KEY)]
    usable = pl.col("value").is_finite() & (pl.col("value") > 0)
    later = pl.col("night") >= np.datetime64(alarm.night)
    fresh = ~pl.col("run").is_in(alarm.runs)
    nodes = pl.col("nodes").fill_null("") == ",".join(alarm.nodes)
    return nights.filter(*same, usable, later, fresh, nodes).sort("started_s")


#: Folder of alarms in a store, and endings of the files of an alarm and of who has seen it.
FOLDER = "alarms"
_ALARM, _SEEN = ".json", ".seen"


@dataclass(frozen=True)
class Survey:
    """What is known of all watched series."""

    alarms: list[Alarm]
    watches: list[SeriesWatch]


def survey(nights: pl.DataFrame, runs: pl.DataFrame) -> Survey:
    """Alarms and watched series of all machines in the tables `NIGHTS` and `RUNS`."""
    facts = {
        machine: facts_of(own)
        for (machine,), own in runs.partition_by("machine", as_dict=True).items()
    }
    by_machine = grouped((each.machine, each) for each in series_of(nights))
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
    old, new = found.sides
    before, since = series.runs[old], series.runs[new]
    ratio, interval = _ratio(found, series)
    both = slice(old.start, new.stop)
    low, high = (interval.low, interval.high) if interval else (None, None)
    return Alarm(
        **series.names(),
        night=series.nights[found.noticed].isoformat(),
        since=series.nights[found.since].isoformat(),
        run=series.runs[found.noticed],
        runs=[*before, *since],
        nodes=series.nodes[found.noticed],
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        reference=series.value(float(found.baseline.expected_of(series, new)[-1])),
        detectable=detectable(found.baseline),
        changed=changed_facts(facts, before, since),
        worst_node=worst_node(series.worse[both].tolist(), series.nodes[both]),
        back=_back(series, found, ratio),
    )


def _back(series: Series, found: Found, ratio: float) -> str | None:
    """The first of `WITHIN_NIGHTS` nights in a row that lost less than half of a `ratio`."""
    base, later = found.baseline, slice(found.noticed + 1, len(series.nights))
    in_a_row = 0
    for at, score in enumerate(base.scores(series, later), later.start):
        in_a_row = in_a_row + 1 if score * base.expected.spread < math.log(ratio) / 2 else 0
        if in_a_row == WITHIN_NIGHTS:
            return series.nights[at + 1 - WITHIN_NIGHTS].isoformat()
    return None


def _ratio(found: Found, series: Series) -> tuple[float, Estimate | None]:
    """Geometric mean of new nights against old ones, alone and with its interval; above 1 is worse.

    Each night is taken relative to what is expected of it.
    """
    base = found.baseline
    old, new = (
        np.exp(base.expected.spread * base.scores(series, side)).tolist() for side in found.sides
    )
    difference = ratio_of_nights(new, old)
    return (difference.ratio.value, difference.ratio) if difference else (new[0] / old[0], None)


def _watch(each: Followed) -> SeriesWatch:
    series, base = each.series, each.baseline
    days = [night.isoformat() for night in series.nights]
    watch = SeriesWatch(
        **series.names(),
        first=days[0],
        last=days[-1],
        nights=len(days),
        changes=[
            Change(days[found.since], days[found.noticed], _ratio(found, series)[0])
            for found in each.found
        ],
    )
    if base is None or each.first is None:
        return watch
    expected = base.expected
    is_old = expected.day - series.nights[base.first].toordinal() >= _YEAR
    return replace(
        watch,
        baseline_nights=base.end - base.first,
        level=series.value(expected.level),
        spread=math.expm1(expected.spread),
        score=float(each.evidence[0]),
        limit=base.limit,
        detectable=detectable(base),
        drift=math.exp(expected.level - each.first.expected.level),
        month=_swung(base, _MONTH),
        year=_swung(base, _YEAR) if is_old else None,
    )


def _swung(base: Baseline, days: int) -> Estimate:
    change, error = base.expected.swung(days)
    low, value, high = (math.exp(change + z * error) for z in (-_NORMAL, 0.0, _NORMAL))
    return Estimate(value, low, high, CONFIDENCE)


def save(store: Path, found: Iterable[Alarm]) -> list[Path]:
    """Write each alarm to the store, one file each; an alarm known before is replaced.

    Raises InputError for a folder that is another user's, MachineError if writing fails.
    """
    documents = {each.name: asdict(each) for each in found}
    for each in documents.values():
        del each["acknowledged"]
    return _write(store, _ALARM, documents)


def acknowledge(store: Path, found: Iterable[Alarm], given: Acknowledgement) -> None:
    """Store that alarms were seen. Raises as `save`."""
    _write(store, _SEEN, {each.name: asdict(given) for each in found})


def acknowledged(store: Path, found: Iterable[Alarm], left_out: Naming) -> list[Alarm]:
    """The alarms with who has seen them; what cannot be read is named to `left_out`."""
    folder = store / FOLDER
    try:
        require_own(folder, FOLDER, or_root=True, team="owns")
    except InputError as error:
        left_out(str(error))
        return list(found)
    return [replace(a, acknowledged=_seen(folder / f"{a.name}{_SEEN}", left_out)) for a in found]


def _seen(path: Path, left_out: Naming) -> Acknowledgement | None:
    try:
        if reason := distrust(path, or_root=True, team="owns"):
            raise InputError(f"{path}: {reason}")
        return validated(Acknowledgement, read_json(path), path)
    except FileNotFoundError:
        return None
    except (InputError, OSError) as error:
        left_out(str(error))
        return None


def _write(store: Path, ending: str, documents: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    folder = store / FOLDER
    require_own(folder, FOLDER, or_root=True, team="owns")
    paths = [folder / f"{name}{ending}" for name in documents]
    try:
        if not folder.exists():
            folder.mkdir(parents=True)
            share_as_above(folder)
        for path, document in zip(paths, documents.values(), strict=True):
            replace_text(path, json.dumps(document, indent=1) + "\n")
    except OSError as error:
        raise MachineError(f"{folder}: {error.strerror}") from error
    return paths
