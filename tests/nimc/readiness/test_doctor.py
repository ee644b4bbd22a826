"""Findings of `nimc doctor` on a host, and how it prints them."""

import json
import os
import sys
from dataclasses import asdict, replace
from datetime import datetime
from functools import cache
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import yaml

from conductor.injectors import INJECTORS
from nimc.cli.hosts import diagnosis_text
from nimc.readiness import facts, needs, reframe_config
from nimc.readiness.diagnosis import Diagnosis, examine
from nimc.readiness.finding import HostFinding, fault_finding
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
from tests.messages import assert_message
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


@cache
def checks_of_this_checkout():
    """Read them once, since that takes long."""
    return facts.checks_in(ROOT / "reframe_tests")


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory):
    """Returns the diagnosis of a machine without a compiler, whose only tool is not ready."""
    folder = tmp_path_factory.mktemp("checkout")
    checks = checks_of_this_checkout()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(needs, "tools", lambda: [fault_finding("tool x", "none")])
        patch.setattr(facts, "checks_in", lambda _: checks)
        return examine("box", root=checkout(folder, CONFIG))


@pytest.fixture
def quick_findings(monkeypatch):
    """Leaves out findings about tools and ReFrame, which take long."""
    checks = checks_of_this_checkout()
    monkeypatch.setattr(needs, "tools", list)
    monkeypatch.setattr(facts, "checks_in", lambda _: checks)
    monkeypatch.setenv("NIMC_REFRAME", "/bin/true")


def finding_of(diagnosis, subject):
    """Return the first finding about a subject."""
    return next(finding for finding in diagnosis.findings if finding.what == subject)


def test_the_files_of_a_machine_of_this_checkout_are_valid(diagnosis):
    for file in ("configs/box.py", "site/box.yaml"):
        assert finding_of(diagnosis, file).state == "ok"


def test_campaigns_need_files_cores_and_their_injector_but_no_tool_or_device(diagnosis):
    needed = {finding.what for finding in diagnosis.findings if finding.needed}
    assert {"configs/box.py", "site/box.yaml", "cores", "injector ucx"} <= needed
    optional = ("tool ", "injector perftest", "RDMA ")
    assert not [subject for subject in needed if subject.startswith(optional)]


@pytest.mark.parametrize("verbose", [False, True])
def test_the_diagnosis_is_80_columns_wide(diagnosis, verbose):
    lines = diagnosis_text(diagnosis, verbose=verbose).splitlines()
    assert max(map(len, lines)) <= 80


def test_the_document_has_facts_of_the_host_and_the_verdict(diagnosis):
    document = json.loads(json.dumps(diagnosis.as_dict()))
    assert document["host"]["threads"] == os.cpu_count()
    assert (document["verdict"], document["why"]) == ("not ready", diagnosis.why)
    ready = replace(diagnosis, why="").as_dict()
    assert (ready["verdict"], ready["why"]) == ("ready", "")


def test_environments_are_missing_if_a_workload_has_no_compiler_anywhere(diagnosis):
    assert finding_of(diagnosis, "environments").state == "missing"
    assert "environments" in diagnosis.why


@pytest.mark.usefixtures("quick_findings")
def test_environments_are_limited_if_workloads_lack_only_their_programs(root):
    config = CONFIG.replace('"cc": ""', '"cc": "sh"')
    (root / "configs" / "box.py").write_text(config)
    diagnosis = examine("box", root=root)
    assert finding_of(diagnosis, "environments").state == "limited"
    assert "environments" not in diagnosis.why


@pytest.mark.usefixtures("quick_findings")
def test_a_program_of_the_site_file_that_no_check_runs_is_named(root):
    (root / "site" / "box.yaml").write_text(SITE + "programs: {cms: /opt/cns}\n")
    finding = finding_of(examine("box", root=root), "checks")
    location = "site/box.yaml: programs.cms"
    assert_message(finding.detail, location, allowed="MCBenchmark.exe, XSBench, amg, cns, ")


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
            MatrixCell("lammps", "q", "e", "unknown", "no module system that answers on this host"),
            MatrixCell("stream", "p", "e", "yes"),
            MatrixCell("stream", "q", "e", "no", "no compiler: 'cc' is empty"),
            MatrixCell("stream", "r", "e", "no", "no compiler: 'cc' is empty"),
        ]
    ),
)


