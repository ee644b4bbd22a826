"""This host as a testbed of trials.

Each trial runs in a mount namespace of its own, which its processes cannot leave. So all processes
that a campaign starts are found by their namespace. /tmp, /dev/shm and /run/user are empty at the
start of a trial, so all files that are in them at the end were left by the campaign.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.spec import CHECKOUT
from tests.faults.checks import MIN_SHARE, PAIRS, NimcEnd
from tests.faults.table import Fault
from tests.undisturbed import VERIFY

#: The shortest possible campaign. None of its runs is rejected because of other work on this host.
TINY = f"""\
name: tiny
title: STREAM, as short as can be
workloads:
  - {{check: stream, set: {{iterations: 30, array_most: 32MiB, warmups: 0}}, expect: 1s}}
arms: [off, on]
pairs: {{floor: {PAIRS}}}
verify: {{min_share: {MIN_SHARE}, {VERIFY}}}
run_timeout: 30s
"""
#: Campaign for planted faults, which last all the time. Its application is a shell script.
SHELL = """\
name: planted
title: {fault.name}
workloads:
  - check: {probe}:probe
    set: {{script: "{fault.script}", prints: {prints}, warmups: 0}}
    expect: 5s
arms: [off, on]
factors: {fault.factors}
pairs: {{floor: 6}}
verify:
  {{min_share: {fault.min_share}, foreign_cpus: {foreign}, steal_share: null, frequency_drop: null}}
run_timeout: 10s
"""
PROBE = CHECKOUT / "tests" / "reframe_tests" / "slurm" / "probe.py"
#: Shell script that prepares the namespace of a trial, and waits until the harness ends. Its
#: arguments are the checkout, which may be below /tmp; the folder of the trial, which has the
#: results and is not below /tmp; and the size of a file system for the results, or 0 for none.
_INIT = """
set -eu
checkout=$1 work=$2 size=$3
mkdir -p "$work/checkout" "$work/results"
mount --bind "$checkout" "$work/checkout"
for folder in /tmp /dev/shm /run/user; do
    [ ! -d "$folder" ] || mount -t tmpfs -o mode=1777 trial "$folder"
