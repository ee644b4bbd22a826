"""What a ReFrame configuration says of a campaign's jobs, and what of a campaign a machine can run.

Runs that are pinned to nodes, or have some of the cases; levels that the machine lacks.
"""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from nimc.campaign.cases import OmittedCase, leave_out, omission_lines, treatments
from nimc.campaign.plan import block_plan
from nimc.campaign.prepare import prepare, time_limit_s, uses_slurm
from nimc.readiness.reframe_config import target_partitions
from nimc.run.folder import new_header
from records.campaign import Campaign
from records.checkout import ROOT
from records.errors import InputError
from tests.nimc.checkouts import SITE, checkout
from tests.reframe_tests.numa_facts import host_facts

PARTITIONS = [
    {"name": "std", "scheduler": "slurm", "time_limit": "1h30m"},
    {"name": "big", "scheduler": "local", "time_limit": "1d"},
]
CONFIG = """
site_configuration = {"systems": [{"name": "box", "hostnames": ["b"], "partitions": [
    {"name": "p", "scheduler": "slurm", "launcher": "srun",
     "time_limit": "2h", "environs": ["e"]},
]}], "environments": [{"name": "e", "features": ["wheels"]}]}
"""


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("1d2h3m4s", 93784), ("4h", 14400), (90, 90), (None, None), ("0s", None), ("soon", None)],
)
def test_time_limits_as_reframe_spells_them(limit, seconds):
    assert time_limit_s([{"time_limit": limit}]) == seconds


def test_a_named_partition_is_asked_else_the_strictest():
    assert time_limit_s(target_partitions(PARTITIONS, "big")) == 86400
    assert time_limit_s(target_partitions(PARTITIONS, None)) == 5400
    assert not uses_slurm(target_partitions(PARTITIONS, "big"))
    assert uses_slurm(target_partitions(PARTITIONS, None))
    assert time_limit_s([]) is None
    assert uses_slurm([{"scheduler": "squeue"}])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("[{", "{", "box.py:5: cannot be read: SyntaxError: .* does not match opening"),
        ('"partitions": [', '"partitions": [7, ', "box.py: cannot be read: TypeError: 'int'"),
        ("site_configuration", "x", "box.py: cannot be read: KeyError: 'site_configuration'"),
        ('"name": "p"', '"name": "q"', r"^site/box.yaml:5: partition: 'p' found; .*: q$"),
        ('"name": "e",', '"name": "e", "cc": "",', "box.py:3: environs: none of partition p can run"
         " 'stream'; .* a C compiler, 'cc'$"),
        ('"environs"', '"environ"', "box.py:4: systems: partitions: unknown key 'environ', did you"
         r" mean 'environs'\?; "),
        ('"launcher": "srun",', "", r"box.py:3: systems: partitions: p: launcher missing$"),
        ('"name": "box",', '"name": "box",\n"modules_system": "lmd",',
         r"box.py:3: systems: modules_system: 'lmd' found; allowed: .*lmod"),
        ('"box"', '"bax"', "box.py:2: systems: name: 'bax' found; allowed:"),
    ],
)  # fmt: skip
def test_a_configuration_that_cannot_run_the_campaign_is_refused(tmp_path, old, new, expected):
    """`plan` gave 0, and `run` ended with 'no run was made'."""
    (tmp_path / "c.yaml").write_text(
        "name: c\nworkloads: [{check: stream, expect: 1s}]\narms: [off, on]\npairs: {floor: 6}\n"
    )
    assert old in CONFIG
    root = checkout(tmp_path, CONFIG.replace(old, new), SITE + "partition: p\n")
    with pytest.raises(InputError, match=expected):
        prepare(tmp_path / "c.yaml", "box", root)


def test_slurm_drives_a_shared_host_where_its_configuration_says_so(tmp_path):
    box = prepare(ROOT / "campaigns/quick.yaml", "box", checkout(tmp_path, CONFIG))
    assert (box.slurm, box.time_limit_s) == (True, 7200)
    localhost = prepare(ROOT / "campaigns/quick.yaml", "localhost")
    assert not localhost.slurm


