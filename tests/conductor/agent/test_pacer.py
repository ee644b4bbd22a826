"""A pacer makes a writer keep a rate below its full rate, by suspending and resuming it.

The writer is a simulated process, a busy process, or a real writer.
"""

import asyncio
import sys
import time
from itertools import pairwise
from types import SimpleNamespace

import pytest

from conductor.agent import pacer
from conductor.agent.pacer import Pace, Pacer, pace_of
from records import processes
from tests import made_writers
from tests.conductor.conftest import lasting, needs, state_of


class World:
    """A simulated process that writes at a fixed rate while it runs.

    About once a second, when it runs, it reports what it has written.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rate_b_s: float) -> None:
        self.now_s, self.until_s = 1000.0, 0.0
        self.rate_b_s, self.running = rate_b_s, True
        #: All bytes that its device has counted.
        self.passed_b = 0.0
        #: Second -> bytes written in it.
        self.written: dict[int, float] = {}
        #: Bytes written since the last report, and the time of that report.
        self.unreported_b, self.reported_s = 0.0, self.now_s
        self.returncode: int | None = None
        self.pacer: Pacer | None = None
        #: Seconds in which it cannot write, although it runs.
        self.stalled = range(0)
        #: True if its reports are useless, since it was held during a part of their time.
        self.held = False
        monkeypatch.setattr(pacer, "clock", SimpleNamespace(now_s=lambda: self.now_s))
        monkeypatch.setattr(pacer.asyncio, "sleep", self.sleep)
        signals = SimpleNamespace(suspend=self.suspend, resume=self.resume)
        monkeypatch.setattr(pacer, "processes", signals)

    def suspend(self, _: object) -> None:
        self.running = False

    def resume(self, _: object) -> None:
        self.running = True

    async def sleep(self, length_s: float) -> None:
        for _ in range(round(length_s / 0.001)):
            second = int(self.now_s - 1000 + 1e-9)
            if self.running and second not in self.stalled:
                more_b = 0.001 * self.rate_b_s
                self.written[second] = self.written.get(second, 0.0) + more_b
                self.unreported_b += more_b
                self.passed_b += more_b
            self.now_s += 0.001
            if self.running and self.now_s - self.reported_s >= 1.0 and self.pacer:
                bytes_b = None if self.held else self.unreported_b
                self.pacer.take_report(bytes_b, self.now_s - self.reported_s)
                self.unreported_b, self.reported_s = 0.0, self.now_s

            if self.now_s >= self.until_s:
                self.returncode = 0

    def keep(
        self, paced: Pace, seconds: int, assumed_full_b_s: float, counted: bool = False
    ) -> list[float]:
        """Pace the process for some seconds; return the bytes written in each second.

        `counted`: whether the pacer can read the bytes that the device has counted.
        """
        self.until_s = self.now_s + seconds
        passed_b = (lambda: self.passed_b) if counted else (lambda: None)
        self.pacer = Pacer(self, paced, assumed_full_b_s, passed_b)  # type: ignore[arg-type]
        with pytest.raises(StopIteration):  # its sleeps take no time
            self.pacer.run().send(None)
        return [self.written.get(second, 0.0) for second in range(seconds)]


#: A quarter of the rate of a writer of 200 bytes/s.
QUARTER = Pace(50.0, 0.02)


@pytest.mark.parametrize("assumed_full_b_s", [200.0, 140.0, 280.0])
def test_each_second_has_its_bytes_whatever_full_rate_was_assumed(
    monkeypatch: pytest.MonkeyPatch, assumed_full_b_s: float
) -> None:
    written = World(monkeypatch, 200.0).keep(QUARTER, 20, assumed_full_b_s)
    # In the first seconds, the pacer learns the real full rate of the writer.
    assert written[8:] == pytest.approx([50.0] * 12, abs=5)
    assert sum(written) == pytest.approx(20 * 50, rel=0.1)


def test_what_the_device_counts_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # If half of the real full rate is assumed, the process writes twice as much as it should until
    # its first report. The device's count prevents this.
    assert World(monkeypatch, 200.0).keep(QUARTER, 1, 100.0, counted=True)[0] < 55
    assert World(monkeypatch, 200.0).keep(QUARTER, 1, 100.0)[0] > 90
    # If twice the real full rate is assumed, the process would write half as much as it should in
    # one run per period. With the device's count, it is run again in the same period.
    assert World(monkeypatch, 200.0).keep(QUARTER, 1, 400.0, counted=True)[0] > 45


def test_a_report_that_was_printed_late_is_replaced_by_the_devices_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 200.0)
    world.keep(QUARTER, 2, 200.0, counted=True)
    assert world.pacer
    # The report claims 200 bytes/s for 2 s, although the device has counted about 100 bytes.
    world.pacer.take_report(400.0, 2.0)
    assert world.pacer.accounted_b == pytest.approx(world.passed_b)


def test_what_was_written_before_the_pacing_began_is_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first report covers a second that began 0.6 s before the pacing, with 120 bytes."""
    world = World(monkeypatch, 200.0)
    world.unreported_b, world.reported_s = 120.0, world.now_s - 0.6
    assert world.keep(QUARTER, 2, 200.0) == pytest.approx([50, 50], abs=6)


