"""Attacks of another user of the host on the user who runs a minicluster. Each must fail."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from testbed.containers import running_pid
from testbed.daemons import CONTROLLER, DATABASE_SOCKET
from tests.nimc.minicluster.driven import ENV, NIMC, STRANGER, Cluster

pytestmark = pytest.mark.minicluster


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, env=ENV, capture_output=True, text=True, cwd="/", timeout=300)


def test_no_other_user_can_use_the_database(two_nodes: Cluster) -> None:
    """In earlier versions another user was the database's root, and could write files as root."""
    cluster = two_nodes
    cluster.state.parent.chmod(0o755)  # /tmp, where the default state folder is, can be read too
    client = ["mariadb", "--no-defaults", "--user=root", "--batch", "--skip-column-names"]
    init = running_pid(cluster.layout, CONTROLLER)

    refused = run(
        *STRANGER, *client, f"--socket=/proc/{init}/root{DATABASE_SOCKET}", "-e", "select 1"
    )
    assert refused.returncode != 0
    assert "(13)" in refused.stderr, refused.stderr  # EACCES
    # A stranger within the container is stopped by the permissions of the folder. If these allow
    # access, the database refuses the account.
    inside = ["nsenter", f"--target={init}", "--mount"]
    client += [f"--socket={DATABASE_SOCKET}", "-e"]
    refused = run(*inside, *STRANGER, *client, "select 1")
    assert "(13)" in refused.stderr, refused.stderr
    run(*inside, "chmod", "755", str(Path(DATABASE_SOCKET).parent))
    refused = run(*inside, *STRANGER, *client, "select 1")
    assert "Access denied for user 'root'" in refused.stderr, refused.stderr

    # Even the database's root can neither write nor read a file of the host. The server's process
    # does not run as root.
    target = Path("/tmp") / f"{cluster.layout.tag}-outfile"
    for statement in (f"select 1 into outfile '{target}'", "select load_file('/etc/hostname')"):
        done = run(*inside, *client, statement)
        assert "--secure-file-priv" in done.stderr or done.stdout.strip() == "NULL", done
    assert not target.exists()
    (server,) = cluster.processes("mariadbd")
    assert Path(f"/proc/{server}").stat().st_uid != 0
    # The server's temporary files are in the container's own memory.
    answer = run(*inside, *client, "select @@tmpdir, @@skip_networking")
    assert answer.stdout.split() == ["/dev/shm/mariadb/tmp", "1"]
    assert "minicluster" in cluster.slurm("sacctmgr", "-nP", "show", "cluster")


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_a_state_folder_that_another_user_planted_is_refused(cluster: Cluster, kind: str) -> None:
    """Its slurm.conf would load the attacker's plugin into every client, as root."""
    cluster.state.parent.chmod(0o755)
    plugins = cluster.state.parent / "plugins"
    planted = cluster.state if kind == "folder" else cluster.state.with_name("theirs")
    for folder in (planted, plugins):
        folder.mkdir(mode=0o755)
    (planted / "slurm.conf").write_text(f"ClusterName=x\nSlurmctldHost=x\nPluginDir={plugins}\n")
    (planted / "machine.yaml").write_text("description: planted\n")
    (planted / "minicluster").touch()
    for path in (planted, plugins, *planted.iterdir()):
        os.chown(path, 65534, 65534)
    if kind == "link":
        cluster.state.symlink_to(planted)
        os.chown(cluster.state, 65534, 65534, follow_symlinks=False)
    why = "belongs to nobody" if kind == "folder" else "is a symbolic link"
    commands = [cluster.command("up")]
    if kind == "folder":
        commands += [cluster.command("status"), cluster.command("down")]
        commands.append([*NIMC[:-1], "plan", "quick", "--machine", "minicluster"])
        commands.append([*NIMC[:-1], "doctor", "--machine", "minicluster"])
    for command in commands:
        env = {**ENV, "NIMC_MINICLUSTER": str(cluster.state)}
        done = subprocess.run(
            command, cwd=cluster.state.parent, env=env, capture_output=True, text=True, timeout=300
        )
        if "doctor" in command:
            assert done.returncode == 3
            assert why in " ".join(done.stdout.split())
        else:
            assert done.returncode == 2, done.stderr
            assert done.stderr.startswith(("nimc: --state: ", "nimc: /"))
            assert f"{cluster.state} {why}" in done.stderr
            assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in planted.iterdir()) == [
        "machine.yaml", "minicluster", "slurm.conf"
    ]  # fmt: skip
    shutil.rmtree(planted)
    if kind == "link":
        cluster.state.unlink()
