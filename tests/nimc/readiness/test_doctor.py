"""What doctor finds on a host, and how it says so."""

import json
import os
import sys
from dataclasses import asdict, replace
from datetime import datetime
from types import SimpleNamespace

import pytest
import yaml

from conductor.injectors import INJECTORS
from nimc.cli.hosts import diagnosis_text
from nimc.readiness import facts, needs, reframe_config
from nimc.readiness.diagnosis import Diagnosis, examine
from nimc.readiness.finding import HostFinding, gap
from nimc.readiness.matrix import Matrix, MatrixCell
from records.checkout import ROOT
from records.commands import command
from records.errors import InputError, MachineError
from records.machine import site
from records.machine.devices import Device, Port
from records.machine.site import Machine
from records.programs import ProgramAnswer
from records.slurm import client
from reframe_tests.spack.folders import layout
from reframe_tests.spack.settings import SpackSettings
from tests.nimc.checkouts import SITE, checkout, program
from tests.records.machine.made import machine

CONFIG = """
site_configuration = {
    "systems": [{
        "name": "box", "hostnames": [".*"],
        "partitions": [{
            "name": "p", "scheduler": "local", "launcher": "local", "environs": ["e"],
        }],
    }],
    "environments": [{"name": "e", "cc": ""}],
}
"""


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))  # ReFrame leaves a log with this configuration
    return checkout(tmp_path, CONFIG)


def state_of(diagnosis, subject):
    return next(row.state for row in diagnosis.findings if row.what == subject)


def test_a_machine_of_this_checkout(root, monkeypatch):
    monkeypatch.setattr(needs, "tools", lambda: [gap("tool x", "none")])
    checks = facts.checks_in(ROOT / "reframe_tests")  # takes long
    monkeypatch.setattr(facts, "checks_in", lambda _: checks)
    diagnosis = examine("box", root=root)
    assert state_of(diagnosis, "configs/box.py") == state_of(diagnosis, "site/box.yaml") == "ok"
    needed = {row.what for row in diagnosis.findings if row.needed}
    assert {"configs/box.py", "site/box.yaml", "cores", "injector ucx"} <= needed
    assert not any(
        subject.startswith(("tool ", "injector perftest", "RDMA ")) for subject in needed
    )
    record = json.loads(json.dumps(diagnosis.as_dict()))
    for verbose in (False, True):
        assert max(map(len, diagnosis_text(diagnosis, verbose=verbose).splitlines())) <= 80
    assert record["host"]["threads"] == os.cpu_count()
    assert (record["verdict"] == "ready") == (record["why"] == "")
    # STREAM compiles nowhere without a compiler; with one, others still lack their program.
    assert state_of(diagnosis, "environments") == "missing"
    assert "environments" in diagnosis.why
    monkeypatch.setenv("NIMC_REFRAME", "/bin/true")  # ReFrame was asked, which takes long
    config = CONFIG.replace('"cc": ""', '"cc": "sh"')
    (root / "configs" / "box.py").write_text(config)
    diagnosis = examine("box", root=root)
    assert state_of(diagnosis, "environments") == "limited"
    assert "environments" not in diagnosis.why
    (root / "site" / "box.yaml").write_text(SITE + "programs: {cms: /opt/cns}\n")
    rows = examine("box", root=root).findings
    (row,) = (row for row in rows if row.what == "checks")
    assert row.detail.startswith("site/box.yaml: programs.cms: ")
    assert "allowed: MCBenchmark.exe, XSBench, amg, cns, " in row.detail


