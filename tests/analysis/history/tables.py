"""Makes tables of results of nights: a made run is repeated on later days, with other times."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

from analysis.report.data import load_run
from analysis.report.table import results_table
from tests.analysis.history.made import made_run

DAY_S = 86_400.0


@cache
def made_table() -> pl.DataFrame:
    """Return the table of results of a made run of machine `m` and campaign `nightly`."""
    with TemporaryDirectory() as folder:
        return results_table([load_run(made_run(Path(folder, "made")))])


def night_tables(table: pl.DataFrame, factors: Sequence[float]) -> Iterator[pl.DataFrame]:
    """Yield the table of a run for each night.

    The night's factor multiplies times without writers.
    """
    for day, factor in enumerate(factors):
        slower = pl.when(pl.col("arm") == "off").then(factor).otherwise(1.0)
        moved = [pl.col(name) + day * DAY_S for name in ("started_s", "finished_s")]
        yield table.with_columns(pl.col("fom") * slower, *moved, run=pl.lit(f"night-{day}"))


def write_nights(results: Path, table: pl.DataFrame, factors: Sequence[float]) -> None:
    """Write the tables of `night_tables` to folders of runs."""
    write_tables(results, night_tables(table, factors))


def write_tables(results: Path, tables: Iterable[pl.DataFrame]) -> None:
    """Write the tables of runs to folders of runs, `night-0` first."""
    for day, night in enumerate(tables):
        folder = results / f"night-{day}" / "report"
        folder.mkdir(parents=True)
        night.write_parquet(folder / "results.parquet")
