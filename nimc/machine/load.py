"""HostLoad of this host: processor time of processes that are not the block's, steal, frequency.

Reads /proc and /sys below a root path.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from nimc.base import kernel_text

# Processor time of a host's kernel threads, in which drivers and network stacks do part of their
# work.


#: Flag of kernel threads in /proc/PID/stat (PF_KTHREAD).
KERNEL_THREAD = 0x00200000
#: Threads whose time the kernel counts as time in soft interrupts already.
_IN_SOFTIRQ = "(ksoftirqd/"
#: Fields of /proc/PID/stat after the name: flags, user and system time, start.
_FLAGS, _USER, _SYSTEM, _STARTED = 6, 11, 12, 19


class KernelThreads:
    """Adds up what kernel threads use from one reading to the next.

    A thread that ends between two readings keeps what it had used at the first.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._total = 0
        #: PID and start of a thread -> ticks used at the last reading.
        self._used = dict(_threads(self._proc))

    @property
    def shown(self) -> bool:
        """Whether /proc shows any; in a container it does not."""
        return bool(self._used)

    def read_s(self) -> float:
        """Time that all of them have used since the first reading, seconds."""
        now = dict(_threads(self._proc))
        self._total += sum(max(used - self._used.get(each, 0), 0) for each, used in now.items())
        self._used = now
        return self._total / os.sysconf("SC_CLK_TCK")


def _threads(proc: Path) -> Iterator[tuple[tuple[int, int], int]]:
    """PID and start of each kernel thread, and the ticks that it has used."""
    for pid in filter(str.isdigit, os.listdir(proc) if proc.is_dir() else ()):
        head, _, rest = kernel_text.read(proc / pid / "stat").rpartition(")")
        fields = rest.split()
        # Neither if it is gone, nor if that is not what the kernel writes.
        with suppress(IndexError):
            flags, user, system, started = (
                kernel_text.number(fields[at]) or 0 for at in (_FLAGS, _USER, _SYSTEM, _STARTED)
            )
            if flags & KERNEL_THREAD and _IN_SOFTIRQ not in head:
                yield (int(pid), started), user + system


#: Environment variable that marks every process that a conductor started, with the block's own
#: random name as its value.
BLOCK_VARIABLE = "NIMC_BLOCK"

#: Slurm's daemons wait for processes of the block, whose time then counts as their children's.
_REAPERS = frozenset({"slurmd", "slurmstepd"})
#: Columns of the first line of /proc/stat that add up to all time, and the stolen one.
_COLUMNS, _STEAL = 8, 7
#: This flag in /proc/cpuinfo means that its `cpu MHz` is measured.
_LIVE_MHZ = "aperfmperf"
_MOST_MHZ = 1e6


@dataclass(frozen=True)
class ProcessTime:
    """Processor time of a process and of the children that it has waited for, seconds."""

    started: int
    parent: int
    name: str
    used_s: float
    children_s: float


@dataclass(frozen=True)
class HostLoad:
    """One reading of a host."""

    at_s: float
    #: PID -> processes that are not the block's; None if others' processes are hidden.
    foreign: dict[int, ProcessTime] | None
    #: PID -> start of the block's processes (as in `ProcessTime`), and PIDs of those that wait for
    #: one of them.
    own: dict[int, int]
    reapers: frozenset[int]
    #: Time that the hypervisor took, and all processor time, ticks.
    stolen: int
    total: int


def read(
    block: str,
    roots: Collection[int],
    exempt: Collection[int] = (),
    earlier: HostLoad | None = None,
    root: Path = Path("/"),
) -> HostLoad:
    """Read the load now.

    A process is the block's if its environment has the block's mark, if it is or descends from one
    of `roots`, is one of `exempt`, or was the block's in the `earlier` reading. Kernel threads are
    nobody's.
    """
    proc, at_s = root / "proc", time.monotonic()
    mark = f"{BLOCK_VARIABLE}={block}".encode()
    found, ended = dict[int, ProcessTime](), set[int]()
    for pid, process, zombie in _processes(proc):
        found[pid] = process
        if zombie:
            ended.add(pid)
    before = (earlier.foreign if earlier else None) or {}
    own = {
        pid
        for pid, each in found.items()
        if pid in exempt or (not _same(before.get(pid), each) and _marked(proc / str(pid), mark))
    }
    known = earlier.own if earlier else {}
    own |= {pid for pid, each in found.items() if known.get(pid) == each.started}
    own |= _below(roots, found)
    # Nothing shows whose an ended process was; its parent will have its time.
    others = {
        pid: each
        for pid, each in found.items()
        if pid not in own and (pid not in ended or pid in before)
    }
    stolen, total = _stolen(proc)
    return HostLoad(
        at_s=at_s,
        foreign=others if _shows_others(proc) else None,
        own={pid: found[pid].started for pid in own},
        reapers=frozenset({1, *exempt} | {found[pid].parent for pid in own}),
        stolen=stolen,
        total=total,
    )


