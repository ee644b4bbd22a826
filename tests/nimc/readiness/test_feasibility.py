"""`nimc plan`, `nimc run` and `nimc doctor` agree on machines that are made wrong on purpose."""

import shutil
from functools import partial
from pathlib import Path
from typing import NamedTuple

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


class Wrong(NamedTuple):
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
    "no compiler": Wrong({'"sh"': '"hiscc"'}, {}, {}, STREAM, "no compiler hiscc", (1, 3, 3)),
    "no program": Wrong({}, {"injector": "programs: {lmp: /none/lmp}\ninjector"}, {}, LAMMPS,
                        "no program /none/lmp", (1, 3, 0)),
    "no mpicc": Wrong({}, {"ucx": "mpi_put"}, {}, STREAM, "mpi_put is missing", (1, 3, 3)),
    "no injector": Wrong({}, {"ucx": "perftest"}, {}, STREAM, "ib_write_bw is missing", (1, 3, 3)),
    "unknown device": Wrong({}, {"injector": "device: mlx5_9\ninjector"}, {}, STREAM,
                            "device mlx5_9", (1, 3, 3)),
    "no Spack": Wrong({'"wheels"': '"spack"'}, {}, {}, "{check: hpccg, expect: 5s}",
                      "Spack is not set up for box", (1, 3, 3)),
    "one host": Wrong({}, {}, {}, FOUR_NODES, "origins and target of box share one host",
                      (1, 3, 0)),
    "too few nodes": Wrong(SLURM, ONE_JOB, {}, FOUR_NODES,
                           "5 nodes needed, 2 usable in partition batch", (1, 3, 0)),
    "nodes are down": Wrong(SLURM, ONE_JOB, {"sinfo": "printf 'n1 down\\nn2 drained\\n'"}, STREAM,
                            "not usable: n1 (down), n2 (drained)", (1, 3, 3)),
    "no partition in Slurm": Wrong(SLURM, ONE_JOB, {"sinfo": "true"}, STREAM,
                                   "Slurm has no partition batch", (1, 3, 3)),
    "no partition in configs": Wrong({}, {"injector": "partition: q\ninjector"}, {}, STREAM,
                                     "partition", (2, 2, 3)),
    "no origin": Wrong(SLURM, HETJOB, {"sinfo": ONLY_BATCH}, STREAM,
                       "Slurm has no partition rest", (1, 3, 3)),
    "no reservation": Wrong(SLURM, RESERVED, {}, STREAM, "reservation nimc does not exist",
                            (1, 3, 3)),
    "no Slurm": Wrong(SLURM, ONE_JOB, dict.fromkeys(ANSWERS), STREAM, "no sbatch, srun, scontrol",
                      (1, 3, 3)),
    "Slurm is down": Wrong(SLURM, ONE_JOB, {"scontrol": "echo 'head is DOWN'"}, STREAM,
                           "the controller does not answer", (1, 3, 3)),
    "no accounting": Wrong(SLURM, ONE_JOB, {"sacct": "echo accounting is disabled; exit 1"},
                           STREAM, "accounting is disabled", (1, 3, 3)),
    "nothing": Wrong({}, {}, {}, STREAM, "", (0, 0, 0)),
}  # fmt: skip


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
def test_all_of_them_agree(folder, command, wrong):
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
