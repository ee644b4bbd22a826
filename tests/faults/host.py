"""This host as a testbed of trials: a mount namespace for each, and processes by their roles.

What a campaign starts and leaves is known by the namespace, which nothing in it can leave. /tmp,
/dev/shm and /run/user are empty in it, so each file that is there afterwards was left.
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

#: As short as a campaign can be. The machine's other work rejects none of its runs.
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
#: Its application is a shell; for faults that are there all the time.
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
#: Arguments: the checkout, which may lie below /tmp; the folder of the results, outside of it; the
#: size of a file system for the results, or 0. Ends when the harness does.
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
#: How long processes and jobs may take to end after nimc, seconds.
_LEFTOVERS_S = 20.0
#: How often a condition is checked, seconds.
_POLL_S = 0.02
#: Programs of a minicluster; each is a role.
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
    #: The virtual machine that it is in, which has its own ids; empty: this host.
    box: str = ""

    @property
    def line(self) -> str:
        return f"{self.pid} {' '.join(self.words)[:200]}"


def role(words: tuple[str, ...]) -> str | None:
    """Return the role of a process, by its command line; None if no fault is done to such ones."""
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
    if program == "mpi_put":  # `read` adds the rank
        return "writer_origin" if words[-1] == "RANK=1" else "writer_target"
    if program == "ib_write_bw":  # the origin's ends with an address
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
            if words != [b""]:  # of a zombie
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                rank = re.search(rb"(?<=\0PMI_)RANK=\d+", environ)
                words = [word for word in words if word] + ([rank[0]] if rank else [])
                processes.append(Process(pid, tuple(map(os.fsdecode, words))))
    return processes


def with_role(name: str, processes: Iterable[Process]) -> list[Process]:
    """Return the processes of a role."""
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
        #: The root folder as it is inside, and the results in it.
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
    """This host: one sandbox for each trial. Other testbeds are subclasses."""

    machine = "localhost"
    #: Whether samples have times of another clock than this host's.
    own_clocks = False
    #: Everything may take so many times as long as on this host.
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
            if fault and fault.says:
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
        """Send a process a signal; it may have ended meanwhile."""
        with suppress(ProcessLookupError):
            os.kill(process.pid, signum)

    def jobs(self) -> list[str]:
        return []

    def leftovers(self) -> list[str]:
        """Return the processes and jobs that do not end by themselves."""
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
        """Restart what was killed, so that the next trial finds an intact testbed."""
