"""A minicluster over veth is started, used, damaged and stopped. Nothing may be left behind."""

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.slurm import client
from records.slurm.parse_nodes import SlurmNode
from testbed import daemons
from testbed.state import LOCK
from tests.nimc.minicluster.driven import ENV, STRANGER, Cluster, cluster_of
from tests.waiting import wait_until

pytestmark = pytest.mark.minicluster


@pytest.fixture(scope="module")
def three_nodes() -> Iterator[Cluster]:
    """Yields a running cluster of two targets and an origin. Tests must leave its nodes idle."""
    yield from cluster_of(3)


def test_up_does_not_change_a_running_cluster(three_nodes: Cluster) -> None:
    status = three_nodes.nimc_json("up", "--nodes", "3", "--origins", "1")
    assert status["was_up"] is True
    assert three_nodes.nimc("up", "--nodes", "2", rc=2) == ""


def test_the_nodes_of_a_healthy_cluster_are_idle(three_nodes: Cluster) -> None:
    status = three_nodes.nimc_json("status")
    assert status["healthy"] is True
    assert set(status["nodes"].values()) == {"idle"}


def test_the_nodes_of_a_partition_are_listed_whether_it_is_named_or_hidden(
    three_nodes: Cluster,
) -> None:
    three_nodes.slurm("scontrol", "update", "PartitionName=origin", "Hidden=YES")
    assert client.ask_nodes("origin", three_nodes.env) == [SlurmNode("node3", "idle")]
    targets = [SlurmNode("node1", "idle"), SlurmNode("node2", "idle")]
    assert client.ask_nodes("compute", three_nodes.env) == targets
    assert client.ask_nodes(None, three_nodes.env) == targets
    assert client.ask_nodes("none", three_nodes.env) == []
    three_nodes.slurm("scontrol", "update", "PartitionName=origin", "Hidden=NO")


def test_a_process_that_left_its_session_is_ended_with_its_step(three_nodes: Cluster) -> None:
    three_nodes.slurm("srun", "-N1", "sh", "-c", "setsid sleep 86399 & exit 0")
    processes = subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout
    assert "86399" not in processes


def test_origins_can_be_reserved(three_nodes: Cluster) -> None:
    words = ["ReservationName=origins", "StartTime=now", "Duration=10", "Nodes=node3", "Users=root"]
    three_nodes.slurm("scontrol", "create", "reservation", *words)
    host = three_nodes.slurm("srun", "-p", "origin", "--reservation=origins", "hostname")
    assert host == "node3\n"
    three_nodes.slurm("scontrol", "delete", "ReservationName=origins")


def test_a_drained_node_is_shown(three_nodes: Cluster) -> None:
    three_nodes.slurm("scontrol", "update", "NodeName=node2", "State=drain", "Reason=test")
    assert three_nodes.nimc_json("status")["nodes"]["node2"] in ("drain", "drng")
    three_nodes.slurm("scontrol", "update", "NodeName=node2", "State=resume")
    wait_until(lambda: three_nodes.nimc_json("status")["nodes"]["node2"] == "idle", every_s=0.5)


def test_another_cluster_may_be_up_beside_it(three_nodes: Cluster) -> None:
    other = Cluster(three_nodes.state.with_name("t"))
    try:
        other.nimc("up", "--nodes", "2", "--origins", "1")
        assert other.slurm("sinfo", "-hN", "-p", "all", "-o", "%n") == "node1\nnode2\n"
    finally:
        other.nimc("down")
    assert other.left_behind() == []
    assert three_nodes.slurm("srun", "hostname") == "node1\n"


@pytest.mark.usefixtures("three_nodes")
def test_no_other_user_can_hold_the_lock() -> None:
    command = [*STRANGER, "flock", "--nonblock", str(LOCK), "true"]
    refused = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert "Permission denied" in refused.stderr, refused.stderr


def test_a_job_outlives_its_slurmctld(cluster: Cluster, tmp_path: Path) -> None:
    """The test kills slurmctld only after it has saved that the job runs.

    slurmctld saves the first job at once, and later changes with a delay. If the job were saved as
    pending, it would be started twice, and its node drained.
    """
    cluster.nimc("up", "--nodes", "3", "--origins", "1")
    started = tmp_path / "started"
    cluster.slurm("sbatch", "--output=/dev/null", f"--wrap=touch {started}; sleep 10")
    (controller,) = cluster.processes("slurmctld")
    root = Path("/proc") / str(controller) / "root"
    saved = root / "dev/shm/slurmctld/job_state"
    wait_until(lambda: started.exists() and saved.exists(), 60, every_s=0.1)
    wait_until(lambda: saved.stat().st_mtime > started.stat().st_mtime, 60, every_s=0.1)
    os.kill(controller, signal.SIGKILL)
    daemons.start_controller(cluster.layout)
    assert cluster.accounts(1) == ["COMPLETED|node1"]
    # The new controller contacts the nodes, which takes some time.
    states = ("sinfo", "-hN", "-o", "%T")
    wait_until(lambda: set(cluster.slurm(*states).split()) == {"idle"}, 60, every_s=0.5)
    assert cluster.nimc_json("status")["healthy"] is True


