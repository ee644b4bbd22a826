"""`nimc plan`, `nimc run` and `nimc doctor` agree on machines that are made wrong on purpose."""

import shutil
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from nimc.campaign.prepare import prepare
from nimc.cli import hosts, plan, run
from nimc.readiness.diagnosis import examine
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
#: As Slurm prints it.
ANSWERS = {
    "sbatch": "echo slurm 22.05.8",
    "srun": "echo slurm 22.05.8",
    "sacct": "true",
    "sinfo": "printf 'n1 idle\\nn2 idle\\n'",
    "scontrol": 'case "$*" in *reservation*) echo "Reservation nimc not found"; exit 1;;'
    " *) echo 'Slurmctld(primary) at head is UP';; esac",
}


@dataclass(frozen=True, kw_only=True)
class Wrong:
    """What is wrong with a machine, and what commands say of it."""

    #: In the text of its configuration, of its site file, and in Slurm's answers (None: no such
    #: program); without Slurm's scheduler there are none.
    config: dict[str, str]
    site: dict[str, str]
    answers: dict[str, str | None]
    workload: str
    #: What all of them say; exit status of `plan`, `run` and `doctor`.
    fault: str
    codes: tuple[int, int, int]


SLURM = {'"scheduler": "local"': '"scheduler": "slurm", "access": ["-p batch"]'}
ONE_JOB = {"same_host": "same_job"}
HETJOB = {"{policy: same_host}": "{policy: hetjob, partition: rest}"}
RESERVED = {"{policy: same_host}": "{policy: reservation, reservation: nimc}"}
ONLY_BATCH = 'case "$*" in *batch*) echo "n1 idle";; esac'
MACHINES = {
    "no compiler": Wrong(
        config={'"sh"': '"hiscc"'},
        site={},
        answers={},
        workload=STREAM,
        fault="no compiler hiscc",
        codes=(1, 3, 3),
    ),
    "no program": Wrong(
        config={},
        site={"injector": "programs: {lmp: /none/lmp}\ninjector"},
        answers={},
        workload=LAMMPS,
        fault="no program /none/lmp",
        codes=(1, 3, 0),
    ),
    "no mpicc": Wrong(
        config={},
        site={"ucx": "mpi_put"},
        answers={},
        workload=STREAM,
        fault="mpi_put is missing",
        codes=(1, 3, 3),
    ),
    "no injector": Wrong(
        config={},
        site={"ucx": "perftest"},
        answers={},
        workload=STREAM,
        fault="ib_write_bw is missing",
        codes=(1, 3, 3),
    ),
    "unknown device": Wrong(
        config={},
        site={"injector": "device: mlx5_9\ninjector"},
        answers={},
        workload=STREAM,
        fault="device mlx5_9",
        codes=(1, 3, 3),
    ),
    "no Spack": Wrong(
        config={'"wheels"': '"spack"'},
        site={},
        answers={},
        workload="{check: hpccg, expect: 5s}",
        fault="Spack is not set up for box",
        codes=(1, 3, 3),
    ),
    "one host": Wrong(
        config={},
        site={},
        answers={},
        workload=FOUR_NODES,
        fault="origins and target of box share one host",
        codes=(1, 3, 0),
    ),
    "too few nodes": Wrong(
        config=SLURM,
        site=ONE_JOB,
        answers={},
        workload=FOUR_NODES,
        fault="5 nodes needed, 2 usable in partition batch",
        codes=(1, 3, 0),
    ),
    "nodes are down": Wrong(
        config=SLURM,
        site=ONE_JOB,
        answers={"sinfo": "printf 'n1 down\\nn2 drained\\n'"},
        workload=STREAM,
        fault="not usable: n1 (down), n2 (drained)",
        codes=(1, 3, 3),
    ),
    "no partition in Slurm": Wrong(
        config=SLURM,
        site=ONE_JOB,
        answers={"sinfo": "true"},
        workload=STREAM,
        fault="Slurm has no partition batch",
        codes=(1, 3, 3),
    ),
    "no partition in configs": Wrong(
        config={},
        site={"injector": "partition: q\ninjector"},
        answers={},
        workload=STREAM,
        fault="partition",
        codes=(2, 2, 3),
    ),
    "no origin": Wrong(
        config=SLURM,
        site=HETJOB,
        answers={"sinfo": ONLY_BATCH},
        workload=STREAM,
        fault="Slurm has no partition rest",
        codes=(1, 3, 3),
    ),
    "no reservation": Wrong(
        config=SLURM,
        site=RESERVED,
        answers={},
        workload=STREAM,
        fault="reservation nimc does not exist",
        codes=(1, 3, 3),
    ),
    "no Slurm": Wrong(
        config=SLURM,
        site=ONE_JOB,
        answers=dict.fromkeys(ANSWERS),
        workload=STREAM,
        fault="no sbatch, srun, scontrol",
        codes=(1, 3, 3),
    ),
    "Slurm is down": Wrong(
        config=SLURM,
        site=ONE_JOB,
        answers={"scontrol": "echo 'head is DOWN'"},
        workload=STREAM,
        fault="the controller does not answer",
        codes=(1, 3, 3),
    ),
    "no accounting": Wrong(
        config=SLURM,
        site=ONE_JOB,
        answers={"sacct": "echo accounting is disabled; exit 1"},
        workload=STREAM,
        fault="accounting is disabled",
        codes=(1, 3, 3),
    ),
    "nothing": Wrong(config={}, site={}, answers={}, workload=STREAM, fault="", codes=(0, 0, 0)),
}


