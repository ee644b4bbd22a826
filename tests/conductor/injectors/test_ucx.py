"""Lines of ucx_perftest, as it really printed them, and the program itself on this host."""

import os
import signal
import subprocess
from pathlib import Path

import polars as pl
import pytest

from analysis.effects.verdict import emulations
from conductor.injectors import INJECTORS
from conductor.injectors.base import Fault, Row
from records import processes
from records.machine import devices
from records.machine.site import dram_message_b
from tests.conductor.conftest import free_port, needs, wait_until
from tests.conductor.injectors.test_perftest import writer

CAPTURES = Path(__file__).parents[2] / "captures" / "ucx"
MIB = 1048576
UCX = INJECTORS["ucx"]


def meanings(name, message_b):
    parser = UCX.parser(writer(message_b=message_b))
    lines = (CAPTURES / f"{name}.txt").read_text().splitlines(keepends=True)
    return [meaning for line in lines if (meaning := parser.parse(line)) is not None]


@pytest.mark.parametrize(
    ("name", "message_b", "printed"),
    [
        ("posix_64M.client", 64 * MIB, [1075.44, 3835.62, 3164.18, 2611.26]),
        ("posix_64k.client", 65536, [13951.82, 15349.38, 14403.69]),
        ("tcp_64k_sleep.client", 65536, [240.36, 522.05, 526.01, 503.52]),
        ("get_64M.client", 64 * MIB, [3314.05, 1947.31, 1846.40, 2116.92]),
        ("get_64k.client", 65536, [1644.28, 2243.82, 3835.99]),
        ("get_tcp_64k_sleep.client", 65536, [424.21, 220.79, 236.06, 234.81]),
    ],
)
def test_what_it_calls_mb_is_mib(name, message_b, printed):
    """The rate from size and time of a write agrees with the printed one only for 2^20."""
    rates = [row.rate_b_s / MIB for row in meanings(name, message_b)]
    # Times are printed to a nanosecond: 4.072 us hold the rate to a part in 8000.
    assert rates == pytest.approx(printed, rel=2e-4)


def test_the_summary_of_a_finished_writer_is_its_total_and_no_row():
    row, total = meanings("finished.client", MIB)
    assert isinstance(row, Row)
    assert (total.messages, total.rate_b_s) == (20000, 10311.16 * MIB)
    # 20,000 messages at 96.982 us each, as the same line says.
    assert total.messages * MIB / total.rate_b_s == pytest.approx(20000 * 96.982e-6, rel=1e-4)
    *rows, total = meanings("get_finished.client", MIB)  # so does a reader
    assert len(rows) == 13
    assert (total.messages, total.rate_b_s) == (20000, 1414.08 * MIB)


@pytest.mark.parametrize(
    ("asked", "outstanding"),
    [
        ({}, "32"),
        # Short writes are not paced.
        ({"messages": 46000, "rate_b_s": 1e9, "message_b": MIB}, "32"),
        ({"rate_b_s": 1e9}, "32"),  # 32 messages of 64 KiB are 2 MiB
        ({"rate_b_s": 1e9, "message_b": MIB}, "2"),
        ({"rate_b_s": 1e9, "message_b": 64 * MIB}, "1"),
    ],
)
def test_a_paced_writer_leaves_little_in_the_queue_of_its_device(asked, outstanding):
    for name in ("ucx", "ucx_read"):
        command = INJECTORS[name].origin_command(writer(**asked))
        assert command[command.index("-O") + 1] == outstanding


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("no_server.client", "client failed. connect() failed: Connection refused"),
        ("zero_size.client", "Message size too small, need to be at least 1"),
        ("no_host.client", "Name or service not known"),
        ("no_transport.client", "no active messages transport to <no debug data>: self/memory"),
    ],
)
def test_a_failure_is_a_fault_and_never_a_row(name, text):
    found = meanings(name, 65536)
    assert text in found[0].text
    assert all(isinstance(meaning, Fault) for meaning in found)


