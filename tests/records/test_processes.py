"""Processor time and states of processes, and the calls of the kernel that bind memory."""

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
from records.machine import cpu_load
from tests.captures import CAPTURES

#: As <linux/prctl.h> has it.
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
        assert processes.start_ticks(pid) is None  # not waited for yet
    assert (processes.start_ticks(pid), processes.precise_cpu_s(pid)) == (None, None)
    assert processes.cpu_s(pid) == 0


@contextmanager
def no_file_left() -> Iterator[None]:
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
def test_a_process_is_not_gone_since_this_one_has_no_file_left(read: Callable[[Any], Any]) -> None:
    read(os.getpid() if read is not processes_of else Path("/r"))
    with no_file_left(), pytest.raises(OSError, match="Too many open files"):
        read(os.getpid() if read is not processes_of else Path("/r"))


def test_the_limit_of_open_files_is_raised_for_this_process_alone() -> None:
    """In one of its own: a limit cannot be raised again once the hard one is lower."""
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
    """The kernel says ESRCH for a file of a thread that ended after it was opened."""
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


#: Maps a file in shared memory.
_MAPS = """
import mmap, sys, time
with open(sys.argv[1], "w+b") as file:
    file.truncate(4096)
    memory = mmap.mmap(file.fileno(), 4096)
print("mapped", flush=True)
time.sleep(300)
"""


@pytest.mark.parametrize("suspended", [False, True])
def test_data_that_a_user_keeps_in_shared_memory_outlive_what_maps_them(suspended: bool) -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm") as file:
        command = [sys.executable, "-c", _MAPS, file.name]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
            assert child.stdout
            assert child.stdout.readline() == b"mapped\n"
            if suspended:
                child.send_signal(signal.SIGSTOP)
            processes.end_descendants(60.0)
        assert child.returncode == -signal.SIGTERM
        assert Path(file.name).exists()


def test_an_orphan_is_asked_to_end_as_well(tmp_path: Path) -> None:
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


def test_processor_time_is_that_of_the_process() -> None:
    """Of other threads of this process only what they use meanwhile could differ."""
    for processor_time_s in (processes.precise_cpu_s, processes.cpu_s):
        begun_s, before_s = time.process_time(), processor_time_s(os.getpid())
        while time.process_time() < begun_s + 0.3:
            pass
        # /proc counts in ticks of 10 ms.
        assert processor_time_s(os.getpid()) - before_s == pytest.approx(0.3, abs=0.1)


@pytest.mark.parametrize(
    ("node", "mode", "mask", "maxnode"),
    [
        (None, 0, None, 0),
        # Bits of whole words of 64, and one more, of which the kernel takes one off.
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
    assert calls == [(238, mode, mask, maxnode)]  # its number in the kernel's table for x86-64
    with pytest.raises(OSError, match=r"^\[Errno "):
        processes.bind_memory(node)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="vax"))
    with pytest.raises(OSError, match="number unknown on vax"):
        processes.bind_memory(node)


def test_a_node_that_is_not_there_or_refused_is_named(
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


# Where memory lies: lines of the kernel as it wrote them, and a real process.

MIB = 2**20
#: In a process with 64 MiB of memory of its own: the policy of its mappings, and its buffers.
HOLD = "m = bytearray(64 * 2**20); print('held', flush=True); import time; time.sleep(60)"


@pytest.mark.parametrize(
    ("capture", "least_b", "sizes_b"),
    [
        # Two mappings of one message each, the origin's own and that of the target: the kernel
        # wrote N0=16384 and N0=16385 pages of 4 KiB. The target of puts touches no page of its own.
        ("ucx_posix_64M.origin", 64 * MIB, {0: (16384 + 16385) * 4096}),
        ("ucx_posix_64M.target", 64 * MIB, {}),
        # The largest mapping of a library holds 2 MiB here, the largest buffer of the target too.
        ("ucx_posix_64M.target", 2 * MIB, {0: 512 * 4096}),
        # Two NUMA nodes emulated by QEMU: N1=46 pages hold twice 64 KiB, nothing else is as large.
        # Mappings of the device (file=/dev/infiniband/uverbs0) are no buffers of the program's.
        ("ib_read_bw_node1.target", 65536, {1: 46 * 4096}),
    ],
)
def test_buffers_of_captured_processes(capture: str, least_b: int, sizes_b: dict[int, int]) -> None:
    lines = (CAPTURES / "numa" / f"{capture}.txt").read_text().splitlines()
    assert processes.parse_numa_maps(lines, least_b) == sizes_b


def test_pages_are_added_up_by_node_in_their_own_size() -> None:
    # Written by hand after the format of numa(7); huge pages are 2048 KiB.
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


def test_a_process_gets_its_memory_from_the_node_alone() -> None:
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
    assert "bind:0" not in numa_maps("self")  # ours is as it was
    # Nothing of this process is registered with a device.
    assert processes.pinned_b(os.getpid()) == 0
    assert processes.pinned_b(2**22 + 1) is None  # beyond the largest number of a process


def test_memory_in_huge_pages_is_that_of_the_kernel():
    """18 MiB, advised to be huge or not: pages of 2 MiB, as far as there are some, or none."""
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
