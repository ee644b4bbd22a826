"""Scales of a campaign (numbers of nodes): cases, writers, writes. Cases of shipped campaigns."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest

from analysis.subjects.paper import paper
from nimc.campaign.campaign_file import load_campaign
from nimc.campaign.plan import block_plan
from nimc.campaign.request import load_request
from nimc.campaign.scales import scales, short_write_warnings
from nimc.readiness.checks import checks_in
from records import yaml_file
from records.campaign import Campaign
from records.checkout import ROOT
from records.errors import InputError
from records.machine.site import Machine
from tests.nimc.campaign.made_request import FACTS, made_machine, made_request

TEXT = """
name: c
workloads:
  - check: lammps_scaling
    case: melt
    factors: {nodes: [4, 512, 8192]}
    set: {ranks_per_node: 2, write: 1s, node_mtti: 5y, counted_per_node: 1}
    expect: 100s
arms: [off, daly, constant, full]
pairs: {floor: 6, cap: 6}
"""
MACHINE = made_machine(
    origins=3,
    nic={"model": "QDR", "processing": "onload", "link_rate": "32Gbit/s"},  # 4 GB/s
    facts=FACTS,
)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return path


def expanded(tmp_path: Path, text: str, machine: Machine = MACHINE) -> Campaign:
    checks = checks_in(ROOT / "reframe_tests")
    return load_campaign(yaml_file.load(write(tmp_path, text)), checks, machine)


def test_more_nodes_than_agents_were_ever_tried_on_are_refused(tmp_path):
    text = TEXT.replace("8192", "10000")
    with pytest.raises(InputError, match=r"nodes: 10000 and \d+ origins found; allowed: 10000"):
        load_request(write(tmp_path, text), "minicluster")


def test_writers_and_writes_of_each_scale(tmp_path):
    campaign = expanded(tmp_path, TEXT)
    assert [case.nodes for case in campaign.cases] == [4, 512, 8192]
    settings = {"ranks_per_node": 2, "write": "1s", "node_mtti": "5y", "counted_per_node": 1}
    assert campaign.cases[0].set == {**settings, "nodes": 4}
    rows = list(scales(campaign, MACHINE))
    assert [(row.case, row.arm) for row in rows] == [
        (case, arm) for case in ("melt@4", "melt@512", "melt@8192") for arm in ("daly", "constant")
    ]
    none, *_, daly, constant = rows
    assert none.writers == 0
    # Table V of the paper has 42 and 16 writers. At 4 GB/s, a write of 1 s has 4 GB. The run lasts
    # 100 s.
    assert (daly.writers, daly.writes_per_s, daly.origin_nodes) == (42, 42.0, 42)
    assert (daly.write_b, daly.run_b, daly.link_share) == (4e9, 42 * 100 * 4e9, 1.0)
    assert (constant.writers, constant.origin_nodes) == (16, 42)
    assert constant.link_share == 1.0  # each origin that writes has one writer
    # A reservation has an origin for each of the 42 writers. Without Daly's writes, it has as many
    # origins as the site file says.
    for arms, most in (("[off, daly]", 42), ("[off, on]", 3)):
        with_arms = expanded(tmp_path, TEXT.replace("[off, daly, constant, full]", arms))
        assert made_request(with_arms, MACHINE).most_origin_nodes == most


def test_a_block_has_the_origins_of_its_plan(tmp_path):
    """Daly's short writes on 8,192 nodes need 42 origins. Other writes use those of the machine."""
    for arms, origins in (("[off, daly]", 42), ("[off, on]", 3)):
        text = TEXT.replace("[off, daly, constant, full]", arms).replace("[4, 512, 8192]", "[8192]")
        campaign = expanded(tmp_path, text)
        request = replace(made_request(campaign, MACHINE), checks=checks_in(ROOT / "reframe_tests"))
        (case,) = request.campaign.cases
        assert request.plan().cases[0].origin_nodes == origins
        plan = block_plan(request, case, 0, 6, tmp_path, seed=1)
        assert plan.n_origins == origins
        assert (plan.short is None) == (origins == 3)


def test_the_defaults_of_a_third_party_check_decide_writers_and_writes(tmp_path):
    """By these defaults, two writers with writes of 2 s begin one write a second."""
    ours = checks_in(ROOT / "reframe_tests")["lammps_scaling"]
    theirs = replace(ours, levels={**ours.levels, "write": "2s", "writers": "daly:2"})
    text = "name: c\nworkloads: [{check: theirs, set: {nodes: 4}}]\narms: [off, daly]\n"
    document = yaml_file.load(write(tmp_path, text))
    (row,) = scales(load_campaign(document, {"theirs": theirs}, MACHINE), MACHINE)
    assert (row.writers, row.counted, row.write_s, row.writes_per_s) == (2, None, 2.0, 1.0)


