"""What tools and nodes counted, on the page: one row per event, one column per treatment."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from analysis.counts.counters import medians
from analysis.report.data import RunData
from analysis.report.sections import CaseSection
from analysis.report.shell import View
from analysis.samples.provenance import hosts_of
from nimc.base.units import NONE, plural, quantity
from nimc.records.arms import in_order
from nimc.records.counter_row import AGENTS, NODE


def counters_view(run: RunData, case: str) -> View | None:
    """The counters of a case; None where no tool counted in it."""
    return _view(_medians(run, case).filter(~pl.col("tool").is_in(AGENTS)))


def node_view(run: RunData, case: str) -> View | None:
    """The counters of a case's nodes that are not 0 under every treatment; None without any."""
    own = _medians(run, case).filter(pl.col("tool") == NODE)
    return _view(own.filter((pl.col("value") != 0).any().over("event")))


def _medians(run: RunData, case: str) -> pl.DataFrame:
    names = pl.col("case", "arm", "tool", "event", "unit").cast(pl.String)
    return medians(run.counters.filter(pl.col("case").cast(pl.String) == case)).with_columns(names)


def _view(found: pl.DataFrame) -> View | None:
    """Treatments, and a row for each event, with what limits it: `multiplexed`, ..."""
    if found.is_empty():
        return None
    arms = in_order(found["arm"].unique(maintain_order=True))
    rows = []
    for (tool, event), group in found.group_by("tool", "event", maintain_order=True):
        values = dict(group.select("arm", "value").iter_rows())
        states = group.filter(pl.col("state") != "counted")["state"].unique(maintain_order=True)
        row = View(tool=tool, event=event, states=", ".join(states))
        row.values = [amount(values.get(arm), group["unit"][0]) for arm in arms]
        rows.append(row)
    return View(treatments=arms, rows=rows)


def amount(value: float | None, unit: str, count: str = ",.0f") -> str:
    """A count, a share or a quantity as text; `count` is the format of counts."""
    if value is None:
        return NONE
    if unit == "count":
        return f"{value:{count}}"
    return f"{value:.1%}" if unit == "1" else quantity(value, unit)


def absent_sources(provenance: Mapping[str, Mapping[str, object]]) -> list[str]:
    """Sources of counters that nodes lack, and what they need; one line for each."""
    lacking_nodes: dict[tuple[str, str], set[str]] = {}
    for record in provenance.values():
        for node, facts in hosts_of(record).items():
            absent = facts.get("absent_counters")
            for source, needs in absent.items() if isinstance(absent, Mapping) else ():
                lacking_nodes.setdefault((str(source), str(needs)), set()).add(node)
    return [
        f"{source}: not on {plural(len(nodes), 'node')}; needs {needs}"
        for (source, needs), nodes in lacking_nodes.items()
    ]


SECTIONS = [
    CaseSection(place=10, anchor="counters", template="counters.html", view=counters_view),
]