DIAGNOSIS = Diagnosis(
    "box",
    "",
    [
        HostFinding("python", "ok", "3.11"),
        HostFinding("tool papi:stalls", "ok", "ready"),
        HostFinding("RDMA devices", "limited", "none", "get it"),
        HostFinding("tool papi:caches, papi:hits", "limited", "no such event", "get it"),
    ],
    {},
    Matrix(
        [
            MatrixCell("amg", "p", "e", "no", "no program amg"),
            MatrixCell("amg", "q", "e", "no", "no feature wheels or spack"),
            MatrixCell("cns", "p", "e", "no", "no program cns"),
            MatrixCell("cns", "q", "e", "no", "no feature wheels or modules"),
            MatrixCell("lammps", "p", "e", "yes"),
            MatrixCell("lammps", "q", "e", "unknown", "no module system on this host"),
            MatrixCell("stream", "p", "e", "yes"),
            MatrixCell("stream", "q", "e", "no", "no compiler: 'cc' is empty"),
            MatrixCell("stream", "r", "e", "no", "no compiler: 'cc' is empty"),
        ]
    ),
)


def _shown_text(diagnosis, *, verbose: bool) -> str:
    lines = diagnosis_text(diagnosis, verbose=verbose).splitlines()
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


def test_what_is_limited_is_only_named_on_a_machine_that_is_ready():
    names = "RDMA devices, tool papi:caches, papi:hits"
    assert f"papi:stalls limited: {names} (-v says why" in _shown_text(DIAGNOSIS, verbose=False)


def test_what_works_is_named_and_what_does_not_has_a_line():
    words = _shown_text(replace(DIAGNOSIS, why="no compiler"), verbose=False)
    for fact in (
        "works: python, tool papi:stalls",
        "RDMA devices limited none -> get it",
        "tool papi:caches, limited no such event -> get it papi:hits",
        "p+e: lammps, stream q+e: nothing r+e: nothing",
        "amg, cns on p+e: no program amg, cns",
        "cns on q+e: no feature wheels or modules",
        "stream on q+e, r+e: no compiler: 'cc' is empty",  # once for all places
        "box is not ready: no compiler",
    ):
        assert fact in words
    everything = diagnosis_text(DIAGNOSIS, verbose=True).splitlines()
    assert "python                 ok       3.11" in everything
    assert "lammps on q+e: unknown, no module system on this host" in everything


def test_a_file_that_is_wrong_or_missing_is_a_finding(root, monkeypatch):
    monkeypatch.setattr(needs, "tools", list)
    (root / "site" / "box.yaml").write_text(SITE + "injectr: ucx\n")
    (root / "configs" / "box.py").write_text("site_configuration = {\n")
    node_findings = [gap("locks", "none", needed=True), gap("x", "none")]
    diagnosis = examine("box", node_findings, root)
    # What is not needed is not named.
    assert diagnosis.why == "configs/box.py, site/box.yaml, locks"
    assert any(row.detail.startswith("line 1: ") for row in diagnosis.findings)
    assert any("injectr" in row.detail for row in diagnosis.findings)
    with pytest.raises(InputError, match=r"'bix': neither .* exists; known machines: box$"):
        examine("bix", root=root)


def test_settings_are_those_of_the_configuration_whatever_it_prints(root):
    config = root / "configs/box.py"
    noise = "import warnings; warnings.warn('old key'); print('{}', end='')\n"
    slurm = "import os\nos.environ['SLURM_CONF'] = '/somewhere/slurm.conf'\n"
    config.write_text(slurm + CONFIG + noise)
    read = reframe_config.settings_of(config)
    assert (read.system, read.environment["SLURM_CONF"]) == ("box", "/somewhere/slurm.conf")


def test_a_compiler_without_openmp_is_missing(tmp_path, monkeypatch):
    compiler = program(tmp_path, "mycc", "echo unrecognized option -fopenmp; exit 1")
    monkeypatch.setenv("CC", str(compiler))
    row = needs.c_compiler(needed=True)
    assert (row.state, row.needed) == ("missing", True)
    assert "unrecognized option" in row.detail
    assert "apt install gcc" in row.remedy
    monkeypatch.delenv("CC")
    assert needs.c_compiler(needed=False).state == "ok"