def test_a_write_has_the_bytes_of_its_messages_whatever_the_link(tmp_path):
    text = f"{TEXT}injector: {{message: 1MB}}\n".replace(
        "write: 1s", "write: 500 messages of 1MB at 250MB/s, writers: 'daly:2'"
    )
    campaign = expanded(tmp_path, text.replace("[4, 512, 8192]", "[4]"))
    daly, constant = scales(campaign, MACHINE)
    # The number of daly's writers is given, that of constant's is computed.
    assert (daly.counted, constant.counted) == (None, 4)
    # 500 MB are written every second for 100 s. Each origin has one writer, which uses 0.25 GB/s of
    # its 4 GB/s.
    assert (daly.write_b, daly.run_b, daly.link_share) == (500e6, 100 * 500e6, 0.0625)


def test_writes_shorter_than_their_tolerance_are_named():
    """100 messages take 0.1 s, so 200 messages take 0.2 s, the tolerance."""
    rows = [
        SimpleNamespace(messages=messages, write_s=write_s, tolerance_s=0.2)
        for messages, write_s in ((None, 0.1), (100, 0.1), (100, 0.1), (None, 0.2))
    ]
    too_short = "lasts 0.1 s, less than its tolerance of 0.2 s"
    assert short_write_warnings(rows) == [
        f"a write {too_short}",
        f"a write of 100 messages {too_short}: 200 messages last as long as the tolerance",
    ]


@pytest.mark.usefixtures("every_case_feasible")
def test_the_papers_campaign_has_the_writers_of_table_5(command, tmp_path):
    """At 3 GB/s, the length of the write of 46,000 messages gives the table's column."""
    shipped = (ROOT / "campaigns/scaling.yaml").read_text()
    line = command.refused("plan", "scaling", "--machine", "minicluster")
    assert "46000 messages last as long as their rate allows, which is not known" in line
    path = write(tmp_path, shipped.replace("messages of 64KiB", "messages of 64KiB at 3GB/s"))
    document = command.json("plan", path, "--machine", "minicluster")
    table = paper()["table_5_concurrent_writers"]
    published = {"daly": "daly_qdr_onload", "constant": "constant_0.2_percent"}
    for arm, column in published.items():
        rows = [row for row in document["scales"] if row["arm"] == arm]
        assert [row["target_nodes"] for row in rows] == [4, 32, 64, 128, 256, 512]
        assert [row["counted"] for row in rows] == table["node_count"]
        assert [row["writers"] for row in rows] == table[column]
    assert not [text for text in document["warnings"] if "a write of" in text]
    text = " ".join(command("plan", path, "--machine", "minicluster").split())
    assert "42 of 8192" in text
    assert "site/minicluster.yaml does not give 'nodes'" in text
    assert "each counted rank writes for 1 s at Daly's interval" in text
    quick = command("plan", "scaling_quick", "--machine", "minicluster")
    assert "each counted rank" not in quick


@pytest.mark.usefixtures("every_case_feasible")
def test_the_plan_warns_of_a_write_that_is_shorter_than_its_tolerance(command):
    """By hand: 46,000 x 64 KiB at 25 GB/s take 0.1206 s; 46,000 x 0.2 / 0.12058624 is 76,293.9."""
    document = command.json("plan", "scaling", "--machine", "example_slurm")
    (text,) = [text for text in document["warnings"] if "messages" in text]
    assert text == (
        "a write of 46000 messages lasts 0.121 s, less than its tolerance of 0.2 s: 76294 messages"
        " last as long as the tolerance"
    )
    (row,) = [
        row for row in document["scales"] if (row["target_nodes"], row["arm"]) == (32, "daly")
    ]
    assert row["write_s"] == pytest.approx(0.12058624)


