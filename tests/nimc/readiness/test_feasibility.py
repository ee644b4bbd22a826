"""`nimc plan`, `nimc run` and `nimc doctor` name the same fault of a machine.

Each machine here has a deliberate fault.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from nimc.campaign.request import load_request
from nimc.cli import hosts, plan, run
from nimc.readiness.diagnosis import examine
from nimc.readiness.finding import fault_finding
from nimc.readiness.node_findings import save_missing
from records.machine.site import load
from reframe_tests.factors import why_missing
from tests.nimc.checkouts import SITE, checkout, program

CONFIG = """
site_configuration = {
    "systems": [{"name": "box", "hostnames": ["box"], "modules_system": "nomod", "partitions": [
        {"name": "p", "scheduler": "local", "launcher": "local", "environs": ["e"]},
    ]}],
    "environments": [{"name": "e", "cc": "sh", "features": ["wheels"]}],
}
"""
STREAM = "{check: stream, expect: 1s}"
LAMMPS = "{check: lammps, expect: 1s}"
FOUR_NODES = "{check: lammps_scaling, expect: 1s, set: {nodes: 4}}"
#: Command of Slurm -> shell code that prints what Slurm prints.
ANSWERS = {
    "sbatch": "echo slurm 22.05.8",
    "srun": "echo slurm 22.05.8",
    "sacct": "true",
    "sinfo": "printf 'n1 idle\\nn2 idle\\n'",
    "scontrol": 'case "$*" in *reservation*) echo "Reservation nimc not found"; exit 1;;'
    " *) echo 'Slurmctld(primary) at head is UP';; esac",
}


@dataclass(frozen=True, kw_only=True)
class FaultyMachine:
    """A machine with a fault, and how commands report it."""

    #: Changes of the configuration and of the site file: old text -> new text.
    config: Mapping[str, str] = field(default_factory=dict)
    site: Mapping[str, str] = field(default_factory=dict)
    #: Commands of Slurm with other answers than in `ANSWERS`; None: the command is missing.
    answers: Mapping[str, str | None] = field(default_factory=dict)
    workload: str = STREAM
    #: Text that all three commands print; empty if the machine has no fault.
    fault: str
    #: Exit status of `plan`, `run` and `doctor`.
    plan_status: int = 1
    run_status: int = 3
    doctor_status: int = 3


SLURM = {'"scheduler": "local"': '"scheduler": "slurm", "access": ["-p batch"]'}
ONE_JOB = {"same_host": "same_job"}
HETJOB = {"{policy: same_host}": "{policy: hetjob, partition: rest}"}
HETJOB_IN_BATCH = {"{policy: same_host}": "{policy: hetjob, partition: batch}"}
RESERVED = {"{policy: same_host}": "{policy: reservation, reservation: nimc}"}
ONLY_BATCH = 'case "$*" in *batch*) echo "n1 idle";; esac'
MACHINES = {
    "no compiler": FaultyMachine(config={'"sh"': '"hiscc"'}, fault="no compiler hiscc"),
    "no program": FaultyMachine(
        site={"injector": "programs: {lmp: /none/lmp}\ninjector"},
        workload=LAMMPS,
        fault="no program /none/lmp",
        doctor_status=0,
    ),
    "no mpicc": FaultyMachine(site={"ucx": "mpi_put"}, fault="mpi_put is missing"),
    "no injector": FaultyMachine(site={"ucx": "perftest"}, fault="ib_write_bw is missing"),
    "unknown device": FaultyMachine(
        site={"injector": "device: mlx5_9\ninjector"}, fault="device mlx5_9"
    ),
    "no Spack": FaultyMachine(
        config={'"wheels"': '"spack"'},
        workload="{check: hpccg, expect: 5s}",
        fault="Spack is not set up for box",
    ),
    "one host": FaultyMachine(
        workload=FOUR_NODES, fault="origins and target of box share one host", doctor_status=0
    ),
    "too few nodes": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        workload=FOUR_NODES,
        fault="5 nodes needed, 2 usable in partition batch",
        doctor_status=0,
    ),
    "too few nodes for targets and origins": FaultyMachine(
        config=SLURM,
        site=HETJOB_IN_BATCH,
        answers={"sinfo": "printf 'n1 idle\\nn2 idle\\nn3 mixed\\nn4 idle\\nn5 down\\n'"},
        workload=FOUR_NODES,
        fault="5 nodes needed (4 targets, 1 origin), 4 usable in partition batch; not usable: n5",
        doctor_status=0,
    ),
    "one node for target and origin": FaultyMachine(
        config=SLURM,
        site=HETJOB_IN_BATCH,
        answers={"sinfo": "printf 'n1 idle\\n'"},
        fault="2 nodes needed (1 target, 1 origin), 1 usable in partition batch",
    ),
    # Two partitions may have a node in common.
    "one node in both partitions": FaultyMachine(
        config=SLURM,
        site=HETJOB,
        answers={"sinfo": "printf 'n1 idle\\n'"},
        fault="2 nodes needed (1 target, 1 origin), 1 usable in partition batch or partition rest",
    ),
    "one node for a job with its origin": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        answers={"sinfo": "printf 'n1 idle\\n'"},
        fault="2 nodes needed, 1 usable in partition batch",
    ),
    "nodes are down": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        answers={"sinfo": "printf 'n1 down\\nn2 drained\\n'"},
        fault="not usable: n1 (down), n2 (drained)",
    ),
    "no partition in Slurm": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        answers={"sinfo": "true"},
        fault="Slurm lists none in partition batch",
    ),
    "no partition in configs": FaultyMachine(
        site={"injector": "partition: q\ninjector"},
        fault="partition",
        plan_status=2,
        run_status=2,
    ),
    "no origin": FaultyMachine(
        config=SLURM,
        site=HETJOB,
        answers={"sinfo": ONLY_BATCH},
        fault="Slurm lists none in partition rest",
    ),
    "no reservation": FaultyMachine(
        config=SLURM, site=RESERVED, fault="reservation nimc does not exist"
    ),
    "no Slurm": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        answers=dict.fromkeys(ANSWERS),
        fault="no sbatch, srun, scontrol",
    ),
    "Slurm is down": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        answers={"scontrol": "echo 'head is DOWN'"},
        fault="the controller does not answer",
    ),
    "no accounting": FaultyMachine(
        config=SLURM,
        site=ONE_JOB,
        answers={"sacct": "echo accounting is disabled; exit 1"},
        fault="accounting is disabled",
    ),
    "nothing": FaultyMachine(fault="", plan_status=0, run_status=0, doctor_status=0),
}


def changed(text: str, changes: Mapping[str, str]) -> str:
    """Return a text with replacements, of texts that occur once."""
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns a folder for a checkout. Only programs in its `bin` are found.

    These include a ReFrame that does nothing, but no Slurm.
    """
    programs = tmp_path / "bin"
    reframe = program(programs, "reframe", 'case "$*" in *" -r "*) touch "$0.ran";; esac')
    program(programs, "ucx_perftest", "true")
    for name in ("sh", "cat", "cc", "true"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("NIMC_REFRAME", str(reframe))
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "spack"))
    monkeypatch.setattr("conductor.injectors.mpi_put.SOURCE_FOLDER", tmp_path)
    monkeypatch.setattr("records.processes.become_subreaper", lambda: None)
    # Answers from other tests are not remembered.
    monkeypatch.setattr("reframe_tests.factors.why_missing", why_missing.__wrapped__)
    # Tools take long to examine.
    monkeypatch.setattr("nimc.readiness.needs.tools", list)
    monkeypatch.setattr(hosts, "examine", partial(examine, root=tmp_path))
    for command in (plan, run):
        monkeypatch.setattr(command, "load_request", partial(load_request, root=tmp_path))
    return tmp_path


