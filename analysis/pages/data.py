"""What the pages show of one machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any

import polars as pl

from analysis.effects.facts import UNKNOWN
from analysis.history.alarms import Alarm, SeriesWatch, Survey, facts_in


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


@dataclass(frozen=True)
class ReportedNights:
    """What summaries of a machine's nights say."""

    nights: list[PageNight] = field(default_factory=list)
    #: Nightlies whose schedule is known: `nights` has those that nothing was started on, too.
    schedules: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MachineHistory:
    """One machine: the frames have only its rows, in order of time."""

    machine: str
    #: `analysis.history.tables.RUNS` and `NIGHTS`.
    runs: pl.DataFrame
    nights: pl.DataFrame
    #: Unix time at which this was known: nights before it should have run.
    known_s: float = field(kw_only=True)
    alarms: list[Alarm] = field(default_factory=list)
    watches: list[SeriesWatch] = field(default_factory=list)
    #: As in `ReportedNights`.
    outcomes: list[PageNight] = field(default_factory=list)
    schedules: list[str] = field(default_factory=list)
    #: Facts of the latest run's header, as far as that run still exists.
    facts: Mapping[str, Any] = field(default_factory=dict)
    #: Caveats of the transports of the latest runs.
    emulated: list[str] = field(default_factory=list)
    #: Run -> address of its report, from the machine's page.
    reports: Mapping[str, str] = field(default_factory=dict)


def history_of(
    machine: str, surveyed: Survey, nights: pl.DataFrame, runs: pl.DataFrame, known_s: float
) -> MachineHistory:
    """The part of one machine in tables, and in what was found in them."""
    return MachineHistory(
        machine,
        runs.filter(machine=machine),
        nights.filter(machine=machine),
        known_s=known_s,
        alarms=[each for each in surveyed.alarms if each.machine == machine],
        watches=[each for each in surveyed.watches if each.machine == machine],
    )


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