def words_of(diagnosis, *, verbose: bool) -> str:
    """Return the text of a diagnosis in one line."""
    lines = diagnosis_text(diagnosis, verbose=verbose).splitlines()
    assert max(map(len, lines)) <= 80
    return " ".join(" ".join(lines).split())


def test_limited_findings_are_only_named_if_the_machine_is_ready():
    words = words_of(DIAGNOSIS, verbose=False)
    assert "limited: RDMA devices, tool papi:caches, papi:hits (-v" in words
    assert "no such event" not in words


def test_the_limits_that_a_job_has_found_have_a_line():
    limit = HostFinding("writes by mpi_put", "limited", "no PMI", "make it anew")
    ready = replace(DIAGNOSIS, findings=[*DIAGNOSIS.findings, limit])
    words = " ".join(diagnosis_text(ready, [limit], verbose=False).split())
    assert "tool papi:caches, papi:hits (-v" in words
    assert "writes by mpi_put limited no PMI -> make it anew" in words


def test_findings_that_are_ok_are_named_and_others_have_a_line():
    words = words_of(replace(DIAGNOSIS, why="no compiler"), verbose=False)
    for shown in (
        "works: python, tool papi:stalls",
        "RDMA devices limited none -> get it",
        "tool papi:caches, limited no such event -> get it papi:hits",
        "p+e: lammps, stream q+e: nothing r+e: nothing",
        "amg, cns on p+e: no program amg, cns",
        "cns on q+e: no feature wheels or modules",
        "stream on q+e, r+e: no compiler: 'cc' is empty",  # one line for all environments
        "box is not ready: no compiler",
    ):
        assert shown in words


def test_verbose_has_a_line_for_each_finding():
    lines = diagnosis_text(DIAGNOSIS, verbose=True).splitlines()
    assert "python                 ok       3.11" in lines
    assert "lammps on q+e: unknown, no module system that answers on this host" in lines


@pytest.mark.usefixtures("quick_findings")
def test_invalid_files_and_needed_findings_keep_a_machine_from_being_ready(root):
    (root / "site" / "box.yaml").write_text(SITE + "injectr: ucx\n")
    (root / "configs" / "box.py").write_text("site_configuration = {\n")
    node_findings = [fault_finding("locks", "none", needed=True), fault_finding("x", "none")]
    diagnosis = examine("box", node_findings, root)
    assert diagnosis.why == "configs/box.py, site/box.yaml, locks"
    assert finding_of(diagnosis, "configs/box.py").detail.startswith("line 1: ")
    assert "injectr" in finding_of(diagnosis, "site/box.yaml").detail


@pytest.mark.usefixtures("quick_findings")
def test_a_configuration_that_runs_and_breaks_reframe_s_schema_is_a_finding(root):
    """`env_vars` of a partition is a list of pairs, not a mapping."""
    config = CONFIG.replace('"launcher"', '"env_vars": {"OMP_NUM_THREADS": "4"}, "launcher"', 1)
    assert config != CONFIG
    (root / "configs" / "box.py").write_text(config)
    diagnosis = examine("box", root=root)
    assert "configs/box.py" in diagnosis.why
    assert "OMP_NUM_THREADS" in finding_of(diagnosis, "configs/box.py").detail


@pytest.mark.usefixtures("quick_findings")
@pytest.mark.parametrize(
    ("missing", "left"), [("configs/box.py", "site/box.yaml"), ("site/box.yaml", "configs/box.py")]
)
def test_a_machine_with_one_of_its_files_is_not_copied_from_the_example(root, missing, left):
    (root / missing).unlink()
    finding = finding_of(examine("box", root=root), missing)
    assert (finding.state, finding.needed) == ("missing", True)
    assert f"remove {left} " in finding.remedy
    assert "nimc init box" in finding.remedy
    assert "example" not in finding.remedy


def test_a_machine_without_files_is_refused_with_the_known_ones(root):
    with pytest.raises(InputError, match=r"'bix'.*: box; for a new cluster: "):
        examine("bix", root=root)


def test_settings_are_read_from_a_configuration_that_prints_text(root):
    config = root / "configs/box.py"
    variable = "import os\nos.environ['SLURM_CONF'] = '/somewhere/slurm.conf'\n"
    output = "import warnings; warnings.warn('old key'); print('{}', end='')\n"
    config.write_text(variable + CONFIG + output)
    settings = reframe_config.settings_of(config)
    assert settings.system == "box"
    assert settings.environment["SLURM_CONF"] == "/somewhere/slurm.conf"


