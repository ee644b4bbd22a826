"""Load of this host, read from /proc and /sys below a root path.

The load is the processor time of kernel threads and of foreign processes, the time that the
hypervisor took, and the processors' frequency. The CPUs that the application leaves free are found
here as well. A *block* is the series of runs that a conductor makes. Processes that do not belong
to the block are *foreign*.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from records import kernel_text
from records.kernel_text import TICKS_PER_S, ProcessStat, cpu_list, cpu_list_text

# Processor time of kernel threads. Drivers and network stacks do part of their work in them.


#: Flag of kernel threads in /proc/PID/stat (PF_KTHREAD).
_KERNEL_THREAD = 0x00200000
#: Start of the names of threads whose time the kernel also counts as time in soft interrupts.
_SOFTIRQ_THREAD_START = "ksoftirqd/"


class KernelThreads:
    """Adds up the processor time that kernel threads use from one reading to the next.

    What a thread uses after the last reading before its end is not counted.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._proc = root / "proc"
        self._total_ticks = 0
        #: CPU -> ticks that threads used between two readings and that count for this CPU, since
        #: the threads had last run on it.
        self._ticks_by_cpu = Counter[int]()
        #: PID and start time of a thread -> all ticks that it had used at the last reading.
        self._used_ticks = {thread: stat.used_ticks for thread, stat in _threads(self._proc)}

    @property
    def are_visible(self) -> bool:
        """Return whether /proc shows kernel threads; in a container it does not."""
        return bool(self._used_ticks)

    def read_s(self) -> float:
        """Read the time that all threads have used since the first reading, seconds."""
        used_ticks = {}
        for thread, stat in _threads(self._proc):
            used_ticks[thread] = stat.used_ticks
            ticks = max(stat.used_ticks - self._used_ticks.get(thread, 0), 0)
            self._total_ticks += ticks
            if stat.cpu is not None:
                self._ticks_by_cpu[stat.cpu] += ticks
        self._used_ticks = used_ticks
        return self._total_ticks / TICKS_PER_S

    def by_cpu_s(self) -> dict[int, float]:
        """Return the time that `read_s` last read, by CPU.

        What a thread used between two readings counts for the CPU on which it ran last.
        """
        return {cpu: ticks / TICKS_PER_S for cpu, ticks in self._ticks_by_cpu.items()}


def _threads(proc: Path) -> Iterator[tuple[tuple[int, int], kernel_text.ProcessStat]]:
    """Yield PID and start time of each kernel thread, and its state.

    Threads whose time counts as soft interrupts are left out.
    """
    for pid, stat in kernel_text.stats(proc):
        if stat.flags & _KERNEL_THREAD and not stat.name.startswith(_SOFTIRQ_THREAD_START):
            yield (pid, stat.start_ticks), stat


# Processes of the block and others.


#: Environment variable of every process that a conductor started. Its value is the block's random
#: name.
BLOCK_VARIABLE = "NIMC_BLOCK"

#: Slurm's daemons. Since they wait for ended processes of the block, the time of their children is
#: not counted as foreign.
_REAPER_NAMES = frozenset({"slurmd", "slurmstepd"})
#: Number of columns of the first line of /proc/stat whose sum is the total time.
_TIME_COLUMNS = 8
#: Index of the column of stolen time in that line.
_STEAL_COLUMN = 7
#: This flag in /proc/cpuinfo means that its `cpu MHz` is measured.
_MEASURED_MHZ_FLAG = "aperfmperf"
#: From this frequency on, `cpu MHz` is taken for a fault of the kernel.
_MAX_MHZ = 1e6


@dataclass(frozen=True, kw_only=True)
class HostLoad:
    """The load of a host at one reading."""

    #: Time of the reading by this host's monotonic clock, seconds.
    at_s: float
    #: PID -> foreign process; None if processes of other users are hidden.
    foreign: dict[int, ProcessStat] | None
    #: PID -> process that had already ended when a reading first showed it, and whose parent has
    #: not waited for it yet.
    ended: dict[int, ProcessStat]
    #: PID -> start time, in ticks, of a process of the block.
    block_processes: dict[int, int]
    #: PIDs of processes that wait for processes of the block when these end.
    reapers: frozenset[int]
    #: Time that the hypervisor took, and all processor time, since boot.
    stolen_ticks: int
    total_ticks: int