def write_campaign(folder: Path, workload: str) -> Path:
    arms = "[off, constant]" if workload == FOUR_NODES else "[off, on]"
    path = folder / "c.yaml"
    path.write_text(
        f"name: c\nworkloads: [{workload}]\narms: {arms}\npairs: {{floor: 6, cap: 6}}\n"
    )
    return path


def write_machine(folder: Path, machine: FaultyMachine) -> None:
    """Write the files of a machine, and Slurm's programs if it has Slurm."""
    checkout(folder, changed(CONFIG, machine.config), changed(SITE, machine.site))
    answers = {**ANSWERS, **machine.answers} if machine.config == SLURM else {}
    for name, answer in answers.items():
        if answer is not None:
            program(folder / "bin", name, answer)


@pytest.mark.parametrize("machine", MACHINES.values(), ids=MACHINES)
def test_plan_run_and_doctor_agree(folder, command, machine):
    write_machine(folder, machine)
    campaign = write_campaign(folder, machine.workload)

    # The plan shows the fault, unless the campaign cannot be planned at all.
    if machine.plan_status == 2:
        command("plan", campaign, "--machine", "box", code=2)
        assert machine.fault in command.err
    else:
        document = command.json("plan", campaign, "--machine", "box", code=machine.plan_status)
        assert bool(document["why"]) == (machine.plan_status == 1)
        assert machine.fault in document["why"]

    # `nimc run` ends with the fault in one line, before it makes any file.
    if machine.fault:
        results = folder / "results"
        words = ("run", campaign, "--machine", "box", "--results", results)
        assert machine.fault in command.refused(*words, code=machine.run_status)
        assert not results.exists()
        assert not (folder / "bin/reframe.ran").exists()

    # `nimc doctor` shows the fault if no campaign could run.
    command("doctor", "--machine", "box", code=machine.doctor_status)
    text = " ".join(command.out.split())
    assert ("box is ready" in text) == (machine.doctor_status == 0)
    assert machine.doctor_status == 0 or machine.fault in text


