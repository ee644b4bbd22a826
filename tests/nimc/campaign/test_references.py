"""References proposed as a patch of a machine's file."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
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


@pytest.mark.parametrize(
    ("text", "references", "expected"),
    [
        (FILE, {"stream": 1.2e8}, {"stream": 1.2e8, "lammps": 20}),
        # Without references, and without a line break, at the end.
        ("name: m\ninjector: ucx", {"stream": 1.2e8}, {"stream": 1.2e8}),
        # After a comment or an empty line.
        (
            "references:\n  stream: 1\n\n# times\n  lammps: 20\n# the site\nname: m\ninjector: ucx",
            *({"lammps": 30.0}, {"stream": 1, "lammps": 30.0}),
        ),
        ("references: {stream: 1}\nname: m\ninjector: ucx\n", {"stream": 2.0}, {"stream": 2.0}),
    ],
)
def test_a_patch_changes_these_references_and_nothing_else(
    tmp_path: Path, text: str, references: dict[str, float], expected: dict[str, float]
) -> None:
    """As git applies it."""
    file = tmp_path / "site/m.yaml"
    file.parent.mkdir()
    file.write_text(text)
    made = patch(text, "site/m.yaml", references)
    subprocess.run(["git", "apply", "-"], input=made, text=True, cwd=tmp_path, check=True)
    changed = yaml.safe_load(file.read_text())
    assert changed == {"name": "m", "injector": "ucx", "references": expected}
    assert "-# the site" not in made


def test_what_is_the_same_makes_no_patch() -> None:
    assert patch(FILE, "site/m.yaml", {"lammps": 20.0}) == ""
