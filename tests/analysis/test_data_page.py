"""docs/data.md has every field that is stored, says whether it may be null, and has no other."""

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import polars as pl

from analysis.report.data import load_run
from analysis.report.make import write_data
from nimc.base.checkout import ROOT
from nimc.machine.host import Host
from nimc.node.readers import FomError
from nimc.records import run, sample
from reframe_tests.factors import FACTORS
from reframe_tests.workload import load, names
from tests.analysis.history.made import add_cycles, made_run

PAGE = (ROOT / "docs/data.md").read_text()
RECORDS = {
    **{"# Sample": sample.Sample, "# Writer": sample.WriterRecord, "# A host": Host},
    **{"# Timetable": sample.TimetableRecord, "# Conditions": sample.NodeConditions},
    "# The header: run.json": run.RunHeader,
}


def quoted(text: str) -> list[str]:
    return re.findall(r"`(.+?)`", text)


def table(heading: str) -> dict[str, dict[str, str]]:
    """Name in the first column -> row, of the table below a heading."""
    section = re.split("^#", PAGE.partition(f"{heading}\n")[2], maxsplit=1, flags=re.M)[0]
    cells = [re.split(r" *\| *", line)[1:-1] for line in section.splitlines() if line[:1] == "|"]
    rows = [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
    found = [(name, row) for row in rows for name in quoted(row[cells[0][0]])]
    assert len(dict(found)) == len(found), f"{heading}: a name twice"
    return dict(found)


def hints(record: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Fields with their types, also of records inside; those in a sample have their own tables."""
    for name, hint in get_type_hints(record).items():
        yield before + name, hint
        for part in filter(is_dataclass, (hint, *get_args(hint))):
            if record is not sample.Sample:
                inside = "[]." if get_origin(hint) is list else "."
                yield from hints(part, before + name + inside)


def test_records() -> None:
    for heading, record in RECORDS.items():
        rows, known = table(heading), dict(hints(record))
        assert rows.keys() == known.keys() | ({"absent_counters"} if record is Host else set())
        for name, hint in known.items():
            assert (rows[name]["null"] == "never") == (NoneType not in get_args(hint)), name


def test_files_of_a_report(tmp_path: Path) -> None:
    path = made_run(tmp_path / "run")
    add_cycles(path)
    for file in write_data(tmp_path, [load_run(path)]):
        if file.suffix == ".parquet":
            frame, rows = pl.read_parquet(file), table(f"# {file.name}")
            assert rows.keys() == set(frame.columns)
            assert all(rows[each.name]["null"] != "never" for each in frame if each.null_count())
    # Every `on` of this run takes twice as long as its `off`; the page divides rates.
    lines = re.findall(r"^    (.*\n)", PAGE.partition("# A slowdown by hand\n")[2], re.M)
    found: dict[str, Any] = {}
    exec("".join(lines).replace("RUN/samples/stream", f"{path}/samples/melt"), found)
    assert found["slowdown"] == 0.5


def test_keys_of_objects() -> None:
    assert table("# Outcome").keys() == set(get_args(sample.Outcome))
    within = {name for name, factor in FACTORS.items() if not factor.between_jobs}
    assert table("# Factors").keys() == within
    files = [*(ROOT / "reframe_tests").glob("*.py"), ROOT / "nimc/node/conductor.py"]
    text = "".join(path.read_text() for path in files)
    records = "".join(re.findall(r"\{\s*\*\*\w+\.provenance,([^}]*)\}", text))
    assert table("# Provenance").keys() == set(re.findall(r'"(\w+)":', records))
    folders, found = {"lammps_scaling": "lammps", "numa": "membench"}, dict[str, set[str]]()
    for name in names():
        parser = load(name).parser
        for capture in (ROOT / "tests/captures" / folders.get(name, name)).glob("*.txt"):
            with suppress(FomError, ValueError):
                for key in parser(capture.read_text(errors="replace")).extra:
                    found.setdefault(key, set()).add(name)
    rows = table("# Figures of workloads")
    assert {key: set(quoted(row["workload"])) for key, row in rows.items()} == found
