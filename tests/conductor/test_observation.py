"""What is watched around a run, what was seen there, and what of it rejects the run."""

import asyncio
import os
import time
from dataclasses import replace
from itertools import count
from types import SimpleNamespace

import pytest

from conductor import messages
from conductor.agent import node_name
from conductor.allocation import Allocation
from conductor.evidence.claims import Looked
from conductor.evidence.counters import Reading
from conductor.messages import Observed
from conductor.observation import Heartbeat, Observation, Observer
from conductor.watch import Watch
from records.machine.load import HostLoad
from records.machine.node_counters import NodeCounter
from records.plan import BlockPlan, Demand
from records.sample import WRITERS, DeviceBytes, NodeConditions
from records.treatment import Start, Treatment, Writes
from tests.conductor.test_timetable import PLAN

WRITES = Writes("perftest", 65536, devices=("m0", "m1"))
APART = replace(PLAN, origin_policy="hetjob", demand=Demand(foreign_share=0.02, rail_share=0.02))


def under(writes: Writes | None) -> Treatment:
    return Treatment("on", Start(["x"]), writes)


def observer(plan: BlockPlan = APART, hub=None, writes: Writes | None = WRITES) -> Observer:
    plan = replace(plan, treatments=[under(None), under(writes), under(Writes("spin", 0))])
    return Observer(plan, Allocation(["n1"], [node_name()]), hub)


def seen(received_b=0, sent_b=0, **changes) -> Observation:
    """One node in 10 s, whose rail m0 passed all."""
    devices = [DeviceBytes("m0", received_b, sent_b), DeviceBytes("m1", 0, 0)]
    rates = {"received_b_s": received_b / 10, "sent_b_s": sent_b / 10, "counter": "rdma:m0/1"}
    one = NodeConditions("n1", 10.0, devices=devices, **rates)
    return replace(Observation({}, [one], {"n1": "cc1"}, {}, {}, [], None), **changes)


SILENT = "n1 received 0.0 MB (rdma:m0/1) although nothing wrote"
READS = replace(WRITES, injector="perftest_read")


@pytest.mark.parametrize(
    ("writes", "found", "alone_b_s", "fault"),
    [
        # 2 % of 100 B/s alone are 20 B in 10 s.
        (None, seen(20), 100.0, None),
        (None, seen(21), 100.0, SILENT),
        (None, seen(21), 0.0, None),  # nothing was measured alone
        (WRITES, seen(21), 100.0, None),
        (Writes("spin", 0), seen(21), 100.0, SILENT),
        (replace(WRITES, scheduled=0), seen(21), 100.0, SILENT),
        (replace(WRITES, scheduled=2), seen(21), 100.0, None),
        (None, seen(0, 21), 100.0, None),  # what targets send, if the block has no reads
        (WRITES, seen(ran=[3]), 100.0, "1 held writer ran within the run"),
        (WRITES, seen(ran=[3, 5]), 100.0, "2 held writers ran within the run"),
        (None, seen(21, ran=[3], paused="stood still"), 100.0, "stood still"),
    ],
)
def test_what_rejects_a_run_whatever_was_measured(writes, found, alone_b_s, fault):
    reason = observer().fault(found, under(writes), alone_b_s)
    assert reason is None if fault is None else reason.startswith(fault)


def test_blocks_with_reads_are_silent_if_targets_send_nothing():
    reads = observer(writes=READS)
    assert reads.fault(seen(21), under(None), 100.0) is None
    assert reads.fault(seen(0, 21), under(None), 100.0).startswith("n1 sent 0.0 MB")


def test_rails_are_judged_unless_writes_stay_on_one_host():
    """One writer takes the first of its devices, which passed all or nothing."""
    rails = replace(APART, rails=["m0", "m1"])
    second = replace(WRITES, devices=("m1",))
    assert observer(rails).fault(seen(99), under(WRITES), 100.0) is None
    assert "the policy names m1" in observer(rails).fault(seen(99), under(second), 100.0)
    for plan in (APART, replace(rails, origin_policy="same_host")):
        assert observer(plan).fault(seen(99), under(second), 100.0) is None


class Hub:
    """Two agents: the orders that they get, and their answers before and after a run."""

    def __init__(self):
        self.orders = []
        looks = [[Looked(at, "x", 9, 9, 0.0, memory=False)] for at in range(2)]
        conditions = seen().conditions[0]
        self.answers = [
            {name: self.observed(100, 7) for name in ("n1", node_name())},
            {
                "n1": self.observed(140, 9, conditions, "cc1", looks[0], {}, [4, 2]),
                node_name(): self.observed(500, 8, None, "ld", looks[1], {}, [2]),
            },
        ]

    def observed(self, received_b, sent_b, *more):
        both = (Reading("rdma:m0/1", each_b, at_s=1.0) for each_b in (received_b, sent_b))
        return Observed(*both, *(more or (None, "", [])))

    async def watch(self, orders):
        self.orders.append(orders)
        return self.answers[len(self.orders) - 1]


