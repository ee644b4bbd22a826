"""Starts child processes, pins them, binds their memory, observes them and ends them.

A child does not outlive the process that started it.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import re
import resource
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Literal

from records import kernel_text
from records.errors import MachineError

LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
#: States of a socket in /proc/net/tcp: it listens, or it connects and has no answer yet.
_LISTEN, _CONNECTING = "0A", "02"
#: Columns of that file: the socket's two ends, state, user and inode.
_LOCAL_COLUMN, _REMOTE_COLUMN, _STATE_COLUMN, _USER_COLUMN, _INODE_COLUMN = 1, 2, 3, 7, 9
#: States of a process that is stopped or has ended (proc_pid_stat(5)).
_STOPPED_STATES = "TtZX"
#: Fault of a writer whose port another process uses.
PORT_TAKEN = "another process listens on port {port}: the writer's origin might connect to it"
#: Fault of a writer whose passive side cannot be reached.
PORT_UNANSWERED = "port {port} of {address} does not answer (TCP)"
#: Time between SIGTERM and SIGKILL, seconds.
GRACE_S = 5.0
#: Time for the end of a process that SIGKILL has not ended within `GRACE_S`, seconds. The kernel
#: may have much memory to free, and the conductor waits a minute for an agent to stop a writer.
KILLED_GRACE_S = 30.0
#: Time between SIGTERM and SIGKILL for the descendants of a program of this project when the
#: program ends, seconds.
_EXIT_GRACE_S = 2.0
#: Interval at which processes are checked for their end, seconds.
_POLL_S = 0.02
#: Maximum number of rounds in which all descendants are killed. One round may not be enough, since
#: a descendant may start other processes until it is dead.
_MAX_KILL_ROUNDS = 100


#: Limits of open files that this process was started with, soft and hard.
_FILE_LIMITS = resource.getrlimit(resource.RLIMIT_NOFILE)


def raise_file_limit() -> int:
    """Let this process open as many files as its hard limit allows, and return this limit.

    Programs that it starts with `spawn` get the original limit, since a higher limit may slow them.
    """
    _, hard = _FILE_LIMITS
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def become_subreaper() -> None:
    """Adopt orphaned descendants, so that `end_descendants` finds them."""
    LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def signalled_with_parent(
    parent: int, signum: signal.Signals = signal.SIGTERM
) -> Callable[[], None]:
    """Return a function that a new child calls, so that it gets a signal if its parent dies."""

    def prepare() -> None:
        LIBC.prctl(_PR_SET_PDEATHSIG, signum, 0, 0, 0)
        if os.getppid() != parent:  # the parent has died already, so no signal will come
            os._exit(1)

    return prepare


#: Variables with which srun and Open MPI's mpirun label or redirect a program's output.
_OUTPUT_VARIABLES = (
    "SLURM_LABELIO",
    "SLURM_STDOUTMODE",
    "SLURM_STDERRMODE",
    "OMPI_MCA_orte_tag_output",
    "OMPI_MCA_orte_timestamp_output",
)


async def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    cpus: Sequence[int],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    memory_node: int | None = None,
    folder: str | None = None,
) -> asyncio.subprocess.Process:
    """Start a command in its own session; it is killed if this process dies.

    The command is pinned to `cpus`, unless they are empty. Its memory is bound to the NUMA node
    `memory_node` if that is given. It starts in `folder`, by default the current folder. Raises
    OSError if there is no such node, folder or program, or if none of the CPUs can be used.
    """
    check_binding(memory_node)
    killed_with_parent = signalled_with_parent(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        killed_with_parent()
        resource.setrlimit(resource.RLIMIT_NOFILE, _FILE_LIMITS)
        if cpus:
            os.sched_setaffinity(0, cpus)
        if memory_node is not None:
            bind_memory(memory_node)

    try:
        return await asyncio.create_subprocess_exec(
            *command,
            env={**_without_output_variables(os.environ), **environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=prepare,
            cwd=folder,
        )
    except subprocess.SubprocessError:  # `prepare` failed, and the node was checked before
        fault = f"CPUs {kernel_text.cpu_list_text(cpus)} cannot be used on this host"
        raise OSError(errno.EINVAL, fault) from None


async def spawn_in_terminal(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    *,
    stdin: int | None,
    stdout: int,
    stderr: int,
    group: int | None = None,
) -> asyncio.subprocess.Process:
    """Start a command as a shell would; it is killed if this process dies.

    The command joins the process group `group`, which the keys of the terminal reach. With None, it
    gets a group of its own. If `stdin` is None, it has the standard input of this process. Raises
    OSError if there is no such program.
    """
    killed_with_parent = signalled_with_parent(os.getpid(), signal.SIGKILL)

    def prepare() -> None:
        killed_with_parent()
        resource.setrlimit(resource.RLIMIT_NOFILE, _FILE_LIMITS)
        os.setpgid(0, group or 0)

    return await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=folder,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        preexec_fn=prepare,
    )


def _without_output_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which launchers neither label nor redirect a program's output."""
    return {name: value for name, value in environment.items() if name not in _OUTPUT_VARIABLES}


