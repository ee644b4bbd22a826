"""Processor time and states of processes, and how memory is bound, by what the kernel is asked."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from records import processes


def test_a_process_that_runs_is_stopped_ends_and_is_gone() -> None:
    with subprocess.Popen(["sleep", "300"]) as child:
        pid = child.pid
        assert processes.start_time(pid)
        assert not processes.is_stopped(pid)
        child.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert processes.is_stopped(pid)
        child.kill()
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert processes.start_time(pid) is None  # not waited for yet
    assert (processes.start_time(pid), processes.ran_s(pid), processes.cpu_s(pid)) == (
        None,
        None,
        0,
    )


def test_processor_time_is_that_of_the_process() -> None:
    busy = (
        "import time\nwhile time.process_time() < 0.3: pass\nprint(time.process_time(), flush=True)"
    )
    command = [sys.executable, "-c", f"{busy}\ninput()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        used_s = float(child.stdout.readline())
        for found_s in (processes.ran_s(child.pid), processes.cpu_s(child.pid)):
            assert found_s == pytest.approx(used_s, abs=0.05)  # /proc counts in ticks of 10 ms
        child.kill()


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

    monkeypatch.setattr(processes, "_LIBC", SimpleNamespace(syscall=syscall))
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
    monkeypatch.setattr(processes, "_NODES", tmp_path)
    monkeypatch.setattr(processes, "bind_memory", bound.append)
    with pytest.raises(OSError, match="NUMA node 0: this host has none"):
        processes.check_binding(0)
    for name in ("node10", "node2", "node", "has_cpu"):
        (tmp_path / name).mkdir()
    with pytest.raises(OSError, match="NUMA node 1: this host has 2, 10"):
        processes.check_binding(1)
    processes.check_binding(None)
    assert bound == []
    processes.check_binding(10)
    assert bound == [10, None]

    def refuse(_: int | None) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(processes, "bind_memory", refuse)
    with pytest.raises(PermissionError, match="cannot be bound to NUMA node 2: Operation not"):
        processes.check_binding(2)
