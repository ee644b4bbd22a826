"""Converts samples of schema 1 to schema 2, from their arms and provenance.

Schema 1 had no factors: every level was a separate case, all arms of a case were paired with `off`,
and the campaign `numa` recorded the levels of a case in its provenance.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from analysis.arms import BASELINE, arm_of
from analysis.sample import Level

#: Factors of `provenance["numa"]`, and those of them that only effects have.
_NUMA, _WRITES = ("buffer", "load", "workers", "direction"), ("direction",)


def with_treatments(samples: pl.DataFrame) -> pl.DataFrame:
    """`samples` with `role` and `baseline` filled in where `role` is null."""
    if not samples["role"].null_count():
        return samples
    old = pl.col("role").is_null()
    arms = samples["arm"].unique().drop_nulls().cast(pl.String)
    roles = {arm: arm_of(arm).role for arm in arms}
    of_arm = pl.col("arm").cast(pl.String).replace_strict(roles, return_dtype=pl.String)
    baseline = pl.when(pl.col("arm") != BASELINE).then(pl.lit(BASELINE)).cast(pl.Categorical)
    return samples.with_columns(
        role=pl.when(old).then(of_arm.cast(pl.Categorical)).otherwise("role"),
        baseline=pl.when(old).then(baseline).otherwise("baseline"),
    )


def with_numa_factors(samples: pl.DataFrame, provenance: Mapping[str, Any]) -> pl.DataFrame:
    """`samples` with the factors that the campaign `numa` recorded in `provenance`."""
    levels = {
        sha: {name: cell[name] for name in _NUMA if cell[name] is not None}
        for sha, record in provenance.items()
        if "load" in (cell := record.get("numa") or {})
    }
    if not levels:
        return samples
    old = (pl.col("schema") == 1) & pl.col("provenance").cast(pl.String).is_in(list(levels))
    effects, others = (
        pl.col("provenance")
        .cast(pl.String)
        .replace_strict(table, default=None, return_dtype=pl.String)
        .cast(pl.Categorical)
        for table in (
            {sha: json.dumps(cell) for sha, cell in levels.items()},
            {sha: json.dumps(_silent(cell)) for sha, cell in levels.items()},
        )
    )
    return samples.with_columns(
        factors=pl.when(old & (pl.col("role") == "effect"))
        .then(effects)
        .when(old)
        .then(others)
        .otherwise("factors")
    )


def _silent(cell: dict[str, Level]) -> dict[str, Level]:
    return {name: level for name, level in cell.items() if name not in _WRITES}