def read(
    block: str,
    root_pids: Collection[int],
    exempt_pids: Collection[int] = (),
    earlier: HostLoad | None = None,
    root: Path = Path("/"),
) -> HostLoad:
    """Read the load now.

    A process is the block's if one of these holds: its environment has the block's variable; it is
    one of `root_pids` or descends from one; it is one of `exempt_pids`; it was the block's in the
    `earlier` reading. Kernel threads are left out.
    """
    proc, at_s = root / "proc", time.monotonic()
    block_setting = f"{BLOCK_VARIABLE}={block}".encode()
    processes = {
        pid: stat for pid, stat in kernel_text.stats(proc) if not stat.flags & _KERNEL_THREAD
    }
    earlier_foreign = (earlier.foreign if earlier else None) or {}
    earlier_block_processes = earlier.block_processes if earlier else {}
    block_pids = {
        pid
        for pid, process in processes.items()
        if pid in exempt_pids or earlier_block_processes.get(pid) == process.start_ticks
    }
    # While a process runs the same program, its environment stays the same, so it is read once.
    unchanged = {
        (pid, process.start_ticks, process.name) for pid, process in earlier_foreign.items()
    }
    new_pids = [
        pid
        for pid, process in processes.items()
        if pid not in block_pids and (pid, process.start_ticks, process.name) not in unchanged
    ]
    block_pids |= {pid for pid in new_pids if _has_setting(proc / str(pid), block_setting)}
    block_pids |= kernel_text.with_descendants(root_pids, processes)
    others = {pid: process for pid, process in processes.items() if pid not in block_pids}
    # If a process has ended, nothing shows whether it was the block's.
    ended = {
        pid: process
        for pid, process in others.items()
        if process.state == "Z" and pid not in earlier_foreign
    }
    others = {pid: process for pid, process in others.items() if pid not in ended}
    stolen_ticks, total_ticks = _stolen_and_total_ticks(proc)
    return HostLoad(
        at_s=at_s,
        # The option `hidepid` of /proc hides the processes of other users.
        foreign=others if kernel_text.read(proc / "1/stat") else None,
        ended=ended,
        block_processes={pid: processes[pid].start_ticks for pid in block_pids},
        reapers=frozenset({1, *exempt_pids} | {processes[pid].parent for pid in block_pids}),
        stolen_ticks=stolen_ticks,
        total_ticks=total_ticks,
    )


def foreign_s(before: HostLoad, after: HostLoad) -> dict[str, float] | None:
    """Return the processor time that foreign processes used between two readings, by program.

    None if processes of other users are hidden. Times are in seconds. The time of a process that
    started and ended between the readings counts for the process that waited for it. If a process
    had ended when a reading first showed it, its time is not counted. The kernel adds the time of
    an ended process to the children's time of the process that adopts it, so the sum may be too
    large. Therefore the sum is limited to the time of the host's hardware threads.
    """
    if before.foreign is None or after.foreign is None:
        return None
    ticks_by_name: dict[str, int] = {}
    reapers = before.reapers | after.reapers
    ended_ticks = _ended_ticks({**before.ended, **before.foreign}, {**after.ended, **after.foreign})
    for pid, process in after.foreign.items():
        earlier = before.foreign.get(pid)
        used_ticks, children_ticks = process.used_ticks, process.children_ticks
        if earlier and earlier.start_ticks == process.start_ticks:
            used_ticks -= earlier.used_ticks
            children_ticks -= earlier.children_ticks
        if pid not in reapers and process.name not in _REAPER_NAMES:
            used_ticks += max(children_ticks - ended_ticks.get(pid, 0), 0)
        # A user can put control characters of terminals into the name of a process.
        name = "".join(c if c.isascii() and c.isprintable() else "?" for c in process.name)
        ticks_by_name[name] = ticks_by_name.get(name, 0) + used_ticks
    sum_ticks = sum(ticks_by_name.values())
    host_ticks = after.total_ticks - before.total_ticks
    share = host_ticks / sum_ticks if 0 < host_ticks < sum_ticks else 1.0
    return {name: share * ticks / TICKS_PER_S for name, ticks in ticks_by_name.items()}


def _ended_ticks(
    before: Mapping[int, ProcessStat], after: Mapping[int, ProcessStat]
) -> dict[int, int]:
    """Return the ticks that ended processes had used by the first reading, by living ancestor.

    The kernel adds the time of an ended process to the children's time of its parent. If the parent
    has ended too, the time goes on to the parent's parent.
    """

    def has_ended(pid: int) -> bool:
        later = after.get(pid)
        return pid in before and (later is None or later.start_ticks != before[pid].start_ticks)

    ticks: dict[int, int] = {}
    for pid, process in before.items():
        if has_ended(pid):
            ancestor, visited = process.parent, {pid}
            while has_ended(ancestor) and ancestor not in visited:
                visited.add(ancestor)
                ancestor = before[ancestor].parent
            ticks[ancestor] = ticks.get(ancestor, 0) + process.used_ticks + process.children_ticks
    return ticks