def test_components_of_a_heterogeneous_job_are_on_disjoint_nodes(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Slurm's accounting shows this too."""
    cluster.nimc("up", "--nodes", "3", "--origins", "1")
    job, output = tmp_path / "job.sh", tmp_path / "job.out"
    job.write_text(
        "#!/bin/sh\n#SBATCH -N2 -p compute\n#SBATCH hetjob\n#SBATCH -N1 -p origin\n"
        "srun --het-group=0 hostname\nsrun --het-group=1 hostname\n"
        "echo binding=$OMPI_MCA_hwloc_base_binding_policy\n"
    )
    cluster.run_job(job, output)
    assert sorted(output.read_text().split()) == ["binding=none", "node1", "node2", "node3"]
    assert cluster.accounts(2) == ["COMPLETED|node3", "COMPLETED|node[1-2]"]
    assert cluster.nimc_json("status")["healthy"] is True


def test_down_does_not_wait_for_another_user_who_locks_the_state_folder(cluster: Cluster) -> None:
    """Any user can lock a folder that he can read."""
    cluster.nimc("up", "--nodes", "1", "--origins", "0")
    cluster.state.parent.chmod(0o755)  # /tmp, where the default state folder is, can be read too
    command = [*STRANGER, "flock", str(cluster.state), "sleep", "300"]
    holder = subprocess.Popen(command, start_new_session=True)
    try:
        cluster.nimc("down", timeout_s=200)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
    assert cluster.left_behind() == []


@pytest.mark.parametrize("daemon", ["mariadbd", "slurmdbd"])
def test_a_daemon_that_fails_is_named_in_one_line_with_what_it_prints(
    cluster: Cluster, daemon: str, tmp_path: Path
) -> None:
    failing = tmp_path / daemon
    failing.write_text("#!/bin/sh\necho no more flux >&2\nexit 7\n")
    failing.chmod(0o755)
    command = cluster.command("up", "--nodes", "1", "--origins", "0")
    environment = {**ENV, "PATH": f"{tmp_path}:{ENV['PATH']}"}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert outcome.returncode == 3
    assert re.fullmatch(rf"nimc: {daemon}.*: no more flux\n", outcome.stderr), outcome.stderr
    assert cluster.left_behind() == []


def kill_all(cluster: Cluster, *names: str) -> None:
    for name in names:
        for pid in cluster.processes(name):
            os.kill(pid, signal.SIGKILL)


def test_up_restores_a_cluster_whose_daemons_were_killed(cluster: Cluster) -> None:
    cluster.nimc("up", "--nodes", "2", "--origins", "1")
    kill_all(cluster, "slurmctld", "mariadbd", "slurmd")
    assert cluster.nimc_json("status", rc=3)["controller"] is False
    cluster.nimc("up", "--nodes", "2", "--origins", "1")
    assert cluster.nimc_json("status")["healthy"] is True


def test_down_removes_a_cluster_whose_daemons_and_namespaces_were_killed(cluster: Cluster) -> None:
    cluster.nimc("up", "--nodes", "2", "--origins", "1")
    kill_all(cluster, "munged", "unshare")
    cluster.nimc("down")
    assert cluster.left_behind() == []
    assert "none was up" in cluster.nimc("down")


@pytest.mark.parametrize(
    ("last_file", "down_first", "signum", "status"),
    [
        ("log/slurmctld.log", True, signal.SIGINT, 130),
        ("state.json", False, signal.SIGTERM, 143),  # the second `up` replaces the half-started one
    ],
)
def test_after_a_killed_up_an_interrupted_up_leaves_nothing_behind(
    cluster: Cluster, last_file: str, down_first: bool, signum: signal.Signals, status: int
) -> None:
    """`last_file`: file that the first `up` has just written when it is killed."""
    killed = cluster.popen("up", "--nodes", "2", "--origins", "1")
    wait_until((cluster.state / last_file).exists, 120, process=killed)
    killed.kill()
    killed.wait()
    assert cluster.left_behind() != []
    if down_first:
        cluster.nimc("down")
        assert cluster.left_behind() == []
    ready = cluster.state / "run" / "control.ready"
    ready.unlink(missing_ok=True)  # the first `up` may have written it before it was killed
    interrupted = cluster.popen("up", "--nodes", "2", "--origins", "1")
    wait_until(ready.exists, 120, process=interrupted)
    interrupted.send_signal(signum)
    assert interrupted.wait(timeout=300) == status
    assert cluster.left_behind() == []
