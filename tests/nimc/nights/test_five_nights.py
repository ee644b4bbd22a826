"""Five nights in fast motion, with the real ReFrame and STREAM.

One is killed, one finds the machine busy, and the last runs beside busy processes that take its
processors. Five nights are too few for alarms on the history: the loss is found by the site's
reference, which is what the first night measured.
"""

import os
import shutil
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

pytestmark = pytest.mark.long

CAMPAIGN = """\
name: tiny
workloads: [{check: stream, set: {iterations: 10, array_most: 16MiB}, expect: 1s}]
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
        self.file.write_text(
            f"machine: {self.machine}\ncampaign: {self.folder}/tiny.yaml\n"
            f'window: {{start: "00:00", end: "00:00"}}\nbudget: 5\nresults: {self.results}\n'
        )

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def summary(self, night: date) -> Summary | None:
        path = path_of(self.results / "nights", "box", night)
        return load(path) if path.exists() else None

    def samples(self) -> int:
        files = self.results.glob(f"tiny-{self.machine}-*/samples/*.jsonl")
        return sum(file.read_text().count("\n") for file in files)


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
    first = nights.summary(NIGHTS[0])
    (fom,) = (e.value for e in first.figures if (e.arm, e.quantity) == ("off", "fom"))
    with (checkout / "site" / "localhost.yaml").open("a") as file:
        file.write(f"references: {{stream: {fom!r}}}\n")
        file.write(f"reference_tolerance: {TOLERANCE}\n")
    before = nights.samples()
    second = start(NIGHTS[1])
    wait(lambda: nights.samples() >= before + 3)
    second.kill()
    second.wait()
    wait(lambda: not running(nights.results / "nights", "localhost", "box"))
    with machine_lock(describe(str(nights.file)).folder, "localhost", "other"):
        assert start(NIGHTS[2]).wait(60) == 0
    assert start(NIGHTS[3]).wait(280) == 0
    with planted_loss():
        assert start(NIGHTS[4]).wait(280) == 1
    found = [nights.summary(night) for night in NIGHTS]
    assert [each and each.outcome for each in found] == OUTCOMES, found
    assert [bool(each and each.alarms) for each in found] == [False, False, False, False, True]
    (alarm,) = found[4].alarms  # type: ignore[union-attr]
    assert (alarm.case, alarm.source) == ("stream", "reference")
    assert found[1].run is None  # type: ignore[union-attr]
    assert found[3].run != found[4].run  # type: ignore[union-attr]
