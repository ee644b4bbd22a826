"""What an origin's agent notes of its device between two rows, on this host's loopback."""

import asyncio
import os
import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from nimc.base import clock
from nimc.node import messages
from nimc.node.agent import Agent, _End
from nimc.node.injectors import INJECTORS
from nimc.node.injectors.base import Row, Writer

WRITER = Writer(0, "n1", "n2", "127.0.0.1", 20000, 65536, device="lo")
SENT_B = 1 << 20


class Reports:
    """In place of the wire."""

    def __init__(self):
        self.sent = []

    def send(self, data):
        self.sent.append(messages.report(data))


def end_of(writer=WRITER, role="origin", injector="perftest"):
    process = SimpleNamespace(pid=os.getpid(), returncode=None)
    return _End(writer, role, process, INJECTORS[injector], None)


def send_over_loopback():
    here, there = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    with here, there:
        there.bind(("127.0.0.1", 0))
        for _ in range(SENT_B // (1 << 15)):
            here.sendto(bytes(1 << 15), there.getsockname())


@pytest.mark.skipif(" lo:" not in Path("/proc/net/dev").read_text(), reason="no loopback interface")
def test_a_row_comes_with_what_the_device_passed_until_it_was_reported():
    wire, end = Reports(), end_of()
    agent = Agent(wire)
    end.tally()
    send_over_loopback()
    agent._report_rate(end, Row(5.0, 1.0, 0.2))
    (report,) = wire.sent
    first, last = report.passed
    assert SENT_B <= last.bytes_b - first.bytes_b < 100 * SENT_B
    assert first.at_s <= last.at_s <= clock.now_s()
    # The row ended before the last reading, so that this covers it.
    assert report.time_s == pytest.approx(last.at_s - 0.2, abs=0.1)
    agent._report_rate(end, Row(5.0, 1.0, 0.2))
    assert len(wire.sent[1].passed) == 1  # each reading is sent once


def test_readings_are_made_while_the_process_runs():
    async def some():
        end = end_of()
        task = asyncio.create_task(Agent._tally(end))
        while len(end.passed) < 3:
            await asyncio.sleep(0.01)
        end.process.returncode = 0
        await task
        return end.passed

    found = asyncio.run(asyncio.wait_for(some(), 30))
    assert found[-1].at_s - found[0].at_s >= 0.4  # every quarter of a second


def test_only_an_origin_whose_bytes_pass_a_device_has_readings():
    local = replace(WRITER, target="n1")
    for end in (
        end_of(role="target"),
        end_of(local, injector="ucx"),  # over shared memory
        end_of(replace(WRITER, device=None)),
        end_of(replace(WRITER, device="none0")),  # no counter
    ):
        end.tally()
        assert end.passed == []