def test_a_compiler_without_openmp_is_missing(tmp_path, monkeypatch):
    compiler = program(tmp_path, "mycc", "echo unrecognized option -fopenmp; exit 1")
    monkeypatch.setenv("CC", str(compiler))
    finding = needs.c_compiler(needed=True)
    assert (finding.state, finding.needed) == ("missing", True)
    assert "unrecognized option" in finding.detail
    assert "apt install gcc" in finding.remedy


def test_a_compiler_whose_programs_may_not_run_needs_another_folder(tmp_path, monkeypatch):
    """On a file system that is mounted noexec, execve(2) fails with EACCES.

    The stand-in makes a program without permission to execute, which fails in the same way.
    """
    compiler = program(tmp_path, "mycc", 'for last; do :; done; : >"$last"')
    monkeypatch.setenv("CC", str(compiler))
    finding = needs.c_compiler(needed=True)
    assert finding.detail.startswith("its program fails: Permission denied (is ")
    assert finding.remedy.startswith("set TMPDIR ")


def test_the_compiler_of_this_host_makes_openmp_programs(monkeypatch):
    monkeypatch.delenv("CC", raising=False)
    assert needs.c_compiler(needed=False).state == "ok"


@pytest.fixture
def config_finding(root):
    """Return a function: state, need and detail of the finding about the configuration."""
    config = root / "configs/box.py"
    settings = reframe_config.settings_of(config)

    def find():
        finding = needs.config_file("box", config, settings)
        return finding.state, finding.needed, finding.detail

    return find


def test_settings_of_a_sites_reframe_do_not_count(root, tmp_path, monkeypatch):
    """ReFrame reads `settings.py` of each folder in RFM_CONFIG_PATH, even with the option -C."""
    (tmp_path / "settings.py").write_text("raise RuntimeError('no $SCRATCH')\n")
    monkeypatch.setenv("RFM_CONFIG_PATH", str(tmp_path))
    config = root / "configs/box.py"
    finding = needs.config_file("box", config, reframe_config.settings_of(config))
    assert finding.state == "ok", finding.detail


@pytest.mark.parametrize(
    ("answer", "state", "shown"),
    [
        (ProgramAnswer("x", 0, "", ""), "ok", "p (local)"),
        (ProgramAnswer("x", 1, "", "ERROR: no such system\n"), "missing", "ERROR: no such system"),
    ],
)
def test_a_configuration_is_valid_if_reframe_accepts_it(
    config_finding, monkeypatch, answer, state, shown
):
    monkeypatch.setattr(needs, "ask", lambda *_: answer)
    found_state, needed, detail = config_finding()
    assert (found_state, needed) == (state, True)
    assert detail.endswith(shown)


def test_without_reframe_or_its_file_a_configuration_is_missing(config_finding, root, monkeypatch):
    monkeypatch.setenv("NIMC_REFRAME", "/nowhere")
    state, needed, detail = config_finding()
    assert (state, needed) == ("missing", True)
    assert "/nowhere" in detail
    (root / "configs/box.py").unlink()
    state, needed, detail = config_finding()
    assert (state, needed) == ("missing", True)
    assert "/nowhere" not in detail


@pytest.mark.parametrize(
    ("cpus", "policy", "state", "shown"),
    [
        ([0, 2, 4], "same_host", "ok", ["0, 2", "origin on 4"]),
        ([0, 2, 4], "hetjob", "ok", ["hetjob"]),
        ([0], "same_host", "missing", []),
    ],
)
def test_an_origin_on_the_targets_host_takes_a_core(monkeypatch, cpus, policy, state, shown):
    monkeypatch.setattr(site.host, "detect", lambda: SimpleNamespace(usable_cores=cpus))
    finding = needs.cores(machine(policy))
    assert (finding.state, finding.needed) == (state, True)
    assert all(words in finding.detail for words in shown)


#: Origins of a site file with a reservation.
RESERVED = {"policy": "reservation", "reservation": "nimc"}


@pytest.fixture
def origins_findings(monkeypatch):
    """Return a function that gives the findings about origins in a reservation.

    Its argument is the reservation, or an error that is raised instead.
    """

    def find(current):
        def check(_machine, nodes, needed_s):
            assert (nodes, needed_s) == (1, 0)
            if isinstance(current, Exception):
                raise current
            return current

        monkeypatch.setattr(needs.reservation, "check", check)
        return needs.origins(machine(origins=RESERVED), [], os.environ)

    return find


