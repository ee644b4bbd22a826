"""The summary's document, and what is refused."""

import json
from datetime import date
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.nights.summary import load, path_of, summaries, summary_text, write
from tests.nimc.nights.made import SUMMARY, summary


def test_a_summary_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = path_of(tmp_path, "box", SUMMARY.night)
    assert path.name == "box-2026-11-20.json"
    write(path, summary_text(SUMMARY))
    assert load(path) == SUMMARY
    document = json.loads(path.read_text())
    assert (document["schema"], document["night"]) == (1, "2026-11-20")
    assert document["figures"][1] == {
        **{"case": "stream", "arm": "on", "quantity": "slowdown", "unit": "1", "better": "lower"},
        **{"value": 2.0, "low": 1.9, "high": 2.1, "count": 6, "verdict": "memory contention"},
    }
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"schema": 2}, "schema: 2 found; allowed: at most 1; written by a newer nimc"),
        ({"outcome": "fine"}, "outcome: "),
        ({"night": "x"}, "night: "),
        ({"machine": "../x"}, "machine: "),
        ({"used_node_h": -1}, "used_node_h: "),
        ({"figures": [{}]}, "figures.0"),
    ],
)
def test_what_is_no_summary_is_refused(
    tmp_path: Path, change: dict[str, object], what: str
) -> None:
    path = tmp_path / "box-2026-11-20.json"
    path.write_text(json.dumps(json.loads(summary_text(SUMMARY)) | change))
    with pytest.raises(InputError, match=what):
        load(path)


def test_summaries_of_a_nightly_are_its_own(tmp_path: Path) -> None:
    names = ["box-2026-11-21.json", "box-2026-11-20.json", "box-2-2026-11-20.json", "box-x.json"]
    for name in [*names, "box-2026-99-99.json"]:
        (tmp_path / name).touch()
    found = [night for night, _ in summaries(tmp_path, "box")]
    assert found == [date(2026, 11, 20), date(2026, 11, 21)]


def test_one_case_of_it() -> None:
    of_lammps = summary().of_case("lammps")
    assert [each.case for each in of_lammps.figures] == ["lammps"]
    assert (of_lammps.alarms, of_lammps.failures) == ([], [])
    with pytest.raises(InputError, match="'hpl' found; allowed: stream, lammps, snap"):
        summary().of_case("hpl")
