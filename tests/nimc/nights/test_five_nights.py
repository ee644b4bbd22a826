"""Five nights in fast motion, with the real ReFrame and STREAM: on one host, and under scrontab.

One is killed, one finds no free node (or, on one host, the machine busy), and the last runs beside
busy processes that take its processors. Five nights are too few for alarms on the history: the
loss is found by the site's reference, which is what the first night measured.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest

from nimc.base.processes import end_with
from nimc.nights.description import load as describe
from nimc.nights.summary import Summary, load, machine_lock, path_of, running
from tests.literal_docs import FOLDERS
from tests.nimc.conftest import ROOT
from tests.nimc.minicluster.real import ENV, Cluster

pytestmark = pytest.mark.long

CAMPAIGN = """\
name: tiny
workloads: [{check: stream, set: {iterations: 40, array_most: 64MiB}, expect: 1s}]
arms: [off, aa]
pairs: {floor: 6}
verify: {foreign_cpus: null, steal_share: null, frequency_drop: null, foreign_share: null}
run_timeout: 2min
"""
NIGHTS = [date(2026, 11, 16) + timedelta(days=number) for number in range(5)]
#: So much slower counts: others use this host as well, and the planted loss is larger.
TOLERANCE = 0.5
OUTCOMES = ["measured", "machine failed", "not run", "measured", "slower"]
NIMC = [sys.executable, "-c", "from nimc.cli.main import main; main()"]


class Nights:
    """A nightly in a folder of its own."""

    def __init__(self, folder: Path, machine: str) -> None:
        self.folder, self.machine = folder, machine
        self.file = folder / "box.yaml"
        (folder / "tiny.yaml").write_text(CAMPAIGN)
        self.describe("00:00")

    def describe(self, end: str) -> None:
        """A window from midnight on; a night that is made up for has its length."""
        self.file.write_text(
            f"machine: {self.machine}\ncampaign: {self.folder}/tiny.yaml\n"
            f'window: {{start: "00:00", end: "{end}"}}\nbudget: 5\nresults: {self.results}\n'
            "job: [--partition=compute]\n"
        )

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def summary(self, night: date) -> Summary | None:
        path = path_of(self.results / "nights", "box", night)
        return load(path) if path.exists() else None

    def ended(self, night: date) -> bool:
        found = self.summary(night)
        return found is not None and found.finished_s is not None

    def samples(self) -> int:
        files = self.results.glob(f"tiny-{self.machine}-*/samples/*.jsonl")
        return sum(file.read_text().count("\n") for file in files)

    def kill(self) -> None:
        """Kill `nimc nightly run`, wherever it runs, and wait until nothing holds the lock."""
        (pid,) = (
            int(path.parent.name)
            for path in Path("/proc").glob("[0-9]*/cmdline")
            if f"nightly\0run\0{self.file}".encode() in content(path)
        )
        os.kill(pid, signal.SIGKILL)
        wait(lambda: not running(self.results / "nights", self.machine, self.file.stem))

    def reference(self) -> float:
        """What the first night measured without writers."""
        first = self.summary(NIGHTS[0])
        (fom,) = (each.value for each in first.figures if (each.arm, each.quantity) == OFF)
        return fom


OFF = ("off", "fom")


def content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def wait(holds: Callable[[], bool], limit_s: float = 280) -> None:
    until_s = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.3)


#: A busy process on the first core, where STREAM has a thread; others of this host yield to it.
BUSY = """\
import contextlib, os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
with contextlib.suppress(PermissionError):
    os.setpriority(os.PRIO_PROCESS, 0, 0)
while True:
    pass
