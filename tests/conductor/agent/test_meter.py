"""What a meter counts: of this host's loopback, and of a process in a control's place."""

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from conductor import counters
from conductor.agent.end import End
from conductor.agent.watch import Meter
from conductor.counters import CounterReading
from conductor.injectors import INJECTORS
from conductor.injectors.base import Row
from conductor.readings import MeterRecord
from records import clock
from tests import made_writers

WRITER = made_writers.writer(origin="n1", target="n2", device="lo")
SENT_B = 1 << 20
CAPTURES = Path(__file__).parents[2] / "captures"

on_loopback = pytest.mark.skipif(
    " lo:" not in Path("/proc/net/dev").read_text(), reason="no loopback interface"
)


def counted(writer=WRITER, injector="perftest", pid=None, after_count=lambda: None):
    """Samples and record of a meter that counts three times; `after_count` follows each count."""

    async def count():
        counts = asyncio.Queue()
        pid_counted, on_count = pid or os.getpid(), lambda: counts.put_nowait(None)
        meter = Meter(writer, INJECTORS[injector], pid_counted, on_count)
        meter.start()
        for _ in range(3):
            if meter.record().fault is None:
                await counts.get()
            after_count()
        record = meter.record()
        await meter.stop()
        return meter.take_samples(), record

    return asyncio.run(asyncio.wait_for(count(), 30))


@pytest.mark.parametrize(
    ("injector", "passed"), [("perftest", "sent"), ("perftest_read", "received")]
)
def test_a_device_counts_what_goes_through_the_origin(monkeypatch, injector, passed):
    """A reader's bytes come to it."""
    directions = set()

    def read(_, direction):
        directions.add(direction)
        return CounterReading("net:lo", 5)

    monkeypatch.setattr(counters, "read", read)
    counted(injector=injector)
    assert directions == {passed}


def send_over_loopback():
    sender, receiver = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    with sender, receiver:
        receiver.bind(("127.0.0.1", 0))
        for _ in range(SENT_B // (1 << 15)):
            sender.sendto(bytes(1 << 15), receiver.getsockname())


def passed_loopback() -> int:
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


@on_loopback
def test_a_device_is_counted_four_times_a_second():
    before_b = passed_loopback()
    samples, record = counted(after_count=send_over_loopback)
    passed_b = passed_loopback() - before_b
    assert record == MeterRecord(0, "sent by lo")
    first, second, third = samples
    assert second.at_s - first.at_s > 0.2
    for earlier, later in [(first, second), (second, third)]:
        assert SENT_B <= later.total - earlier.total <= passed_b - SENT_B


def test_a_control_is_counted_by_its_processor_time():
    busy = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        samples, _ = counted(injector="spin", pid=busy.pid)
    finally:
        busy.kill()
        _, _, usage = os.wait4(busy.pid, 0)
        busy.wait()
    first, *_, last = totals_s = [sample.total for sample in samples]
    assert totals_s == sorted(set(totals_s))
    assert first < last <= (used_s := usage.ru_utime + usage.ru_stime)
    assert last > used_s / 10  # a busy host may let it run longer than it was counted


@pytest.mark.parametrize(
    ("writer", "injector", "fault"),
    [
        (replace(WRITER, device=None), "perftest", "the machine's file names no device"),
        (replace(WRITER, device="none0"), "perftest", "device none0: no byte counter"),
        (replace(WRITER, target="n1"), "ucx", "nothing counts what passes over shared memory"),
    ],
)
def test_what_cannot_be_counted_is_told(writer, injector, fault):
    async def metering():
        meter = Meter(writer, INJECTORS[injector], os.getpid(), lambda: None)
        meter.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        meter.count()
        return meter.take_samples(), meter.record()

    samples, record = asyncio.run(metering())
    assert (samples, record) == ([], MeterRecord(0, fault=fault))


def test_what_the_target_tells_is_counted_and_what_it_does_not_tell_has_not_arrived(monkeypatch):
    monkeypatch.setattr("conductor.agent.watch.METER_INTERVAL_S", 0.05)

    async def count():
        counted_again = asyncio.Event()
        meter = Meter(WRITER, INJECTORS["mpi_put"], os.getpid(), counted_again.set)
        meter.take_arrival(5e6)  # nobody counts yet
        meter.start()
        for total_b in (6e6, 8e6):
            await asyncio.sleep(0)
            meter.take_arrival(total_b)
        reported = meter.take_samples()
        for _ in range(2):
            counted_again.clear()
            await counted_again.wait()
        silent = meter.take_samples()
        meter.take_arrival(9e6)  # a report comes while it stops
        await asyncio.wait_for(meter.stop(), 2)
        return reported, silent, meter.record()

    reported, silent, record = asyncio.run(asyncio.wait_for(count(), 30))
    assert [sample.total for sample in reported] == [6e6, 8e6]
    assert [sample.total for sample in silent] == [8e6, 8e6]
    assert silent[0].at_s - reported[1].at_s >= 0.15  # a target may miss a report
    assert record == MeterRecord(0, "the target's memory", memory=True)


def test_a_row_begins_when_the_one_before_it_is_printed(monkeypatch):
    """`ib_write_bw` begins to count after it has printed (its `print_bw_infinite_mode`). Stamps of
    `inf_stamped.client`: it measured the clock for 0.4 s, not 0.2, on an emulated processor."""
    parser, sent = INJECTORS["perftest"].parser(WRITER), []
    end = End(WRITER, "origin", INJECTORS["perftest"], SimpleNamespace(pid=0), sent.append)
    end.meter = None
    for line in (CAPTURES / "perftest" / "inf_stamped.client.txt").read_text().splitlines():
        if isinstance(row := parser.parse(line), Row):
            monkeypatch.setattr(clock, "now_s", lambda line=line: float(line[1:7]))
            end.report_row(row)
    ends_s = [report.row.end_s for report in sent]
    # Of the first it is only known that it ended at least 0.219 s before its stamp.
    assert ends_s == pytest.approx([104.17, 105.25, 106.47, 107.90, 109.32], abs=0.01)


def test_a_count_is_reported_with_a_row_and_before_the_first_row_after_a_pause():
    process = SimpleNamespace(pid=0, returncode=1)  # no signal reaches it

    async def sent_messages():
        sent = []
        end = End(WRITER, "origin", INJECTORS["perftest"], process, sent.append)
        before_s = clock.now_s()
        end.report_row(Row(5.0, 1.0, 0.2))  # the first one: now it is counted
        assert before_s - 0.2 <= sent[0].row.end_s <= clock.now_s() - 0.2
        await asyncio.sleep(0)
        end.report_row(Row(6.0, 1.0, 0.2))
        await end.hold()
        end.report_row(Row(7.0, 1.0, 0.2))  # has a part in which it was held
        end.resume()
        while len(sent) < 4:
            await asyncio.sleep(0.01)
        await end.meter.stop()
        return sent

    first, count, second, after = asyncio.run(asyncio.wait_for(sent_messages(), 30))
    assert (first.row.rate_b_s, second.row.rate_b_s) == (5.0, 6.0)
    assert count.samples
    assert after.samples