def test_what_cannot_be_written_in_time_is_not_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 200.0)
    world.stalled = range(4, 7)
    written = world.keep(QUARTER, 12, 200.0, counted=True)
    # In three seconds, 150 bytes were missed. The pacer makes up for what takes half a second at
    # the assumed full rate: at most 100 bytes. It is less here, since after three seconds without
    # bytes the assumed full rate is lower.
    assert written[4:7] == [0, 0, 0]
    assert 25 < sum(written[7:]) - 5 * 50 < 105


@pytest.mark.parametrize("counted", [False, True])
def test_a_report_about_a_time_in_which_the_writer_was_held_is_not_used(
    monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """The bytes are then known from the device, or estimated from how long the process ran."""
    world = World(monkeypatch, 200.0)
    world.held = True
    assert sum(world.keep(QUARTER, 20, 200.0, counted)) == pytest.approx(20 * 50, abs=10)
    if not counted and (paced := world.pacer):  # a report while it is suspended adds no bytes
        accounted_b = paced.accounted_b
        paced.take_report(None, 1.0)
        assert paced.accounted_b == pytest.approx(accounted_b, abs=1e-6)


BUSY = [sys.executable, "-S", "-c", "while True: pass"]


@pytest.mark.parametrize(
    ("message_b", "full_b_s", "seconds"),
    [
        (65536, 10e9, 0.02),
        (1 << 26, None, 0.02),
        (100_000_000, 10e9, 0.04),  # four messages of 10 ms
        (1 << 30, 5e9, 0.2),  # one message takes longer than the longest period
    ],
)
def test_a_period_holds_several_messages_where_it_can(message_b, full_b_s, seconds):
    writer = made_writers.writer(target="o", message_b=message_b, rate_b_s=1e6, full_b_s=full_b_s)
    assert pace_of(writer) == Pace(1e6, pytest.approx(seconds))


def test_a_paced_process_runs_for_its_share_and_is_never_left_suspended():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        task = asyncio.create_task(Pacer(process, Pace(20.0, 0.02), 100.0).run())
        times_s = [time.monotonic()]
        while processes.cpu_s(process.pid) < 0.3:
            await asyncio.sleep(0.005)
            times_s.append(time.monotonic())
        while state_of(process.pid) != "T":
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        deadline_s = time.monotonic() + 60
        while processes.cpu_s(process.pid) < 0.5 and time.monotonic() < deadline_s:
            await asyncio.sleep(0.01)
        used_s = processes.cpu_s(process.pid)
        await processes.stop(process)
        return times_s, used_s

    times_s, used_s = asyncio.run(run())
    # The process may run for a fifth of the time. It runs longer if a busy host wakes the pacer
    # late. This test is then woken late as well, which measures the delay.
    late_s = sum(max(now_s - then_s - 0.01, 0.0) for then_s, now_s in pairwise(times_s))
    assert (times_s[-1] - times_s[0]) / 5 + late_s > 0.3 - 0.1
    assert used_s >= 0.5  # the process runs on when it is no longer paced


@needs("ucx")
@pytest.mark.slow
def test_an_agent_holds_ucx_at_a_quarter_of_its_rate(block):
    """The writes go over shared memory. Beside other load, the writer may be slower than when its
    full rate was measured."""
    writes = {"message_b": 65536, "rate_share": 0.25}
    run = block(arms=["off", "on"], command=lasting(3), writes=writes)
    (writer,) = run.done().sample()["writers"]
    assert writer["limited_by"] == "agent"
    assert 0.1 < writer["rate_b_s"] / writer["asked_b_s"] < 2.0