@pytest.mark.usefixtures("able")
def test_a_block_that_outlasts_its_job_is_reported(tmp_path, command):
    # 8 s, and 13 runs of 1 h and 0.7 s each: above 4 h.
    (tmp_path / "long.yaml").write_text(
        "name: long\nworkloads: [{check: stream, expect: 1h}, {check: lammps, expect: 1s}]\n"
        "arms: [off, on]\npairs: {floor: 6, cap: 6}\nrun_timeout: 2h\n"
    )
    words = ("plan", tmp_path / "long.yaml", "--machine", "example_slurm")
    line, *_ = command.json(*words)["warnings"]
    for fact in ("stream: 6 pairs", "13 h 00 min", "configs/example_slurm.py is 4 h 00 min"):
        assert fact in line
    assert line in " ".join(command(*words).split())


QUICK = ROOT / "campaigns/quick.yaml"


def test_named_nodes_or_cases_make_another_run():
    free = prepare(QUICK, "example_slurm")
    pinned = prepare(QUICK, "example_slurm", nodelist="nid0001")
    some = prepare(QUICK, "example_slurm", case_names=["lammps"])
    for request, nodes in ((pinned, "nid0001"), (free, "")):
        for case in request.campaign.cases:
            assert block_plan(request, case, 0, 6, Path("/r"), seed=1).nodelist == nodes
    assert [case.case for case in some.plan().cases] == ["lammps"]
    assert len({new_header(prepared).digest for prepared in (free, pinned, some)}) == 3
    with pytest.raises(InputError, match="--case: 'amg' found; allowed: stream, lammps"):
        prepare(QUICK, "example_slurm", case_names=["amg"])


@pytest.mark.parametrize(
    ("machine", "nodes", "fault"),
    [
        ("example_slurm", "n1,n2", "2 nodes found; allowed: as many as case 'stream' has, 1"),
        ("example_slurm", "n[1-4]", "allowed: names joined with commas"),
        ("example_slurm", "n1 --wrap=x", "allowed: names joined with commas"),
        ("example_slurm", "-x", "allowed: names joined with commas"),
        ("localhost", "n1", "has no Slurm"),
    ],
)
def test_what_is_no_list_of_as_many_nodes_is_refused(machine, nodes, fault):
    with pytest.raises(InputError, match=f"^--nodelist: .*{fault}"):
        prepare(QUICK, machine, nodelist=nodes)


def test_nodes_of_one_job_cannot_be_pinned(tmp_path):
    site = SITE.replace("same_host", "same_job")
    with pytest.raises(InputError, match="same_job"):
        prepare(QUICK, "box", checkout(tmp_path, CONFIG, site), nodelist="n1")


def campaign(factors: Any = None, **fields: Any) -> Campaign:
    entries = [{"check": "numa", "factors": factors}]
    content = {"name": "x", "workloads": entries, "arms": ["off", "on"]} | fields
    return Campaign.model_validate(content)


def test_levels_that_the_machine_lacks_are_left_out_with_the_reason():
    numa = campaign(factors={"comm_node": [0, 1, 2], "buffer": ["nic", "other"]})
    left, absent = leave_out(numa, host_facts(numa_nodes=2, nic_node=0))
    assert left.cases[0].factors == {"comm_node": [0, 1], "buffer": ["nic", "other"]}
    assert absent == [OmittedCase("numa", "box has 2 NUMA nodes", "comm_node", 2)]
    assert omission_lines(absent) == ["left out (box has 2 NUMA nodes): numa comm_node=2"]
    left, absent = leave_out(numa, host_facts(numa_nodes=2, nic_node=0, memory_nodes=[2]))
    assert (left.cases[0].factors["comm_node"], absent) == ([0, 1, 2], [])


