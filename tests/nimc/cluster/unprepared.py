"""A minicluster that is changed into one without preparation for nimc.

It has two partitions, one of which takes no heterogeneous jobs. Its network interface has another
name, and each node has a /tmp of its own. Its module system is Lmod, or environment-modules if Lmod
is missing, with Debian's gcc and Open MPI as modules.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed import containers, daemons, needs
from testbed.shell import run, wait_for
from testbed.spec import SITE_FOLDER, Node
from tests.nimc.minicluster.driven import ENV, Cluster

INTERFACE = "hsn0"
NODES = ("node1", "node2", "node3")
#: ReFrame's name of a module system -> file that login shells read. Debian installs only one of
#: them at a time.
MODULE_SYSTEMS = {
    "lmod": Path("/etc/profile.d/lmod.sh"),
    "tmod4": Path("/etc/profile.d/modules.sh"),
}
_PARTITIONS = """
PartitionName=batch Nodes=node[1-3] OverSubscribe=EXCLUSIVE MaxTime=1-00:00:00 Default=YES State=UP
PartitionName=debug Nodes=node[1-2] MaxTime=00:30:00 State=UP
JobSubmitPlugins=lua
"""
_PLUGIN = """
function slurm_job_submit(job, partitions, user)
  local forbidden = (job.partition or "batch") == "batch"
  if forbidden and job.het_job_offset ~= nil and job.het_job_offset ~= slurm.NO_VAL then
    slurm.log_user("batch takes no heterogeneous jobs")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, user) return slurm.SUCCESS end
return slurm
"""
_MODULES = {"gcc/12": "Debian", "openmpi/4.1.2": "older", "openmpi/4.1.4": "Debian"}


def unprepared_or_skip() -> Iterator[Cluster]:
    """Yields the running cluster. Skips the test if this host cannot run one."""
    if os.geteuid() != 0:
        pytest.skip("a minicluster needs root")
    if missing := needs.missing("veth"):
        pytest.skip(f"missing for --fabric veth: {', '.join(n.program_or_file for n in missing)}")
    if not any(Path("/usr").glob("lib*/*/slurm-wlm/job_submit_lua.so")):
        pytest.skip("this Slurm has no job_submit_lua.so, which forbids heterogeneous jobs")
    # The folder is not in /tmp, since each node has a /tmp of its own.
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/var/tmp") as folder:
        cluster = Cluster(Path(folder) / "s")
        try:
            cluster.nimc("up", "--nodes", str(len(NODES)), "--origins", "1", "--fabric", "veth")
            unprepare(cluster)
            yield cluster
        finally:
            subprocess.run(cluster.command("down"), env=ENV, capture_output=True, timeout=300)


def unprepare(cluster: Cluster) -> None:
    """Change a running minicluster of three nodes into the one described above."""
    prolog = cluster.state / "task-prolog.sh"
    shutil.copy(SITE_FOLDER / "task-prolog.sh", prolog)
    prolog.write_text(prolog.read_text().replace("eth0", INTERFACE))
    (cluster.state / "job_submit.lua").write_text(_PLUGIN)
    conf = cluster.layout.slurm_conf
    text = re.sub(r"^PartitionName=.*\n?", "", conf.read_text(), flags=re.MULTILINE)
    text = re.sub(r"^TaskProlog=.*$", f"TaskProlog={prolog}", text, flags=re.MULTILINE)
    # Each node gets an equal share of this host's cores.
    share = max(1, (os.cpu_count() or 1) // len(NODES))
    text = re.sub(r"\bCPUs=[0-9]+", f"CPUs={share}", text)
    for node in NODES:
        _rename_interface(cluster.layout.netns(node))
        containers.enter(cluster.layout, node, ["mount", "-t", "tmpfs", "tmp", "/tmp"])
    conf.write_text(text + _PARTITIONS)
    # After a change of nodes, slurmctld must be started again. slurmd reads the new configuration
    # on `reconfigure`.
    cluster.slurm("scontrol", "shutdown", "slurmctld")
    wait_for("the end of slurmctld", lambda: not cluster.processes("slurmctld"), 30, conf)
    daemons.start_controller(cluster.layout)
    cluster.slurm("scontrol", "reconfigure")
    members = [Node(name, "target", number) for number, name in enumerate(NODES, 1)]
    daemons.wait_idle(cluster.layout, members, 60.0, lambda: None)
    for name, text in _MODULES.items():
        path = cluster.state / "modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#%Module1.0\nmodule-whatis {text}\n")


def _rename_interface(netns: str) -> None:
    commands = ("link set eth0 down", f"link set eth0 name {INTERFACE}", f"link set {INTERFACE} up")
    run(["ip", "-n", netns, "-batch", "-"], stdin="\n".join([*commands, ""]))


def login_shell(cluster: Cluster, checkout: Path) -> dict[str, str]:
    """Return the environment of a user's login shell: with Slurm and modules, without `nimc`."""
    kept = {name: os.environ[name] for name in ("HOME", "USER", "LANG") if name in os.environ}
    return {
        **kept,
        "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
        "SLURM_CONF": str(cluster.layout.slurm_conf),
        "MODULEPATH": str(cluster.state / "modules"),
        "PYTHONPATH": str(checkout),
    }
