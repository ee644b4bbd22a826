"""What tools and nodes counted, on the page: one row per event, one column per treatment."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from analysis.arms import in_order
from analysis.counter_row import AGENTS, NODE
from analysis.counters import medians
from analysis.numbers import NONE, quantity
from analysis.report.data import RunData

#: Units that `numbers.quantity` gives prefixes to, for units that tools use.
_UNITS = {"count": ""}


@dataclass(frozen=True)
class EventRow:
    """One event of one tool."""

    tool: str
    event: str
    #: Medians over runs of the sum over ranks, by treatment; a dash where nothing was counted.
    values: list[str]
    #: What limits them: `multiplexed`, `not supported`, ...; empty where all were counted whole.
    states: str


@dataclass(frozen=True)
class CountersView:
    """The table of one case."""

    treatments: list[str]
    rows: list[EventRow]


def counters_view(run: RunData, case: str) -> CountersView | None:
    """The counters of a case; None where no tool counted in it."""
    return _view(_medians(run, case).filter(~pl.col("tool").is_in(AGENTS)))


def node_view(run: RunData, case: str) -> CountersView | None:
    """The counters of a case's nodes that are not 0 under every treatment; None without any."""
    own = _medians(run, case).filter(pl.col("tool") == NODE)
    return _view(own.filter((pl.col("value") != 0).any().over("event")))


def _medians(run: RunData, case: str) -> pl.DataFrame:
    names = pl.col("case", "arm", "tool", "event", "unit").cast(pl.String)
    return medians(run.counters.filter(pl.col("case").cast(pl.String) == case)).with_columns(names)


def _view(found: pl.DataFrame) -> CountersView | None:
    if found.is_empty():
        return None
    arms = in_order(found["arm"].unique())
    return CountersView(arms, [_row(group, arms) for group in _by_event(found)])


def _by_event(found: pl.DataFrame) -> list[pl.DataFrame]:
    return found.partition_by("tool", "event", maintain_order=True)


def _row(group: pl.DataFrame, arms: list[str]) -> EventRow:
    unit = str(group["unit"][0])
    values = dict(group.select("arm", "value").iter_rows())
    states = [state for state in group["state"].unique(maintain_order=True) if state != "counted"]
    return EventRow(
        tool=str(group["tool"][0]),
        event=str(group["event"][0]),
        values=[_text(values.get(arm), _UNITS.get(unit, unit)) for arm in arms],
        states=", ".join(states),
    )


def _text(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    if unit == "1":
        return f"{value:.1%}"
    return quantity(value, unit) if unit else f"{value:,.0f}"