def test_a_usable_reservation_is_shown_with_its_end(origins_findings):
    assert origins_findings(None) == []
    current = SimpleNamespace(end=datetime(2026, 11, 21, 5, 25), accounts=[])
    (finding,) = origins_findings(current)
    assert (finding.state, finding.needed) == ("ok", True)
    assert "2026-11-21 05:25" in finding.detail


def test_a_reservation_for_an_account_is_limited(origins_findings):
    current = SimpleNamespace(end=datetime(2026, 11, 21, 5, 25), accounts=["proj9"])
    (finding,) = origins_findings(current)
    assert (finding.state, finding.needed) == ("limited", True)
    assert "proj9" in finding.detail


def test_a_reservation_that_is_not_usable_now_is_missing(origins_findings):
    (finding,) = origins_findings(MachineError("is INACTIVE"))
    assert (finding.state, finding.needed) == ("missing", True)
    assert finding.detail == "is INACTIVE"


def test_origins_whose_reservation_has_no_name_are_not_told_to_create_it():
    """`nimc origins create` needs the name, too."""
    (finding,) = needs.origins(machine(origins={"policy": "reservation"}), [], os.environ)
    assert "origins.reservation: missing" in finding.detail
    assert finding.remedy == ""


@pytest.fixture
def spack_root(tmp_path, monkeypatch):
    """Returns the folder of a stand-in for Spack 1.1.0, which only prints its version."""
    program(tmp_path / "bin", "spack", "echo 1.1.0")
    monkeypatch.setenv("SPACK_ROOT", str(tmp_path))
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "state"))
    return tmp_path


def set_up_spack(spack_root, fortran):
    """Write the files of `nimc spack setup` for the machine `box`, with a Fortran compiler."""
    tree = layout("box")
    tree.config.mkdir(parents=True)
    settings = SpackSettings(
        spack=str(spack_root),
        version="1.1.0",
        pinned=True,
        packages=None,
        machine_file=None,
        mirror=None,
    )
    tree.settings_file.write_text(json.dumps(asdict(settings)))
    programs = {"c": sys.executable, "cxx": sys.executable, "fortran": str(fortran)}
    gcc = {"spec": "gcc@14.2.0 languages:='c,c++'", "extra_attributes": {"compilers": programs}}
    tree.host_packages_file.write_text(yaml.safe_dump({"packages": {"gcc": {"externals": [gcc]}}}))


def test_a_spack_that_is_not_set_up_is_named_with_its_version(spack_root):
    finding = needs.spack("box")
    assert finding.state == "ok"
    assert finding.detail.startswith(f"1.1.0 at {spack_root}, ")
    assert "box" in finding.detail


def test_a_spack_that_is_set_up_is_named_with_its_version(spack_root):
    set_up_spack(spack_root, fortran=sys.executable)
    assert needs.spack("box") == HostFinding("spack", "ok", f"1.1.0 at {spack_root}")


@pytest.mark.usefixtures("spack_root")
def test_a_spack_that_was_set_up_and_removed_is_limited_beside_another(tmp_path):
    """Builds use the Spack of the setup, such as a clone in a cache, not the one of SPACK_ROOT."""
    set_up_spack(tmp_path / "clone", fortran=sys.executable)
    finding = needs.spack("box")
    assert (finding.state, finding.detail) == (
        "limited",
        f"{tmp_path}/clone/bin/spack: no such file",
    )


def test_a_spack_whose_fortran_compiler_is_gone_is_limited(spack_root):
    set_up_spack(spack_root, fortran=spack_root / "gone")
    finding = needs.spack("box")
    assert (finding.state, finding.needed) == ("limited", False)
    assert finding.detail.startswith(f"1.1.0 at {spack_root}; ")
    assert "Fortran" in finding.detail
    assert "apt install gfortran" in finding.remedy
    assert f"`{command('spack', 'setup', '--machine', 'box')}`" in finding.remedy


def test_a_folder_without_spack_is_limited(spack_root, monkeypatch):
    monkeypatch.setenv("SPACK_ROOT", str(spack_root / "none"))
    finding = needs.spack("box")
    assert (finding.state, finding.needed) == ("limited", False)


