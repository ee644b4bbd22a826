"""Load of this host: processor time of processes that are not the block's, steal, frequency.

Also that of kernel threads, and the CPUs that the application leaves free. Reads /proc and /sys
below a root path.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from records import kernel_text
from records.kernel_text import TICKS_PER_S, ProcessStat, as_list, cpu_list

# Processor time of a host's kernel threads, in which drivers and network stacks do part of their
# work.


#: Flag of kernel threads in /proc/PID/stat (PF_KTHREAD).
_KERNEL_THREAD = 0x00200000
#: Threads whose time the kernel counts as time in soft interrupts already.
_IN_SOFTIRQ = "ksoftirqd/"


class KernelThreads:
    """Adds up what kernel threads use from one reading to the next.

    A thread that ends between two readings keeps what it had used at the first.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._total = 0
        #: CPU that threads ran on last -> ticks used between the readings.
        self._by_cpu = Counter[int]()
        #: PID and start of a thread -> ticks used at the last reading.
        self._used = {thread: stat.used for thread, stat in _threads(self._proc)}

    @property
    def are_visible(self) -> bool:
        """Return whether /proc shows any; in a container it does not."""
        return bool(self._used)

    def read_s(self) -> float:
        """Time that all of them have used since the first reading, seconds."""
        now = {}
        for thread, stat in _threads(self._proc):
            now[thread] = stat.used
            more = max(stat.used - self._used.get(thread, 0), 0)
            self._total += more
            if stat.cpu is not None:
                self._by_cpu[stat.cpu] += more
        self._used = now
        return self._total / TICKS_PER_S

    def by_cpu_s(self) -> dict[int, float]:
        """The same by the CPU that each thread ran on last, as of the last reading."""
        return {cpu: ticks / TICKS_PER_S for cpu, ticks in self._by_cpu.items()}


def _threads(proc: Path) -> Iterator[tuple[tuple[int, int], kernel_text.ProcessStat]]:
    """PID and start of each kernel thread, and its state."""
    for pid, stat in kernel_text.stats(proc):
        if stat.flags & _KERNEL_THREAD and not stat.name.startswith(_IN_SOFTIRQ):
            yield (pid, stat.started), stat


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


@dataclass(frozen=True, kw_only=True)
class HostLoad:
    """One reading of a host."""

    at_s: float
    #: PID -> processes that are not the block's; None if others' processes are hidden.
    foreign: dict[int, ProcessStat] | None
    #: PID -> processes that had ended before any reading, and that nobody has waited for.
    ended: dict[int, ProcessStat]
    #: PID -> start of the block's processes (as in `ProcessStat`), and PIDs of those that wait for
    #: one of them.
    ours: dict[int, int]
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
    processes = {
        pid: stat for pid, stat in kernel_text.stats(proc) if not stat.flags & _KERNEL_THREAD
    }
    before = (earlier.foreign if earlier else None) or {}
    before_own = earlier.ours if earlier else {}
    ours = {
        pid
        for pid, process in processes.items()
        if pid in exempt or before_own.get(pid) == process.started
    }
    # The environment of a process that still runs the same program is known.
    unchanged = {(pid, process.started, process.name) for pid, process in before.items()}
    new = [
        pid
        for pid, process in processes.items()
        if pid not in ours and (pid, process.started, process.name) not in unchanged
    ]
    ours |= {pid for pid in new if _marked(proc / str(pid), mark)}
    ours |= kernel_text.below(roots, processes)
    others = {pid: process for pid, process in processes.items() if pid not in ours}
    # Nothing shows whose a process was that has ended.
    ended = {
        pid: others.pop(pid)
        for pid, process in [*others.items()]
        if process.state == "Z" and pid not in before
    }
    stolen, total = _stolen(proc)
    return HostLoad(
        at_s=at_s,
        # The option `hidepid` of /proc hides the processes of other users.
        foreign=others if kernel_text.read(proc / "1/stat") else None,
        ended=ended,
        ours={pid: processes[pid].started for pid in ours},
        reapers=frozenset({1, *exempt} | {processes[pid].parent for pid in ours}),
        stolen=stolen,
        total=total,
    )


