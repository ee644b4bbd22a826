"""References proposed as a patch of a machine's file."""

import subprocess
from dataclasses import replace
from pathlib import Path

import yaml

from analysis.history.alarms import SeriesWatch
from nimc.nights.references import patch, proposed

WATCH = SeriesWatch(
    "m", "nightly", "stream", "off", "fom", "B/s", "2025-01-06", "2025-05-01", 100, 100,
    123456789.0, 0.01, 0.0, 4.0, 0.02, 1.0, [],
)  # fmt: skip
FILE = """\
# A machine.
name: m
references:  # of last year
  stream: 1.0e+8
  lammps: 20
injector: ucx
"""


def applied(tmp_path: Path, text: str, references: dict[str, float]) -> dict:
    """What git makes of the patch."""
    file = tmp_path / "site/m.yaml"
    file.parent.mkdir()
    file.write_text(text)
    made = patch(text, "site/m.yaml", references)
    subprocess.run(["git", "apply", "-"], input=made, text=True, cwd=tmp_path, check=True)
    return yaml.safe_load(file.read_text())


def test_only_baselines_with_enough_nights_and_one_campaign_are_proposed() -> None:
    found = [
        WATCH,
        replace(WATCH, case="on", arm="on"),
        replace(WATCH, case="rate", quantity="slowdown"),
        replace(WATCH, case="new", level=None),
        replace(WATCH, case="two"),
        replace(WATCH, case="two", campaign="other"),
    ]
    assert proposed(found) == {"stream": 123500000.0}


def test_a_patch_changes_these_references_and_nothing_else(tmp_path: Path) -> None:
    assert applied(tmp_path, FILE, {"stream": 1.2e8}) == {
        "name": "m",
        "references": {"stream": 1.2e8, "lammps": 20},
        "injector": "ucx",
    }


def test_a_file_without_references_gets_them_at_its_end(tmp_path: Path) -> None:
    found = applied(tmp_path, "name: m\ninjector: ucx", {"stream": 1.2e8})
    assert found == {"name": "m", "injector": "ucx", "references": {"stream": 1.2e8}}


def test_references_after_a_comment_or_an_empty_line_are_known(tmp_path: Path) -> None:
    text = "references:\n  stream: 1\n\n# times\n  lammps: 20\n# the site\nname: m\n"
    found = applied(tmp_path, text, {"lammps": 30.0})
    assert found == {"references": {"stream": 1, "lammps": 30.0}, "name": "m"}
    assert "-# the site" not in patch(text, "site/m.yaml", {"lammps": 30.0})


def test_what_is_the_same_makes_no_patch() -> None:
    assert patch(FILE, "site/m.yaml", {"lammps": 20.0}) == ""


def test_references_in_one_line_are_replaced(tmp_path: Path) -> None:
    found = applied(tmp_path, "references: {stream: 1}\nname: m\n", {"stream": 2.0})
    assert found == {"references": {"stream": 2.0}, "name": "m"}
