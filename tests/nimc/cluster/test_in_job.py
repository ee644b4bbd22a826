"""What a job brings back becomes findings; one node sees another's lock.

That ReFrame submits it is a matter of `tests/nimc/minicluster/test_in_job.py`.
"""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from conductor.block import trial
from conductor.block.trial import Trial
from nimc.cluster import in_job, tried_writes
from nimc.cluster.in_job import JobLook
from nimc.cluster.node_look import NodeReport
from nimc.readiness.reframe_config import ReframeSettings
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import private_lock
from records.machine.host import detect
from records.machine.site import Machine, Origins
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

HETJOB = Origins(policy="hetjob", partition="io")


def machine_of(**changes: Any) -> Machine:
    return machine(**{"device": "mlx5_0", "interface": "hsn0", **changes})


def job(*nodes: NodeReport) -> JobLook:
    return JobLook(job="7", why=None, nodes=list(nodes))


def states(looked: JobLook, **changes: Any) -> dict[str, str]:
    rows = in_job.findings(looked, machine_of(**changes))
    return {row.what: row.state for row in rows}


def test_nodes_that_have_everything():
    subjects = ["job on nodes", "shared folders", "locks", "interface on nodes"]
    subjects += ["device mlx5_0 on nodes", "perftest on nodes"]
    looked = job(node("n1", FAST), node("n2", FAST))
    assert states(looked) == dict.fromkeys(subjects, "ok")
    rows = list(in_job.findings(looked, machine_of()))
    assert rows[0].detail == "job 7: target n1, origins n2"
    assert rows[2].detail == "n1, n2: see the lock of this host in the results folder"
    assert all(row.needed for row in rows)


def test_the_start_of_the_job_and_of_each_trial_is_told_once(tmp_path: Path) -> None:
    plan = tried_writes.plan_of(machine_of(origins=HETJOB), tmp_path)
    names = [treatment.name for treatment, _ in trial.treatments_tried(plan)]
    assert names[0] == "perftest"
    lines: list[str] = []
    tick = in_job.progress_teller(tmp_path, plan, lines.append, (tmp_path / "0.json").exists)

    def new() -> list[str]:
        lines.clear()
        tick()
        tick()
        return [*lines]

    assert new() == []
    (tmp_path / "0.json").touch()
    assert new() == ["the job has started"]
    plan.logs.mkdir(parents=True)
    assert new() == [f"tries writes by perftest (1 of {len(names)})"]
    assert names[1] == "perftest_read"
    trial.save([Trial("perftest", "it ended")], plan.logs)
    assert new() == [f"tries reads by perftest (2 of {len(names)})"]
    trial.save([Trial(name, "it ended") for name in names], plan.logs)
    assert len(new()) == len(names) - 2


@pytest.mark.parametrize(
    ("change", "subject"),
    [
        ({"unseen": ["/c"]}, "shared folders"),
        ({"sees_lock": False}, "locks"),
        ({"addresses": {"hsn0": None, "eno1": "10.0.0.2"}}, "interface on nodes"),
        ({"rdma": []}, "device mlx5_0 on nodes"),
        ({"injectors": {"perftest": "ib_write_bw is missing: install"}}, "perftest on nodes"),
    ],
)
def test_what_one_node_lacks_is_missing(change, subject):
    looked = job(node("n1", FAST), node("n2", FAST, **change))
    (row,) = (row for row in in_job.findings(looked, machine_of()) if row.state != "ok")
    assert (row.what, row.state, row.needed) == (subject, "missing", True)
    assert row.detail.startswith("n2")
    assert row.remedy


@pytest.mark.parametrize(
    ("looked", "subject", "remedy"),
    [
        (JobLook(job=None, why="Slurm refuses the job: no"), "job on nodes", "same_job"),
        (JobLook(job="7", why="it had not started after 9 s"), "job on nodes", "--wait"),
        (JobLook(job="7", why="its output did not get to /run"), "job on nodes", "results folder"),
        (
            JobLook(job="7", why="1 of 2 nodes answered", nodes=[node("n1", FAST)]),
            "job on nodes",
            "results",
        ),
    ],
)
def test_a_job_that_did_not_run_is_one_line(looked, subject, remedy):
    (row,) = (row for row in in_job.findings(looked, machine_of()) if row.state != "ok")
    assert (row.what, row.state, row.detail) == (subject, "missing", looked.why)
    assert remedy in row.remedy


def test_interfaces_that_could_be_named_and_devices_are_said():
    nodes = node("n1", FAST), node("n2", FAST[:1], addresses={"eno1": "10.0.0.2"})
    rows = {row.what: row for row in in_job.findings(job(*nodes), machine_of(interface=None))}
    interface = rows["interface on nodes"]
    assert (interface.state, interface.needed) == ("limited", False)
    assert "n1: not set; with an IPv4 address: docker0, eno1, hsn0; n2: not" in interface.detail
    # An interface in the place of a device, and a device without ports.
    for name, detail in (("eno1", "up 1 Gbit/s"), ("mlx5_9", "InfiniBand")):
        bare = replace(FAST[0], name="mlx5_9", ports=[])
        looked = job(node("n1", [bare]))
        rows = {row.what: row for row in in_job.findings(looked, machine_of(device=name))}
        assert rows[f"device {name} on nodes"].detail == f"n1: {detail}"
    # Each rail is looked for.
    rails = [{"device": "mlx5_0"}, {"device": "mlx5_1"}]
    rail_states = states(job(*nodes), rails=rails)
    assert rail_states["device mlx5_0 on nodes"] == "ok"
    assert rail_states["device mlx5_1 on nodes"] == "missing"


