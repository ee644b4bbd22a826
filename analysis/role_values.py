"""Counts of tools as values of roles: one row per run, rank and role."""

from __future__ import annotations

import polars as pl

from analysis.arms import LEVELS
from analysis.counter_row import NODE, event_parts
from analysis.roles import COUNTS, ROLES

#: The factor whose levels are tools.
_TOOL = "tool"
_RUN = ["key", "case", "treatment", "tool", "block", "pair"]


def role_values(counters: pl.DataFrame) -> pl.DataFrame:
    """The roles of runs that count, from `counters.read_counters`.

    Columns: key, case, treatment (the name without the level of the tool), tool, block, pair, rank,
    role, `value` (in the role's unit) and `state`. The value is null unless every event of the role
    was counted through the whole run: counts that took turns are not used. Events are recognised by
    name, so that runs of any machine can be read. A role that a tool's level counted in no way has
    no row. Counters of nodes are taken from runs that no tool wrapped. Of several devices with a
    share, the highest is the node's.
    """
    events = _events()
    level = pl.col("factors").cast(pl.String).str.json_path_match(f"$.{_TOOL}")
    wrapped = level.fill_null("none") != "none"
    node = pl.col("tool").cast(pl.String) == NODE
    used = (pl.col("status") == "counts") & ~(node & wrapped)
    runs = counters.filter(used).with_columns(
        pl.col("tool", "event", "unit", "state", "case").cast(pl.String),
        treatment=pl.col("arm").cast(pl.String).map_elements(without_tool, return_dtype=pl.String),
    )
    found = (
        runs.with_columns(
            program=pl.col("tool").str.replace(":.*$", ""),
            name=pl.when(node)
            .then(pl.col("event").str.replace("^.*:", ""))
            .otherwise(
                pl.col("event").map_elements(lambda e: event_parts(e)[0], return_dtype=pl.String)
            ),
        )
        .join(events, left_on=["program", "name"], right_on=["program", "event"], how="inner")
        .with_columns(
            scaled=pl.when(pl.col("unit") == pl.col("role_unit"))
            .then(pl.when(pl.col("role_unit") == "count").then(pl.col("factor")).otherwise(1.0))
            .otherwise(pl.col("factor"))
            * pl.col("value"),
            whole=pl.col("state") == "counted",
        )
    )
    rows = found.group_by(*_RUN, "rank", "role", "row", maintain_order=True).agg(
        pl.when(pl.col("whole").all())
        .then(
            pl.when((pl.col("role_unit") == "1").first())
            .then(pl.col("scaled").max())
            .otherwise(pl.col("scaled").sum())
        )
        .alias("value"),
        pl.col("state").filter(~pl.col("whole")).first().fill_null("counted"),
        seen=pl.col("name").n_unique(),
        needed=pl.col("events").first(),
    )
    # Rows of several families may share an event; the one of which all events are there counts.
    return (
        rows.filter(pl.col("seen") == pl.col("needed"))
        .sort("needed", descending=True, maintain_order=True)
        .unique([*_RUN, "rank", "role"], keep="first", maintain_order=True)
        .select(*_RUN, "rank", "role", "value", "state")
    )


def without_tool(treatment: str) -> str:
    """A treatment's name without the level of its tool: `on@rate=25%,tool=tau` is `on@rate=25%`."""
    arm, _, levels = treatment.partition(LEVELS)
    others = [level for level in levels.split(",") if level and not level.startswith(f"{_TOOL}=")]
    return arm + (LEVELS + ",".join(others) if others else "")


def _events() -> pl.DataFrame:
    """One line per row of the table of roles and event of it."""
    lines = [
        (row.tool, event, row.role, ROLES[row.role].unit, row.factor, number, len(row.events))
        for number, row in enumerate(COUNTS)
        for event in row.events
    ]
    names = ["program", "event", "role", "role_unit", "factor", "row", "events"]
    frame = pl.DataFrame(lines, schema=names, orient="row")
    # Rows that count a role by the same events on several families are one.
    return frame.unique(["program", "event", "role", "factor", "events"], maintain_order=True)
