"""What is watched on all nodes from just before a run until just after it."""

import asyncio
import os
import time
from itertools import count
from types import SimpleNamespace
from unittest.mock import ANY

import pytest

from conductor import messages
from conductor.agent.agent import node_name
from conductor.agent.watch import Watch
from conductor.block.allocation import Allocation
from conductor.block.observer import Observer, usual_hz
from conductor.counters import CounterReading
from conductor.messages import WatchRecord
from conductor.readings import DeviceSample, DeviceSeries, LoadSample, NodeSeries
from records.machine.cpu_load import HostLoad
from records.machine.node_counters import NodeCounter
from records.sample import WRITERS_TIME, NodeConditions


def test_the_usual_frequency_is_the_median_of_at_least_three_accepted_runs():
    runs = [
        [NodeConditions(node="n1", over_s=9.0, frequency_hz=hz)] for hz in (2.9e9, 3.0e9, 3.3e9)
    ]
    assert usual_hz("n1", runs) == 3.0e9
    assert usual_hz("n2", runs) is usual_hz("n1", runs[1:]) is None
    assert usual_hz("n1", [*runs[1:], [NodeConditions(node="n1", over_s=9.0)]]) is None


class Hub:
    """A stand-in for two agents. It keeps the orders that they get, and answers after a run."""

    def __init__(self):
        self.orders = {}

    async def ask(self, orders, kind, action):
        if kind is messages.WatchBegun:
            self.orders = orders
            return {}
        assert orders == dict.fromkeys(self.orders, messages.EndWatch())
        here = NodeSeries(node=node_name())
        irqs = {"irq": NodeCounter(7, "1")}
        return {
            "n1": WatchRecord(NodeSeries(node="n1", busiest_program="cc1"), {}, [4, 2]),
            node_name(): WatchRecord(here, irqs, [2]),
        }


def test_this_process_and_its_owner_are_not_counted_as_foreign():
    hub = Hub()

    async def watch():
        nodes = Allocation(["n1"], [node_name()])
        observer = Observer(nodes, hub, devices=["m0", "m1"], owner_pid=42)
        await observer.begin([1, 2])
        return await observer.end()

    series, gained = asyncio.run(watch())
    assert hub.orders == {
        "n1": messages.BeginWatch(["m0", "m1"], [1, 2], [], []),
        node_name(): messages.BeginWatch([], [1, 2], [os.getpid()], [42]),
    }
    assert series.nodes == [NodeSeries(node="n1", busiest_program="cc1")]  # only targets
    assert gained == {"n1": {}, node_name(): {"irq": NodeCounter(7, "1")}}
    assert series.ran == [2, 4]
    assert max(series.stood_still_s, abs(series.clock_moved_s)) < 10.0


def test_a_watch_records_what_it_read_from_its_beginning_to_its_end(monkeypatch):
    """From each reading to the next, a second passes.

    In this second, the foreign programs cc1 and ld use 0.5 s and 0.25 s of processor time.
    """
    times_s, used_s = count(100.0), dict.fromkeys((1, 2), count())
    ran_s = {13: iter((1.0, 1.0)), 14: iter((2.0, 2.5)), 15: iter((3.0, None))}
    passed = {"m0": iter((100, 10, 103, 11)), "m1": iter((200, 20, 204, 22))}
    busy, reads = iter(({4}, *[set()] * 10_000)), []

    def read(_, roots, exempt, earlier=None):
        own = {1: 10} if earlier is None else {1: 10, 2: 20, 3: 30}
        reads.append((roots, exempt))
        return HostLoad(
            at_s=next(times_s),
            foreign={},
            ended={},
            block_processes=own,
            reapers=frozenset(),
            stolen_ticks=0,
            total_ticks=0,
        )

    def busy_cpus(pids, over_s):
        assert (pids, over_s) == ([2, 3], len(reads) - 1)
        return next(busy)

    for name, replacement in {
        "cpu_load.read": read,
        "cpu_load.foreign_s": lambda *_: {"cc1": 0.5, "ld": 0.25},
        "cpu_load.frequency_hz": lambda cpus: 1e9 * cpus[0],
        "cpu_load.busy_cpus": busy_cpus,
        "cpu_load.free_cpus": lambda busy: "0-3" if busy == {4} else "",
        "processes.precise_cpu_s": lambda pid: next(ran_s[pid]),
        "processes.cpu_s": lambda pid: next(used_s[pid]),
        "counters.read": lambda device, _: CounterReading(device, next(passed[device])),
        "FIRST_FREQUENCY_S": 0.0,
        "LOAD_INTERVAL_S": 0.0,
    }.items():
        monkeypatch.setattr(f"conductor.agent.watch.{name}", replacement)
    irqs = count(7, 2)
    node = SimpleNamespace(read=lambda: {"irq": NodeCounter(next(irqs), "1")}, by_cpu=dict)

    async def watch():
        order = messages.BeginWatch(["m0", "m1"], [3], [41], [42])
        held_pids = [(3, 13), (5, 14), (6, 15)]
        node_watch = Watch("n1", order, node, writer_pids=[1, 2], held_pids=held_pids)
        while len(reads) < 5:
            await asyncio.sleep(0)
        return await node_watch.end()

    observed = asyncio.run(watch())
    assert {roots[1] for roots, _ in reads} == {41}
    assert reads[-1] == ([os.getpid(), 41], [42])
    first, second, *_, last = observed.node.loads
    assert (first, second) == (LoadSample(100.0, 0.0, 0, 0), LoadSample(101.0, 0.75, 0, 0))
    assert (last.foreign_s, observed.node.busiest_program) == (0.75 * (len(reads) - 1), "cc1")
    assert observed.node.devices == [
        DeviceSeries("m0", "m0", [DeviceSample(ANY, 100, 10), DeviceSample(ANY, 103, 11)]),
        DeviceSeries("m1", "m1", [DeviceSample(ANY, 200, 20), DeviceSample(ANY, 204, 22)]),
    ]
    assert set(observed.node.frequencies_hz) == {3e9}
    assert observed.node.free_cpus == "0-3"
    assert observed.counters == {
        "irq": NodeCounter(2, "1"),
        WRITERS_TIME: NodeCounter(4, "s"),  # (2 + 3) at the end, less (0 + 1) at the beginning
        "frequency": NodeCounter(3e9, "Hz", "gauge"),
    }
    assert observed.held_but_ran == [5]  # the process of writer 6 has ended, so it did not write


def test_the_longest_time_that_the_conductor_stood_still_is_measured_anew_in_each_run(monkeypatch):
    now = {"s": 100.0, "wall_s": 5000.0}
    monkeypatch.setattr(time, "monotonic", lambda: now["s"])
    monkeypatch.setattr(time, "time", lambda: now["wall_s"])

    async def twice():
        nodes = Allocation(["n1"], [node_name()])
        observer = Observer(nodes, Hub(), devices=[], owner_pid=None)
        await observer.begin([])
        now["s"] += 10.2  # the observer's next beat was due after 0.2 s
        now["wall_s"] += 14.2
        first, _ = await observer.end()
        await observer.begin([])
        return first, (await observer.end())[0]

    first, second = asyncio.run(twice())
    assert (first.stood_still_s, first.clock_moved_s) == pytest.approx((10.0, 4.0))
    assert (second.stood_still_s, second.clock_moved_s) == (0.0, 0.0)