def changed(text: str, by: dict[str, str]) -> str:
    for old, new in by.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a checkout, a search path without Slurm, and a ReFrame that does nothing."""
    bin_ = tmp_path / "bin"
    reframe = program(bin_, "reframe", 'case "$*" in *" -r "*) touch "$0.ran";; esac')
    program(bin_, "ucx_perftest", "true")
    for name in ("sh", "cat", "cc", "true"):
        (bin_ / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(bin_))
    monkeypatch.setenv("NIMC_REFRAME", str(reframe))
    monkeypatch.setenv("NIMC_SPACK_DIR", str(tmp_path / "spack"))
    monkeypatch.setattr("conductor.injectors.mpi_put.FOLDER", tmp_path)
    monkeypatch.setattr("records.processes.become_subreaper", lambda: None)
    # Nothing of another host is remembered.
    monkeypatch.setattr("reframe_tests.factors.why_missing", why_missing.__wrapped__)
    # What doctor says of tools is not asked here, and takes long.
    monkeypatch.setattr("nimc.readiness.needs.tools", list)
    monkeypatch.setattr(hosts, "examine", partial(examine, root=tmp_path))
    for command in (plan, run):
        monkeypatch.setattr(command, "prepare", partial(prepare, root=tmp_path))
    return tmp_path


@pytest.mark.parametrize("wrong", MACHINES.values(), ids=MACHINES)
def test_plan_run_and_doctor_agree(folder, command, wrong):
    checkout(folder, changed(CONFIG, wrong.config), changed(SITE, wrong.site))
    for name, answer in ({**ANSWERS, **wrong.answers} if wrong.config == SLURM else {}).items():
        if answer is not None:
            program(folder / "bin", name, answer)
    campaign = folder / "c.yaml"
    campaign.write_text(
        f"name: c\nworkloads: [{wrong.workload}]\narms: [off, on]\npairs: {{floor: 6, cap: 6}}\n"
    )
    if "scaling" in wrong.workload:
        campaign.write_text(campaign.read_text().replace("[off, on]", "[off, constant]"))
    machine_option = ("--machine", "box")
    planned, ran, examined = wrong.codes
    if wrong.codes[0] < 2:
        document = command.json("plan", campaign, *machine_option, code=planned)
        assert bool(document["why"]) == bool(planned)
        assert wrong.fault in document["why"]
    else:
        command("plan", campaign, *machine_option, code=planned)
        assert wrong.fault in " ".join(f"{command.out} {command.err}".split())
    if wrong.fault:
        command("run", campaign, *machine_option, "--results", folder / "results", code=ran)
        assert (wrong.fault in command.err, command.err.count("\n")) == (True, 1)
        assert not (folder / "results").exists()
        assert not (folder / "bin/reframe.ran").exists()
    command("doctor", *machine_option, code=examined)
    text = " ".join(command.out.split())
    assert wrong.fault in text or not examined
    assert ("box is ready" in text) == (examined == 0)


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
    warning = "mpiexec of mpi_put may not reach a job's other nodes: make -B"
    document = command.json("plan", campaign, "--machine", "box")
    assert any(line.startswith(warning) for line in document["warnings"]) == doubted
    command("doctor", "--machine", "box", "-v")
    assert (warning.partition(":")[0] in " ".join(command.out.split())) == doubted