def test_a_configuration_is_what_reframe_accepts(root, monkeypatch):
    def finding():
        row = needs.config_file("box", root / "configs/box.py", box)
        return row.state, row.needed, row.detail

    box = reframe_config.settings_of(root / "configs/box.py")
    answers = [(0, "", ""), (1, "", "ERROR: no such system\n")]
    monkeypatch.setattr(needs, "ask", lambda _: ProgramAnswer("x", *answers.pop(0)))
    assert finding() == ("ok", True, "ReFrame accepts it; partitions: p (local)")
    assert finding() == ("missing", True, "ERROR: no such system")
    monkeypatch.setenv("NIMC_REFRAME", "/nowhere")
    assert finding()[:2] == ("missing", True)
    (root / "configs/box.py").unlink()
    assert finding() == ("missing", True, "no such file")


def test_a_core_is_the_origins_where_it_shares_the_host(monkeypatch):
    monkeypatch.setattr(site.host, "detect", lambda: SimpleNamespace(usable_cores=[0, 2, 4]))
    shared = needs.cores(machine_apart("same_host"))
    assert (shared.state, shared.detail) == ("ok", "application on 0, 2, origin on 4")
    assert needs.cores(machine_apart("hetjob")).detail.startswith("origins are other nodes (hetj")
    monkeypatch.setattr(site.host, "detect", lambda: SimpleNamespace(usable_cores=[0]))
    alone = needs.cores(machine_apart("same_host"))
    assert (alone.state, alone.needed) == ("missing", True)


def test_a_reservation_of_the_origins_must_be_usable_now(monkeypatch):
    def findings(answer):
        def check(_, nodes, needed_s):
            assert (nodes, needed_s) == (1, 0)
            if isinstance(answer, Exception):
                raise answer
            return answer

        monkeypatch.setattr(needs.reservation, "check", check)
        rows = needs.origins(machine_apart(), os.environ)
        return [(finding.state, finding.needed, finding.detail) for finding in rows]

    assert findings(None) == []
    held = SimpleNamespace(end=datetime(2026, 11, 21, 5, 25), accounts=[])
    assert findings(held) == [("ok", True, "reserved until 2026-11-21 05:25")]
    held.accounts = ["proj9"]
    ((state, _, detail),) = findings(held)
    assert (state, detail.partition("; ")[2][:31]) == ("limited", "it is for the account proj9: no")
    assert findings(MachineError("is INACTIVE")) == [("missing", True, "is INACTIVE")]


def test_the_spack_at_hand_is_named_with_its_version_and_what_it_lacks(tmp_path, monkeypatch):
    program(tmp_path / "bin", "spack", "echo 1.1.0")
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path))
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    here = f"1.1.0 at {tmp_path}"
    assert needs.spack("here") == HostFinding("spack", "ok", f"{here}, not set up for here")
    tree = layout("here")
    tree.config.mkdir(parents=True)
    settings = SpackSettings(
        spack=str(tmp_path),
        version="1.1.0",
        pinned=True,
        packages=None,
        machine_file=None,
        mirror=None,
    )
    tree.settings.write_text(json.dumps(asdict(settings)))
    setup = command("spack", "setup", "--machine", "here")
    remedy = f"apt install gfortran, or dnf install gcc-gfortran; then `{setup}`"
    for fortran, state, detail, advice in (
        (tmp_path / "gone", "limited", f"{here}; Spack has no Fortran compiler", remedy),
        (sys.executable, "ok", here, ""),
    ):
        programs = {"c": sys.executable, "cxx": sys.executable, "fortran": str(fortran)}
        gcc = {"spec": "gcc@14.2.0 languages:='c,c++'", "extra_attributes": {"compilers": programs}}
        tree.packages.write_text(yaml.safe_dump({"packages": {"gcc": {"externals": [gcc]}}}))
        assert needs.spack("here") == HostFinding("spack", state, detail, advice)
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path / "none"))
    assert (needs.spack("here").state, needs.spack("here").needed) == ("limited", False)