def foreign_s(before: HostLoad, after: HostLoad) -> dict[str, float] | None:
    """Program -> processor time between two readings that foreign processes used, seconds.

    A process that started and ended in between counts with the one that waited for it. What a
    process had used when a reading first saw it, ended, counts for nothing. All together are no
    more than the host's hardware threads had in that time: the kernel passes on the times of what
    has ended to whichever process adopts it. None if others' processes are hidden.
    """
    if before.foreign is None or after.foreign is None:
        return None
    ticks: dict[str, int] = {}
    reapers = before.reapers | after.reapers
    gone = _gone({**before.ended, **before.foreign}, {**after.ended, **after.foreign})
    for pid, now in after.foreign.items():
        then = before.foreign.get(pid)
        used, children = now.used, now.children
        if then and then.started == now.started:
            used, children = used - then.used, children - then.children
        if pid not in reapers and now.name not in _REAPERS:
            used += max(children - gone.get(pid, 0), 0)
        # Its user chose the name: without what a terminal would act on.
        name = "".join(c if c.isascii() and c.isprintable() else "?" for c in now.name)
        ticks[name] = ticks.get(name, 0) + used
    total, most = sum(ticks.values()), after.total - before.total
    share = most / total if 0 < most < total else 1.0
    return {name: share * used / TICKS_PER_S for name, used in ticks.items()}


def _gone(before: Mapping[int, ProcessStat], after: Mapping[int, ProcessStat]) -> dict[int, int]:
    """Process -> ticks that those below it had used before, which have ended since.

    A process that has ended too has passed it on to its own parent.
    """

    def ended(pid: int) -> bool:
        now = after.get(pid)
        return pid in before and (now is None or now.started != before[pid].started)

    passed_on: dict[int, int] = {}
    for pid, then in before.items():
        if ended(pid):
            parent, passed = then.parent, {pid}
            while ended(parent) and parent not in passed:
                passed.add(parent)
                parent = before[parent].parent
            passed_on[parent] = passed_on.get(parent, 0) + then.used + then.children
    return passed_on


def frequency_hz(cpus: Collection[int], root: Path = Path("/")) -> float | None:
    """Mean frequency of these CPUs (empty: of all), Hz; None if the kernel does not report it."""
    folder = root / "sys/devices/system/cpu"
    names = [f"cpu{cpu}" for cpu in cpus] or ["cpu[0-9]*"]
    paths = [p for name in names for p in folder.glob(f"{name}/cpufreq/scaling_cur_freq")]
    values = [1e3 * khz for path in paths if (khz := kernel_text.number(kernel_text.read(path)))]
    if not values:
        values = [1e6 * mhz for cpu, mhz in _mhz(root / "proc/cpuinfo") if not cpus or cpu in cpus]
    return sum(values) / len(values) if values else None


def _marked(process: Path, mark: bytes) -> bool:
    with kernel_text.gone_or_hidden():
        return mark in (process / "environ").read_bytes().split(b"\0")
    return False


def _stolen(proc: Path) -> tuple[int, int]:
    """Stolen and total ticks of all CPUs; zeros if unknown."""
    with suppress(ValueError):
        first = kernel_text.read(proc / "stat").partition("\n")[0]
        values = [int(text) for text in first.split()[1:]]
        if len(values) > _STEAL:
            return values[_STEAL], sum(values[:_COLUMNS])
    return 0, 0


def _mhz(path: Path) -> Iterator[tuple[int, float]]:
    """CPU and frequency from /proc/cpuinfo, if it is measured."""
    with suppress(ValueError):
        text = kernel_text.read(path)
        if _LIVE_MHZ not in text.split():
            return
        cpu = -1
        for line in text.splitlines():
            key, _, value = (part.strip() for part in line.partition(":"))
            if key == "processor":
                cpu = int(value)
            elif key == "cpu MHz" and 0 < (mhz := float(value)) < _MOST_MHZ:
                yield cpu, mhz


# The CPUs that an application leaves free: those on which none of its busy threads may run.
#
# How an application is bound on other hosts is up to the launcher, so it is read, not assumed.


#: A thread that used less of its time is a launcher or a helper, and takes no core. A thread of the
#: application gets more even of a core that it shares with a dozen others.
_BUSY = 0.05
_ALLOWED = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)


def busy_cpus(pids: Iterable[int], over_s: float, root: Path = Path("/")) -> set[int]:
    """CPUs on which the busy threads of these processes, started `over_s` ago, may run."""
    least = _BUSY * over_s * TICKS_PER_S
    cpus: set[int] = set()
    for pid in pids:
        tasks = root / f"proc/{pid}/task"
        for tid, stat in kernel_text.stats(tasks):
            listed = _ALLOWED.search(kernel_text.read(tasks / f"{tid}/status"))
            with suppress(ValueError):
                if listed and 0 < stat.used >= least:
                    cpus.update(cpu_list(listed[1]))
    return cpus


def free_cpus(busy: Collection[int], root: Path = Path("/")) -> str | None:
    """The other CPUs of this host as the kernel lists them, `0-3,8`; None if nothing was busy."""
    if not busy:
        return None
    try:
        online = cpu_list(kernel_text.read(root / "sys/devices/system/cpu/online"))
    except ValueError:
        return None
    return as_list(set(online) - set(busy))