@pytest.mark.parametrize(
    ("plan", "devices", "exempt"),
    [
        (APART, ["m0", "m1"], []),  # those of the writers
        (replace(APART, rails=["m0"], owner_pid=42), ["m0"], [42]),
        (replace(APART, rails=["m0"], origin_policy="same_host"), [], []),
    ],
)
def test_targets_devices_and_this_process_are_watched(plan, devices, exempt):
    hub = Hub()

    async def watch():
        one = observer(plan, hub)
        await one.begin([1, 2])
        return await one.end()

    found = asyncio.run(watch())
    assert hub.orders == [
        {
            "n1": messages.BeginWatch(devices, [1, 2], [], []),
            node_name(): messages.BeginWatch([], [1, 2], [os.getpid()], exempt),
        },
        {"n1": messages.EndWatch(), node_name(): messages.EndWatch()},
    ]
    counts = {passed: count["n1"].bytes_b for passed, count in found.counts.items()}
    assert counts == {"received": 40, "sent": 2}
    assert [each.node for each in found.conditions] == ["n1"]  # of targets only
    assert found.busiest == {"n1": "cc1"}
    assert {index: looked.writer for index, looked in found.looked.items()} == {0: 0, 1: 1}
    assert (found.ran, found.paused) == ([2, 4], None)


def test_a_watch_sums_up_what_it_read_from_its_beginning_to_its_end(monkeypatch):
    """A second passes from each reading to the next, in which cc1 takes 0.5 s and ld 0.25 s."""
    times_s, used_s = count(100.0), dict.fromkeys((1, 2), count())
    ran_s = {13: iter((1.0, 1.0)), 14: iter((2.0, 2.5)), 15: iter((3.0, None))}
    passed = {"m0": iter((100, 10, 103, 11)), "m1": iter((200, 20, 204, 22))}
    busy, asked = iter(({4}, *[set()] * 10_000)), []

    def read(_, roots, exempt, earlier=None):
        own = {1: 10} if earlier is None else {1: 10, 2: 20, 3: 30}
        asked.append((roots, exempt))
        return HostLoad(next(times_s), {}, own, frozenset(), 0, 0)

    def busy_cpus(pids, over_s):
        assert (pids, over_s) == ([2, 3], len(asked) - 1)
        return next(busy)

    for name, found in {
        "load.read": read,
        "load.foreign_s": lambda *_: {"cc1": 0.5, "ld": 0.25},
        "load.frequency_hz": lambda cpus: 1e9 * cpus[0],
        "load.busy_cpus": busy_cpus,
        "load.left_free": lambda busy: f"free of {busy}",
        "processes.ran_s": lambda pid: next(ran_s[pid]),
        "processes.cpu_s": lambda pid: next(used_s[pid]),
        "counters.read": lambda device, _: Reading(device, next(passed[device])),
        "_FIRST_S": 0.0,
        "_LOAD_S": 0.0,
    }.items():
        monkeypatch.setattr(f"conductor.watch.{name}", found)
    irqs = count(7, 2)
    node = SimpleNamespace(read=lambda: {"irq": NodeCounter(next(irqs), "1")})
    meter = SimpleNamespace(begin=lambda: None, looked=lambda: "looked")

    async def watch():
        order = messages.BeginWatch(["m0", "m1"], [3], [41], [42])
        one = Watch("n1", order, [meter], node, [1, 2], [(3, 13), (5, 14), (6, 15)])
        while len(asked) < 5:
            await asyncio.sleep(0)
        return one.before, await one.end()

    before, seen = asyncio.run(watch())
    assert {roots[1] for roots, _ in asked} == {41}
    assert asked[-1] == ([os.getpid(), 41], [42])
    assert [each.bytes_b for each in before] == [300, 30]
    assert (seen.received.bytes_b, seen.sent.bytes_b) == (307, 33)
    assert seen.conditions.devices == [DeviceBytes("m0", 3, 1), DeviceBytes("m1", 4, 2)]
    assert (seen.conditions.foreign_cpus, seen.busiest) == (0.75, "cc1")
    assert (seen.conditions.frequency_hz, seen.conditions.free_cpus) == (3e9, "free of {4}")
    assert seen.counters == {
        "irq": NodeCounter(2, "1"),
        WRITERS: NodeCounter(4, "s"),  # 0 + 1 at first, then 2 + 3
        "frequency": NodeCounter(3e9, "Hz", "gauge"),
    }
    assert (seen.looked, seen.ran) == (["looked"], [5])  # one that has ended writes nothing


def test_the_longest_time_that_the_loop_did_not_run_is_of_each_run(monkeypatch):
    now = {"s": 100.0, "wall_s": 5000.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(time, "time", lambda: now["wall_s"])

    async def twice():
        heartbeat = Heartbeat()
        heartbeat.begin()
        now["s"] += 10.2  # its next beat was due after 0.2 s
        now["wall_s"] += 14.2
        first = heartbeat.end()
        heartbeat.begin()
        return first, heartbeat.end()

    first, second = asyncio.run(twice())
    assert first == pytest.approx((10.0, 4.0))
    assert second == (0.0, 0.0)