def frequency_hz(cpus: Collection[int], root: Path = Path("/")) -> float | None:
    """Return the mean frequency of CPUs (empty: all), Hz; None if the kernel does not report it."""
    folder = root / "sys/devices/system/cpu"
    cpu_folders = [f"cpu{cpu}" for cpu in cpus] or ["cpu[0-9]*"]
    paths = (folder.glob(f"{name}/cpufreq/scaling_cur_freq") for name in cpu_folders)
    numbers_khz = [kernel_text.number(kernel_text.read(path)) for path in chain(*paths)]
    frequencies_hz = [1e3 * khz for khz in numbers_khz if khz]
    if not frequencies_hz:
        mhz_of_cpus = _measured_mhz(root / "proc/cpuinfo")
        frequencies_hz = [1e6 * mhz for cpu, mhz in mhz_of_cpus if not cpus or cpu in cpus]
    return sum(frequencies_hz) / len(frequencies_hz) if frequencies_hz else None


def _has_setting(process: Path, setting: bytes) -> bool:
    """Return whether a process started with `NAME=VALUE` in its environment."""
    with kernel_text.suppress_gone_or_hidden():
        return setting in (process / "environ").read_bytes().split(b"\0")
    return False


def _stolen_and_total_ticks(proc: Path) -> tuple[int, int]:
    """Return stolen and total ticks of all CPUs; zeros if unknown."""
    with suppress(ValueError):
        first_line = kernel_text.read(proc / "stat").partition("\n")[0]
        ticks = [int(column) for column in first_line.split()[1:]]
        if len(ticks) > _STEAL_COLUMN:
            return ticks[_STEAL_COLUMN], sum(ticks[:_TIME_COLUMNS])
    return 0, 0


def _measured_mhz(path: Path) -> Iterator[tuple[int, float]]:
    """Yield each CPU and its frequency in MHz, from /proc/cpuinfo, if they are measured."""
    with suppress(ValueError):
        text = kernel_text.read(path)
        if _MEASURED_MHZ_FLAG not in text.split():
            return
        cpu = -1
        for line in text.splitlines():
            key, _, value = map(str.strip, line.partition(":"))
            if key == "processor":
                cpu = int(value)
            elif key == "cpu MHz" and 0 < (mhz := float(value)) < _MAX_MHZ:
                yield cpu, mhz


# The CPUs that an application leaves free, since none of its busy threads may run on them.
#
# The launcher decides how an application is bound on other hosts, so the binding is read from
# /proc.


#: Least share of the time that a busy thread runs. A thread that runs less belongs to a launcher or
#: a helper. An application's thread runs more, even if it shares its core with twelve others.
_BUSY_SHARE = 0.05
_ALLOWED_CPUS = re.compile(r"^Cpus_allowed_list:\s*(\S+)", re.MULTILINE)


def busy_cpus(pids: Iterable[int], over_s: float, root: Path = Path("/")) -> set[int]:
    """Return the CPUs on which busy threads of processes may run.

    `over_s`: the time since the processes started.
    """
    least_ticks = _BUSY_SHARE * over_s * TICKS_PER_S
    cpus: set[int] = set()
    for pid in pids:
        tasks = root / f"proc/{pid}/task"
        for tid, stat in kernel_text.stats(tasks):
            allowed_cpus = _ALLOWED_CPUS.search(kernel_text.read(tasks / f"{tid}/status"))
            with suppress(ValueError):
                if allowed_cpus and stat.used_ticks > 0 and stat.used_ticks >= least_ticks:
                    cpus.update(cpu_list(allowed_cpus[1]))
    return cpus


def free_cpus(busy: Collection[int], root: Path = Path("/")) -> str | None:
    """Return the CPUs of this host that are not busy, as the kernel lists CPUs: `0-3,8`.

    None if no CPU was busy, or the CPUs of this host are unknown.
    """
    if not busy:
        return None
    try:
        online = cpu_list(kernel_text.read(root / "sys/devices/system/cpu/online"))
    except ValueError:
        return None
    return cpu_list_text(set(online) - set(busy))
