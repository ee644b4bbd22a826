"""A writer follows its timetable: one that is simulated, a busy process, and real ones."""

import asyncio
import sys
import time
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest

from conductor import follower
from conductor.follower import Follower, throttled
from conductor.injectors.base import Writer
from records import processes
from records.plan import Window
from records.timetable import Timetable, along, bursts, even
from records.treatment import Burst, Replay
from tests.conductor.conftest import lasting, needs, state_of


class World:
    """A process that writes at a rate while it runs, and reports about each second that it does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rate_b_s: float) -> None:
        self.now_s, self.until_s = 1000.0, 0.0
        self.rate_b_s, self.running = rate_b_s, True
        #: When it began to write again, each time; and all that its device has passed on.
        self.begins_s: list[float] = []
        self.passed_b = 0.0
        #: Bytes of each second, and what was written since the last report at that time.
        self.written: dict[int, float] = {}
        self.unreported_b, self.reported_s = 0.0, self.now_s
        self.returncode: int | None = None
        self.follower: Follower | None = None
        #: Whether it says that its reports are of a time in which it was held.
        self.held = False
        monkeypatch.setattr(follower, "clock", SimpleNamespace(now_s=lambda: self.now_s))
        monkeypatch.setattr(follower.asyncio, "sleep", self.sleep)
        signals = SimpleNamespace(suspend=self.suspend, resume=self.resume)
        monkeypatch.setattr(follower, "processes", signals)

    def suspend(self, _: object) -> None:
        self.running = False

    def resume(self, _: object) -> None:
        if not self.running:
            self.begins_s.append(self.now_s - 1000)
        self.running = True

    async def sleep(self, length_s: float) -> None:
        for _ in range(round(length_s / 0.001)):
            if self.running:
                second, more_b = int(self.now_s - 1000 + 1e-9), 0.001 * self.rate_b_s
                self.written[second] = self.written.get(second, 0.0) + more_b
                self.unreported_b += more_b
                self.passed_b += more_b
            self.now_s += 0.001
            if self.running and self.now_s - self.reported_s >= 1.0 and self.follower:
                bytes_b = None if self.held else self.unreported_b
                self.follower.reported(bytes_b, self.now_s - self.reported_s)
                self.unreported_b, self.reported_s = 0.0, self.now_s

            if self.now_s >= self.until_s:
                self.returncode = 0

    def follow(
        self,
        plan: Timetable | list[float],
        seconds: int,
        told_b_s: float,
        counted: bool = False,
    ) -> list[float]:
        """Bytes of each second."""
        self.until_s = self.now_s + seconds
        passed_b = (lambda: self.passed_b) if counted else (lambda: None)
        asked = 1, along(plan) if isinstance(plan, list) else plan, told_b_s, passed_b
        self.follower = Follower(self, *asked)  # type: ignore[arg-type]
        with pytest.raises(StopIteration):  # its sleeps take no time
            self.follower.run().send(None)
        return [self.written.get(second, 0.0) for second in range(seconds)]


@pytest.mark.parametrize("told_b_s", [200.0, 140.0, 280.0])
def test_each_second_has_its_bytes_whatever_rate_was_told(
    monkeypatch: pytest.MonkeyPatch, told_b_s: float
) -> None:
    world = World(monkeypatch, 200.0)
    rates = [100.0, 0.0, 150.0, 20.0]
    written = world.follow(rates, 20, told_b_s)
    assert world.follower
    assert [world.follower.asks(1000 + at, 1000.25 + at) for at in range(4)] == [
        *(True, False, True, True)
    ]
    # Two messages of a byte, which take 0.02 s at the first rate.
    assert [world.follower.asks(1000, 1000 + at) for at in (0.0199, 0.0201)] == [False, True]
    # In the first seconds it learns what rate the writer really has.
    assert written[8:] == pytest.approx(rates * 3, abs=10)
    assert sum(written) == pytest.approx(5 * sum(rates), rel=0.1)


def test_what_the_device_counts_is_not_written_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 200.0)
    # Told half its rate, it would write twice as much until its first report.
    written = world.follow([50.0, 0.0], 2, 100.0, counted=True)
    assert written == pytest.approx([50, 0], abs=6)
    assert World(monkeypatch, 200.0).follow([50.0, 0.0], 2, 100.0)[0] > 90
    # Told twice its rate: one pass a period would leave 2.5 bytes to the pause.
    written = World(monkeypatch, 200.0).follow([50.0, 0.0], 2, 400.0, counted=True)
    assert written == pytest.approx([50, 0], abs=0.5)


def test_a_report_that_was_printed_late_counts_as_what_the_device_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 200.0)
    world.follow([50.0, 0.0], 2, 200.0, counted=True)
    assert world.follower
    # Of 200 bytes/s in 2 s, although its device has 50 bytes or so.
    world.follower.reported(400.0, 2.0)
    assert world.follower._reported_b == pytest.approx(world.passed_b)


def test_what_was_written_before_the_traffic_is_no_part_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first report is of a second that began 0.6 s before, with 120 bytes."""
    world = World(monkeypatch, 200.0)
    world.unreported_b, world.reported_s = 120.0, world.now_s - 0.6
    assert world.follow([50.0, 0.0], 2, 200.0) == pytest.approx([50, 0], abs=6)


def test_a_burst_begins_with_its_second(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch, 200.0)
    world.now_s += 0.013  # whatever the time at which traffic begins
    world.follow([0.0, 100.0], 20, 200.0)
    begins = [-1.0, *world.begins_s]
    starts = [at for last, at in pairwise(begins) if at - last > 0.5]
    assert starts == pytest.approx([1.013 + 2 * burst for burst in range(10)], abs=0.002)