"""


@contextmanager
def planted_loss(processes: int = 8) -> Iterator[None]:
    """Busy processes on a core of the application, each a scheduling group of its own."""
    command = [sys.executable, "-c", BUSY]
    end = end_with(os.getpid())
    busy = [
        subprocess.Popen(command, start_new_session=True, preexec_fn=end) for _ in range(processes)
    ]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def check(nights: Nights) -> None:
    found = [nights.summary(night) for night in NIGHTS]
    assert [each and each.outcome for each in found] == OUTCOMES, found
    assert [bool(each and each.alarms) for each in found] == [False, False, False, False, True]
    (alarm,) = found[4].alarms  # type: ignore[union-attr]
    assert (alarm.case, alarm.source) == ("stream", "reference")
    assert found[1].run is None  # type: ignore[union-attr]
    assert found[3].run != found[4].run  # type: ignore[union-attr]


def test_on_one_host(tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    nights = Nights(tmp_path, "localhost")

    def start(night: date) -> subprocess.Popen[bytes]:
        command = [*NIMC, "nightly", "run", str(nights.file), "--night", str(night)]
        environment = {**os.environ, "PYTHONPATH": str(checkout)}
        return subprocess.Popen(command, env=environment, cwd=tmp_path)

    assert start(NIGHTS[0]).wait(280) == 0
    with (checkout / "site" / "localhost.yaml").open("a") as file:
        file.write(f"references: {{stream: {nights.reference()!r}}}\n")
        file.write(f"reference_tolerance: {TOLERANCE}\n")
    before = nights.samples()
    second = start(NIGHTS[1])
    wait(lambda: nights.samples() >= before + 3)
    nights.kill()
    second.wait()
    with machine_lock(describe(str(nights.file)).folder, "localhost", "other"):
        assert start(NIGHTS[2]).wait(60) == 0
    assert start(NIGHTS[3]).wait(280) == 0
    with planted_loss():
        assert start(NIGHTS[4]).wait(280) == 1
    check(nights)


def installed(nights: Nights, cluster: Cluster, wrapper: Path) -> str:
    """What `init --scrontab` prints, but every minute, for the night that is allowed then."""
    go = nights.folder / "go"
    go.mkdir()
    wrapper.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={ROOT} NIMC_MINICLUSTER={cluster.state}"
        f" SLURM_CONF={cluster.layout.slurm_conf}\n"
        f'night=$(ls {go} | head -n 1)\n[ -n "$night" ] || exit 0\nrm {go}/"$night"\n'
        f'exec {sys.executable} -c "from nimc.cli.main import main; main()"'
        f' nightly run {nights.file} --night "$night"\n'
    )
    block = subprocess.run(
        [*NIMC, "nightly", "init", str(nights.file), "--scrontab"],
        env=ENV,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    lines = block.splitlines()
    assert lines[-2].startswith("0 0 * * * ")
    lines[-2] = f"* * * * * sh {wrapper}"
    return "\n".join(lines) + "\n"


def cancel_blocks(cluster: Cluster) -> None:
    """What a killed night leaves in the queue, but not the entry of scrontab."""
    jobs = (line.split() for line in cluster.slurm("squeue", "-h", "-o", "%i %j").splitlines())
    if left := [number for number, name in jobs if name != "nimc-box"]:
        cluster.slurm("scancel", *left)


@pytest.mark.minicluster
def test_under_scrontab(scrontab_cluster: Cluster, tmp_path: Path) -> None:
    cluster = scrontab_cluster
    nights = Nights(tmp_path, "minicluster")
    table = tmp_path / "table"
    table.write_text(installed(nights, cluster, tmp_path / "night.sh"))
    cluster.slurm("scrontab", str(table))

    def allow(night: date) -> None:
        (tmp_path / "go" / str(night)).touch()

    def run(night: date) -> None:
        allow(night)
        wait(lambda: nights.ended(night))

    run(NIGHTS[0])
    with (cluster.state / "machine.yaml").open("a") as file:
        file.write(f"references: {{stream: {nights.reference()!r}}}\n")
        file.write(f"reference_tolerance: {TOLERANCE}\n")
    before = nights.samples()
    allow(NIGHTS[1])
    wait(lambda: nights.samples() >= before + 3)
    nights.kill()
    cancel_blocks(cluster)  # else the block ends, and nothing is left to measure
    job = ("--parsable", "--partition=compute", "--output=/dev/null", "--wrap=sleep 900")
    busy = cluster.slurm("sbatch", *job).strip()
    nights.describe("00:01")
    run(NIGHTS[2])
    nights.describe("00:00")
    cluster.slurm("scancel", busy)
    run(NIGHTS[3])
    with planted_loss():
        run(NIGHTS[4])
    check(nights)