done
mkdir -p "$checkout"
mount --bind "$work/checkout" "$checkout"
umount "$work/checkout"
[ "$size" = 0 ] || mount -t tmpfs -o "size=$size" results "$work/results"
echo ready
exec cat
"""
_TEMPORARY = ("tmp", "dev/shm", "run/user")
#: How long processes and jobs may take to end after nimc has ended, seconds.
_LEFTOVERS_S = 20.0
#: How often a condition is checked, seconds.
_POLL_S = 0.02
#: Daemons of a minicluster. The name of each is also its role.
DAEMONS = ("slurmctld", "slurmdbd", "slurmd", "mariadbd", "munged")


def wait_until(holds: Callable[[], bool], timeout_s: float) -> bool:
    until_s = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > until_s:
            return False
        time.sleep(_POLL_S)
    return True


@dataclass(frozen=True)
class Process:
    """A process that is not a zombie."""

    pid: int
    words: tuple[str, ...]
    #: The virtual machine in which the process runs, and in which `pid` is valid. Empty if it runs
    #: on this host.
    box: str = ""

    @property
    def line(self) -> str:
        return f"{self.pid} {' '.join(self.words)[:200]}"


def role(words: tuple[str, ...]) -> str | None:
    """Return the role of the process with this command line.

    None means that no fault is done to such processes.
    """
    program = Path(words[0]).name if words else ""
    if "from nimc.cli.main import main; main()" in words:
        return "nimc"
    if program == "srun":
        return "srun"
    if "reframe_tests.conduct" in words:
        return "conductor"
    if "conductor.agent.agent" in words:
        return "agent"
    if program == "ucx_perftest":
        return "writer_origin" if "-t" in words else "writer_target"
    if program == "mpi_put":  # `read_processes` appends the rank to the words
        return "writer_origin" if words[-1] == "RANK=1" else "writer_target"
    if program == "ib_write_bw":  # only the command line at the origin ends with an address
        return "writer_origin" if words[-1].count(".") == 3 else "writer_target"
    if "-r" in words and any(Path(word).name == "reframe" for word in words[:2]):
        return "reframe"
    if program == "stream" or (program == "sh" and "lammps" in words[-1]):
        return "application"
    return program if program in DAEMONS else None


def read_processes(pids: Iterable[int]) -> list[Process]:
    processes = []
    for pid in pids:
        with suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if words != [b""]:  # a zombie has no command line
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                rank = re.search(rb"(?<=\0PMI_)RANK=\d+", environ)
                words = [word for word in words if word] + ([rank[0]] if rank else [])
                processes.append(Process(pid, tuple(map(os.fsdecode, words))))
    return processes


def with_role(name: str, processes: Iterable[Process]) -> list[Process]:
    """Return the processes that have a role."""
    return [process for process in processes if role(process.words) == name]


class Sandbox:
    """A mount namespace that lasts until `close`."""

    def __init__(self, work: Path, disk_b: int = 0) -> None:
        work.mkdir(parents=True)
        self.work = work
        self._holder = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private"]
            + ["sh", "-c", _INIT, "sh", str(CHECKOUT), str(work), str(disk_b)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._holder.stdout.readline() == b"ready\n"
        self._namespace = os.readlink(f"/proc/{self._holder.pid}/ns/mnt")
        #: Path by which this host sees the root folder of the namespace, and that of the results.
        self.root = Path(f"/proc/{self._holder.pid}/root")
        self.results = self.root / str(work / "results").lstrip("/")

    def command(self, *words: str) -> list[str]:
        join = ["nsenter", f"--target={self._holder.pid}", "--mount", f"--wd={self.work}"]
        return [*join, "--", *words]

    def run(self, *words: str) -> None:
        subprocess.run(self.command(*words), check=True, capture_output=True)

    def processes(self) -> list[Process]:
        pids = (int(entry) for entry in os.listdir("/proc") if entry.isdigit())
        return read_processes(
            pid for pid in pids if pid != self._holder.pid and self._is_inside(pid)
        )

    def _is_inside(self, pid: int) -> bool:
        with suppress(OSError):
            return os.readlink(f"/proc/{pid}/ns/mnt") == self._namespace
        return False

    def files(self) -> list[str]:
        left = []
        for name in _TEMPORARY:
            below = CHECKOUT.is_relative_to(f"/{name}")
            checkout = CHECKOUT.parts[len(Path(f"/{name}").parts)] if below else None
            with suppress(FileNotFoundError):
                entries = os.listdir(self.root / name)
                left += [f"/{name}/{entry}" for entry in entries if entry != checkout]
        return left

    def close(self) -> None:
        """Kill what is left inside, and end the namespace."""
        for process in self.processes():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()


@dataclass
class Nimc:
    process: subprocess.Popen[bytes]
    err: Path

    @property
    def running(self) -> bool:
        return self.process.poll() is None

    def end(self, bound_s: float) -> NimcEnd:
        status: int | None = None
        try:
            status = self.process.wait(bound_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        return NimcEnd(status, self.err.read_text(errors="replace"), bound_s)


class Host:
    """This host, with one sandbox for each trial. Other testbeds are subclasses of this class."""

    machine = "localhost"
    #: Whether the times in samples come from a clock other than this host's.
    own_clocks = False
    #: Factor for time limits: how much longer everything may take than on this host.
    patience = 1.0

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sandbox: Sandbox
        (folder / "home").mkdir(exist_ok=True)

    @classmethod
    @contextmanager
    def instance(cls, folder: Path) -> Iterator[Host]:
        yield cls(folder)

    @contextmanager
    def opened(self, name: str, fault: Fault | None = None) -> Iterator[None]:
        """Open a sandbox for a trial, and kill all processes in it at the end."""
        self.sandbox = Sandbox(self.folder / name, fault.disk_b if fault else 0)
        try:
            text = TINY
            if fault and fault.reason:
                foreign = 0.25 if fault.action == "load" else "null"
                prints = str(fault.prints).lower()
                text = SHELL.format(fault=fault, probe=PROBE, foreign=foreign, prints=prints)
            (self.sandbox.work / "tiny.yaml").write_text(text)
            yield
        finally:
            self.sandbox.close()

    def environment(self) -> dict[str, str]:
        return {
            **{name: text for name, text in os.environ.items() if name != "TMPDIR"},
            "PYTHONPATH": str(CHECKOUT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(self.folder / "home"),
        }

    def start(self, name: str) -> Nimc:
        words = ("run", "tiny.yaml", "--machine", self.machine, "--results", "results")
        return self.nimc(name, *words)

    def nimc(self, name: str, *words: str) -> Nimc:
        main = "from nimc.cli.main import main; main()"
        err = self.sandbox.work / f"{name}.err"
        with err.open("wb") as errors:
            process = subprocess.Popen(
                self.sandbox.command(sys.executable, "-c", main, *words),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        return Nimc(process, err)

    def processes(self) -> list[Process]:
        return self.sandbox.processes()

    def victims(self) -> list[Process]:
        return self.processes()

    def send(self, process: Process, signum: int) -> None:
        """Send a signal to a process; nothing happens if the process has ended."""
        with suppress(ProcessLookupError):
            os.kill(process.pid, signum)

    def jobs(self) -> list[str]:
        return []

    def leftovers(self) -> list[str]:
        """Wait for the end of all processes and jobs; return those that have not ended in time."""
        leftovers: list[str] = []

        def all_ended() -> bool:
            leftovers[:] = [f"process {process.line}" for process in self.processes()]
            leftovers.extend(f"job {job}" for job in self.jobs())
            return not leftovers

        wait_until(all_ended, _LEFTOVERS_S * self.patience)
        return leftovers

    def files(self) -> list[str]:
        return self.sandbox.files()

    def repair(self) -> None:
        """Restart killed parts of the testbed, so that it is intact for the next trial.

        This host needs no repair.
        """