def test_over_tcp_a_dead_target_ends_in_a_fault():
    """Before it does, the origin reports hundreds of GB/s: its rows alone prove nothing."""
    found = meanings("server_killed_tcp.client", 65536)
    assert isinstance(found[-1], Fault)
    assert max(row.rate_b_s for row in found if isinstance(row, Row)) > 400e9


@pytest.mark.parametrize(
    ("llc_b", "message_b"), [(0, 64 * MIB), (32 * MIB, 64 * MIB), (480 * MIB, 960 * MIB)]
)
def test_a_write_that_reaches_dram_is_twice_the_last_level_cache(llc_b, message_b):
    assert dram_message_b(llc_b) == message_b


def test_commands_and_environments_by_hand():
    reads, here = INJECTORS["ucx_read"], writer(target="o")
    assert "-t ucp_get" in " ".join(reads.origin_command(here))
    assert reads.environment(here)["UCX_TLS"] == "posix,cma,self"  # the kernel copies
    assert UCX.environment(here)["UCX_TLS"] == "posix,self"
    # A short write ends by itself, and is set up without watching memory.
    assert "-n 46000" in " ".join(UCX.origin_command(writer(messages=46000)))
    assert UCX.environment(writer(messages=1))["UCX_MEM_EVENTS"] == "n"
    assert "UCX_MEM_EVENTS" not in UCX.environment(writer())
    for target, takes_part in (("o", False), ("t", True)):  # over tcp it receives
        asked = writer(target=target)
        assert UCX.freezes_target(asked) != takes_part
        assert ("sleep" in UCX.origin_command(asked)) == takes_part


def test_an_rdma_device_means_verbs_and_an_interface_tcp(monkeypatch, tmp_path):
    for name, layer in (("mlx5_0", "InfiniBand"), ("mlx5_1", "Ethernet"), ("rxe0", "Ethernet")):
        port = tmp_path / f"class/infiniband/{name}/ports/1"
        port.mkdir(parents=True)
        (port / "link_layer").write_text(f"{layer}\n")
    (tmp_path / "class/infiniband/rxe0/parent").write_text("eth0\n")
    real = UCX.environment(writer(device="eth7"))
    assert (real["UCX_TLS"], real["UCX_NET_DEVICES"]) == ("tcp,self", "eth7")
    for asks in (devices.is_rdma, devices.transport):
        monkeypatch.setattr(asks, "__defaults__", (tmp_path,))
    verbs = UCX.environment(writer(device="mlx5_0"))
    assert (verbs["UCX_TLS"], verbs["UCX_NET_DEVICES"]) == ("rc,self", "mlx5_0:1")
    names = ("mlx5_0", "mlx5_1", "rxe0")
    over = [UCX.transport(writer(device=name)) for name in names]
    assert over == ["InfiniBand", "RoCE", "soft-RoCE"]
    assert emulations(pl.Series(over[:2])) == []
    assert len(emulations(pl.Series(over[2:]))) == 1


@needs("ucx")
@pytest.mark.parametrize("name", ["ucx", pytest.param("ucx_read", marks=pytest.mark.slow)])
def test_a_suspended_target_uses_no_cpu_and_the_rows_go_on(name):
    """So both directions are one-sided: the target's process has no part in them."""
    injector = INJECTORS[name]
    asked = writer(target="o", address="127.0.0.1", port=free_port(), message_b=65536)
    environment = {**os.environ, **injector.environment(asked)}
    started = []

    def start(command):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        started.append(subprocess.Popen(command, env=environment, **pipes))
        return started[-1]

    try:
        target = start(injector.target_command(asked))
        wait_until(lambda: processes.listener(asked.port, target.pid) == "own")
        parser = injector.parser(asked)
        meant = map(parser.parse, start(injector.origin_command(asked)).stdout)
        rows = (meaning for meaning in meant if meaning is not None)
        assert isinstance(next(rows), Row)
        os.kill(target.pid, signal.SIGSTOP)
        os.waitpid(target.pid, os.WUNTRACED)  # it has stopped
        before_s = processes.cpu_s(target.pid)
        assert next(rows).rate_b_s > 0
        assert next(rows).rate_b_s > 0
        assert processes.cpu_s(target.pid) == before_s
    finally:
        for each in started:
            each.kill()
            each.wait()