def machine_apart(policy="reservation", **changes) -> Machine:
    origins = {"policy": policy, "reservation": "nimc" if policy == "reservation" else None}
    return machine(origins=origins, **changes)


def test_what_the_site_file_leaves_open_is_reported_with_its_cost():
    (finding,) = needs.writes(machine_apart(interface="eth0"))
    assert (finding.state, finding.needed) == ("limited", False)
    assert "no device: " in finding.detail
    assert "no nic:" in finding.detail
    assert "no interface" not in finding.detail
    nic = {"model": "QDR", "processing": "onload", "link_rate": "32Gbit/s"}
    (finding,) = needs.writes(machine_apart(interface="eth0", device="mlx5_0", nic=nic))
    assert finding.state == "ok"
    assert "mlx5_0" in finding.detail
    assert "eth0" in finding.detail
    assert needs.writes(machine_apart("same_host")) == []


@pytest.mark.parametrize(("memory", "state"), [("24GiB", "ok"), ("23GiB", "limited")])
def test_half_of_the_memory_must_hold_three_arrays_of_four_times_the_caches(memory, state):
    facts = {"cores": 8, "sockets": 1, "numa_nodes": 1, "llc": "1GiB", "memory": memory}
    finding = needs.memory(machine_apart(facts=facts))
    assert (finding.state, finding.needed) == (state, False)
    assert "STREAM needs 12.00 GiB" in finding.detail
    assert f"{int(memory[:2]) / 2:.2f} of {memory[:2]}.00 GiB" in finding.detail


@pytest.mark.parametrize(("policy", "state"), [("same_host", "missing"), ("hetjob", "limited")])
def test_a_size_of_caches_that_is_unknown_is_to_be_set(monkeypatch, policy, state):
    def unknown(_):
        raise InputError("the size is unknown; allowed: facts: {llc: SIZE}")

    monkeypatch.setattr(Machine, "llc_b", unknown)
    row = needs.memory(machine_apart(policy))
    assert (row.state, row.detail, row.remedy) == (
        state,
        "the size is unknown",
        "set facts: {llc: SIZE}",
    )


PARTITIONS = [
    {"name": "a", "access": ["--partition=a", "--reservation=nimc"]},
    {"name": "b", "access": ["--reservation=nimc2"]},
    {"name": "c"},
]


@pytest.mark.parametrize(
    ("changes", "partitions", "detail", "remedy"),
    [
        ({}, PARTITIONS, "a: access has --reservation=nimc", "remove it from access"),
        ({}, PARTITIONS[1:], None, None),
        ({"policy": "hetjob"}, PARTITIONS, None, None),
        ({"partition": "b"}, PARTITIONS[1:], None, None),
        ({"partition": "d"}, PARTITIONS[1:], "partition d of site/box.yaml", "one of b, c"),
    ],
)
def test_targets_have_a_partition_without_the_origins_reservation(
    changes, partitions, detail, remedy
):
    findings = needs.targets(machine_apart(**changes), partitions)
    if detail is None:
        assert findings == []
        return
    assert [(finding.state, finding.needed, finding.remedy) for finding in findings] == [
        ("missing", True, remedy)
    ]
    assert findings[0].detail.startswith(detail)


@pytest.mark.parametrize(
    ("policy", "expected"), [("same_host", ("missing", True)), ("hetjob", ("limited", False))]
)
def test_an_injector_is_asked_of_the_host_only_where_writers_run_there(
    monkeypatch, policy, expected
):
    lack = "no ib_write_bw: 'apt install x'"
    monkeypatch.setattr(INJECTORS["perftest"], "missing", lambda _device: lack)
    by_subject = {finding.what: finding for finding in needs.injectors(machine_apart(policy))}
    writes = by_subject["injector perftest"]
    assert (writes.state, writes.needed) == expected
    assert writes.detail.startswith("no ib_write_bw")
    assert ("compute nodes must have it" in writes.detail) == (policy == "hetjob")
    assert writes.remedy == "'apt install x'"


