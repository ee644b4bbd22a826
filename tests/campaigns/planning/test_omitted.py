"""Cases that a machine cannot have."""

import json

import pytest
from click.testing import CliRunner

from analysis.checkout import ROOT
from analysis.errors import InputError
from campaigns.cli import cli
from campaigns.planning.omitted import Omitted, leave_out, told
from campaigns.planning.prepare import prepare
from campaigns.request.schema import Campaign
from tests.reframe_tests.test_numa_places import of


def campaign(*needs):
    entries = [
        {"check": "stream", "case": f"c{n}", **({"needs_numa_nodes": n} if n else {})}
        for n in needs
    ]
    return Campaign.model_validate({"name": "x", "workloads": entries, "arms": ["off", "on"]})


def test_cases_that_need_more_numa_nodes_are_left_out_and_named():
    left, absent = leave_out(campaign(0, 2, 3), of(numa_nodes=2, nic_node=0))
    assert [case.name for case in left.cases] == ["c0", "c2"]
    assert absent == [Omitted("c3", "needs 3 NUMA nodes, box has 2")]
    assert told(absent) == ["left out (needs 3 NUMA nodes, box has 2): c3"]


def test_a_campaign_of_which_nothing_is_left_is_refused():
    with pytest.raises(InputError, match="x: no case is left: c4 needs 4 NUMA nodes, box has 1"):
        leave_out(campaign(4), of(numa_nodes=1))


def test_the_numa_campaign_has_every_cell_once_on_two_nodes_and_says_what_one_node_lacks():
    asked = prepare(ROOT / "campaigns" / "numa.yaml", "example_slurm")
    settings = [tuple(sorted(case.set.items())) for case in asked.campaign.cases]
    # Two directions and two places of the buffer; nobody, or two loads with workers in 3 places.
    assert len(settings) == len(set(settings)) == 2 * 2 * (1 + 2 * 3)
    assert asked.absent == []
    one, absent = leave_out(asked.campaign, of(numa_nodes=1))
    # One place of the buffer; nobody, or two loads with workers in 2 places.
    assert len(one.cases) == 2 * (1 + 2 * 2)
    assert len(absent) == 28 - 10


def test_plan_tells_what_is_left_out(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\narms: [off, on]\nworkloads: [{check: stream}, {check: stream, case: far,"
        " needs_numa_nodes: 99}]\n"
    )
    words = ["plan", str(path), "--machine", "localhost"]
    shown = CliRunner().invoke(cli, words)
    assert "left out (needs 99 NUMA nodes, localhost has " in shown.output
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    assert [each["case"] for each in document["absent"]] == ["far"]