def test_keys_about_writes_that_the_site_file_lacks_are_named():
    (finding,) = needs.keys_of_writes(machine(interface="eth0"))
    assert (finding.state, finding.needed) == ("limited", False)
    assert "no device: " in finding.detail
    assert "no nic:" in finding.detail
    assert "interface:" not in finding.detail


def test_a_site_file_with_all_keys_about_writes_is_ok():
    nic = {"model": "QDR", "processing": "onload", "link_rate": "32Gbit/s"}
    (finding,) = needs.keys_of_writes(machine(interface="eth0", device="mlx5_0", nic=nic))
    assert finding.state == "ok"
    assert "mlx5_0" in finding.detail
    assert "eth0" in finding.detail


def test_writes_within_a_host_need_no_keys():
    assert needs.keys_of_writes(machine("same_host")) == []


@pytest.mark.parametrize(
    ("memory", "state", "shown"),
    [("24GiB", "ok", "12.00 of 24.00 GiB"), ("23GiB", "limited", "11.50 of 23.00 GiB")],
)
def test_half_of_the_memory_must_hold_three_arrays_of_four_times_the_caches(memory, state, shown):
    host_facts = {"cores": 8, "sockets": 1, "numa_nodes": 1, "llc": "1GiB", "memory": memory}
    finding = needs.memory(machine(facts=host_facts))
    assert (finding.state, finding.needed) == (state, False)
    assert "12.00 GiB (" in finding.detail
    assert shown in finding.detail


@pytest.mark.parametrize(("policy", "state"), [("same_host", "missing"), ("hetjob", "limited")])
def test_an_unknown_size_of_the_caches_must_be_set(monkeypatch, policy, state):
    def unknown(_):
        raise InputError("the size is unknown; allowed: facts: {llc: SIZE}")

    monkeypatch.setattr(Machine, "llc_b", unknown)
    finding = needs.memory(machine(policy))
    assert (finding.state, finding.detail) == (state, "the size is unknown")
    assert finding.remedy.endswith("facts: {llc: SIZE}")


PARTITIONS = [
    {"name": "a", "access": ["--partition=a", "--reservation=nimc"]},
    {"name": "b", "access": ["--reservation=nimc2"]},
    {"name": "c"},
]


def test_a_partition_in_the_origins_reservation_cannot_be_used_for_targets():
    (finding,) = needs.targets(machine(origins=RESERVED), PARTITIONS)
    assert (finding.state, finding.needed) == ("missing", True)
    assert finding.detail.startswith("a: ")
    assert "--reservation=nimc" in finding.detail
    assert "access" in finding.remedy


def test_a_partition_that_the_configuration_lacks_cannot_be_used_for_targets():
    targets = machine(origins=RESERVED, partition="d")
    (finding,) = needs.targets(targets, PARTITIONS[1:])
    assert (finding.state, finding.needed) == ("missing", True)
    assert "partition d of site/box.yaml" in finding.detail
    assert finding.remedy.endswith(" b, c")


@pytest.mark.parametrize(
    ("targets", "partitions"),
    [
        (machine(origins=RESERVED), PARTITIONS[1:]),
        (machine(origins=RESERVED, partition="b"), PARTITIONS[1:]),
        (machine("hetjob"), PARTITIONS),
    ],
)
def test_other_partitions_can_be_used_for_targets(targets, partitions):
    assert needs.targets(targets, partitions) == []


@pytest.mark.parametrize(
    ("policy", "state", "needed"),
    [("same_host", "missing", True), ("hetjob", "limited", False)],
)
def test_an_injector_is_needed_on_this_host_only_if_writers_run_here(
    monkeypatch, policy, state, needed
):
    fault = "no ib_write_bw: 'apt install x'"
    monkeypatch.setattr(INJECTORS["perftest"], "why_missing", lambda _device: fault)
    findings = {finding.what: finding for finding in needs.injectors(machine(policy))}
    perftest = findings["injector perftest"]
    assert (perftest.state, perftest.needed) == (state, needed)
    assert perftest.detail.startswith("no ib_write_bw")
    assert ("compute nodes" in perftest.detail) == (not needed)
    assert perftest.remedy == "'apt install x'"


