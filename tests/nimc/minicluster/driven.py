"""Controls a minicluster under test by the commands that users type."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from records.kernel_text import read
from testbed import namespaces, needs
from testbed.spec import CHECKOUT, ClusterLayout, Fabric

NIMC = [sys.executable, "-c", "from nimc.cli.main import main; main()", "minicluster"]
ENV = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
#: The beginning of a command that is run as another user.
STRANGER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


class Cluster:
    """A minicluster, identified by the folder of its state."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self.layout = ClusterLayout.from_state(state)
        self.netns_folder_before = namespaces.NETNS.exists()
        self._started: list[subprocess.Popen[str]] = []

    def command(self, *arguments: str) -> list[str]:
        return [*NIMC, *arguments, "--state", str(self.state)]

    def nimc(self, *arguments: str, rc: int = 0, timeout_s: float = 400) -> str:
        done = subprocess.run(
            self.command(*arguments), env=ENV, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == rc, f"{arguments}: {done.returncode}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done.stdout

    def nimc_json(self, *arguments: str, rc: int = 0) -> Any:
        return json.loads(self.nimc(*arguments, "--json", rc=rc))

    def popen(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            self.command(*arguments), env=ENV, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    @property
    def env(self) -> dict[str, str]:
        conf = str(self.layout.slurm_conf)
        return {**ENV, "NIMC_MINICLUSTER": str(self.state), "SLURM_CONF": conf}

    def start(self, *words: object, folder: Path | None = None) -> subprocess.Popen[str]:
        """Start a command of nimc on this cluster."""
        return self.begin(
            [*NIMC[:-1], *map(str, words)], cwd=folder, env=self.env, stderr=subprocess.PIPE
        )

    def begin(self, command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
        """Start a program. It is killed with the cluster if it is still running then."""
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
        self._started.append(process)
        return process

    def end_started(self) -> None:
        """Kill programs for which a failed test has not waited."""
        for process in self._started:
            process.kill()
            process.wait()

    def slurm(self, *command: str, timeout_s: float = 300) -> str:
        done = subprocess.run(
            command, env=self.env, capture_output=True, text=True, timeout=timeout_s
        )
        assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def run_job(self, job: Path, output: Path, timeout_s: float = 300) -> None:
        """Run a job to its end.

        `sbatch --wait` would notice the end only after 2, 10, 42 or 74 s.
        """
        self.slurm("sbatch", f"--output={output}", str(job))
        deadline = time.monotonic() + timeout_s
        while queue := self.slurm("squeue", "--noheader", "--format=%i %T %r"):
            assert time.monotonic() < deadline, queue
            time.sleep(0.5)

    def accounts(self, jobs: int) -> list[str]:
        """Wait until so many jobs have ended in the accounting; return 'STATE|NODES' of all jobs.

        slurmctld writes to the accounting every 5 s.
        """
        deadline = time.monotonic() + 120
        while True:
            rows = self.slurm("sacct", "-XnP", "-o", "state,nodelist").splitlines()
            ended = [row for row in rows if not row.startswith(("PENDING", "RUNNING"))]
            if len(ended) == jobs:
                return sorted(rows)
            assert time.monotonic() < deadline, rows
            time.sleep(0.5)

    def processes(self, name: str) -> list[int]:
        running = namespaces.pids_in(namespaces.existing_namespaces(self.layout.tag))
        return [pid for pid in running if read(Path(f"/proc/{pid}/comm")) == name]

    def left_behind(self) -> list[str]:
        """Return all traces of the cluster, found with other tools than those that made them."""
        tag, state = self.layout.tag, str(self.state)
        sources = {
            "process": _output("ps", "axo", "pid,args"),
            "link": _output("ip", "-o", "link"),
            "namespace": _output("ip", "netns", "list"),
            "mount": Path("/proc/self/mounts").read_text(),
            "group": _output("find", "/sys/fs/cgroup", "-name", f"{tag}*"),
            "file": _output("find", state, "-maxdepth", "0"),
        }
        traces = [
            f"{kind}: {line}"
            for kind, text in sources.items()
            for line in text.splitlines()
            if tag in line or state in line
        ]
        if namespaces.NETNS.exists() and not self.netns_folder_before:
            others = [p for p in namespaces.NETNS.iterdir() if not p.name.startswith(tag)]
            traces += [] if others else [f"folder: {namespaces.NETNS}"]
        return traces


def _output(*command: str) -> str:
    return subprocess.run(command, env=ENV, capture_output=True, text=True).stdout


def cluster_or_skip(fabric: Fabric) -> Iterator[Cluster]:
    """Yields a cluster that is not up yet, and takes it down afterwards.

    Skips the test if this host cannot run one.
    """
    if os.geteuid() != 0:
        pytest.skip("a minicluster needs root")
    if missing := needs.missing(fabric):
        pytest.skip(
            f"missing for --fabric {fabric}: {', '.join(n.program_or_file for n in missing)}"
        )
    if subprocess.run(["unshare", "--net", "--mount", "--pid", "--fork", "true"]).returncode != 0:
        pytest.skip("this host lets nobody make namespaces")
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/tmp") as folder:
        cluster = Cluster(Path(folder) / "s")
        try:
            yield cluster
        finally:
            cluster.end_started()
            subprocess.run(cluster.command("down"), env=ENV, capture_output=True, timeout=300)


def cluster_of(nodes: int, origins: int = 1) -> Iterator[Cluster]:
    """Yields a running cluster of `nodes` nodes, of which the last are origins.

    Skips the test if this host cannot run one.
    """
    for cluster in cluster_or_skip("veth"):
        cluster.nimc("up", "--nodes", str(nodes), "--origins", str(origins), "--fabric", "veth")
        yield cluster
        cluster.nimc("down")
        assert cluster.left_behind() == []