@pytest.mark.usefixtures("every_case_feasible")
def test_scales_beyond_the_machine_are_left_out_with_the_reason(tmp_path, command):
    # The machine has 64 nodes. A case needs at least one origin, even if no writer is ever active.
    path = write(tmp_path, TEXT.replace("[4, 512, 8192]", "[4, 62, 63, 64, 8192]"))
    document = command.json("plan", path, "--machine", "example_slurm")
    assert document["machine_nodes"] == 64
    assert [case["case"] for case in document["cases"]] == ["melt@4", "melt@62", "melt@63"]
    assert [(omitted["case"], omitted["reason"]) for omitted in document["absent"]] == [
        (name, "more nodes with its origins than the 64 of site/example_slurm.yaml")
        for name in ("melt@64", "melt@8192")
    ]
    text = " ".join(command("plan", path, "--machine", "example_slurm").split())
    assert "than the 64 of site/example_slurm.yaml): melt@64, melt@8192" in text
    write(tmp_path, TEXT.replace("[4, 512, 8192]", "[64, 8192]"))
    line = command.refused("plan", path, "--machine", "example_slurm")
    assert line.startswith("c: no case is left: melt@64: more nodes with its origins")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[4, 512, 8192]", "[0, 4]", "c.yaml:6: workloads[0].factors.nodes: 0 found; allowed:"),
        ("[4, 512, 8192]", "[4, two]", "c.yaml:6: workloads[0].factors.nodes: 'two' found; allow"),
        ("nodes: [4, 512, 8192]", "nodes: [4], rate: [25%, full]",
         "c.yaml:6: workloads[0].factors.rate: cannot be combined with the arm 'daly'"),
        ("lammps_scaling", "stream", "arms: 'stream' has no arm 'daly'"),
        ("write: 1s", "write: 1", "c.yaml:7: workloads[0].set: write: "),
        ("write: 1s", "fill: 0", "workloads[0].set.fill: 0 found; allowed: numbers above 0"),
        ("write: 1s", "warmups: -1", "set.warmups: -1 found; allowed: whole numbers from 0"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(tmp_path, old, new, expected):
    with pytest.raises(InputError) as error:
        load_request(write(tmp_path, TEXT.replace(old, new)), "localhost")
    assert expected in str(error.value)


#: Campaign -> machine and cases, as recorded before scales became a factor. example_slurm has 32
#: cores a socket. Its sockets begin at the NUMA nodes 0 and 4.
CASES = {
    "single_node": (
        "localhost",  # the seven workloads of the paper, and CNS with as much memory as there
        ["stream", "lammps", "hpccg", "lulesh", "snap", "xsbench", "cns", "cns_4MB"],
    ),
    # example_slurm has 64 nodes, origins included.
    "scaling": ("example_slurm", ["lammps@4", "lammps@32"]),
    # One host has no rails, and only one node.
    "multirail_quick": ("localhost", ["amg", "minife"]),
    # Whether nodes of example_slurm have the injectors is not known here, so no case is left out.
    "contention_model": (
        "example_slurm",
        # 8 numbers of 1 to 32 cores, each 31 / 7 more than the one before.
        [f"sweep@n{n}-c{i}-m{i}" for i in (0, 4) for n in (1, 5, 10, 14, 19, 23, 28, 32)],
    ),
    # 8 numbers of 1 to 31 cores, each 30 / 7 more than the one before. One of 64 cores is left
    # free, and (64 - 1) / 2 is 31.5.
    "contention_model_receive": (
        "example_slurm",
        [f"sweep@n{n}-c{i}-m{i}" for i in (0, 4) for n in (1, 5, 10, 14, 18, 22, 27, 31)],
    ),
    # 1 to 32 cores of a socket on every pair of 8 NUMA nodes. The pairs of a calibration come
    # first.
    "contention_model_all": (
        "example_slurm",
        [
            f"sweep@n{n}-c{i}-m{j}"
            for i, j in dict.fromkeys([(0, 0), (4, 4), *product(range(8), range(8))])
            for n in range(1, 33)
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cases_of_shipped_campaigns(name):
    machine, expected = CASES[name]
    campaign = load_request(ROOT / "campaigns" / f"{name}.yaml", machine).campaign
    assert [case.name for case in campaign.cases] == expected


def test_short_writes_on_one_host_use_ucx_since_its_usual_injector_makes_none(tmp_path):
    text = "name: c\nworkloads: [{check: lammps_scaling, case: melt, expect: 3s}]\n"
    path = write(tmp_path, f"{text}arms: [off, on, daly]\npairs: {{floor: 6, cap: 6}}\n")
    writers = {
        treatment.name: treatment.writes.injector
        for treatment in load_request(path, "localhost").treatments["melt"]
        if treatment.writes
    }
    assert writers == {"on": "mpi_put", "daly": "ucx"}