def test_a_doubt_about_a_program_is_one_finding_unless_a_job_tried_it(monkeypatch):
    """The four directions of mpi_put are one program with one launcher."""
    for name, injector in INJECTORS.items():
        monkeypatch.setattr(injector, "why_missing", lambda _device: None)
        if name.startswith("mpi_put"):
            monkeypatch.setattr(injector, "doubt", lambda: "mpiexec stays here: make it anew")
    before = needs.injectors(machine("hetjob"))
    (finding,) = [finding for finding in before if finding.state != "ok"]
    names = "injector mpi_put, mpi_put_read, mpi_put_both, mpi_put_receive"
    assert finding == HostFinding(names, "limited", "mpiexec stays here", "make it anew")
    assert {finding.what for finding in before} >= {"injector ucx", "injector ucx_read"}
    tried = [HostFinding("writes by mpi_put", "ok", "11 GB/s")]
    after = needs.injectors(machine("hetjob"), tried)
    assert [finding for finding in before if finding.state == "ok"] == after


SLURM_PARTITIONS = [
    {"name": "a", "scheduler": "slurm", "access": ["--partition=a"]},
    {"name": "b", "scheduler": "slurm", "access": ["--partition=b", "--exclusive"]},
    {"name": "c", "scheduler": "slurm"},
    {"name": "d", "scheduler": "local"},
    {"name": "e", "scheduler": "slurm", "access": ["-p e"]},
]


@pytest.mark.parametrize(("default", "shared"), [("NO", "a, c: "), ("YES", "a: ")])
def test_partitions_whose_jobs_may_share_a_target_are_named(tmp_path, monkeypatch, default, shared):
    """`e` gives whole nodes. `c` names no partition, so it uses `e` if that is Slurm's default."""
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    monkeypatch.setenv("PATH", environment["PATH"])
    partition_a = "PartitionName=a OverSubscribe=NO"
    partition_e = f"PartitionName=e Default={default} OverSubscribe=EXCLUSIVE"
    program(tmp_path, "scontrol", f"printf '{partition_a}\n{partition_e}\n'")
    (finding,) = needs.sharing(SLURM_PARTITIONS, environment)
    assert (finding.state, finding.needed) == ("limited", False)
    assert finding.detail.startswith(shared)
    assert "--exclusive" in finding.detail


@pytest.mark.parametrize(
    ("mode", "shared"),
    [("FORCE:4", ["b"]), ("FORCE:1", []), ("YES:4", []), ("NO", []), ("EXCLUSIVE", [])],
)
def test_a_partition_may_ignore_that_a_job_asks_for_whole_nodes(
    tmp_path, monkeypatch, mode, shared
):
    """In _resolve_shared_status() of slurmctld, this is so if `FORCE` allows several jobs."""
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    monkeypatch.setenv("PATH", environment["PATH"])
    program(tmp_path, "scontrol", f"echo 'PartitionName=b OverSubscribe={mode} TotalCPUs=8'")
    findings = needs.sharing(SLURM_PARTITIONS[1:2], environment)
    assert [finding.detail.partition(":")[0] for finding in findings] == shared
    assert all("OverSubscribe=FORCE" in finding.detail for finding in findings)


@pytest.mark.parametrize(
    ("port_states", "state"),
    [(["ACTIVE"], "ok"), (["DOWN", "ACTIVE"], "ok"), (["DOWN"], "limited"), ([], "ok")],
)
def test_an_rdma_device_that_shows_ports_needs_an_active_one(port_states, state):
    ports = [
        Port(number, port_state, "InfiniBand", 25e9)
        for number, port_state in enumerate(port_states, 1)
    ]
    device = Device(
        name="mlx5_0", transport="InfiniBand", firmware="1.2", numa_node=None, ports=ports
    )
    (finding,) = needs.rdma(SimpleNamespace(rdma=[device]), machine("hetjob"))
    assert finding.state == state
    assert "firmware 1.2" in finding.detail
    for port in ports:
        assert f"port {port.number} {port.state} 200 Gbit/s" in finding.detail


def test_a_device_that_is_not_counted_here_is_shown_with_the_reason():
    device = Device(name="mlx5_0", transport="InfiniBand", firmware="1.2", numa_node=None, ports=[])
    (finding,) = needs.rdma(SimpleNamespace(rdma=[device]), machine("hetjob"))
    assert finding.detail.endswith("byte counter: none (net/dev: no mlx5_0)")


def test_a_host_without_rdma_devices_is_limited():
    (finding,) = needs.rdma(SimpleNamespace(rdma=[]), machine("hetjob"))
    assert finding.state == "limited"


