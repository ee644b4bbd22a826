"""Tests that docs/data.md lists the columns of a report's tables, and the keys of objects."""

import re
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import polars as pl

from analysis.report.data import load_run
from analysis.report.page import write_data
from conductor.block.readers import FomError
from records import sample
from records.checkout import ROOT
from records.sample import NodesRow
from reframe_tests import third_party
from reframe_tests.factors import FACTORS
from reframe_tests.mixin import NimcMixin
from reframe_tests.workload import load_workload, workload_names
from tests.analysis.history.made import add_cycles, made_run

PAGE = (ROOT / "docs/data.md").read_text()


def quoted(text: str) -> list[str]:
    return re.findall(r"`(.+?)`", text)


def table(heading: str, page: str = PAGE) -> dict[str, dict[str, str]]:
    """Return the table below a heading: name in the first column -> row."""
    section = re.split("^#", page.partition(f"{heading}\n")[2], maxsplit=1, flags=re.M)[0]
    cells = [re.split(r" *\| *", line)[1:-1] for line in section.splitlines() if line[:1] == "|"]
    rows = [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
    named = [(name, row) for row in rows for name in quoted(row[cells[0][0]])]
    assert len(dict(named)) == len(named), f"{heading}: a name twice"
    return dict(named)


def test_files_of_a_report(tmp_path: Path) -> None:
    path = made_run(tmp_path / "run")
    add_cycles(path)
    for file in write_data(tmp_path, [load_run(path)]):
        # The columns of results.parquet are those of its schema (docs/nights.md).
        if file.suffix == ".parquet" and file.name != "results.parquet":
            frame, rows = pl.read_parquet(file), table(f"# {file.name}")
            # Columns that the table does not list are fields of a record, or named below the
            # heading.
            same = {field.name for kind in (sample.Sample, NodesRow) for field in fields(kind)}
            same |= {"tool", "status", "run"}
            assert rows.keys() <= set(frame.columns) <= rows.keys() | same
    # Every `on` of this run takes twice as long as its `off`. The page's example divides rates.
    lines = re.findall(r"^    (.*\n)", PAGE.partition("# A slowdown by hand\n")[2], re.M)
    namespace: dict[str, Any] = {}
    exec("".join(lines).replace("RUN/samples/stream", f"{path}/samples/melt"), namespace)
    assert namespace["slowdown"] == 0.5


def test_keys_of_objects() -> None:
    assert table("# Outcome").keys() == set(get_args(sample.Outcome))
    campaigns = (ROOT / "docs/campaigns.md").read_text()
    assert table("# Factors", campaigns).keys() == set(FACTORS)
    files = [*(ROOT / "reframe_tests").glob("*.py"), ROOT / "conductor/block/conductor.py"]
    text = "".join(path.read_text() for path in files)
    records = "".join(re.findall(r"\{\s*\*\*\w+\.provenance,([^}]*)\}", text))
    third_party_keys = set(third_party.check_provenance(NimcMixin))
    assert table("# Provenance").keys() == {*re.findall(r'"(\w+)":', records), *third_party_keys}
    folders = {"lammps_scaling": "lammps", "numa": "membench"}
    for name in workload_names():
        # The table of docs/workloads.md is made from the names in each record.
        record, keys = load_workload(name), set[str]()
        for capture in (ROOT / "tests/captures" / folders.get(name, name)).glob("*.txt"):
            with suppress(FomError, ValueError):
                keys |= record.parse(capture.read_text(errors="replace")).extra.keys()
        assert set(record.extra) == keys
