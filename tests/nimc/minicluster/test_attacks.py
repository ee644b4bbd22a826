"""What another user of the host can do to whoever runs a minicluster: each attack is tried."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.containers import container
from testbed.daemons import CONTROL, DATABASE_SOCKET
from testbed.state import HOST, locked_host
from tests.nimc.minicluster.real import ENV, NIMC, Cluster, cluster_or_skip

pytestmark = pytest.mark.minicluster

STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, env=ENV, capture_output=True, text=True, cwd="/", timeout=60, check=False
    )


def as_stranger(*command: str) -> subprocess.CompletedProcess[str]:
    return run(*STRANGER, *command)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    for found in cluster_or_skip("veth"):
        found.state.parent.chmod(0o755)  # as /tmp, where the default is
        yield found


def test_nobody_else_speaks_to_the_database(cluster: Cluster) -> None:
    """Until now a stranger was its root, and wrote root's files with it."""
    cluster.nimc("up", "--nodes", "1", "--origins", "0")
    client = ["mariadb", "--no-defaults", "--user=root", "--batch", "--skip-column-names"]
    init = container(cluster.layout, CONTROL)

    refused = as_stranger(*client, f"--socket=/proc/{init}/root{DATABASE_SOCKET}", "-e", "select 1")
    assert refused.returncode != 0
    assert "(13)" in refused.stderr, refused.stderr  # EACCES
    # Once in the container there is the folder, and behind the folder the account.
    inside = ["nsenter", f"--target={init}", "--mount"]
    client += [f"--socket={DATABASE_SOCKET}", "-e"]
    refused = run(*inside, *STRANGER, *client, "select 1")
    assert "(13)" in refused.stderr, refused.stderr
    run(*inside, "chmod", "755", str(Path(DATABASE_SOCKET).parent))
    refused = run(*inside, *STRANGER, *client, "select 1")
    assert "Access denied for user 'root'" in refused.stderr, refused.stderr

    # Even its root writes and reads no file of the host, and the server is not root.
    target = Path("/tmp") / f"{cluster.layout.tag}-outfile"
    for statement in (f"select 1 into outfile '{target}'", "select load_file('/etc/hostname')"):
        done = run(*inside, *client, statement)
        assert "--secure-file-priv" in done.stderr or done.stdout.strip() == "NULL", done
    assert not target.exists()
    (server,) = cluster.processes("mariadbd")
    assert Path(f"/proc/{server}").stat().st_uid != 0
    # Its temporary files are in the container's memory, where no other cluster has any.
    asked = run(*inside, *client, "select @@tmpdir, @@skip_networking")
    assert asked.stdout.split() == ["/dev/shm/mariadb/tmp", "1"]
    assert "minicluster" in cluster.slurm("sacctmgr", "-nP", "show", "cluster")


def test_nobody_else_can_hold_a_lock(cluster: Cluster) -> None:
    cluster.nimc("up", "--nodes", "1", "--origins", "0")
    with locked_host():
        for path in (cluster.state / "minicluster", HOST):
            refused = as_stranger("flock", "--nonblock", str(path), "true")
            assert "Permission denied" in refused.stderr, refused.stderr
    assert not HOST.exists()
    # The folder itself can be locked by anybody, and nobody waits for it.
    command = [*STRANGER, "flock", str(cluster.state), "sleep", "300"]
    holder = subprocess.Popen(command, start_new_session=True)
    try:
        cluster.nimc("down", timeout_s=60)
    finally:
        os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()
    assert cluster.left_behind() == []


@pytest.mark.parametrize("how", ["folder", "link"])
def test_a_planted_state_folder_runs_nothing(cluster: Cluster, how: str) -> None:
    """Its slurm.conf loads a plugin of the stranger's into every client, as root."""
    plugins = cluster.state.parent / "plugins"
    made = cluster.state if how == "folder" else cluster.state.with_name("theirs")
    for folder in (made, plugins):
        folder.mkdir(mode=0o755)
    (made / "slurm.conf").write_text(f"ClusterName=x\nSlurmctldHost=x\nPluginDir={plugins}\n")
    (made / "machine.yaml").write_text("description: planted\n")
    (made / "minicluster").touch()
    for path in (made, plugins, *made.iterdir()):
        os.chown(path, 65534, 65534)
    if how == "link":
        cluster.state.symlink_to(made)
        os.chown(cluster.state, 65534, 65534, follow_symlinks=False)
    why = "belongs to nobody" if how == "folder" else "is a symbolic link"
    commands = [cluster.command(each) for each in ("up", "status", "down")]
    commands.append([*NIMC[:-1], "plan", "quick", "--machine", "minicluster"])
    commands.append([*NIMC[:-1], "doctor", "--machine", "minicluster"])
    for command in commands:
        done = subprocess.run(
            command,
            env={**ENV, "NIMC_MINICLUSTER": str(cluster.state)},
            cwd=cluster.state.parent, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if "doctor" in command:
            assert done.returncode == 3
            assert why in " ".join(done.stdout.split())
        else:
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith(("nimc: --state: ", "nimc: /"))
            assert f"{cluster.state} {why}" in done.stderr
            assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in made.iterdir()) == [
        "machine.yaml", "minicluster", "slurm.conf"
    ]  # fmt: skip
    shutil.rmtree(made)
    if how == "link":
        cluster.state.unlink()
