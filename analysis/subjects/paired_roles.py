"""Roles of the runs that a tool wrapped, in pairs: what the sections on causes share.

Wrapped runs are paired with each other and never with unwrapped ones. Roles of nodes that need no
tool are from unwrapped runs.
"""

from __future__ import annotations

import polars as pl

from analysis.report.data import RunData
from analysis.samples.counts import role_values, without_tool
from analysis.statistics.interval import holm
from records.roles import SHARES
from records.sample import AGENT_TOOLS

STALLS, STALLED = "memory stalls", "stalled cycles"
MISSES = ("L1 misses", "L2 misses", "L3 misses")
#: Keys of a row of roles: of what, and of which pair.
KIND = ["case", "treatment", "tool"]
PAIR = ["block", "pair"]
#: Counts that a tool made, not an agent.
OF_TOOLS = ~pl.col("tool").cast(pl.String).is_in(AGENT_TOOLS)


def values_of_roles(run: RunData) -> pl.DataFrame:
    """A row per run, rank and role, with its value; worked out once a run."""
    return run.cached("values of roles", lambda: role_values(run.counters))


def paired_roles(run: RunData) -> pl.DataFrame:
    """A row per pair, effect, rank and role, with the values `off` and `on`."""
    values = values_of_roles(run)
    names = pl.col("arm", "baseline").cast(pl.String)
    strip = names.map_elements(without_tool, return_dtype=pl.String)
    effects = (
        run.samples.lazy()
        .filter(pl.col("role") == "effect")
        .select("case", "arm", "baseline")
        .unique(maintain_order=True)
        .select(pl.col("case").cast(pl.String), strip)
        .unique(maintain_order=True)
        .rename({"arm": "treatment"})
        .collect()
    )
    shared = ["case", "tool", *PAIR, "rank", "role"]
    off = values.select(*shared, pl.col("treatment").alias("baseline"), off="value")
    return (
        values.join(effects, on=["case", "treatment"], how="inner", maintain_order="left")
        .rename({"value": "on"})
        .join(off, on=[*shared, "baseline"], how="inner", maintain_order="left")
    )


def sums_over_ranks(paired: pl.DataFrame) -> pl.DataFrame:
    """A row per pair and role: `off` and `on` over all ranks; left out if a rank lacks either."""
    sides, share = pl.col("off", "on"), pl.col("role").first().is_in(SHARES)
    pairs = paired.group_by(*KIND, "role", *PAIR, maintain_order=True)
    whole = pl.all_horizontal(sides.is_not_null().all())
    sums = pairs.agg(
        pl.when(share).then(sides.mean()).otherwise(sides.sum()),
        pl.col("baseline").first(),
        whole=whole,
    )
    return sums.filter("whole")


def after_holm(table: pl.DataFrame) -> pl.DataFrame:
    """The table with p corrected by Holm over all rows."""
    ranked = table["p"].is_not_null()
    adjusted = holm(table["p"].drop_nulls().to_list())
    return table.with_columns(p=table["p"].scatter(ranked.arg_true(), adjusted))
