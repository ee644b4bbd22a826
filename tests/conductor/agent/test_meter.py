"""What a meter counts: bytes of a device, processor time of a control, reports of the target.

A meter counts what one writer wrote, independently of the rows (lines with rates) that the writer
prints. A control is a process that computes and writes nothing.
"""

import asyncio
import os
import socket
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
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


def count_three_times(injector="perftest", pid=None, after_each=lambda: None):
    """Return the first three samples of a meter, and its record.

    `after_each` is called after each sample.
    """

    async def count():
        changes = asyncio.Queue()
        meter = Meter(
            WRITER, INJECTORS[injector], pid or os.getpid(), lambda: changes.put_nowait(None)
        )
        meter.start()
        for _ in range(3):
            if meter.record().fault is None:
                await changes.get()
            after_each()
        record = meter.record()
        await meter.stop()
        return meter.take_samples(), record

    return asyncio.run(asyncio.wait_for(count(), 30))


@pytest.mark.parametrize(
    ("injector", "direction"), [("perftest", "sent"), ("perftest_read", "received")]
)
def test_a_device_counts_what_goes_through_the_origin(monkeypatch, injector, direction):
    """The origin of a reader receives the bytes."""
    directions = set()

    def read(_device, counted_direction):
        directions.add(counted_direction)
        return CounterReading("net:lo", 5)

    monkeypatch.setattr(counters, "read", read)
    _, record = count_three_times(injector=injector)
    assert (directions, record.source) == ({direction}, f"{direction} by lo")


def test_a_device_that_counts_once_a_second_is_not_silent_in_between(monkeypatch):
    """The counters of bnxt_re are updated once a second: update_period_ms in its main.c.

    The writer sends 1 GB/s and stops after 3 s. The meter knows this when the next update is
    overdue, 1.5 s after the last one.
    """
    now_s = 0.0

    def read(*_):
        return CounterReading("bnxt:lo/1", int(min(now_s, 3.0)) * 10**9, period_s=1.0)

    async def count():
        nonlocal now_s
        changes = asyncio.Queue()
        meter = Meter(WRITER, INJECTORS["perftest"], os.getpid(), lambda: changes.put_nowait(None))
        meter.start()
        await changes.get()
        for step in range(1, 25):
            now_s = step / 4
            meter.count()
        assert meter.passed_b() is None
        await meter.stop()
        return meter.take_samples()

    monkeypatch.setattr(counters, "read", read)
    monkeypatch.setattr(clock, "now_s", lambda: now_s)
    seconds_and_gb = [(sample.at_s, sample.total / 1e9) for sample in asyncio.run(count())]
    assert seconds_and_gb == [(0, 0), (1, 1), (2, 2), (3, 3), (4.5, 3), (6, 3)]


