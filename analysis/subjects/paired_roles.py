"""Values of roles without and with traffic, in pairs. The sections on causes share these tables.

Roles are quantities, such as misses of a cache, that processors count by different events. Roles of
ranks are from runs in which a tool wrapped the application. Such runs are paired with each other,
never with unwrapped runs. Roles of nodes are from unwrapped runs, since agents count them.
"""

from __future__ import annotations

import polars as pl

from analysis.report.data import RunData
from analysis.samples.counts import role_values, without_tool
from analysis.statistics.interval import holm
from records.roles import SHARE_ROLES
from records.sample import AGENT_TOOLS

MEMORY_STALLS, STALLED_CYCLES = "memory stalls", "stalled cycles"
MISSES = ("L1 misses", "L2 misses", "L3 misses")
#: Columns that identify a comparison of a tool's counts without and with traffic.
COMPARISON_COLUMNS = ["case", "treatment", "tool"]
PAIR_COLUMNS = ["block", "pair"]
#: True for counts by a tool, false for counts by an agent of a node.
IS_TOOL_COUNT = ~pl.col("tool").cast(pl.String).is_in(AGENT_TOOLS)


def values_of_roles(run: RunData) -> pl.DataFrame:
    """Return a row per application run, rank and role, with its value.

    `run` keeps the table, so that it is computed once.
    """
    return run.cached("values of roles", lambda: role_values(run.counters))


def paired_roles(run: RunData) -> pl.DataFrame:
    """Return a row per pair, effect, rank and role, with the values `off` and `on`."""
    values = values_of_roles(run)
    treatment_names = pl.col("arm", "baseline").cast(pl.String)
    names_without_tool = treatment_names.map_elements(without_tool, return_dtype=pl.String)
    effects = (
        run.samples.lazy()
        .filter(pl.col("role") == "effect")
        .select("case", "arm", "baseline")
        .unique(maintain_order=True)
        .select(pl.col("case").cast(pl.String), names_without_tool)
        .unique(maintain_order=True)
        .rename({"arm": "treatment"})
        .collect()
    )
    count_key = ["case", "tool", *PAIR_COLUMNS, "rank", "role"]
    off = values.select(*count_key, pl.col("treatment").alias("baseline"), off="value")
    return (
        values.join(effects, on=["case", "treatment"], how="inner", maintain_order="left")
        .rename({"value": "on"})
        .join(off, on=[*count_key, "baseline"], how="inner", maintain_order="left")
    )


def sums_over_ranks(paired: pl.DataFrame) -> pl.DataFrame:
    """Return a row per pair and role, with the sums of `off` and of `on` over ranks.

    Shares have means instead of sums. A pair is left out if a rank has no value.
    """
    off_and_on = pl.col("off", "on")
    is_share = pl.col("role").first().is_in(SHARE_ROLES)
    pairs = paired.group_by(*COMPARISON_COLUMNS, "role", *PAIR_COLUMNS, maintain_order=True)
    sums = pairs.agg(
        pl.when(is_share).then(off_and_on.mean()).otherwise(off_and_on.sum()),
        pl.col("baseline").first(),
        is_complete=pl.all_horizontal(off_and_on.is_not_null().all()),
    )
    return sums.filter("is_complete")


def with_holm_correction(table: pl.DataFrame) -> pl.DataFrame:
    """Return the table with its p values corrected by Holm's method over all rows."""
    has_p = table["p"].is_not_null()
    adjusted = holm(table["p"].drop_nulls().to_list())
    return table.with_columns(p=table["p"].scatter(has_p.arg_true(), adjusted))
