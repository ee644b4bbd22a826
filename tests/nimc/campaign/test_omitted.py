"""Cases and levels that a machine cannot have."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.campaign.cases import Omitted, leave_out, omission_lines, treatments
from nimc.campaign.prepare import prepare
from nimc.campaign.schema import Campaign
from nimc.cli.main import cli
from tests.reframe_tests.test_numa_places import of


def campaign(**asked: Any) -> Campaign:
    entry = {"check": "numa", "factors": asked.pop("factors")}
    arms = ["off", "on"]
    return Campaign.model_validate({"name": "x", "workloads": [entry], "arms": arms} | asked)


def test_levels_that_the_machine_lacks_are_left_out_with_the_reason() -> None:
    asked = campaign(factors={"comm_node": [0, 1, 2], "buffer": ["nic", "other"]})
    left, absent = leave_out(asked, of(numa_nodes=2, nic_node=0))
    assert left.cases[0].factors == {"comm_node": [0, 1], "buffer": ["nic", "other"]}
    assert absent == [Omitted("numa", "box has 2 NUMA nodes", "comm_node", 2)]
    assert omission_lines(absent) == ["left out (box has 2 NUMA nodes): numa comm_node=2"]


def test_cores_left_to_the_system_are_a_job_of_their_own_where_the_site_allows_them() -> None:
    path = ROOT / "campaigns/throttling_quick.yaml"
    text = path.read_text().replace("rate: [0, 25%, 60%, full]", "core_spec: [0, 1]")
    text = text.replace("  reserved_cores: [0, 1]\n", "")
    assert text.count("core") == 3

    def planned(machine: str, folder: Path) -> tuple[list[str], list[Omitted]]:
        asked = folder / "c.yaml"
        asked.write_text(text)
        found = prepare(asked, machine)
        return [case.name for case in found.campaign.cases], found.absent

    with TemporaryDirectory() as folder:
        both = ["stream@core_spec=0", "stream@core_spec=1"]
        assert planned("example_slurm", Path(folder)) == (both, [])
        left, (absent,) = planned("localhost", Path(folder))
    assert left == both[:1]
    assert absent.reason == "core_spec of site/localhost.yaml does not allow it"


def test_a_level_takes_all_its_cells_along() -> None:
    asked = campaign(
        factors={"buffer": ["nic", "other"], "load": ["idle", "read"], "workers": ["nic", "other"]}
    )
    left, _ = leave_out(asked, of(numa_nodes=1))
    names = [each.name for each in treatments(["off", "on"], left.cases[0])]
    assert names == ["off", "on", "off@load=read", "on@load=read"]


@pytest.mark.parametrize(
    ("factors", "more"),
    [
        ({"buffer": ["other"]}, {}),
        # What is left of the levels is what `only` does not keep.
        ({"buffer": ["nic", "other"]}, {"only": [{"buffer": "other"}]}),
    ],
)
def test_a_case_that_lost_all_its_cells_is_left_out(factors: Any, more: Any) -> None:
    asked = campaign(factors=factors)
    two = {"check": "stream"}
    entries = [asked.workloads[0].model_dump(exclude={"expect"}, exclude_defaults=True) | more, two]
    both = Campaign.model_validate({"name": "x", "workloads": entries, "arms": ["off", "on"]})
    left, absent = leave_out(both, of(numa_nodes=1))
    assert [case.name for case in left.cases] == ["stream"]
    assert absent == [Omitted("numa", "box has 1 NUMA node")]


def test_a_case_of_a_level_that_the_machine_lacks_is_left_out() -> None:
    entry = Campaign.model_validate(
        {"name": "x", "workloads": [{"check": "y"}], "arms": ["off", "on"]}
    ).workloads[0]
    cases = [entry.at(f"comm_node={n}", {"comm_node": n}) for n in (0, 1)]
    asked = campaign(factors={}).model_copy(update={"workloads": cases})
    left, absent = leave_out(asked, of(numa_nodes=1))
    assert [case.name for case in left.cases] == ["y@comm_node=0"]
    assert absent == [Omitted("y@comm_node=1", "box has 1 NUMA node")]


def test_a_campaign_of_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(InputError, match="x: no case is left: numa: box has 1 NUMA node"):
        leave_out(campaign(factors={"buffer": ["other"]}), of(numa_nodes=1))


def effects(asked: Campaign) -> set[tuple[object, ...]]:
    """Cells of NUMA's campaign: direction, buffer, load and workers of each effect."""
    (case,) = asked.cases
    names = ("direction", "buffer", "load", "workers")
    found = [each for each in treatments(asked.arms, case) if each.role == "effect"]
    cells = {tuple(each.factors[name] for name in names) for each in found}
    assert len(cells) == len(found)
    return cells


def test_the_numa_campaign_has_every_cell_once_on_two_nodes_and_says_what_one_node_lacks() -> None:
    asked = prepare(ROOT / "campaigns" / "numa.yaml", "example_slurm")
    # Two directions and two places of the buffer; nobody, or two loads with workers in 3 places.
    expected = {
        (direction, buffer, load, workers)
        for direction in ("write", "read")
        for buffer in ("nic", "other")
        for load in ("idle", "read", "write")
        for workers in ("nic", "other", "free")
        if load != "idle" or workers == "nic"
    }
    assert len(expected) == 28
    assert effects(asked.campaign) == expected
    assert asked.absent == []
    one, absent = leave_out(asked.campaign, of(numa_nodes=1))
    # One place of the buffer; nobody, or two loads with workers in 2 places.
    assert effects(one) == {cell for cell in expected if "other" not in cell}
    assert len(effects(one)) == 10
    assert [(each.factor, each.level) for each in absent] == [
        ("buffer", "other"),
        ("workers", "other"),
    ]


def test_loaded_latency_leaves_a_core_to_the_one_that_measures() -> None:
    # Two sockets of 32 cores: 32 cores that load memory would leave none.
    asked = prepare(ROOT / "campaigns" / "loaded_latency.yaml", "example_slurm")
    assert asked.campaign.cases[0].factors["load_threads"] == [0, 1, 2, 4, 8, 16]
    reason = "a socket of example_slurm has 32 cores, of which one is measured"
    assert asked.absent == [Omitted("latency", reason, "load_threads", 32)]


def test_plan_tells_what_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("name: c\nworkloads: [{check: stream}]\nfactors: {comm_node: [0, 99]}\n")
    words = ["plan", str(path), "--machine", "localhost"]
    shown = CliRunner().invoke(cli, words)
    (line,) = (each for each in shown.output.splitlines() if each.startswith("left out"))
    assert line.startswith("left out (localhost has ")
    assert line.endswith("): stream comm_node=99")
    document = json.loads(CliRunner().invoke(cli, [*words, "--json"]).output)
    (absent,) = document["absent"]
    assert (absent["case"], absent["factor"], absent["level"]) == ("stream", "comm_node", 99)
