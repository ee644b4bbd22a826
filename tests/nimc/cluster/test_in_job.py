"""What a job brings back becomes findings; one node sees another's lock.

That ReFrame submits it is a matter of `tests/nimc/minicluster/test_in_job.py`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nimc.campaign.settings import ReframeSettings
from nimc.cluster import in_job
from nimc.cluster.in_job import JobLook, Place
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import private_lock
from records.machine.site import Machine, Origins
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

HETJOB = Origins(policy="hetjob", partition="io")


def machine_of(**changes: Any) -> Machine:
    return machine(**{"device": "mlx5_0", "interface": "hsn0", **changes})


def job(*nodes: dict[str, Any]) -> JobLook:
    return JobLook("7", None, list(nodes))


def states(looked: JobLook, **changes: Any) -> dict[str, str]:
    rows = in_job.findings(looked, machine_of(**changes))
    return {row.what: row.state for row in rows}


def test_nodes_that_have_everything():
    what = ["heterogeneous job", "job on nodes", "shared folders", "locks", "interface on nodes"]
    what += ["mlx5_0 on nodes", "perftest on nodes"]
    looked = job(node("n1", FAST), node("n2", FAST))
    assert states(looked) == dict.fromkeys(what, "ok")
    rows = list(in_job.findings(looked, machine_of()))
    assert rows[1].detail == "job 7: target n1, origins n2"
    assert all(row.needed for row in rows)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"unseen": ["/c"]}, "shared folders"),
        ({"lock": "unseen"}, "locks"),
        ({"addresses": {"hsn0": None, "eno1": "10.0.0.2"}}, "interface on nodes"),
        ({"host": {"rdma": [], "interfaces": []}}, "mlx5_0 on nodes"),
        ({"injectors": {"perftest": "ib_write_bw is missing: install"}}, "perftest on nodes"),
    ],
)
def test_what_one_node_lacks_is_missing(change, what):
    looked = job(node("n1", FAST), node("n2", FAST, **change))
    (row,) = (row for row in in_job.findings(looked, machine_of()) if row.state != "ok")
    assert (row.what, row.state, row.needed) == (what, "missing", True)
    assert row.detail.startswith("n2")
    assert row.remedy


@pytest.mark.parametrize(
    ("looked", "what", "remedy"),
    [
        (JobLook(None, "Slurm refuses the job: no"), "heterogeneous job", "same_job"),
        (JobLook("7", "0 of 2 nodes answered"), "job on nodes", "--wait"),
        (JobLook("7", "1 of 2 nodes answered", [node("n1", FAST)]), "job on nodes", "results"),
    ],
)
def test_a_job_that_did_not_run_is_one_line(looked, what, remedy):
    (row,) = (row for row in in_job.findings(looked, machine_of()) if row.state != "ok")
    assert (row.what, row.state, row.detail) == (what, "missing", looked.why)
    assert remedy in row.remedy


def test_interfaces_that_could_be_named_and_devices_are_said():
    looked = job(node("n1", FAST))
    rows = {row.what: row for row in in_job.findings(looked, machine_of(interface=None))}
    interface = rows["interface on nodes"]
    assert (interface.state, interface.needed) == ("limited", False)
    assert interface.detail.endswith("interfaces of all nodes: docker0, eno1, hsn0")
    # An interface in the place of a device, and a device without ports.
    host = node("n1", [FAST[0] | {"ports": []}])["host"]
    rates = [in_job.device_rate(host, name) for name in ("eno1", "mlx5_0", "mlx5_1")]
    assert rates == ["(up 1 Gbit/s)", "(InfiniBand)", None]
    # Each rail is looked for.
    rails = [{"device": "mlx5_0"}, {"device": "mlx5_1"}]
    of_rails = states(job(node("n1", FAST), node("n2", FAST[:1])), rails=rails)
    assert (of_rails["mlx5_0 on nodes"], of_rails["mlx5_1 on nodes"]) == ("ok", "missing")


# What ReFrame is asked, and what it left.


def reframe_left(folder: Path, job_id: str | None, phase: str, why: str) -> None:
    case = {"jobid": job_id, "result": "fail", "fail_phase": phase, "fail_reason": why}
    (folder / "reframe.json").write_text(json.dumps({"runs": [{"testcases": [case]}]}))


@pytest.mark.parametrize(
    ("job_id", "phase", "why", "said"),
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
def test_why_no_node_answered_is_one_line(tmp_path, job_id, phase, why, said):
    reframe_left(tmp_path, job_id, phase, why)
    assert in_job.collected(tmp_path, 1) == JobLook(job_id, said, [])


@pytest.mark.parametrize(
    ("policy", "request_policy", "nodes"),
    [("hetjob", "hetjob", 3), ("same_job", "same_job", 3), ("same_host", "same_job", 1)],
)
def test_the_request_names_the_nodes_and_what_they_must_see(
    tmp_path, monkeypatch, policy, request_policy, nodes
):
    """The job and its files are gone afterwards, whatever ends it."""
    asked: list[str] = []
    request: dict[str, Any] = {}
    cancelled: list[Path] = []

    def run_session(argv: list[str], run: Path, *_: object) -> int:
        asked.extend(argv)
        request.update(json.loads((run / "request.json").read_text()))
        raise MachineError("accounting (sacct) has not answered for 600 s")

    monkeypatch.setenv("RFM_STAGE_DIR", "/stage")
    monkeypatch.setattr(in_job.processes, "become_subreaper", lambda: None)
    monkeypatch.setattr(in_job, "run_session", run_session)
    monkeypatch.setattr(in_job.slurm, "cancel", lambda run: cancelled.append(run))
    place = Place(Path("/c/box.py"), "batch", "wheels", Origins(policy=policy, nodes=2))
    with pytest.raises(MachineError, match="600 s"):
        in_job.look(place, tmp_path, 60.0, print)
    words = ["-C", "/c/box.py", "--system=box:batch", "-p", "^wheels$"]
    assert set(words) <= set(asked)
    assert "NodeLook.max_pending_time=60s" in asked
    assert (request["origins"]["policy"], request["nodes"]) == (request_policy, nodes)
    assert {str(ROOT), sys.executable, str(tmp_path), "/stage"} <= set(request["paths"])
    assert len(cancelled) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("away", [False, True])
def test_nodes_of_the_targets_partition_are_looked_at(tmp_path, monkeypatch, away):
    parts = [
        {"name": name, "scheduler": scheduler, "environs": ["x", "y"]}
        for name, scheduler in (("a", "slurm"), ("b", "slurm"), ("c", "local"))
    ]

    def look(place: Place, parent: Path, *_: object) -> JobLook:
        assert parent.is_dir()
        assert (place.partition, place.environ, place.origins.policy) == ("b", "x", "hetjob")
        if away:
            raise MachineError("slurm is away")
        return job(node("n1", FAST), node("n2", FAST))

    monkeypatch.setenv("SLURM_CONF", "")
    settings = ReframeSettings({"SLURM_CONF": "/x"}, parts)
    monkeypatch.setattr(in_job, "load_machine", lambda *_: machine_of(partition="b"))
    monkeypatch.setattr(in_job, "settings_of", lambda _: settings)
    monkeypatch.setattr(in_job, "look", look)
    rows = in_job.examine("box", tmp_path / "new" / "results", 60.0, print)
    assert os.environ["SLURM_CONF"] == "/x"
    if away:
        assert [(row.what, row.detail) for row in rows] == [("job on nodes", "slurm is away")]
    else:
        assert {row.state for row in rows} == {"ok"}


def test_nodes_see_a_lock_that_is_held_and_paths(tmp_path):
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"paths": [str(tmp_path), "/not/there"], "device": None}))

    def look(rank: int) -> None:
        environment = {**os.environ, "SLURM_PROCID": str(rank), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "nimc.cluster.node_look", str(request)]
        subprocess.run(command, env=environment, check=True, timeout=60)

    with private_lock(tmp_path / "lock") as lock:
        assert lock.take()
        look(0)
    look(1)
    nodes = in_job.collected(tmp_path, 1).nodes
    assert [record["lock"] for record in nodes] == ["seen", "unseen"]
    assert nodes[0]["host"]["cores"] >= 1
    assert nodes[0]["injectors"]["spin"] is None
    assert nodes[1]["unseen"] == ["/not/there"]


def test_a_machine_without_slurm_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"--in-job: configs/localhost\.py has no partition of"):
        in_job.examine("localhost", tmp_path, 1.0, print)