def test_targets_that_others_may_share_are_reported(tmp_path, monkeypatch):
    partitions = [
        {"name": "a", "scheduler": "slurm", "access": ["--partition=a"]},
        {"name": "b", "scheduler": "slurm", "access": ["--partition=b", "--exclusive"]},
        {"name": "c", "scheduler": "slurm"},
        {"name": "d", "scheduler": "local"},
        {"name": "e", "scheduler": "slurm", "access": ["-p e"]},
    ]
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    whole = "PartitionName=e Default=NO OverSubscribe=EXCLUSIVE"
    shown = f"PartitionName=a OverSubscribe=NO\n{whole}\n"
    program(tmp_path, "scontrol", f"printf '{shown}'")
    monkeypatch.setenv("PATH", environment["PATH"])
    (row,) = needs.sharing(partitions, environment)
    assert (row.state, row.needed) == ("limited", False)
    assert row.detail.startswith("a, c: access has no --exclusive")
    program(tmp_path, "scontrol", f"printf '{shown}' | sed s/Default=NO/Default=YES/")
    (row,) = needs.sharing(partitions, environment)
    assert row.detail.startswith("a: access has no --exclusive")


@pytest.mark.parametrize(
    ("states", "state"),
    [(["ACTIVE"], "ok"), (["DOWN", "ACTIVE"], "ok"), (["DOWN"], "limited"), ([], "ok")],
)
def test_an_rdma_device_needs_an_active_port_where_it_shows_ports(states, state):
    ports = [Port(n, port_state, "InfiniBand", 25e9) for n, port_state in enumerate(states, 1)]
    here = SimpleNamespace(
        rdma=[
            Device(
                name="mlx5_0", transport="InfiniBand", firmware="1.2", numa_node=None, ports=ports
            )
        ]
    )
    (row,) = needs.rdma(here, machine("hetjob"))
    assert row.detail.endswith("byte counter: none (net/dev: no mlx5_0)")  # not of this host
    assert row.state == state
    assert "firmware 1.2" in row.detail
    if len(states) == 2:
        assert "port 2 ACTIVE 200 Gbit/s" in row.detail
    (none,) = needs.rdma(SimpleNamespace(rdma=[]), machine("hetjob"))
    assert none.state == "limited"


def test_a_tool_has_one_line_if_its_forms_lack_the_same(monkeypatch):
    lack = "counts none of a, b on this host (measure elsewhere)"
    lacks = {"p:x": lack, "p:y": lack, "q": None, "r:x": lack, "r:y": lack, "r:z": None}
    tools = {name: SimpleNamespace(missing=lambda why=why: why) for name, why in lacks.items()}
    monkeypatch.setattr(needs, "TOOLS", tools)
    finding = ("limited", "counts none of a, b on this host", "measure elsewhere")
    assert [(row.what, row.state, row.detail, row.remedy) for row in needs.tools()] == [
        ("tool p", *finding),
        ("tool q", "ok", "ready", ""),
        ("tool r:x, r:y", *finding),
        ("tool r:z", "ok", "ready", ""),
    ]


def test_what_slurm_says_is_not_mixed_with_the_version_of_a_command_that_says_none(monkeypatch):
    """Without slurm.conf `sbatch --version` fails, as `scontrol ping` does."""
    lost = ProgramAnswer("scontrol", 1, "", "scontrol: fatal: no configuration source")
    monkeypatch.setattr(client.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(needs, "version_of", lambda _: None)
    monkeypatch.setattr(client, "ask", lambda *_: lost)
    (row,) = needs.slurm({}, needed=True)
    assert row.detail == "the controller does not answer: scontrol: fatal: no configuration source"
