"""Processor time of kernel threads, from a made /proc and from this host's."""

import os
from pathlib import Path

import pytest

from nimc.machine.load import KernelThreads
from tests.nimc.node.sysfs import write

KERNEL, USER = 0x00208040, 0x00400000


def stat(name: str, flags: int, user: int, system: int, started: int) -> str:
    """Fields of /proc/PID/stat as in proc(5): the 9th is flags, 14 and 15 times, 22 the start."""
    fields = ["S", 2, 0, 0, 0, -1, flags, 0, 0, 0, 0, user, system, 0, 0, 20, 0, 1, 0, started, 0]
    return f"7 ({name}) " + " ".join(map(str, fields))


def seconds(ticks: int) -> float:
    return ticks / os.sysconf("SC_CLK_TCK")


def test_what_kernel_threads_used_since_the_first_reading(tmp_path):
    root = write(
        tmp_path,
        {
            "proc/20/stat": stat("kworker/0:1H-mlx5", KERNEL, 0, 100, 5),
            "proc/21/stat": stat("kworker (x) 1", KERNEL, 2, 40, 6),
            "proc/22/stat": stat("ksoftirqd/0", KERNEL, 0, 500, 7),
            "proc/99/stat": stat("lmp", USER, 7000, 800, 8),
        },
    )
    threads = KernelThreads(root)
    assert threads.shown
    assert threads.read_s() == 0
    write(
        root,
        {
            "proc/20/stat": stat("kworker/0:1H-mlx5", KERNEL, 0, 130, 5),
            "proc/21/stat": stat("kworker (x) 1", KERNEL, 3, 45, 6),
            "proc/22/stat": stat("ksoftirqd/0", KERNEL, 0, 900, 7),
            "proc/99/stat": stat("lmp", USER, 9000, 900, 8),
        },
    )
    # 30 and 1 + 5 ticks; neither ksoftirqd, which is in the time of soft interrupts, nor lmp.
    assert threads.read_s() == pytest.approx(seconds(36))


def test_threads_that_end_keep_their_time_and_new_ones_bring_theirs(tmp_path):
    root = write(tmp_path, {"proc/20/stat": stat("kworker/u8:0", KERNEL, 0, 100, 5)})
    threads = KernelThreads(root)
    write(root, {"proc/20/stat": stat("kworker/u8:0", KERNEL, 0, 110, 5)})
    assert threads.read_s() == pytest.approx(seconds(10))
    # Its PID is another thread's now, which has used 3 ticks since it started.
    write(root, {"proc/20/stat": stat("kworker/u8:1", KERNEL, 0, 3, 70)})
    assert threads.read_s() == pytest.approx(seconds(13))


@pytest.mark.parametrize("text", ["", "7 (x", "7 (x) S", "7 (x) " + "a " * 30])
def test_what_the_kernel_does_not_write_is_no_thread(tmp_path, text):
    threads = KernelThreads(write(tmp_path, {"proc/20/stat": text}))
    assert not threads.shown
    assert threads.read_s() == 0


def test_the_threads_of_this_host_are_those_without_a_command_line():
    """A kernel thread has an empty /proc/PID/cmdline, and is no zombie."""

    def is_thread(path: Path) -> bool:
        try:
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            return state != "Z" and (path / "cmdline").read_bytes() == b""
        except OSError:
            return False

    there = any(is_thread(path) for path in Path("/proc").glob("[0-9]*"))
    assert KernelThreads().shown == there
