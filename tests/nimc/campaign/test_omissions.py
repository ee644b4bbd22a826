"""Cases and levels that a machine cannot run are left out of a campaign, with the reason."""

from itertools import product
from typing import Any

import pytest

from nimc.campaign.cases import OmittedCase, leave_out, omission_lines, treatments
from nimc.campaign.request import load_request
from records.campaign import Campaign
from records.checkout import ROOT
from records.errors import InputError
from records.machine.site import Machine
from tests.messages import assert_message
from tests.reframe_tests.numa_facts import host_facts


@pytest.fixture
def one_node() -> Machine:
    """A machine whose nodes have one NUMA node."""
    return host_facts(numa_nodes=1)


def campaign_of(*entries: dict[str, Any]) -> Campaign:
    return Campaign.model_validate({"name": "x", "workloads": list(entries), "arms": ["off", "on"]})


def numa_campaign(factors: dict[str, list[object]]) -> Campaign:
    return campaign_of({"check": "numa", "factors": factors})


def omitted_levels(omissions: list[OmittedCase]) -> list[tuple[str, str | None, object]]:
    """Return case, factor and level of each omission."""
    return [(omitted.case, omitted.factor, omitted.level) for omitted in omissions]


def test_levels_that_the_machine_lacks_are_left_out_with_the_reason():
    numa = numa_campaign({"comm_node": [0, 1, 2], "buffer": ["nic", "other"]})
    possible, omissions = leave_out(numa, host_facts(numa_nodes=2, nic_node=0))
    assert possible.cases[0].factors == {"comm_node": [0, 1], "buffer": ["nic", "other"]}
    assert omitted_levels(omissions) == [("numa", "comm_node", 2)]
    assert "2 NUMA nodes" in omissions[0].reason
    (line,) = omission_lines(omissions)
    assert omissions[0].reason in line
    assert line.endswith(": numa comm_node=2")


def test_a_numa_node_with_memory_only_counts_as_one_of_the_machine():
    numa = numa_campaign({"comm_node": [0, 1, 2]})
    machine = host_facts(numa_nodes=2, nic_node=0, memory_nodes=[2])
    possible, omissions = leave_out(numa, machine)
    assert (possible.cases[0].factors, omissions) == ({"comm_node": [0, 1, 2]}, [])


def test_cores_left_to_the_system_make_cases_only_if_the_site_allows_them(tmp_path):
    text = (ROOT / "campaigns/throttling_quick.yaml").read_text()
    text = text.replace("rate: [0, 25%, 60%, full]", "core_spec: [0, 1]")
    text = text.replace("  reserved_cores: [0, 1]\n", "")
    assert "reserved_cores" not in text
    file = tmp_path / "c.yaml"
    file.write_text(text)
    allowed, refused = load_request(file, "example_slurm"), load_request(file, "localhost")
    case_names = [case.name for case in allowed.campaign.cases]
    assert (case_names, allowed.omissions) == (["stream@core_spec=0", "stream@core_spec=1"], [])
    assert [case.name for case in refused.campaign.cases] == ["stream@core_spec=0"]
    assert omitted_levels(refused.omissions) == [("stream@core_spec=1", None, None)]
    assert "core_spec of site/localhost.yaml" in refused.omissions[0].reason


def test_treatments_with_an_omitted_level_are_left_out(one_node):
    nodes: list[object] = ["nic", "other"]
    numa = numa_campaign({"buffer": nodes, "load": ["idle", "read"], "workers": nodes})
    possible, _ = leave_out(numa, one_node)
    names = [treatment.name for treatment in treatments(["off", "on"], possible.cases[0])]
    assert names == ["off", "on", "off@load=read", "on@load=read"]


@pytest.mark.parametrize(
    "entry",
    [
        {"factors": {"buffer": ["other"]}},
        # The only treatments that `only` keeps have an omitted level.
        {"factors": {"buffer": ["nic", "other"]}, "only": [{"buffer": "other"}]},
    ],
)
def test_a_case_without_a_level_that_the_machine_has_is_left_out(one_node, entry):
    both_cases = campaign_of({"check": "numa", **entry}, {"check": "stream"})
    possible, omissions = leave_out(both_cases, one_node)
    assert [case.name for case in possible.cases] == ["stream"]
    assert omitted_levels(omissions) == [("numa", None, None)]
    assert "1 NUMA node" in omissions[0].reason


def test_a_campaign_without_a_case_that_the_machine_can_run_is_refused(one_node):
    with pytest.raises(InputError) as error:
        leave_out(numa_campaign({"buffer": ["other"]}), one_node)
    assert_message(str(error.value), "x", "numa", "1 NUMA node")


def test_a_case_at_a_level_that_the_machine_lacks_is_left_out(one_node):
    campaign = campaign_of({"check": "y"})
    cases = [
        campaign.workloads[0].at_levels(f"comm_node={node}", {"comm_node": node}) for node in (0, 1)
    ]
    at_levels = campaign.model_copy(update={"workloads": cases})
    possible, omissions = leave_out(at_levels, one_node)
    assert [case.name for case in possible.cases] == ["y@comm_node=0"]
    assert omitted_levels(omissions) == [("y@comm_node=1", None, None)]


def cells_of_effects(numa: Campaign) -> list[tuple[object, ...]]:
    """Return direction, buffer, load and workers of each effect of NUMA's campaign, sorted."""
    case, *_ = numa.cases
    names = ("direction", "buffer", "load", "workers")
    written = [treatment for treatment in treatments(numa.arms, case) if treatment.role == "effect"]
    return sorted(tuple(treatment.factors[name] for name in names) for treatment in written)


#: Pairs of a load and the place of its workers: no load, or three loads in three places.
LOADS_AND_WORKERS = [
    ("idle", "nic"),
    *product(("read", "write", "nt_write"), ("nic", "other", "free")),
]
#: Each of these pairs with two directions and two places of the buffer.
NUMA_CELLS = [
    (direction, buffer, load, workers)
    for direction, buffer in product(("write", "read"), ("nic", "other"))
    for load, workers in LOADS_AND_WORKERS
]


def test_the_numa_campaign_has_every_cell_once_on_two_nodes():
    request = load_request(ROOT / "campaigns" / "numa.yaml", "example_slurm")
    assert len(NUMA_CELLS) == 40
    assert cells_of_effects(request.campaign) == sorted(NUMA_CELLS)
    assert request.omissions == []


def test_the_numa_campaign_says_what_one_node_lacks(one_node):
    """14 cells are left: two directions, each without load, or with three loads in two places."""
    request = load_request(ROOT / "campaigns" / "numa.yaml", "example_slurm")
    possible, omissions = leave_out(request.campaign, one_node)
    near_cells = [cell for cell in NUMA_CELLS if "other" not in cell]
    assert len(near_cells) == 14
    assert cells_of_effects(possible) == sorted(near_cells)
    assert [(omitted.factor, omitted.level) for omitted in omissions] == [
        ("buffer", "other"),
        ("workers", "other"),
        ("buffer", "other"),
        ("buffer", "other"),
    ]