async def output_lines(stream: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Lines of a program's output; a line longer than the stream's limit comes in pieces."""
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
    """Return whether all threads of a process are stopped or have ended.

    After a signal to stop, this takes some time.
    """
    threads = kernel_text.stats(Path(f"/proc/{pid}/task"))
    return all(stat.state in _STOPPED_STATES for _, stat in threads)


def precise_cpu_s(pid: int) -> float | None:
    """Processor time of the present threads of a process, seconds; None if ended or hidden.

    It is exact to the nanosecond if the kernel has CONFIG_SCHED_INFO. Without that, or if a thread
    ends meanwhile, it is exact to a tick, often 10 ms, and includes threads that have ended.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        used_ns = (int((task / "schedstat").read_text().split()[0]) for task in tasks)
        return sum(used_ns) / 1e9
    except (FileNotFoundError, ProcessLookupError):  # no such file, or a thread that has ended
        return cpu_s(pid) if Path(f"/proc/{pid}").exists() else None
    except (PermissionError, ValueError, IndexError):
        return None


async def stop(process: asyncio.subprocess.Process) -> int:
    """End a process and its group: SIGTERM, then SIGKILL. Returns its exit status.

    Raises MachineError if it goes on: it belongs to another user, as after `sudo`, or it waits in
    the kernel for a file system or a device that does not answer.
    """
    for signum in (signal.SIGTERM, signal.SIGKILL):
        await signal_and_wait(process, signum)
    if not _signal_group(process.pid, signal.SIGKILL) and process.returncode is None:
        raise MachineError(f"process {process.pid} belongs to another user and cannot be ended")
    try:
        return await asyncio.wait_for(process.wait(), KILLED_GRACE_S)
    except asyncio.TimeoutError:
        fault = "goes on after SIGKILL: a file system or a device may not answer"
        raise MachineError(f"process {process.pid} {fault}") from None


async def signal_and_wait(process: asyncio.subprocess.Process, signum: int) -> None:
    """Send a signal to the group of a process, and wait for its end, at most for `GRACE_S`."""
    if process.returncode is None:
        _signal_group(process.pid, signum)
        _signal_group(process.pid, signal.SIGCONT)  # a suspended process does not act on SIGTERM
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(process.wait(), GRACE_S)


def _signal_group(pgid: int, signum: int) -> bool:
    """Send a signal to a process group. Returns False if all of it belongs to another user."""
    try:
        os.killpg(pgid, signum)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return True


def start_ticks(pid: int) -> int | None:
    """Start time of a process, ticks; None if ended. PID and start time identify a process."""
    stat = kernel_text.stat_of(Path(f"/proc/{pid}"))
    return None if stat is None or stat.state == "Z" else stat.start_ticks


def cpu_s(pid: int) -> float:
    """Processor time of a process, in whole ticks, seconds; 0 if it has ended."""
    stat = kernel_text.stat_of(Path(f"/proc/{pid}"))
    return stat.used_ticks / kernel_text.TICKS_PER_S if stat else 0.0


def listener(port: int, pid: int) -> Literal["own", "other"] | None:
    """Return which process listens on a TCP port of this network namespace; None if nothing does.

    `own` is the process `pid` or a descendant of it; `other` is any other process.
    """
    sockets = _sockets(_LISTEN, _LOCAL_COLUMN, port)
    if not sockets:
        return None
    return "own" if _family_has_socket(pid, sockets) else "other"


def is_connecting(port: int, pid: int) -> bool:
    """Return whether a process or a descendant connects to a TCP port that does not answer yet."""
    sockets = _sockets(_CONNECTING, _REMOTE_COLUMN, port)
    return bool(sockets) and _family_has_socket(pid, sockets)


def _sockets(state: str, end_column: int, port: int) -> dict[str, int]:
    """Inode -> user of each TCP socket in a state, with `port` at its local or its remote end."""
    tables = map(kernel_text.read, ("/proc/net/tcp", "/proc/net/tcp6"))
    return sockets_in("\n".join(tables), state, end_column, port)


def sockets_in(table: str, state: str, end_column: int, port: int) -> dict[str, int]:
    """Inode -> user of each socket in a state with `port` at one end, from /proc/net/tcp or tcp6.

    `table` is the text of these files. `end_column` is the column of the local or the remote end.
    Lines that describe no socket, such as the first one, are skipped.
    """
    users = {}
    for fields in map(str.split, table.splitlines()):
        is_socket = len(fields) > _INODE_COLUMN and fields[_STATE_COLUMN] == state
        user = kernel_text.number(fields[_USER_COLUMN]) if is_socket else None
        if user is not None and fields[end_column].endswith(f":{port:04X}"):
            users[fields[_INODE_COLUMN]] = user
    return users


def _family_has_socket(pid: int, sockets: Mapping[str, int]) -> bool:
    # Usually the process itself has it. Then its descendants need not be found.
    return _has_socket(pid, sockets) or any(
        _has_socket(process, sockets) for process in descendants(pid)
    )


def _has_socket(pid: int, sockets: Mapping[str, int]) -> bool:
    """Return whether a process has one of the sockets open.

    A program with capabilities hides its open files. For such a program, the result is True if one
    of the sockets is this user's.
    """
    open_files = set()
    try:
        for entry in os.scandir(f"/proc/{pid}/fd"):
            with kernel_text.suppress_gone_or_hidden():
                open_files.add(os.readlink(entry.path))
    except PermissionError:
        return os.geteuid() in sockets.values()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return any(f"socket:[{inode}]" in open_files for inode in sockets)


def live_processes() -> dict[int, kernel_text.ProcessStat]:
    """PID -> state of each process of this host that has not ended.

    On a node with thousands of processes, this takes a tenth of a second.
    """
    return {pid: stat for pid, stat in kernel_text.stats() if stat.state != "Z"}


def descendants(
    pid: int | None = None, live: Mapping[int, kernel_text.ProcessStat] | None = None
) -> set[int]:
    """All live descendants of a process; None: of this process.

    `live` is the result of `live_processes`, by default of a new call.
    """
    root = os.getpid() if pid is None else pid
    return kernel_text.with_descendants([root], live or live_processes()) - {root}


def launched_pids(pid: int, live: Mapping[int, kernel_text.ProcessStat] | None = None) -> list[int]:
    """PIDs of the programs that a launcher has started: its descendants without children.

    `live` is as in `descendants`.
    """
    live = live or live_processes()
    descendant_pids = descendants(pid, live)
    return sorted(descendant_pids - {live[descendant].parent for descendant in descendant_pids})


def end_descendants(
    grace_s: float = _EXIT_GRACE_S, hurried: Callable[[], bool] = lambda: False
) -> None:
    """End all descendants of this process.

    Each child gets one SIGTERM, and ends its own children. Launchers and compilers then remove
    their files, such as those of ranks in shared memory. If they got a second SIGTERM, they would
    not do so. Orphans become children of this process, and get a SIGTERM too. After `grace_s`, or
    once `hurried` returns True, all descendants get SIGKILL.
    """
    alive = descendants()
    own_pid = os.getpid()
    signalled = set[int]()
    deadline_s = time.monotonic() + grace_s
    while alive:
        children = {pid for pid, stat in kernel_text.stats() if stat.parent == own_pid}
        send_signal(children - signalled, signal.SIGTERM)
        signalled |= children
        send_signal(alive, signal.SIGCONT)  # a suspended process does not act on SIGTERM
        if time.monotonic() > deadline_s or hurried():
            break
        time.sleep(_POLL_S)
        alive = descendants()
    kill_descendants()


def kill_descendants() -> None:
    """Kill all descendants of this process, including orphans if it is a subreaper."""
    for _ in range(_MAX_KILL_ROUNDS):
        alive = descendants()
        if not alive:
            return
        send_signal(alive, signal.SIGKILL)


def send_signal(pids: Iterable[int], signum: signal.Signals) -> None:
    """Send a signal to each of these processes that has not ended and is this user's."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signum)


# Memory of a process on one NUMA node. It is bound before the process starts. While the process
# runs, its location is read.
#
# Binding uses set_mempolicy(2), which needs no library or tool and applies to everything that the
# program allocates, shared memory included. /proc/PID/numa_maps shows on which nodes memory lies.


#: Architecture -> number of the system call.
_SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237, "ppc64le": 261}
_MPOL_DEFAULT = 0
_MPOL_BIND = 2
_LONG_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
_NODES_FOLDER = Path("/sys/devices/system/node")
_KIB = 1024

#: Beginnings of the names of shared memory in numa_maps.
_SHARED = re.compile(r"file=(/dev/shm/|/SYSV|/memfd:|/dev/zero|/anon_hugepage)")
_PAGES = re.compile(r"\bN([0-9]{1,9})=([0-9]{1,20})\b")
_PINNED = re.compile(r"^VmPin:\s+([0-9]{1,20}) kB$", re.MULTILINE)
_HUGE = re.compile(
    r"^(?:AnonHugePages|ShmemPmdMapped|Shared_Hugetlb|Private_Hugetlb):\s+([0-9]{1,20}) kB$",
    re.MULTILINE,
)
_PAGE_KIB = re.compile(r"\bkernelpagesize_kB=([0-9]{1,20})\b")


def bind_memory(node: int | None) -> None:
    """Bind all memory that the calling thread and its children allocate from now on to a NUMA node.

    None removes the binding. Raises OSError if the kernel refuses.
    """
    architecture = os.uname().machine
    syscall_number = _SET_MEMPOLICY.get(architecture)
    if syscall_number is None:
        raise OSError(errno.ENOSYS, f"set_mempolicy: number unknown on {architecture}")
    mode = _MPOL_DEFAULT
    mask = None
    bits = 0
    if node is not None:
        mode, bits = _MPOL_BIND, (node // _LONG_BITS + 1) * _LONG_BITS
        mask = (ctypes.c_ulong * (bits // _LONG_BITS))()
        mask[node // _LONG_BITS] = 1 << node % _LONG_BITS
    # The kernel uses one bit less than `maxnode`.
    if LIBC.syscall(syscall_number, mode, mask, bits + 1 if bits else 0):
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def check_binding(node: int | None, nodes_folder: Path = _NODES_FOLDER) -> None:
    """Check that a child's memory can be bound to a node. Raises OSError, which says why it cannot.

    `nodes_folder`: the kernel's folder of this host's NUMA nodes.
    """
    if node is None:
        return
    folders = nodes_folder.glob("node[0-9]*")
    known_nodes = sorted(int(folder.name.removeprefix("node")) for folder in folders)
    if node not in known_nodes:
        listed = ", ".join(map(str, known_nodes)) or "none"
        raise OSError(errno.EINVAL, f"NUMA node {node}: this host has {listed}")
    try:
        bind_memory(node)
        bind_memory(None)
    except OSError as error:
        fault = f"memory cannot be bound to NUMA node {node}: {error.strerror}"
        raise OSError(error.errno, fault) from None


def buffers_b(pid: int, least_b: int) -> dict[int, int]:
    """NUMA node -> bytes of a process's buffers there; empty if unknown."""
    return parse_numa_maps(kernel_text.read(Path(f"/proc/{pid}/numa_maps")).splitlines(), least_b)


def pinned_b(pid: int) -> int | None:
    """Pinned memory of a process, bytes; None if unknown.

    Memory that is registered with an RDMA device is pinned, which means that its pages cannot move.
    """
    match = _PINNED.search(kernel_text.read(Path(f"/proc/{pid}/status")))
    return int(match[1]) * _KIB if match else None


def huge_b(pid: int) -> int | None:
    """Memory of a process in huge pages, reserved or transparent, bytes; None if unknown."""
    sizes = _HUGE.findall(kernel_text.read(Path(f"/proc/{pid}/smaps_rollup")))
    return sum(map(int, sizes)) * _KIB if sizes else None


def parse_numa_maps(lines: Iterable[str], least_b: int) -> dict[int, int]:
    """NUMA node -> bytes of a process's buffers there, from the lines of numa_maps.

    Buffers are the anonymous and shared mappings of at least `least_b`, the size of one message.
    Mapped programs and libraries do not count, since they lie where the page cache has put them.
    """
    total_b: dict[int, int] = {}
    for line in lines:
        page_size = _PAGE_KIB.search(line)
        is_buffer = "anon=" in line or _SHARED.search(line)
        if page_size is None or not is_buffer:
            continue
        page_b = int(page_size[1]) * _KIB
        mapping_b = {int(node): int(pages) * page_b for node, pages in _PAGES.findall(line)}
        if sum(mapping_b.values()) >= least_b:
            for node, size_b in mapping_b.items():
                total_b[node] = total_b.get(node, 0) + size_b
    return total_b
