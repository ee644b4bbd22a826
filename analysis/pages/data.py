"""What the pages show of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, get_args

import polars as pl

from analysis.effects.facts import UNKNOWN
from analysis.history.alarms import Alarm, SeriesWatch, facts_in
from analysis.history.tables import Outcome


@dataclass(frozen=True)
class PageNight:
    """How one night ended; several nightlies of a machine may have the same night."""

    night: date
    campaign: str
    #: `analysis.history.tables.Outcome`, or `RECORDED`.
    outcome: str
    reason: str = ""
    #: The run's name; empty if none was begun.
    run: str = ""


#: Outcome of a run that nobody judged.
RECORDED = "recorded"
_OUTCOMES = get_args(Outcome)


@dataclass(frozen=True)
class MachineHistory:
    """One machine: the frames have only its rows, in order of time."""

    machine: str
    #: `analysis.history.tables.RUNS` and `NIGHTS`.
    runs: pl.DataFrame
    nights: pl.DataFrame
    alarms: list[Alarm] = field(default_factory=list)
    watches: list[SeriesWatch] = field(default_factory=list)
    #: How nights ended, from their summaries.
    outcomes: list[PageNight] = field(default_factory=list)
    #: Facts of the latest run's header, as far as that run still exists.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Caveats of the transports of the latest runs.
    emulated: list[str] = field(default_factory=list)
    #: Run -> address of its report, from the machine's page.
    reports: Mapping[str, str] = field(default_factory=dict)


def calendar_nights(history: MachineHistory) -> list[PageNight]:
    """All nights of the machine with their outcome: summaries first, else what runs record."""
    known = {each.run for each in history.outcomes}
    columns = ("started_s", "campaign", "outcome", "run")
    started = pl.from_epoch(pl.col("started_s").cast(pl.Int64)).dt.date()
    rest = [
        PageNight(night, campaign, outcome if outcome in _OUTCOMES else RECORDED, "", run)
        for night, campaign, outcome, run in history.runs.select(started, *columns[1:]).iter_rows()
        if run not in known
    ]
    return sorted([*history.outcomes, *rest], key=lambda each: each.night)


def open_alarms(history: MachineHistory) -> list[Alarm]:
    """The latest alarm of each series, unless it was dismissed or the series got better since."""
    better = {
        watch.key: each.noticed
        for watch in history.watches
        for each in watch.changes
        if not each.worse
    }
    latest = {each.key: each for each in sorted(history.alarms, key=lambda each: each.night)}
    return [
        each
        for each in latest.values()
        if each.state != "dismissed" and better.get(each.key, "") < each.night
    ]


# What changed in how runs were made, from one run of a campaign to the next.


@dataclass(frozen=True)
class FactChange:
    """A fact that differs from the run before."""

    night: str
    campaign: str
    run: str
    name: str
    before: str
    after: str


def fact_changes(runs: pl.DataFrame) -> list[FactChange]:
    """The changes in `runs` (`tables.RUNS`), in order of time. Facts come from the runs' `made`."""
    started = pl.from_epoch(pl.col("started_s").cast(pl.Int64)).dt.date().cast(pl.String)
    rows = runs.sort("started_s").select(started, "campaign", "run", "made").iter_rows()
    last: dict[str, tuple[str | None, dict[str, str]]] = {}
    found = []
    for night, campaign, run, text in rows:
        before = last.get(campaign)
        if before and before[0] == text:
            continue
        facts = facts_in(text)
        last[campaign] = (text, facts)
        old = before[1] if before else facts
        found += [
            FactChange(night, campaign, run, name, old.get(name, UNKNOWN), facts.get(name, UNKNOWN))
            for name in sorted(old.keys() | facts.keys())
            if old.get(name) != facts.get(name)
        ]
    return found
