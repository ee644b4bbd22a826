"""Child processes that are pinned, and never outlive the process that started them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from nimc.base import kernel_text, numa

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: State of a listening socket in /proc/net/tcp.
_LISTEN = "0A"
#: A writer whose port another user has.
TAKEN = "another process listens on port {port}: the writer would not have its own origin only"
#: Between SIGTERM and SIGKILL, seconds.
GRACE_S = 5.0
#: How often the end of processes is looked for, seconds.
_LOOK_S = 0.02


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that `kill_descendants` finds them."""
    _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def end_with(parent: int, signum: signal.Signals = signal.SIGTERM) -> Callable[[], None]:
    """For a new child: the kernel sends it a signal when its parent dies."""

    def prepare() -> None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
        if os.getppid() != parent:  # it has died already, so nothing will end this process
            os._exit(1)

    return prepare


async def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    cpus: Sequence[int],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    memory_node: int | None = None,
) -> asyncio.subprocess.Process:
    """Start a command in its own session, on `cpus`; it is killed if this process dies.

    Its memory is bound to the NUMA node `memory_node`. Raises OSError if there is no such node or
    program.
    """
    numa.check_binding(memory_node)
    killed_with_parent = end_with(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        killed_with_parent()
        if cpus:
            os.sched_setaffinity(0, cpus)
        if memory_node is not None:
            numa.bind(memory_node)

    return await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, **environment},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=prepare,
    )


async def lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a program's output; one that is longer than the stream's limit comes in pieces."""
    while True:
        try:
            yield await stream.readuntil()
        except asyncio.LimitOverrunError as error:
            yield await stream.read(error.consumed)
        except asyncio.IncompleteReadError as error:
            if error.partial:
                yield error.partial
            return


def suspend(process: asyncio.subprocess.Process) -> None:
    """Suspend a process and its group until `resume` or `stop`."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGSTOP)


def resume(process: asyncio.subprocess.Process) -> None:
    """Let a suspended process continue."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGCONT)


def is_stopped(pid: int) -> bool:
    """Whether all threads of a process are stopped or have ended: a signal takes its time."""
    stats = map(kernel_text.stat_of, Path(f"/proc/{pid}/task").glob("[0-9]*"))
    return all(stat is None or stat.state in "TtZX" for stat in stats)


def ran_s(pid: int) -> float | None:
    """How long all threads of a process have run on a processor, seconds; None if it has ended.

    To the nanosecond where the kernel counts so (CONFIG_SCHED_INFO), else in ticks of 10 ms.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except FileNotFoundError:
        return cpu_s(pid) if Path(f"/proc/{pid}").exists() else None
    except (OSError, ValueError, IndexError):
        return None


async def stop(process: asyncio.subprocess.Process) -> int:
    """End a process and its group: SIGTERM, then SIGKILL. Returns its exit status."""
    for signum in (signal.SIGTERM, signal.SIGKILL):
        if process.returncode is not None:
            break
        _signal_group(process.pid, signum)
        _signal_group(process.pid, signal.SIGCONT)  # a suspended process does not act on SIGTERM
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_S)
    _signal_group(process.pid, signal.SIGKILL)
    return await process.wait()


def _signal_group(pgid: int, signum: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pgid, signum)


def start_time(pid: int) -> int | None:
    """Start time of a process, in ticks, which with its PID identifies it. None if it has ended."""
    stat = kernel_text.stat_of(Path(f"/proc/{pid}"))
    return None if stat is None or stat.state == "Z" else stat.started


def cpu_s(pid: int) -> float:
    """CPU time that a process has used, seconds; 0 if it is gone."""
    stat = kernel_text.stat_of(Path(f"/proc/{pid}"))
    return stat.used / kernel_text.TICKS_PER_S if stat else 0.0


def listener(port: int, pid: int) -> Literal["own", "other"] | None:
    """Who listens on a TCP port of this network namespace, None if nobody does.

    `own` is the process `pid` or a descendant of it; anybody may listen on a port first.
    """
    sockets = _listening(port)
    if not sockets:
        return None
    return "own" if any(_holds(each, sockets) for each in (pid, *descendants(pid))) else "other"


def _listening(port: int) -> dict[str, int]:
    """Inode -> user of each socket that listens on a port."""
    found = {}
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in kernel_text.read(Path(table)).splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                found[fields[9]] = int(fields[7])
    return found


def _holds(pid: int, sockets: Mapping[str, int]) -> bool:
    """Whether a process has one of the sockets open, or is one that hides its files."""
    held = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with suppress(OSError):
                held.add(os.readlink(entry.path))
    except PermissionError:  # a program with capabilities: only the user of the socket is known
        return os.geteuid() in sockets.values()
    except OSError:
        return False
    return any(f"socket:[{inode}]" in held for inode in sockets)


def descendants(pid: int | None = None) -> list[int]:
    """All live descendants of a process; None is this one."""
    children: dict[int, list[int]] = {}
    for each in kernel_text.pids():
        stat = kernel_text.stat_of(Path(f"/proc/{each}"))
        if stat and stat.state != "Z":
            children.setdefault(stat.parent, []).append(each)
    found: list[int] = []
    queue = [os.getpid() if pid is None else pid]
    while queue:
        below = children.get(queue.pop(), [])
        found += below
        queue += below
    return found


def end_descendants(grace_s: float) -> None:
    """SIGTERM to all descendants: compilers remove their files. SIGKILL to what is left."""
    _signal(descendants(), signal.SIGTERM)
    until_s = time.monotonic() + grace_s
    while descendants() and time.monotonic() < until_s:
        time.sleep(_LOOK_S)
    kill_descendants()


def kill_descendants() -> None:
    """Kill all descendants of this process; a subreaper includes orphans."""
    for _ in range(100):
        if not (left := descendants()):
            return
        _signal(left, signal.SIGKILL)


def _signal(pids: Sequence[int], signum: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signum)
