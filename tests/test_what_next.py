"""Tests that docs/what-next.md shows the node-hours that `nimc plan` prints."""

import re

import pytest

from analysis.display.figures import number
from records.checkout import ROOT
from tests.commands import Command

#: A row of the table. It has a campaign and its node-hours: one number, or least and most.
_ROW = re.compile(r"^\| .+ \| `(\w+)` \| ([\d.]+)(?: to ([\d.]+))? \|", re.MULTILINE)
ROWS = _ROW.findall((ROOT / "docs/what-next.md").read_text())


def test_the_table_has_eleven_campaigns() -> None:
    assert len(ROWS) == 11


@pytest.mark.usefixtures("every_case_feasible")
@pytest.mark.parametrize(("campaign", "least", "most"), ROWS)
def test_node_hours_are_those_of_the_plan(
    command: Command, campaign: str, least: str, most: str
) -> None:
    plan = command.json("plan", campaign, "--machine", "example_slurm")
    shown = [number(plan[key], 2) for key in ("node_hours_least", "node_hours_most")]
    assert shown == ([least, most] if most else [least, least])