def send_over_loopback():
    """Send `SENT_B` bytes."""
    sender, receiver = socket.socket(type=socket.SOCK_DGRAM), socket.socket(type=socket.SOCK_DGRAM)
    with sender, receiver:
        receiver.bind(("127.0.0.1", 0))
        for _ in range(SENT_B // (1 << 15)):
            sender.sendto(bytes(1 << 15), receiver.getsockname())


def loopback_b() -> int:
    """Return the bytes that the kernel has counted on the loopback interface."""
    return int(Path("/sys/class/net/lo/statistics/tx_bytes").read_text())


@on_loopback
def test_a_device_is_counted_four_times_a_second():
    """The count between two samples includes what this test sends between them.

    It does not include what this test sends after the third sample.
    """
    before_b = loopback_b()
    samples, record = count_three_times(after_each=send_over_loopback)
    all_b = loopback_b() - before_b
    assert record == MeterRecord(0, "sent by lo")
    assert samples[1].at_s - samples[0].at_s > 0.2
    for earlier, later in pairwise(samples):
        assert SENT_B <= later.total - earlier.total <= all_b - SENT_B


def test_a_control_is_counted_by_its_processor_time():
    busy = subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"])
    try:
        samples, _ = count_three_times(injector="spin", pid=busy.pid)
    finally:
        busy.kill()
        _, _, usage = os.wait4(busy.pid, 0)
        busy.wait()
    totals_s = [sample.total for sample in samples]
    assert totals_s == sorted(set(totals_s))
    used_s = usage.ru_utime + usage.ru_stime
    assert totals_s[-1] <= used_s
    # On a busy host, the process may run for some time after its last count.
    assert totals_s[-1] > used_s / 10


@pytest.mark.parametrize(
    ("writer", "injector", "names"),
    [
        (replace(WRITER, device=None), "perftest", "the machine's file"),
        (replace(WRITER, device="none0"), "perftest", "device none0: "),
        (replace(WRITER, target="n1"), "ucx", "shared memory"),
    ],
)
def test_what_cannot_be_counted_is_recorded_with_the_reason(writer, injector, names):
    async def count():
        meter = Meter(writer, INJECTORS[injector], os.getpid(), lambda: None)
        meter.start()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        meter.count()
        return meter.take_samples(), meter.record()

    samples, record = asyncio.run(count())
    assert samples == []
    assert record == MeterRecord(0, fault=record.fault)
    assert names in record.fault


def test_what_the_target_reports_is_counted_and_what_it_does_not_report_has_not_arrived(
    monkeypatch,
):
    monkeypatch.setattr("conductor.agent.watch.METER_INTERVAL_S", 0.05)

    async def count():
        changed = asyncio.Event()
        meter = Meter(WRITER, INJECTORS["mpi_put"], os.getpid(), changed.set)
        meter.take_arrival(5e6)  # before the meter counts
        meter.start()
        for total_b in (6e6, 8e6):
            await asyncio.sleep(0)
            meter.take_arrival(total_b)
        reported = meter.take_samples()
        for _ in range(2):
            changed.clear()
            await changed.wait()
        unreported = meter.take_samples()
        meter.take_arrival(9e6)  # just before the meter stops
        await asyncio.wait_for(meter.stop(), 2)
        return reported, unreported, meter.record()

    reported, unreported, record = asyncio.run(asyncio.wait_for(count(), 30))
    assert [sample.total for sample in reported] == [6e6, 8e6]
    assert [sample.total for sample in unreported] == [8e6, 8e6]
    # A target may miss a report, so the meter waits for three of its intervals.
    assert unreported[0].at_s - reported[1].at_s >= 0.15
    assert record == MeterRecord(0, "the target's memory", in_memory=True)


def stamped_lines() -> list[tuple[float, str]]:
    """Return lines that a real `ib_write_bw` printed, each with its time in seconds."""
    text = (CAPTURES / "perftest" / "inf_stamped.client.txt").read_text()
    return [(float(line[1:7]), line) for line in text.splitlines()]


def test_a_row_begins_when_the_one_before_it_is_printed(monkeypatch):
    """`ib_write_bw` begins to count a row after it has printed the row before (its
    `print_bw_infinite_mode`).

    Between two rows it measures its clock. On the emulated processor of this capture, this took
    0.4 s instead of 0.2 s. The first row ended at least 0.219 s before its stamp; more is not
    known.
    """
    injector, sent = INJECTORS["perftest"], []
    parser = injector.parser(WRITER)
    end = End(WRITER, "origin", injector, SimpleNamespace(pid=0), sent.append)
    end.meter = None
    now = SimpleNamespace(s=0.0)
    monkeypatch.setattr(clock, "now_s", lambda: now.s)
    for stamp_s, line in stamped_lines():
        row = parser.parse(line)
        if isinstance(row, Row):
            now.s = stamp_s
            end.report_row(row)
    ends_s = [report.row.end_s for report in sent]
    assert ends_s == pytest.approx([104.17, 105.25, 106.47, 107.90, 109.32], abs=0.01)


@pytest.mark.parametrize(("role", "rows"), [("origin", 5), ("target", 0)])
def test_only_the_origin_reports_rows(tmp_path, role, rows):
    """Both ends of `ib_write_bw` print rows; those that the target prints are ignored."""
    sent = []
    capture = CAPTURES / "perftest" / "inf_stamped.client.txt"

    async def talk():
        process = await asyncio.create_subprocess_exec(
            "cat", capture, stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        end = End(WRITER, role, INJECTORS["perftest"], process, sent.append)
        end.meter = None
        end.begin((tmp_path / "log").open("wb"))
        while not (sent and sent[-1].why_ended):
            await asyncio.sleep(0.01)
        await end.end_tasks()

    asyncio.run(asyncio.wait_for(talk(), 30))
    assert sum(news.row is not None for news in sent) == rows


def test_a_row_from_counts_spans_updates_of_the_counter(monkeypatch, tmp_path):
    """The device updates its counter once a second, and is read once a second.

    So there may be no update between two readings, and two updates before the next reading. If the
    next reading has no update either, the writer has paused.
    """
    sent, readings = [], [0, 0, 2, 3, 3, 3]  # GB, at each second
    now = SimpleNamespace(s=0)

    def read(*_):
        gigabytes = readings[min(now.s, len(readings) - 1)]
        now.s += 1
        return CounterReading("bnxt:lo/1", gigabytes * 10**9, period_s=1.0)

    async def talk():
        process = await asyncio.create_subprocess_exec(
            "sleep", "300", stdout=asyncio.subprocess.PIPE, start_new_session=True
        )
        writer = replace(WRITER, rate_b_s=1e9)
        end = End(writer, "origin", INJECTORS["perftest"], process, sent.append)
        end.meter = None
        end.begin((tmp_path / "log").open("wb"))
        while now.s < len(readings):
            await asyncio.sleep(0)
        process.kill()
        await process.wait()
        await end.end_tasks()

    monkeypatch.setattr("conductor.agent.end.COUNT_INTERVAL_S", 0)
    monkeypatch.setattr(counters, "read", read)
    monkeypatch.setattr(clock, "now_s", lambda: float(now.s))
    asyncio.run(asyncio.wait_for(talk(), 30))
    rates_gb_s = [news.row.rate_b_s / 1e9 for news in sent if news.row]
    assert rates_gb_s[:3] == [1.0, 1.0, 0.0]


async def reports_of_a_held_writer():
    """Return what an origin reports. It prints two rows, and a third after it was held.

    Then it is resumed.
    """
    sent = []
    process = SimpleNamespace(pid=0, returncode=1)  # it has ended, so it gets no signals
    end = End(WRITER, "origin", INJECTORS["perftest"], process, sent.append)
    end.report_row(Row(5.0, 1.0, 0.2))  # after its first row, the meter counts
    await asyncio.sleep(0)
    end.report_row(Row(6.0, 1.0, 0.2))
    await end.hold()
    end.report_row(Row(7.0, 1.0, 0.2))
    end.resume()
    while len(sent) < 4:
        await asyncio.sleep(0.01)
    await end.meter.stop()
    return sent


def test_a_row_ends_when_it_was_measured():
    """The row is printed 0.2 s after it was measured."""
    before_s = clock.now_s()
    first, *_ = asyncio.run(asyncio.wait_for(reports_of_a_held_writer(), 30))
    assert before_s - 0.2 <= first.row.end_s <= clock.now_s() - 0.2


def test_a_count_is_reported_with_a_row_and_before_the_first_row_after_a_pause():
    """A row is not reported if the writer was held during it."""
    reports = asyncio.run(asyncio.wait_for(reports_of_a_held_writer(), 30))
    first, count, second, after_pause = reports
    assert (first.row.rate_b_s, second.row.rate_b_s) == (5.0, 6.0)
    assert count.samples
    assert after_pause.samples
