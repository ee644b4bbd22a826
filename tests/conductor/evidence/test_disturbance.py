"""Conditions and limits worked out by hand."""

from dataclasses import replace

import pytest

from conductor.evidence import disturbance
from conductor.evidence.counters import Reading
from records.machine.load import HostLoad
from records.plan import Demand
from records.sample import NodeConditions

DEMAND = Demand(foreign_cpus=0.25, steal_share=0.02, frequency_drop=0.1, foreign_share=0.02)
QUIET = NodeConditions("n1", 10.0, 0.02, 0.001, 3e9, 1e3, 1e3, "rdma:mlx5_0/1")


def reason(*found: NodeConditions, usual=(), demand=DEMAND):
    return disturbance.disturbed(found, {"n1": "stress"}, usual, demand)


def at(at_s, stolen=0, total=0, shown=True):
    return HostLoad(at_s, {} if shown else None, {}, frozenset({1}), stolen, total)


def test_conditions_between_two_readings():
    devices = [
        (Reading("rdma:a/1", 1000, at_s=5.0), Reading("rdma:a/1", 50, at_s=5.0)),
        (Reading("rdma:a/1", 4000, at_s=7.0), Reading("rdma:a/1", 70, at_s=7.0)),
    ]
    loads, used_s = [at(4.0, 5, 1000), at(8.0, 25, 2000)], {"top": 0.5, "stress": 2.5}
    found, busiest = disturbance.conditions("n1", loads, used_s, [2e9, 4e9], *devices)
    # 3 s in 4 s; 20 of 1000 ticks; 3000 B and 20 B in 2 s.
    assert found == NodeConditions("n1", 4.0, 0.75, 0.02, 3e9, 1500.0, 10.0, "rdma:a/1")
    assert busiest == "stress"


A = Reading("rdma:a/1", 7, at_s=5.0)


@pytest.mark.parametrize("devices", [((None, A), (A, None)), ((None, None), (A, A))])
@pytest.mark.parametrize(
    "loads", [[at(4.0, shown=False), at(8.0)], [at(4.0), at(8.0, shown=False)], [at(4.0)]]
)
def test_what_one_of_two_readings_lacks_is_unknown(loads, devices):
    found, busiest = disturbance.conditions("n1", loads, {}, [], *devices)
    assert found == NodeConditions("n1", 4.0 * (len(loads) - 1), None, None, None, None, None)
    assert busiest == ""
    same, _ = disturbance.conditions("n1", loads, {}, [], (A, A), (A, A))  # in no time
    assert (same.received_b_s, same.counter) == (None, "rdma:a/1")


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, None),
        ({"foreign_cpus": 0.25, "steal_share": 0.02}, None),
        ({"foreign_cpus": 1.034}, "used 1.03 hardware threads (most: stress); allowed: 0.25"),
        ({"steal_share": 0.031}, "took 3.1% of the processor time; allowed: 2.0%"),
        ({"foreign_cpus": None, "steal_share": None, "frequency_hz": None}, None),
        ({"node": "n2", "foreign_cpus": 1.0}, "1.00 hardware threads (most: unknown); allowed"),
    ],
)
def test_a_disturbed_run_is_refused_with_node_and_limit(changed, expected):
    found = reason(QUIET, replace(QUIET, **changed))
    node = changed.get("node", "n1")
    assert found is None if expected is None else found.startswith(f"{node}: ")
    assert expected is None or expected in found


def test_what_has_no_limit_is_not_judged_and_a_note_says_so():
    free = replace(DEMAND, foreign_cpus=None, steal_share=None)
    assert reason(replace(QUIET, foreign_cpus=9.0, steal_share=0.5), demand=free) is None
    assert str(disturbance.unjudged(free)).endswith(": foreign_cpus, steal_share")
    assert disturbance.unjudged(DEMAND) is None


def test_slow_cores_are_compared_with_the_accepted_runs_of_the_block():
    runs = [[replace(QUIET, frequency_hz=hz)] for hz in (2.9e9, 3.0e9, 3.3e9)]
    assert reason(replace(QUIET, frequency_hz=2.7e9), usual=runs) is None
    slow = str(reason(replace(QUIET, frequency_hz=2.69e9), usual=runs))
    assert slow.startswith("n1: its cores ran at 2.69 GHz, ")
    assert slow.endswith("at 3.00 GHz; allowed: 10% less")
    for node, hz in (("n1", None), ("n2", 3e9)):  # two of this node say nothing
        other = [replace(QUIET, node=node, frequency_hz=hz)]
        assert reason(replace(QUIET, frequency_hz=1e9), usual=[*runs[:2], other]) is None
    assert reason(QUIET, usual=runs, demand=replace(DEMAND, frequency_drop=None)) is None


def silent(*found, passed="received", demand=DEMAND):
    """Writers reach 1 GB/s alone, so that 2 % of 10 s are 200 MB."""
    return disturbance.foreign_bytes(found, passed, 1e9, demand)


@pytest.mark.parametrize(
    ("changed", "passed", "fault"),
    [
        ({}, "received", None),
        ({"received_b_s": 20e6}, "received", None),
        ({"received_b_s": 20.1e6}, "received", "n1 received 201.0 MB (rdma:mlx5_0/1) although"),
        # What the application sends out is no foreign write, and does not hide one.
        ({"sent_b_s": 9e9}, "received", None),
        ({"received_b_s": 81.23e6, "sent_b_s": 9e9}, "received", "n1 received 812.3 MB"),
        ({"sent_b_s": 81.23e6}, "sent", "n1 sent 812.3 MB"),  # foreign reads
        ({"received_b_s": None, "sent_b_s": 81.23e6}, "received", None),
        ({"received_b_s": 81.23e6, "sent_b_s": None}, "received", None),
    ],
)
def test_bytes_that_pass_although_nothing_writes(changed, passed, fault):
    found = silent(replace(QUIET, **changed), passed=passed)
    assert found is None if fault is None else found.startswith(fault)


def test_messages_between_the_targets_cancel():
    """Each sends 500 MB/s to the other; then 30 MB/s come from elsewhere, or go there."""
    both = [replace(QUIET, node=n, received_b_s=5e8, sent_b_s=5e8) for n in ("n1", "n2")]
    assert silent(*both) is None
    both[0] = replace(both[0], over_s=9.0)  # a second less: 200 MB are allowed in the longer time
    there = replace(both[1], sent_b_s=5.3e8)
    assert "n1, n2 sent 300.0 MB more " in str(silent(both[0], there, passed="sent"))
    assert silent(both[0], there) is None
    both[1] = replace(both[1], received_b_s=5.3e8)
    found = str(silent(*both))
    assert found.startswith("n1, n2 received 300.0 MB more ")
    assert found.endswith("; allowed: 200.0 MB")


def test_without_a_limit_bytes_are_not_judged():
    assert silent(replace(QUIET, received_b_s=1e9), demand=Demand(foreign_share=None)) is None


@pytest.mark.parametrize(
    ("longest_s", "clock_s", "expected"),
    [
        (1.0, -1.0, None),
        (9.96, 0.0, "the conductor did not run for 10.0 s"),
        (0.0, 10.0, "the wall clock moved by +10.0 s against the monotonic clock"),
        (0.0, -3600.0, "the wall clock moved by -3600.0 s against the monotonic clock"),
    ],
)
def test_a_conductor_that_stood_still(longest_s, clock_s, expected):
    assert disturbance.paused(longest_s, clock_s, DEMAND) == expected