def foreign_s(before: HostLoad, after: HostLoad) -> dict[str, float] | None:
    """Program -> processor time between two readings that foreign processes used, seconds.

    A process that started and ended in between counts with the one that waited for it. None if
    others' processes are hidden.
    """
    if before.foreign is None or after.foreign is None:
        return None
    found: dict[str, float] = {}
    reapers = before.reapers | after.reapers
    gone_s = _gone_s(before.foreign, after.foreign)
    for pid, now in after.foreign.items():
        then = before.foreign.get(pid)
        if then is None or then.started != now.started:
            then = ProcessTime(now.started, now.parent, now.name, 0.0, 0.0)
        used_s = now.used_s - then.used_s
        if pid not in reapers and now.name not in _REAPERS:
            used_s += max(now.children_s - then.children_s - gone_s.get(pid, 0.0), 0.0)
        found[now.name] = found.get(now.name, 0.0) + used_s
    return found


def _gone_s(
    before: Mapping[int, ProcessTime], after: Mapping[int, ProcessTime]
) -> dict[int, float]:
    """Process -> time that those below it had used before, which have ended since.

    A process that has ended too has passed it on to its own parent.
    """

    def ended(pid: int) -> bool:
        now = after.get(pid)
        return pid in before and (now is None or now.started != before[pid].started)

    found: dict[int, float] = {}
    for pid, then in before.items():
        if ended(pid):
            parent, passed = then.parent, {pid}
            while ended(parent) and parent not in passed:
                passed.add(parent)
                parent = before[parent].parent
            found[parent] = found.get(parent, 0.0) + then.used_s + then.children_s
    return found


def steal_share(before: HostLoad, after: HostLoad) -> float | None:
    """Share of the processor time between two readings that the hypervisor took."""
    total = after.total - before.total
    return (after.stolen - before.stolen) / total if total > 0 else None


def frequency_hz(cpus: Collection[int], root: Path = Path("/")) -> float | None:
    """Mean frequency of these CPUs (empty: of all), Hz; None if the kernel does not report it."""
    folder = root / "sys/devices/system/cpu"
    names = [f"cpu{cpu}" for cpu in cpus] or ["cpu[0-9]*"]
    paths = [p for name in names for p in folder.glob(f"{name}/cpufreq/scaling_cur_freq")]
    values = [1e3 * khz for path in paths if (khz := kernel_text.number(kernel_text.read(path)))]
    if not values:
        values = [1e6 * mhz for cpu, mhz in _mhz(root / "proc/cpuinfo") if not cpus or cpu in cpus]
    return sum(values) / len(values) if values else None


def _processes(proc: Path) -> Iterator[tuple[int, ProcessTime, bool]]:
    """PID, times, and whether it has ended, of all user processes."""
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        # Errors beside OSError: not what the kernel writes.
        with suppress(OSError, ValueError, IndexError, ArithmeticError):
            head, _, rest = (proc / entry / "stat").read_text(errors="replace").rpartition(")")
            fields = rest.split()
            if int(fields[6]) & KERNEL_THREAD:
                continue
            user, system, child_user, child_system = (int(text) * tick_s for text in fields[11:15])
            yield (
                int(entry),
                ProcessTime(
                    started=int(fields[19]),
                    parent=int(fields[1]),
                    name=_printable(head.partition("(")[2]),
                    used_s=user + system,
                    children_s=child_user + child_system,
                ),
                fields[0] == "Z",
            )


def _printable(name: str) -> str:
    """A program's name, which its user chose: without what a terminal would act on."""
    return "".join(c if c.isascii() and c.isprintable() else "?" for c in name)


def _same(then: ProcessTime | None, now: ProcessTime) -> bool:
    """Whether a process still runs the same program, so that its environment is known."""
    return then is not None and (then.started, then.name) == (now.started, now.name)


def _marked(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:  # another user's, or gone
        return False


def _below(roots: Collection[int], found: Mapping[int, ProcessTime]) -> set[int]:
    """The processes that descend from `roots`, and these."""
    children: dict[int, list[int]] = {}
    for pid, process in found.items():
        children.setdefault(process.parent, []).append(pid)
    below, queue = set[int](), [pid for pid in roots if pid in found]
    while queue:
        pid = queue.pop()
        if pid not in below:  # PIDs may have been used again while they were read
            below.add(pid)
            queue += children.get(pid, [])
    return below


def _shows_others(proc: Path) -> bool:
    """Whether /proc shows other users' processes; the option `hidepid` hides them."""
    try:
        return bool((proc / "1/stat").read_bytes())
    except OSError:
        return False


def _stolen(proc: Path) -> tuple[int, int]:
    """Stolen and total ticks of all CPUs; zeros if unknown."""
    with suppress(OSError, ValueError):
        first = (proc / "stat").read_text(errors="replace").partition("\n")[0]
        values = [int(text) for text in first.split()[1:]]
        if len(values) > _STEAL:
            return values[_STEAL], sum(values[:_COLUMNS])
    return 0, 0


def _mhz(path: Path) -> Iterator[tuple[int, float]]:
    """CPU and frequency from /proc/cpuinfo, if it is measured."""
    with suppress(OSError, ValueError):
        text = path.read_text(errors="replace")
        if _LIVE_MHZ not in text.split():
            return
        cpu = -1
        for line in text.splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "processor":
                cpu = int(value)
            elif key == "cpu MHz" and 0 < (mhz := float(value)) < _MOST_MHZ:
                yield cpu, mhz