def test_what_cannot_be_written_in_time_is_not_written_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch, 200.0)
    written = world.follow([400.0, 400.0, 0.0, 0.0], 8, 200.0)
    assert written[:2] == pytest.approx([200, 200])
    # At most half a second of debt is made up for.
    assert 80 < written[2] < 120
    assert written[3] == 0


@pytest.mark.parametrize("told_b_s", [200.0, 100.0, 400.0])
def test_bursts_have_their_length_and_begin_at_even_times(
    monkeypatch: pytest.MonkeyPatch, told_b_s: float
) -> None:
    """Of 30 ms each 120 ms, at 200 bytes/s: 50 bytes/s on average."""
    world = World(monkeypatch, 200.0)
    written = world.follow(bursts(50.0, Burst(0.03, 0.09)), 24, told_b_s)
    assert written[12:] == pytest.approx([50.0] * 12, abs=7)  # a second has 8 or 9 bursts
    late = [at % 0.12 for at in world.begins_s]
    assert all(min(each, 0.12 - each) < 0.002 for each in late)
    assert world.follower
    number, writing_s, pausing_s = world.follower.bursts()
    assert number == pytest.approx(200, abs=1)
    assert writing_s + pausing_s == pytest.approx(0.12 * number)
    assert writing_s == pytest.approx(6, rel=0.1)
    assert world.follower.bursts() == (0, 0, 0)


@pytest.mark.parametrize("counted", [False, True])
def test_reports_of_a_time_in_which_it_was_held_say_nothing(
    monkeypatch: pytest.MonkeyPatch, counted: bool
) -> None:
    """What it wrote then is known from the device, or from how long it ran."""
    world = World(monkeypatch, 200.0)
    world.held = True
    assert sum(world.follow(even(50.0, 0.05), 20, 200.0, counted)) == pytest.approx(20 * 50, abs=10)
    if not counted and (follower := world.follower):  # and one in a pause adds nothing to that
        ran_b = follower._reported_b + follower._ran_s * follower._full_b_s
        follower.reported(None, 1.0)
        assert follower._reported_b == pytest.approx(ran_b, abs=1e-6)


BUSY = [sys.executable, "-S", "-c", "while True: pass"]


@pytest.mark.parametrize(
    ("message_b", "full_b_s", "seconds"),
    [
        (65536, 10e9, 0.02),
        (1 << 26, None, 0.02),
        (100_000_000, 10e9, 0.04),  # four messages of 10 ms
        (1 << 30, 5e9, 0.2),  # a message alone takes longer
    ],
)
def test_a_period_holds_several_messages_where_it_can(message_b, full_b_s, seconds):
    asked = Writer(0, "o", "o", "127.0.0.1", 20000, message_b, 1e6, full_b_s)
    assert throttled(asked).every_s == pytest.approx(seconds)
    assert throttled(asked).rates_b_s == [1e6]
    assert throttled(replace(asked, burst=Burst(0.01, 0.09))) == bursts(1e6, Burst(0.01, 0.09))


def test_a_paced_process_runs_for_its_share_and_is_never_left_suspended():
    async def run():
        process = await processes.spawn(BUSY, {}, [], -3, -3)
        task = asyncio.create_task(Follower(process, 1, even(20.0, 0.02), 100.0).run())
        began_s = time.monotonic()
        while processes.cpu_s(process.pid) < 0.3:
            await asyncio.sleep(0.005)
        took_s = time.monotonic() - began_s
        while state_of(process.pid) != "T":
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        until_s = time.monotonic() + 20
        while processes.cpu_s(process.pid) < 0.5 and time.monotonic() < until_s:
            await asyncio.sleep(0.01)
        used_s = processes.cpu_s(process.pid)
        await processes.stop(process)
        return took_s, used_s

    took_s, used_s = asyncio.run(run())
    # At a fifth of a core 0.3 s of it take 1.5 s; a host that wakes the pacer 0.2 s late lets the
    # process have them after 0.6 s.
    assert took_s > 0.6
    assert used_s >= 0.5  # it goes on when it is no longer paced


@needs("ucx")
@pytest.mark.slow
def test_an_agent_holds_ucx_at_a_quarter_of_its_rate_in_bursts(block):
    """Over shared memory; within a factor of two, since hosts of tests have other work as well."""
    writes = {"message_b": 65536, "rate_share": 0.25, "burst": Burst(0.03, 0.09)}
    run = block(arms=["off", "on"], command=lasting(3), writes=writes)
    sample = run.done().sample()
    (writer,) = sample["writers"]
    assert 0.5 < writer["rate_b_s"] / writer["asked_b_s"] < 2.0
    found = sample["timetable"]
    assert found["done_length_s"] + found["done_pause_s"] == pytest.approx(0.12, rel=0.2)


@pytest.mark.slow
@needs("ucx")
def test_a_real_writer_writes_when_the_window_says_so(block) -> None:  # type: ignore[no-untyped-def]
    rates = [3e8] * 3 + [0.0] * 3
    run = block(
        command=lasting(9),
        arms=["off", "on"],
        writes={"replay": Replay("ab" * 32, 1, 0.5)},
        windows=[Window(1763942400, ["n7"], [rates])],
    )
    sample = run.done().sample()
    (writer,) = sample["writers"]
    traffic = sample["timetable"]
    assert (traffic["nodes"], traffic["window_s"], traffic["share"]) == (["n7"], 1763942400, 0.5)
    assert writer["asked_b_s"] is None
    assert 0.5 < traffic["done_b_s"] / traffic["wanted_b_s"] < 1.5
    assert sample["outcome"] == "kept" or "traffic" in sample["reason"]
