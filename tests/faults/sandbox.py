"""A mount namespace for one campaign: what it starts and leaves is known to be its own.

Processes are known by the namespace, which nothing that they start can leave. /tmp, /dev/shm and
/run/user are empty in it, so each file that is there afterwards was left.
"""

import os
import subprocess
from contextlib import suppress
from pathlib import Path

from testbed.spec import CHECKOUT
from tests.faults.roles import Process, read

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

    @property
    def root(self) -> Path:
        """The root folder as it is inside."""
        return Path(f"/proc/{self._holder.pid}/root")

    @property
    def results(self) -> Path:
        return self.root / str(self.work / "results").lstrip("/")

    def command(self, *words: str) -> list[str]:
        join = ["nsenter", f"--target={self._holder.pid}", "--mount", f"--wd={self.work}"]
        return [*join, "--", *words]

    def run(self, *words: str) -> None:
        subprocess.run(self.command(*words), check=True, capture_output=True)

    def processes(self) -> list[Process]:
        return read(pid for pid in _pids() if pid != self._holder.pid and self._is_inside(pid))

    def _is_inside(self, pid: int) -> bool:
        with suppress(OSError):
            return os.readlink(f"/proc/{pid}/ns/mnt") == self._namespace
        return False

    def files(self) -> list[str]:
        found = []
        for name in _TEMPORARY:
            folder = self.root / name
            kept = CHECKOUT.parts[len(Path(f"/{name}").parts)] if _below(name) else None
            with suppress(FileNotFoundError):
                found += [f"/{name}/{each}" for each in os.listdir(folder) if each != kept]
        return found

    def close(self) -> None:
        """Kill what is left inside, and end the namespace."""
        for each in self.processes():
            with suppress(ProcessLookupError):
                os.kill(each.pid, 9)
        self._holder.stdin.close()
        self._holder.wait()
        self._holder.stdout.close()


def _below(name: str) -> bool:
    return CHECKOUT.is_relative_to(f"/{name}")


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]