@pytest.mark.parametrize(
    ("launcher", "policy", "doubted"),
    [
        ("mpiexec", HETJOB, True),
        ("srun --mpi=pmi2", HETJOB, False),
        ("mpiexec", {}, False),
    ],
)
def test_a_launcher_that_may_not_reach_the_origins_is_named(
    folder, command, launcher, policy, doubted
):
    checkout(folder, changed(CONFIG, SLURM), changed(SITE, {**policy, "ucx": "mpi_put"}))
    programs = {**ANSWERS, "mpi_put": f"echo {launcher}", "mpiexec": "true"}
    for name, answer in programs.items():
        program(folder / "bin", name, answer)
    campaign = folder / "c.yaml"
    campaign.write_text(f"name: c\nworkloads: [{STREAM}]\narms: [off, on]\n")
    document = command.json("plan", campaign, "--machine", "box")
    warnings = [line for line in document["warnings"] if line.startswith("mpiexec of mpi_put ")]
    assert bool(warnings) == doubted
    assert all("make -B" in line for line in warnings)
    command("doctor", "--machine", "box", "-v")
    assert ("mpiexec of mpi_put " in " ".join(command.out.split())) == doubted


def test_the_plan_names_what_nodes_lack_until_the_site_file_changes(folder, command):
    write_machine(folder, FaultyMachine(config=SLURM, site=ONE_JOB, fault=""))
    campaign = write_campaign(folder, STREAM)
    words = ("plan", campaign, "--machine", "box")
    missing = fault_finding("ucx on nodes", "n1: ucx_perftest is missing", needed=True)
    save_missing(load("box", folder), [missing], folder)
    (line,) = (line for line in command.json(*words)["warnings"] if "on nodes" in line)
    assert line.startswith("ucx on nodes: n1: ucx_perftest is missing (")
    assert "doctor --machine box --in-job" in line
    site = folder / "site" / "box.yaml"
    site.write_text(site.read_text() + "interface: eth1\n")
    assert not any("on nodes" in line for line in command.json(*words)["warnings"])


def test_the_plan_has_the_reason_why_a_workload_runs_nowhere(folder, command):
    checkout(folder, CONFIG, SITE)
    command(
        "plan", write_campaign(folder, "{check: hpccg, expect: 10s}"), "--machine", "box", code=1
    )
    assert "left out (runs nowhere, as below): hpccg" in command.out
    assert command.out.index("no program test_HPCCG") > command.out.index("as below")


@pytest.mark.parametrize("is_left_out", [True, False])
def test_only_a_case_that_runs_has_a_search_for_its_layout(folder, command, is_left_out):
    checkout(folder, CONFIG, SITE)
    if not is_left_out:
        program(folder / "bin", "XSBench", "true")
    settings = "{layout: auto, layout_cores: 16}"
    campaign = write_campaign(folder, f"{{check: xsbench, set: {settings}, expect: 10s}}")
    command("plan", campaign, "--machine", "box", code=int(is_left_out))
    assert ("left out (runs nowhere, as below): xsbench" in command.out) == is_left_out
    assert ("a search for its layout" in command.out) == (not is_left_out)
