"""Reads the history of machines: the tables of results of all runs (`analysis.report.table`).

results, left_out = read_results([Path("results")])
nights = nights_of(results)  # one row per night and watched quantity
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import date
from pathlib import Path

import polars as pl

from analysis.report.table import COLUMNS, SCHEMA
from records.errors import InputError
from records.files import reason_to_distrust
from records.run_folder import require_results

#: The columns that name a watched quantity on a machine.
SERIES_KEY = ("campaign", "case", "arm", "quantity")
#: A night lasts from noon to noon, local time. Its date is the day on which it began.
_NOON_S = 12 * 3600.0

#: Columns that are read -> their types. Other columns may change from version to version.
_READ_COLUMNS = {
    name: COLUMNS[name]
    for name in (
        "schema",
        "machine",
        "campaign",
        "run",
        "started_s",
        "finished_s",
        "commit",
        "faults",
        "facts",
        "case",
        "arm",
        "role",
        "unit",
        "better",
        "nodes",
        "emulated",
        "verdict",
        "fom",
        "fom_low",
        "fom_high",
        "slowdown",
        "slowdown_low",
        "slowdown_high",
        "writer_rate_b_s",
        "slower_than_reference",
        "notes",
    )
}

#: Quantity -> the roles of treatments for which it is watched, and its columns. Columns that are
#: missing here are taken from `_DEFAULT_COLUMNS`.
_QUANTITIES: dict[str, tuple[tuple[str, ...], dict[str, pl.Expr]]] = {
    "fom": (
        ("baseline", "effect"),
        {"value": pl.col("fom"), "low": pl.col("fom_low"), "high": pl.col("fom_high")},
    ),
    "slowdown": (
        ("effect",),
        {
            "value": pl.col("slowdown"),
            "low": pl.col("slowdown_low"),
            "high": pl.col("slowdown_high"),
            "unit": pl.lit("1"),
            "better": pl.lit("lower"),
            "verdict": pl.col("verdict"),
        },
    ),
    "writer_rate": (
        ("effect",),
        {"value": pl.col("writer_rate_b_s"), "unit": pl.lit("B/s"), "better": pl.lit("higher")},
    ),
}
#: Columns of a quantity, in their order; `_QUANTITIES` replaces some of them.
_DEFAULT_COLUMNS = {
    "unit": pl.col("unit"),
    "better": pl.col("better"),
    "value": pl.col("fom"),
    "low": pl.lit(None, pl.Float64),
    "high": pl.lit(None, pl.Float64),
    "verdict": pl.lit(None, pl.String),
}


def read_results(folders: Iterable[Path]) -> tuple[pl.DataFrame, list[str]]:
    """Return the rows of all runs in results folders, by start, and a line for each omitted table.

    A table is omitted if another user may have written it, if it cannot be read, or if it has
    another schema. Raises InputError if a folder does not exist.
    """
    tables, left_out = [pl.DataFrame(schema=_READ_COLUMNS)], list[str]()
    for path in _table_paths(dict.fromkeys(folders)):
        try:
            tables.append(_read(path))
        except InputError as error:
            left_out.append(f"{path}: {error}")
    return pl.concat(tables).sort("started_s", maintain_order=True), left_out


def rows_of_machine(results: pl.DataFrame, machine: str | None, *, argument: str) -> pl.DataFrame:
    """Return the rows of a machine or, if `machine` is None, all rows.

    Raises InputError, which names `argument`, if only other machines have rows.
    """
    rows = results if machine is None else results.filter(machine=machine)
    if rows.is_empty() and not results.is_empty():
        known = ", ".join(results["machine"].unique().drop_nulls().sort())
        raise InputError(f"{argument}: {machine!r} found; allowed, as these have reports: {known}")
    return rows


def _table_paths(folders: Iterable[Path]) -> Iterator[Path]:
    for folder in folders:
        require_results(folder)
        runs = sorted(path for path in folder.iterdir() if not path.is_symlink())
        paths = (run / "report" / "results.parquet" for run in runs)
        # `exists` is false for files in folders that this user may not enter.
        yield from filter(os.path.exists, paths)


def _read(path: Path) -> pl.DataFrame:
    """Return the columns that the history reads. Raises InputError if the table must be omitted."""
    for run_folder_or_file in (path.parent.parent, path.parent, path):
        if reason := reason_to_distrust(run_folder_or_file):
            raise InputError(reason)
    try:
        with path.open("rb") as file:  # polars would expand `[` and `*` in a path
            columns = pl.read_parquet_schema(file)
            file.seek(0)
            names = [name for name in _READ_COLUMNS if name in columns]
            table = pl.read_parquet(file, columns=names)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        raise InputError(f"cannot be read: {(str(error).splitlines() or ['damaged'])[0]}") from None
    for name, data_type in _READ_COLUMNS.items():
        if columns.get(name, data_type) != data_type:
            raise InputError(f"{name}: {columns[name]} found; allowed: {data_type}")
    if "schema" not in columns:
        raise InputError(f"schema: not found; allowed: {SCHEMA}")
    if other_schemas := [schema for schema in table["schema"].unique() if schema != SCHEMA]:
        raise InputError(f"schema {other_schemas[0]} found; allowed: {SCHEMA}")
    missing_columns = [
        pl.lit(None, _READ_COLUMNS[name]).alias(name)
        for name in _READ_COLUMNS
        if name not in columns
    ]
    return table.with_columns(missing_columns).select(list(_READ_COLUMNS))


def nights_of(results: pl.DataFrame) -> pl.DataFrame:
    """Return one row for each night and watched quantity, in order of time.

    Each row is from the first run of its campaign that night. Unfinished runs and runs with
    integrity faults are left out, and so are values that are not positive.

    Columns: `machine`, `campaign`, `run`, `started_s`, `night` (date), `case`, `arm`, `quantity`
    (`fom`, `slowdown`, `writer_rate`), `unit`, `better`, `value`, `low`, `high`, `verdict`,
    `nodes`.
    """
    rows = watched_quantities(
        results.filter(pl.col("finished_s").is_not_null(), pl.col("faults") == 0)
    )
    first_start_s = pl.col("started_s").min().over("machine", "campaign", "night")
    is_first_run = pl.col("started_s") == first_start_s
    return rows.filter(is_first_run, pl.col("value").is_finite(), pl.col("value") > 0)


def watched_quantities(results: pl.DataFrame) -> pl.DataFrame:
    """Return the watched quantities of all runs, with the columns of `nights_of`."""
    naming_columns = ("machine", "campaign", "run", "started_s", "night", "case", "arm")
    night = pl.col("started_s").map_elements(night_of, return_dtype=pl.Date)
    results = results.with_columns(night=night)
    tables = [
        results.filter(pl.col("role").is_in(roles), columns["value"].is_not_null()).select(
            *naming_columns, "nodes", quantity=pl.lit(quantity), **{**_DEFAULT_COLUMNS, **columns}
        )
        for quantity, (roles, columns) in _QUANTITIES.items()
    ]
    return pl.concat(tables).sort("started_s", *SERIES_KEY, maintain_order=True)


def night_of(started_s: float) -> date:
    """Return the date of the night to which a moment belongs."""
    return date.fromtimestamp(started_s - _NOON_S)


def latest_rows(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the last row of each watched quantity of each machine."""
    by_start = rows.sort("started_s")
    return by_start.unique(("machine", *SERIES_KEY), keep="last", maintain_order=True)
