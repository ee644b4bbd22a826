"""Tests the table of results of a run, and the history, which is read from the tables of all runs.

Figures are worked out by hand.
"""

from datetime import date, datetime
from pathlib import Path

import polars as pl
import pytest

from analysis.history.nights import night_of, nights_of, read_results, watched_quantities
from analysis.report.data import load_run
from analysis.report.page import write_data
from analysis.report.table import COLUMNS, results_table
from records.errors import InputError
from tests.analysis.history.made import made_run
from tests.analysis.history.tables import made_table, write_nights


def test_a_table_has_a_row_for_each_treatment(tmp_path: Path) -> None:
    """`made_run` has times of `off` from 10 to 40 s with the median 12.5, and one rejected run.

    Times of `on` are twice as long.
    """
    run = load_run(made_run(tmp_path / "monday"))
    table = results_table([run])
    assert dict(table.schema) == {
        name: pl.Series([], dtype=dtype).dtype for name, dtype in COLUMNS.items()
    }
    rows = {row["arm"]: row for row in table.iter_rows(named=True)}
    assert list(rows) == ["off", "on", "aa"]
    assert {row["run"] for row in rows.values()} == {"monday"}
    off, on = rows["off"], rows["on"]
    assert (off["role"], off["baseline"], off["slowdown"]) == ("baseline", None, None)
    assert (off["fom"], off["fom_low"], off["fom_high"], off["runs"]) == (12.5, 10.0, 40.0, 6)
    assert (off["unit"], off["better"]) == ("s", "lower")
    assert (on["role"], on["baseline"], on["fom"]) == ("effect", "off", 25.0)
    assert on["slowdown"] == pytest.approx(2.0)
    assert on["slowdown_low"] <= 2.0 <= on["slowdown_high"]
    assert rows["aa"]["role"] == "floor"
    (result,) = (row for row in run.results if row.arm == "on")
    assert (on["verdict"], on["margin"]) == (str(result.verdict), result.margin)


def test_the_table_is_written_beside_the_report_and_read_again(tmp_path: Path) -> None:
    run = made_run(tmp_path / "monday")
    (run / "report").mkdir()
    write_data(run / "report", [load_run(run)])
    results, left_out = read_results([tmp_path])
    assert (results.height, left_out) == (3, [])
    rows = {(row["arm"], row["quantity"]): row for row in nights_of(results).iter_rows(named=True)}
    assert set(rows) == {
        ("off", "fom"), ("on", "fom"), ("on", "slowdown"), ("on", "writer_rate")
    }  # fmt: skip
    assert rows["off", "fom"]["value"] == 12.5
    assert (rows["on", "slowdown"]["unit"], rows["on", "slowdown"]["better"]) == ("1", "lower")
    assert rows["on", "slowdown"]["verdict"]
    # The rate is the harmonic mean of 2e10, 5e9, 4e9, 3e9, 2e9 and 1e9.
    rate = 6 / sum(1 / rate_b_s for rate_b_s in (2e10, 5e9, 4e9, 3e9, 2e9, 1e9))
    assert rows["on", "writer_rate"]["value"] == pytest.approx(rate)


def test_the_first_finished_sound_run_of_a_night_counts() -> None:
    table = made_table()
    again = table.with_columns(run=pl.lit("again"), started_s=pl.col("started_s") + 3600)
    early = table.with_columns(run=pl.lit("early"), started_s=pl.col("started_s") - 7200)
    spoilt = early.with_columns(faults=pl.lit(1, pl.Int64))
    stopped = early.with_columns(finished_s=pl.lit(None, pl.Float64))
    for before in (spoilt, stopped):
        nights = nights_of(pl.concat([before, table, again]))
        assert nights["run"].unique().to_list() == ["made"]
    assert watched_quantities(stopped).height == 4


def test_a_night_lasts_from_noon_to_noon() -> None:
    for day, hour, expected in ((20, 22, 20), (21, 4, 20), (21, 11, 20), (21, 12, 21)):
        moment = datetime(2026, 11, day, hour, 30).timestamp()
        assert night_of(moment) == date(2026, 11, expected)


def test_tables_that_cannot_be_used_are_named_and_left_out(tmp_path: Path) -> None:
    results = tmp_path / "results"
    table = made_table()
    write_nights(results, table, [1.0] * 7)
    torn, newer, other, shared, _, last, foreign = (
        results / f"night-{day}" / "report" / "results.parquet" for day in range(7)
    )
    torn.write_bytes(torn.read_bytes()[:-9])
    table.with_columns(schema=pl.lit(9, pl.Int64)).write_parquet(newer)
    table.with_columns(fom=pl.lit("x")).write_parquet(other)
    shared.chmod(0o666)
    # A table from another version may have more or fewer columns.
    pl.read_parquet(last).drop("hit", "emulated").with_columns(new=1).write_parquet(last)
    pl.DataFrame({"a": [1]}).write_parquet(foreign)
    nights, left_out = read_results([results])
    assert nights["run"].unique(maintain_order=True).to_list() == ["night-4", "night-5"]
    assert [line.partition(": ")[0] for line in left_out] == list(
        map(str, (torn, newer, other, shared, foreign))
    )
    assert "cannot be read" in left_out[0]
    assert left_out[1].endswith("schema 9 found; allowed: 1")
    assert "fom: String found" in left_out[2]
    assert left_out[3].endswith("can be written by others (mode 666)")
    assert left_out[4].endswith("schema: not found; allowed: 1")
    with pytest.raises(InputError, match="there is no such folder"):
        read_results([tmp_path / "none"])
