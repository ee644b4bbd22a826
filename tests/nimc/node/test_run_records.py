"""What is stored of a run beside what was measured."""

import pytest

from nimc.machine.node_counters import NodeCounter
from nimc.node.allocation import Allocation
from nimc.node.evidence.rates import Judgement
from nimc.node.injectors import INJECTORS
from nimc.node.injectors.base import Writer
from nimc.node.runs import node_rows, unreserved, writer_record
from nimc.records.sample import NodeConditions

SEEN = Judgement(4e8, 3e8, 8e8, 1.0, 0.0, None)


def conditions(*free):
    return [NodeConditions(f"n{at}", 9.0, free_cpus=each) for at, each in enumerate(free)]


@pytest.mark.parametrize(
    ("cores", "free", "noted"),
    [
        (1, ["63"], False),
        (1, ["", "63"], True),
        (1, [None], False),  # unknown
        (0, [""], False),
        (None, [""], False),
    ],
)
def test_a_reserved_core_on_which_the_application_may_run_is_noted(cores, free, noted):
    factors = {} if cores is None else {"reserved_cores": cores}
    notes = list(unreserved(factors, conditions(*free)))
    assert bool(notes) == noted
    if noted:
        assert "not bound on n0: fewer run, but on any core" in notes[0]


@pytest.mark.parametrize(
    ("name", "asked_b_s", "limiter", "stored"),
    [
        ("perftest", None, "hardware", None),
        ("perftest", 5e8, "hardware", "hardware"),
        ("perftest", 5e8, "software", "software"),
        ("ucx", 5e8, "software", "agent"),
    ],
)
def test_a_record_says_what_limited_the_writer(name, asked_b_s, limiter, stored):
    writer = Writer(0, "o", "t", "10.1.0.2", 20001, 65536, asked_b_s, limiter=limiter)
    record = writer_record(INJECTORS[name], writer, 4.4e8, SEEN, 4.2e8)
    assert (record.limited_by, record.asked_b_s, record.rate_b_s) == (stored, asked_b_s, 4e8)


def test_of_origins_only_the_time_that_writing_may_take_is_stored():
    counted = {
        node: {"softirq-time": NodeCounter(at, "s"), "interrupts": NodeCounter(9, "count")}
        for at, node in enumerate(("t0", "t1", "o0"), 1)
    }
    rows = node_rows(Allocation(["t0", "t1"], ["o0"]), counted)
    assert [(row["tool"], row["rank"], row["event"], row["value"]) for row in rows] == [
        ("node", 0, "softirq-time", 1),
        ("node", 0, "interrupts", 9),
        ("node", 1, "softirq-time", 2),
        ("node", 1, "interrupts", 9),
        ("origin", 0, "softirq-time", 3),
    ]


def test_on_a_shared_host_nothing_is_stored_twice():
    rows = node_rows(Allocation(["t0"], ["t0"]), {"t0": {"softirq-time": NodeCounter(1, "s")}})
    assert [row["tool"] for row in rows] == ["node"]
