"""Processor time, states and memory of processes, and the kernel call that binds memory."""

import asyncio
import errno
import mmap
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nimc.run.session import processes_of
from records import kernel_text, processes
from records.errors import MachineError
from records.machine import cpu_load
from tests.captures import CAPTURES

#: The value in <linux/prctl.h>.
PR_SET_CHILD_SUBREAPER = 36


def test_a_process_that_runs_is_stopped_ends_and_is_gone() -> None:
    with subprocess.Popen(["sleep", "300"]) as child:
        pid = child.pid
        assert processes.start_ticks(pid)
        assert not processes.is_stopped(pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert processes.is_stopped(pid)
        child.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert processes.start_ticks(pid) is None  # it has ended, but is still a zombie
    assert (processes.start_ticks(pid), processes.precise_cpu_s(pid)) == (None, None)
    assert processes.cpu_s(pid) == 0


@contextmanager
def no_file_can_be_opened() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize(
    "read",
    [
        processes.start_ticks,
        processes.is_stopped,
        processes.precise_cpu_s,
        processes.cpu_s,
        processes.descendants,
        processes.launched_pids,
        lambda pid: processes.listener(1, pid),
        lambda _: kernel_text.pids(),
        lambda _: cpu_load.read("", []),
        processes_of,
    ],
)
def test_a_process_is_not_taken_for_gone_if_no_file_can_be_opened(
    read: Callable[[Any], Any],
) -> None:
    read(os.getpid() if read is not processes_of else Path("/r"))
    with no_file_can_be_opened(), pytest.raises(OSError, match="Too many open files"):
        read(os.getpid() if read is not processes_of else Path("/r"))


def test_cpus_that_a_host_lacks_are_named() -> None:
    cpu = max(os.sched_getaffinity(0)) + 4096
    with pytest.raises(OSError, match=f"CPUs {cpu}-{cpu + 1} cannot be used on this host"):
        asyncio.run(processes.spawn(["true"], {}, [cpu, cpu + 1], -1, -1))


def test_the_limit_of_open_files_is_raised_for_this_process_but_not_for_its_children() -> None:
    """The test starts another process, since a lowered hard limit cannot be raised again."""
    script = """
import asyncio, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (300, 700))
from records import processes

async def shown():
    child = await processes.spawn(["sh", "-c", "ulimit -n"], {}, [], -1, None)
    return (await child.communicate())[0]

print(processes.raise_file_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
print(asyncio.run(shown()).decode())
"""
    out = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["700", "700", "300"]


def test_a_process_whose_thread_ends_while_it_is_read_has_not_ended() -> None:
    """If a thread ends after its file was opened, reading the file fails with ESRCH."""
    paths = []

    def read_text(path: Path) -> str:
        paths.append(path)
        raise ProcessLookupError(errno.ESRCH, "No such process")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", read_text)
        assert processes.precise_cpu_s(os.getpid()) == pytest.approx(time.process_time(), abs=0.5)
    assert paths


def test_a_process_that_ends_while_its_threads_are_listed_has_stopped() -> None:
    def gone(_: object) -> None:
        raise ProcessLookupError(errno.ESRCH, "No such process")

    with pytest.MonkeyPatch.context() as patch:
        for listing in ("listdir", "scandir"):
            patch.setattr(os, listing, gone)
        assert processes.is_stopped(os.getpid())
        assert cpu_load.busy_cpus([os.getpid()], 0.0) == set()
    assert not processes.is_stopped(os.getpid())
    assert cpu_load.busy_cpus([os.getpid()], 0.0)


#: Code of a process that maps a file in shared memory.
_MAP_FILE = """
import mmap, sys, time
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("suspended", [False, True])
def test_files_in_shared_memory_are_not_removed_with_the_process_that_maps_them(
    suspended: bool,
) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        command = [sys.executable, "-c", _MAP_FILE, file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout
            assert child.stdout.readline() == b"mapped\n"
            if suspended:
                child.send_signal(signal.SIGSTOP)
            processes.end_descendants(60.0)
        assert child.returncode == -signal.SIGTERM
        assert Path(file.name).exists()


def test_an_orphan_gets_sigterm_as_well(tmp_path: Path) -> None:
    cleans = f"trap 'touch {tmp_path}/cleaned; exit' TERM; echo ready; while :; do sleep 0.01; done"
    leaves = ["sh", "-c", f"({cleans}) & trap exit TERM; wait"]
    processes.become_subreaper()
    try:
        with subprocess.Popen(leaves, stdout=subprocess.PIPE) as child:
            assert child.stdout
            assert child.stdout.readline() == b"ready\n"
            processes.end_descendants(60.0)
    finally:
        processes.LIBC.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    assert (tmp_path / "cleaned").exists()


def test_processor_time_agrees_with_the_standard_librarys() -> None:
    """Both figures include all threads of this process."""
    for processor_time_s in (processes.precise_cpu_s, processes.cpu_s):
        begun_s, before_s = time.process_time(), processor_time_s(os.getpid())
        while time.process_time() < begun_s + 0.3:
            pass
        # One of the functions reads ticks of 10 ms from /proc.
        assert processor_time_s(os.getpid()) - before_s == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize(
    ("node", "mode", "mask", "maxnode"),
    [
        (None, 0, None, 0),
        # The mask has whole words of 64 bits. `maxnode` is one more than its bits, since the kernel
        # subtracts one.
        (0, 2, [1], 65),
        (63, 2, [1 << 63], 65),
        (70, 2, [0, 1 << 6], 129),
    ],
)
def test_memory_is_bound_by_set_mempolicy(
    monkeypatch: pytest.MonkeyPatch, node: int | None, mode: int, mask: list[int], maxnode: int
) -> None:
    calls: list[Any] = []

    def syscall(number: int, *words: Any) -> int:
        calls.append((number, words[0], words[1] and list(words[1]), words[2]))
        return len(calls) - 1

    monkeypatch.setattr(processes, "LIBC", SimpleNamespace(syscall=syscall))
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    processes.bind_memory(node)
    # 238 is set_mempolicy in the kernel's table of calls for x86-64.
    assert calls == [(238, mode, mask, maxnode)]
    with pytest.raises(OSError, match=r"^\[Errno "):
        processes.bind_memory(node)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    with pytest.raises(OSError, match="number unknown on vax"):
        processes.bind_memory(node)


def test_a_numa_node_that_is_missing_or_refused_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound: list[int | None] = []
    monkeypatch.setattr(processes, "bind_memory", bound.append)
    with pytest.raises(OSError, match="NUMA node 0: this host has none"):
        processes.check_binding(0, tmp_path)
    for name in ("node10", "node2", "node", "has_cpu"):
        (tmp_path / name).mkdir()
    with pytest.raises(OSError, match="NUMA node 1: this host has 2, 10"):
        processes.check_binding(1, tmp_path)
    processes.check_binding(None, tmp_path)
    assert bound == []
    processes.check_binding(10, tmp_path)
    assert bound == [10, None]

    def refuse(_: int | None) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(processes, "bind_memory", refuse)
    with pytest.raises(PermissionError, match="cannot be bound to NUMA node 2: Operation not"):
        processes.check_binding(2, tmp_path)


# Where memory lies, in lines that the kernel really wrote, and in a real process.

MIB = 2**20
#: Code of a process that has 64 MiB of memory.
HOLD = "m = bytearray(64 * 2**20); print('held', flush=True); import time; time.sleep(60)"


@pytest.mark.parametrize(
    ("capture", "least_b", "sizes_b"),
    [
        # The origin maps two buffers of one message each, its own and the target's. The kernel
        # wrote N0=16384 and N0=16385 pages of 4 KiB. The target of puts does not touch its buffer.
        ("ucx_posix_64M.origin", 64 * MIB, {0: (16384 + 16385) * 4096}),
        ("ucx_posix_64M.target", 64 * MIB, {}),
        # The largest mapping of a library has 2 MiB here, and so has the target's largest buffer.
        ("ucx_posix_64M.target", 2 * MIB, {0: 512 * 4096}),
        # QEMU emulates two NUMA nodes. The buffers are N1=46 pages, enough for twice 64 KiB; no
        # other mapping is as large. Mappings of the device (file=/dev/infiniband/uverbs0) are not
        # buffers of the program.
        ("ib_read_bw_node1.target", 65536, {1: 46 * 4096}),
    ],
)
def test_buffers_of_captured_processes(capture: str, least_b: int, sizes_b: dict[int, int]) -> None:
    lines = (CAPTURES / "numa" / f"{capture}.txt").read_text().splitlines()
    assert processes.parse_numa_maps(lines, least_b) == sizes_b


def test_sizes_of_pages_are_added_by_node() -> None:
    # These lines are made, in the format of numa(7). Huge pages have 2048 KiB.
    text = [
        "7f00 bind:1 anon=300 dirty=300 N0=44 N1=256 kernelpagesize_kB=4",
        "7f10 bind:1 file=/anon_hugepage huge anon=3 dirty=3 N1=3 kernelpagesize_kB=2048",
        "7f20 bind:1 file=/lib/libc.so mapped=900 N0=900 kernelpagesize_kB=4",
        "7f30 bind:1",
    ]
    assert processes.parse_numa_maps(text, MIB) == {0: 44 * 4096, 1: 256 * 4096 + 3 * 2 * MIB}


def numa_maps(pid: int | str) -> str:
    path = Path(f"/proc/{pid}/numa_maps")
    if not path.exists():
        pytest.skip("the kernel has no numa_maps")
    return path.read_text()


def test_a_process_gets_its_memory_from_the_requested_node_only() -> None:
    async def run() -> tuple[str, dict[int, int]]:
        pipe = asyncio.subprocess.PIPE
        process = await processes.spawn([sys.executable, "-c", HOLD], {}, [], pipe, pipe, 0)
        assert process.stdout
        try:
            assert await process.stdout.readline() == b"held\n"
            return numa_maps(process.pid), processes.buffers_b(process.pid, 64 * MIB)
        finally:
            await processes.stop(process)

    text, sizes_b = asyncio.run(run())
    assert all(line.split()[1] == "bind:0" for line in text.splitlines())
    assert sizes_b[0] >= 64 * MIB
    assert "bind:0" not in numa_maps("self")  # this process is not bound
    # This process has registered no memory with a device.
    assert processes.pinned_b(os.getpid()) == 0
    assert processes.pinned_b(2**22 + 1) is None  # no process has such a large number


def test_memory_in_huge_pages_is_counted():
    """18 MiB are written after advice for or against huge pages.

    With the advice for them, the kernel gives pages of 2 MiB as long as it has some.
    """
    enabled = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not enabled.exists() or "[never]" in enabled.read_text():
        pytest.skip("the kernel has no transparent huge pages")

    def huge_b(advice):
        memory = mmap.mmap(-1, 18 * MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory.madvise(advice)
        before_b = processes.huge_b(os.getpid())
        memory.write(b"x" * len(memory))
        return processes.huge_b(os.getpid()) - before_b

    assert huge_b(mmap.MADV_NOHUGEPAGE) == 0
    assert huge_b(mmap.MADV_HUGEPAGE) in range(2 * MIB, 20 * MIB, 2 * MIB)
    assert processes.huge_b(2**22 + 1) is None


def test_a_process_of_another_user_is_named_and_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The kernel lets nobody but root signal what `sudo` has started."""

    def refuse(*_: int) -> None:
        raise PermissionError

    async def stop() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(os, "killpg", refuse)
                patch.setattr(os, "kill", refuse)
                processes.end_descendants(0.1)
                with pytest.raises(MachineError, match=f"process {process.pid} belongs to another"):
                    await processes.stop(process)
        finally:
            await processes.stop(process)

    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    asyncio.run(stop())


def test_a_process_that_the_kernel_does_not_end_is_named_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """SIGKILL does not end a process in state D, such as one that waits for a hanging NFS server.

    Here, no signal is sent.
    """

    async def stop() -> None:
        process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
        with monkeypatch.context() as patch:
            patch.setattr(os, "killpg", lambda *_: None)
            with pytest.raises(MachineError, match=f"process {process.pid} goes on after SIGKILL"):
                await asyncio.wait_for(processes.stop(process), 10)
        assert await processes.stop(process) == -signal.SIGTERM

    monkeypatch.setattr(processes, "GRACE_S", 0.1)
    monkeypatch.setattr(processes, "KILLED_GRACE_S", 0.1)
    asyncio.run(stop())
