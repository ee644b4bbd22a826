"""Tables of results of made nights: a made run again on later days, other figures of merit."""

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from analysis.report.data import load_run
from analysis.report.table import results_table
from tests.analysis.history.made import made_run

DAY_S = 86_400.0


def table_of(folder: Path) -> pl.DataFrame:
    """That of a made run of machine `m` and campaign `nightly`."""
    return results_table([load_run(made_run(folder / "made"))])


def write_nights(results: Path, table: pl.DataFrame, factors: Sequence[float]) -> None:
    """A run a night, whose times without writers are multiplied by these; in folders of runs."""
    for day, factor in enumerate(factors):
        slower = pl.when(pl.col("arm") == "off").then(factor).otherwise(1.0)
        moved = [pl.col(name) + day * DAY_S for name in ("started_s", "finished_s")]
        night = table.with_columns(pl.col("fom") * slower, *moved, run=pl.lit(f"night-{day}"))
        folder = results / f"night-{day}" / "report"
        folder.mkdir(parents=True)
        night.write_parquet(folder / "results.parquet")
