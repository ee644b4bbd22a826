"""The real thing over veth: started, used, broken, stopped, and nothing left behind."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from testbed import daemons
from testbed.state import LOCK
from tests.nimc.minicluster.driven import ENV, STRANGER, Cluster, wait

pytestmark = pytest.mark.minicluster


def test_used_from_up_to_down(cluster: Cluster, tmp_path: Path) -> None:
    cluster.nimc("up", "--nodes", "3", "--origins", "1")
    assert cluster.nimc_json("up", "--nodes", "3", "--origins", "1")["was_up"] is True
    assert cluster.nimc("up", "--nodes", "2", rc=2) == ""
    status = cluster.nimc_json("status")
    assert status["healthy"] is True
    assert set(status["nodes"].values()) == {"idle"}

    # A job outlives its slurmctld, which saves the first job at once, and what follows later. One
    # that was saved as pending would be started twice, and its node drained.
    started = tmp_path / "started"
    cluster.slurm("sbatch", "--output=/dev/null", f"--wrap=touch {started}; sleep 10")
    (controller,) = cluster.processes("slurmctld")
    in_mounts = Path("/proc") / str(controller) / "root"
    saved = in_mounts / "dev/shm/slurmctld/job_state"
    wait(None, lambda: started.exists() and saved.exists(), 60)
    wait(None, lambda: saved.stat().st_mtime > started.stat().st_mtime, 60)
    os.kill(controller, signal.SIGKILL)
    daemons.start_controller(cluster.layout)

    # Then a heterogeneous job, its components on disjoint nodes by Slurm's own books.
    job = tmp_path / "job.sh"
    job.write_text(
        "#!/bin/sh\n#SBATCH -N2 -p compute\n#SBATCH hetjob\n#SBATCH -N1 -p origin\n"
        "srun --het-group=0 hostname\nsrun --het-group=1 hostname\n"
        "echo binding=$OMPI_MCA_hwloc_base_binding_policy\n"
    )
    output = tmp_path / "job.out"
    cluster.run_job(job, output)
    assert sorted(output.read_text().split()) == ["binding=none", "node1", "node2", "node3"]
    books = ["COMPLETED|node1", "COMPLETED|node3", "COMPLETED|node[1-2]"]
    assert cluster.accounts(3) == books
    assert cluster.nimc_json("status")["healthy"] is True

    # A process that left its session is still the step's.
    cluster.slurm("srun", "-N1", "sh", "-c", "setsid sleep 86399 & exit 0")
    assert (
        "86399" not in subprocess.run(["ps", "axo", "args"], capture_output=True, text=True).stdout
    )

    # Origins can be reserved, drained, and come back.
    cluster.slurm(
        "scontrol", "create", "reservation", "ReservationName=origins", "StartTime=now",
        "Duration=10", "Nodes=node3", "Users=root",
    )  # fmt: skip
    assert cluster.slurm("srun", "-p", "origin", "--reservation=origins", "hostname") == "node3\n"
    cluster.slurm("scontrol", "delete", "ReservationName=origins")
    cluster.slurm("scontrol", "update", "NodeName=node2", "State=drain", "Reason=test")
    assert cluster.nimc_json("status")["nodes"]["node2"] in ("drain", "drng")

    # Another cluster stands next to it.
    other = Cluster(cluster.state.with_name("t"))
    try:
        other.nimc("up", "--nodes", "2", "--origins", "1")
        assert other.slurm("sinfo", "-hN", "-p", "all", "-o", "%n") == "node1\nnode2\n"
    finally:
        other.nimc("down")
    assert other.left_behind() == []
    assert cluster.slurm("srun", "hostname") == "node1\n"

    # Nobody else can hold the lock. The folder can be locked by anybody, and nobody waits for it.
    cluster.state.parent.chmod(0o755)  # as /tmp, where the default is
    command = [*STRANGER, "flock", "--nonblock", str(LOCK), "true"]
    refused = subprocess.run(command, env=ENV, capture_output=True, text=True)
    assert "Permission denied" in refused.stderr, refused.stderr
    command = [*STRANGER, "flock", str(cluster.state), "sleep", "300"]
    holder = subprocess.Popen(command, start_new_session=True)
    try:
        cluster.nimc("down", timeout_s=200)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
    assert cluster.left_behind() == []


@pytest.mark.parametrize("daemon", ["mariadbd", "slurmdbd"])
def test_a_daemon_that_fails_is_named_in_one_line(
    cluster: Cluster, daemon: str, tmp_path: Path
) -> None:
    broken = tmp_path / daemon
    broken.write_text("#!/bin/sh\necho no more flux >&2\nexit 7\n")
    broken.chmod(0o755)
    command = cluster.command("up", "--nodes", "1", "--origins", "0")
    env = {**ENV, "PATH": f"{tmp_path}:{ENV['PATH']}"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 3
    assert re.fullmatch(rf"nimc: {daemon}.*: no more flux\n", done.stderr), done.stderr
    assert cluster.left_behind() == []


def test_daemons_killed_then_up_again_then_down(cluster: Cluster) -> None:
    cluster.nimc("up", "--nodes", "2", "--origins", "1")
    for name in ("slurmctld", "mariadbd", "slurmd"):
        for pid in cluster.processes(name):
            os.kill(pid, signal.SIGKILL)
    status = cluster.nimc_json("status", rc=3)
    assert status["controller"] is False
    cluster.nimc("up", "--nodes", "2", "--origins", "1")
    assert cluster.nimc_json("status")["healthy"] is True
    for pid in cluster.processes("munged") + cluster.processes("unshare"):
        os.kill(pid, signal.SIGKILL)
    cluster.nimc("down")
    assert cluster.left_behind() == []
    assert "nothing" in cluster.nimc("down")


@pytest.mark.parametrize(
    ("moment", "down", "number", "rc"),
    [
        ("log/slurmctld.log", True, signal.SIGINT, 130),
        ("state.json", False, signal.SIGTERM, 143),  # what is half started is replaced
    ],
)
def test_up_is_killed_and_interrupted(
    cluster: Cluster, moment: str, down: bool, number: signal.Signals, rc: int
) -> None:
    starting = cluster.popen("up", "--nodes", "2", "--origins", "1")
    wait(starting, (cluster.state / moment).exists, 120)
    starting.kill()
    starting.wait()
    assert cluster.left_behind() != []
    if down:
        cluster.nimc("down")
        assert cluster.left_behind() == []
    ready = cluster.state / "run" / "control.ready"
    ready.unlink(missing_ok=True)  # it may have come further before it was killed
    starting = cluster.popen("up", "--nodes", "2", "--origins", "1")
    wait(starting, ready.exists, 120)
    starting.send_signal(number)
    assert starting.wait(timeout=300) == rc
    assert cluster.left_behind() == []  # it cleans up by itself