def test_cores_left_to_the_system_are_a_job_of_their_own_where_the_site_allows_them(tmp_path):
    text = (ROOT / "campaigns/throttling_quick.yaml").read_text()
    text = text.replace("rate: [0, 25%, 60%, full]", "core_spec: [0, 1]")
    text = text.replace("  reserved_cores: [0, 1]\n", "")
    assert "reserved_cores" not in text
    (tmp_path / "c.yaml").write_text(text)
    on_slurm, on_localhost = (
        prepare(tmp_path / "c.yaml", name) for name in ("example_slurm", "localhost")
    )
    names = [case.name for case in on_slurm.campaign.cases]
    assert (names, on_slurm.omissions) == (["stream@core_spec=0", "stream@core_spec=1"], [])
    assert [case.name for case in on_localhost.campaign.cases] == names[:1]
    (absent,) = on_localhost.omissions
    assert absent.reason == "core_spec of site/localhost.yaml does not allow it"


def test_a_level_takes_all_its_cells_along_and_a_case_its_last_one():
    factors = {"buffer": ["nic", "other"], "load": ["idle", "read"], "workers": ["nic", "other"]}
    left, _ = leave_out(campaign(factors=factors), host_facts(numa_nodes=1))
    names = [treatment.name for treatment in treatments(["off", "on"], left.cases[0])]
    assert names == ["off", "on", "off@load=read", "on@load=read"]
    # Nothing is left of the levels, or only what `only` does not keep.
    gone = [{"factors": {"buffer": ["other"]}}]
    gone += [{"factors": {"buffer": ["nic", "other"]}, "only": [{"buffer": "other"}]}]
    for more in gone:
        entries = [{"check": "numa", **more}, {"check": "stream"}]
        left, absent = leave_out(campaign(workloads=entries), host_facts(numa_nodes=1))
        assert [case.name for case in left.cases] == ["stream"]
        assert absent == [OmittedCase("numa", "box has 1 NUMA node")]
    with pytest.raises(InputError, match="x: no case is left: numa: box has 1 NUMA node"):
        leave_out(campaign(factors={"buffer": ["other"]}), host_facts(numa_nodes=1))
    # A level that is a case.
    entry = campaign(workloads=[{"check": "y"}]).workloads[0]
    cases = [entry.at_levels(f"comm_node={n}", {"comm_node": n}) for n in (0, 1)]
    at_levels = campaign(factors={}).model_copy(update={"workloads": cases})
    left, absent = leave_out(at_levels, host_facts(numa_nodes=1))
    assert [case.name for case in left.cases] == ["y@comm_node=0"]
    assert absent == [OmittedCase("y@comm_node=1", "box has 1 NUMA node")]


def effects(numa: Campaign) -> list[tuple[object, ...]]:
    """Cells of NUMA's campaign: direction, buffer, load and workers of each effect."""
    case, *_ = numa.cases
    names = ("direction", "buffer", "load", "workers")
    written = [treatment for treatment in treatments(numa.arms, case) if treatment.role == "effect"]
    return sorted(tuple(treatment.factors[name] for name in names) for treatment in written)


def test_the_numa_campaign_has_every_cell_once_on_two_nodes_and_says_what_one_node_lacks():
    request = prepare(ROOT / "campaigns" / "numa.yaml", "example_slurm")
    # Two directions and two places of the buffer; nobody, or three loads with workers in 3 places.
    kinds = ("read", "write", "nt_write")
    loads = [("idle", "nic"), *product(kinds, ("nic", "other", "free"))]
    expected = [
        (*writes, *load)
        for writes in product(("write", "read"), ("nic", "other"))
        for load in loads
    ]
    assert len(expected) == 40
    assert (effects(request.campaign), request.omissions) == (sorted(expected), [])
    one, absent = leave_out(request.campaign, host_facts(numa_nodes=1))
    # One place of the buffer; nobody, or three loads with workers in 2 places.
    assert effects(one) == sorted(cell for cell in expected if "other" not in cell)
    assert len(effects(one)) == 14
    assert [(omitted.factor, omitted.level) for omitted in absent] == [
        ("buffer", "other"), ("workers", "other"), ("buffer", "other"), ("buffer", "other")
    ]  # fmt: skip
