"""What a night measured: medians by hand."""

import datetime
import json
from pathlib import Path

import polars as pl
import pytest

from analysis.history.extract import made
from analysis.history.store import add_run, load_nights, load_runs, scan_samples
from analysis.history.tables import KEY, NIGHTS, RUNS
from tests.analysis.history.made import add_cycles, made_run
from tests.analysis.synthetic import header


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("results")
    run = made_run(folder / "monday")
    add_cycles(run)
    add_run(folder / "store", run, outcome="measured")
    return folder / "store"


def test_a_night_has_the_medians_and_intervals_of_its_runs(store: Path) -> None:
    nights = load_nights(store)
    assert nights.schema == pl.Schema(NIGHTS)
    found = {
        (arm, quantity): row
        for arm, quantity, *row in nights.select(
            "arm", "quantity", "unit", "better", "value", "low", "high", "count", "verdict"
        ).iter_rows()
    }
    two = pytest.approx(2.0, rel=1e-12)
    # The repeated baseline is not watched; six values have the extremes as their interval; origin
    # and target share a host, so that an effect needs a control.
    assert found == {
        ("off", "fom"): ["s", "lower", 12.5, 10.0, 40.0, 6, None],
        ("on", "fom"): ["s", "lower", 25.0, 20.0, 80.0, 6, None],
        ("on", "writer_rate"): ["B/s", "higher", 3.5e9, 1e9, 2e10, 6, None],
        ("on", "slowdown"): ["1", "lower", two, two, two, 6, "control missing"],
        # 11 times 3.5e9, and 11 times 1e9 and 6e10.
        ("off", "counter:cycles"): ["count", "lower", 3.85e10, 1.1e10, 6.6e11, 6, None],
    }
    assert nights.unique(KEY).height == nights.height
    named = nights.select("machine", "campaign", "run", "night", "case", "nodes").unique()
    # 1780000000 s is 28 May 2026, 20:26 UTC.
    day = datetime.date(2026, 5, 28)
    assert named.rows() == [("m", "nightly", "monday", day, "melt", "synthetic-0")]


def test_a_run_is_one_row(store: Path) -> None:
    runs = load_runs(store)
    assert runs.schema == pl.Schema(RUNS)
    (row,) = runs.iter_rows(named=True)
    # A warm-up, six runs of each of three arms, and a rejected one.
    assert (row["samples"], row["rejected"]) == (20, 1)
    assert (row["run"], row["outcome"], row["nodes"]) == ("monday", "measured", "synthetic-0")
    assert row["started_s"] == 1_780_000_000.0
    assert json.loads(row["made"]) == {"version nimc": "0"}


def test_samples_are_all_there(store: Path) -> None:
    samples = scan_samples(store).collect()
    names = samples.select("machine", "campaign", "run").unique().rows()
    assert names == [("m", "nightly", "monday")]
    statuses = dict(samples["status"].value_counts().rows())
    assert statuses == {"counts": 18, "rejected": 1, "warm-up": 1}


def test_what_made_a_run_is_flat_and_names_each_value_once() -> None:
    host = {"cpu_model": "C", "kernel": "6.1"}
    record = {"compiler": "cc 12", "programs": {"mpirun": "5.0"}, "seed": 7, "command": ["./a"]}
    record["nodes"] = {"a": host, "b": {**host, "kernel": "6.2"}}
    program = {"name": "lmp", "path": "/a/lmp", "sha256": "aa", "mpi": None}
    program["compilers"] = ["GCC: 12"]
    other = {"program": program, "modules": ["gcc/13", "openmpi/5"]}
    wrong = {"program": 7, "modules": "no"}
    records = {"0": record, "1": {**record, "seed": 8}, "x": other, "y": wrong}
    assert made(header(versions={"nimc": "1"}), records) == {
        **{"CPU model": "C", "kernel": "6.1 | 6.2", "compiler": "cc 12", "program mpirun": "5.0"},
        **{"version nimc": "1", "modules": "gcc/13 openmpi/5"},
        **{"lmp sha256": "aa", "lmp compilers": "GCC: 12"},
    }