def test_a_tool_has_one_line_if_all_its_forms_have_the_same_fault(monkeypatch):
    fault = "counts none of a, b on this host (measure elsewhere)"
    faults = {"p:x": fault, "p:y": fault, "q": None, "r:x": fault, "r:y": fault, "r:z": None}
    tools = {name: Mock(why_missing=Mock(return_value=fault)) for name, fault in faults.items()}
    monkeypatch.setattr(needs, "TOOLS", tools)
    limited = ("limited", "counts none of a, b on this host", "measure elsewhere")
    assert [(row.what, row.state, row.detail, row.remedy) for row in needs.tools()] == [
        ("tool p", *limited),
        ("tool q", "ok", "ready", ""),
        ("tool r:x, r:y", *limited),
        ("tool r:z", "ok", "ready", ""),
    ]


def test_an_unknown_version_of_slurm_is_not_printed_beside_slurms_error(monkeypatch):
    """Without slurm.conf, both `sbatch --version` and `scontrol ping` fail."""
    message = "scontrol: fatal: no configuration source"
    answer = ProgramAnswer("scontrol", 1, "", message)
    monkeypatch.setattr(client.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(needs, "version_of", lambda _: None)
    monkeypatch.setattr(client, "ask", lambda *_: answer)
    (finding,) = needs.slurm({}, needed=True, schedulers={"slurm"}, policy="same_job")
    assert finding.detail.endswith(f": {message}")
    assert "None" not in finding.detail


@pytest.mark.parametrize("file", ["gone/slurm.conf", ""])
def test_slurm_is_not_asked_if_its_configuration_file_is_gone(tmp_path, monkeypatch, file):
    """Each of its commands, even for its version, waits for the file for a minute (22.05.8)."""
    for name in client.REQUIRED_COMMANDS:
        program(tmp_path, name, f"touch {tmp_path}/started")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    path = str(tmp_path / file) if file else ""
    environment = {**os.environ, "SLURM_CONF": path}
    (finding,) = needs.slurm(environment, needed=True, schedulers={"slurm"}, policy="same_job")
    assert finding.state == "missing"
    assert finding.detail.startswith(f"SLURM_CONF names '{path}'")
    assert "`unset SLURM_CONF`" in finding.detail
    # Without an answer, nothing is known about whole nodes.
    assert needs.sharing(SLURM_PARTITIONS, environment) == []
    assert not (tmp_path / "started").exists()
    (tmp_path / "slurm.conf").touch()
    assert client.ask(["scontrol"], environment | {"SLURM_CONF": str(tmp_path / "slurm.conf")}).ok
    assert (tmp_path / "started").exists()


def test_without_slurm_on_path_the_remedy_is_named(tmp_path, monkeypatch):
    """`nimc plan` and `nimc run` print the detail only."""
    program(tmp_path, "sbatch", "true")
    monkeypatch.setenv("PATH", str(tmp_path))
    (finding,) = needs.slurm({}, needed=True, schedulers={"slurm"}, policy="same_job")
    assert finding.detail.startswith("no srun, scontrol, sacct on PATH; ")
    assert "module" in finding.detail


@pytest.mark.parametrize(
    ("scheduler", "policy", "state", "words"),
    [
        ("slurm", "same_job", "missing", "Slurm accounting storage is disabled"),
        ("squeue", "same_job", "ok", "job states come from the queue"),
        # ReFrame looks for the id of the job, but squeue lists its components as ID+0 and ID+1.
        ("squeue", "hetjob", "missing", "(hetjob)"),
    ],
)
def test_without_accounting_job_states_come_from_the_queue(
    monkeypatch, scheduler, policy, state, words
):
    def ask(command, _):
        if command[0] == "sacct":
            return ProgramAnswer("sacct", 1, "", "Slurm accounting storage is disabled")
        return ProgramAnswer(command[0], 0, "Slurmctld(primary) at ctl is UP", "")

    monkeypatch.setattr(client.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(needs, "version_of", lambda _: "slurm 24.05.4")
    monkeypatch.setattr(client, "ask", ask)
    (finding,) = needs.slurm({}, needed=True, schedulers={scheduler}, policy=policy)
    assert (finding.state, words in finding.detail) == (state, True)
    assert (state == "ok") or "same_job in site/" in finding.remedy