# What ReFrame is asked, and what it left.


def reframe_left(folder: Path, job_id: str | None, phase: str, why: str) -> None:
    case = {"jobid": job_id, "result": "fail", "fail_phase": phase, "fail_reason": why}
    (folder / "reframe.json").write_text(json.dumps({"runs": [{"testcases": [case]}]}))


@pytest.mark.parametrize(
    ("job_id", "phase", "why", "shown"),
    [
        ("7", "sanity", "sanity error: 0 of 2 nodes answered", "0 of 2 nodes answered"),
        (
            None,
            "run",
            "spawned process error: command 'sbatch rfm_job.sh' failed with exit code 1:\n"
            "--- stderr ---\nsbatch: error: no hetjobs\nsbatch: error: no way\n"
            "--- stderr ---",
            "Slurm refuses the job: no hetjobs; no way",
        ),
        (None, "setup", "x", "ReFrame failed in 'setup': x"),
    ],
)
def test_why_no_node_answered_is_one_line(tmp_path, job_id, phase, why, shown):
    reframe_left(tmp_path, job_id, phase, why)
    assert in_job.read_job_look(tmp_path, 1) == JobLook(job=job_id, why=shown, nodes=[])


SYSTEM = [
    {"name": name, "scheduler": scheduler, "environs": ["x", "y"]}
    for name, scheduler in (("a", "slurm"), ("b", "slurm"), ("c", "local"))
]


def test_the_target_s_partition_is_looked_at_and_nothing_is_left(tmp_path, monkeypatch):
    """The job and its files are gone afterwards, whatever ends it."""
    session_words: list[str] = []
    cancelled: list[Path] = []

    def run_session(argv: list[str], *_: object) -> int:
        session_words.extend(argv)
        raise MachineError("accounting (sacct) has not answered for 600 s")

    monkeypatch.setenv("RFM_STAGE_DIR", "/stage")
    monkeypatch.setenv("SLURM_CONF", "")
    settings = ReframeSettings(
        environment={"SLURM_CONF": "/x"}, partitions=SYSTEM, environs=[{"name": "x"}, {"name": "y"}]
    )
    monkeypatch.setattr(in_job, "settings_of", lambda _: settings)
    box = machine_of(partition="b", origins=HETJOB)
    monkeypatch.setattr(in_job, "load_machine", lambda *_: box)
    monkeypatch.setattr(in_job.processes, "become_subreaper", lambda: None)
    monkeypatch.setattr(in_job, "run_session", run_session)
    monkeypatch.setattr(in_job.client, "cancel_jobs", lambda run: cancelled.append(run))
    results = tmp_path / "new" / "results"
    with pytest.raises(MachineError, match="600 s"):
        in_job.look_at_nodes("box", results, 60.0, print, Path("/c"))
    words = ["-C", "/c/configs/box.py", "--system=box:b", "-p", "^x$"]
    assert set(words) <= set(session_words)
    variables = dict(
        word.removeprefix("NodeLook.").split("=", 1) for word in session_words if "=" in word
    )
    assert json.loads(variables["origins"]) == HETJOB.model_dump()
    assert (variables["stage"], variables["max_pending_time"]) == ("/stage", "60s")
    assert variables["device"] == "mlx5_0"
    assert Path(variables["folder"]).parent == results
    assert os.environ["SLURM_CONF"] == "/x"
    assert cancelled == [Path(variables["folder"])]
    assert not list(results.iterdir())


def test_nodes_see_the_stage_folder_and_a_lock_that_is_held(tmp_path):
    def look_from(rank: int, stage: Path) -> None:
        environment = {**os.environ, "SLURM_PROCID": str(rank), "PYTHONPATH": str(ROOT)}
        words = [str(tmp_path), "", "", str(stage)]
        command = [sys.executable, "-m", "nimc.cluster.node_look", *words]
        subprocess.run(command, env=environment, check=True, timeout=300)

    with private_lock(tmp_path / "lock") as lock:
        assert lock.acquire()
        look_from(0, tmp_path)
    look_from(1, Path("/not/there"))
    nodes = in_job.read_job_look(tmp_path, 1).nodes
    assert [(node.sees_lock, node.unseen) for node in nodes] == [
        (True, []),
        (False, ["/not/there"]),
    ]
    assert nodes[0].host == detect()
    assert nodes[0].injectors["spin"] is None


def test_a_machine_without_slurm_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"--in-job: configs/localhost\.py: no partition of"):
        in_job.look_at_nodes("localhost", tmp_path, 1.0, print)


def test_hardware_that_restricts_what_can_be_said_is_named():
    strange = node("n1", FAST, processor="AuthenticAMD-27-1-0", memory_side_cache_b=2**36)
    rows = in_job.findings(JobLook(job="7", why=None, nodes=[strange]), machine_of(device="mlx5_0"))
    by_subject = {row.what: (row.state, row.detail) for row in rows}
    assert by_subject["processor on nodes"] == (
        "limited",
        "n1: AuthenticAMD family 27, model 1 (Example 9000) is in no table: tools choose no"
        " counters for it",
    )
    assert by_subject["memory-side cache on nodes"][1].startswith(
        "n1: 64 GiB lie before the memory"
    )
