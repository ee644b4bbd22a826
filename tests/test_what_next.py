"""The node-hours of docs/what-next.md are those of the plans."""

import re

import pytest

from analysis.display.figures import number
from records.checkout import ROOT
from tests.commands import Command

_ROW = re.compile(r"^\| .+ \| `(\w+)` \| ([\d.]+)(?: to ([\d.]+))? \|", re.MULTILINE)


@pytest.mark.usefixtures("able")
def test_node_hours_are_those_of_the_plans(command: Command) -> None:
    rows = _ROW.findall((ROOT / "docs/what-next.md").read_text())
    assert len(rows) == 11
    for name, least, most in rows:
        planned = command.json("plan", name, "--machine", "example_slurm")
        ends = (planned["node_hours_least"], planned["node_hours_most"])
        shown = name, least, most or least
        assert shown == (name, *(number(end, 2) for end in ends)), "docs/what-next.md"
