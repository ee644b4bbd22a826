"""The same time before every run: by hand, on a clock that starts at 100 s.

What is stored of a run beside what was measured.
"""

import pytest

from nimc.machine.node_counters import NodeCounter
from nimc.node.allocation import Allocation
from nimc.node.evidence.rates import Judgement
from nimc.node.injectors import INJECTORS
from nimc.node.injectors.base import Writer
from nimc.node.runs import LeadIn, node_rows, unreserved, writer_record
from nimc.records.sample import NodeConditions
from nimc.records.treatment import Writes

WRITES, SHORT = Writes("ucx", 1 << 26), Writes("perftest", 1 << 16)


def after_runs(*needed_s, expected_s=3.0):
    """A block whose writers were expected to need 3 s, and needed these times in its runs."""
    lead_in = LeadIn()
    lead_in.expect(WRITES, expected_s)
    for each_s in needed_s:
        lead_in.ended(100.0)
        lead_in.left_s(100.0 + each_s, WRITES)
    return lead_in


def expecting(**needed_s):
    """The lead-in of a block whose long and short writes need so much."""
    lead_in = LeadIn()
    for kind, each_s in needed_s.items():
        lead_in.expect({"long": WRITES, "short": SHORT}[kind], each_s)
    return lead_in


def test_the_first_run_of_a_block_has_none():
    lead_in = expecting(long=3.0)
    assert lead_in.left_s(100.0, WRITES) == 0.0
    assert lead_in.of(100.0) is None


def test_a_silent_run_waits_as_long_as_writers_need():
    lead_in = expecting(long=3.0)  # and a twentieth more
    lead_in.ended(100.0)
    assert lead_in.left_s(100.1) == pytest.approx(3.05)  # nothing to start: ready at once
    assert lead_in.left_s(102.9, WRITES) == pytest.approx(0.25)  # at speed a little earlier
    assert lead_in.of(103.15) == pytest.approx(3.15)
    nothing_needed = expecting()
    nothing_needed.ended(100.0)
    assert nothing_needed.left_s(100.002) == 0.0


def test_a_slower_start_is_given_to_all_runs_after_it_and_waits_no_longer_itself():
    lead_in = expecting(long=3.0, short=1.0)
    lead_in.ended(100.0)
    assert lead_in.left_s(105.0, WRITES) == pytest.approx(0.25)
    lead_in.ended(200.0)
    assert lead_in.left_s(200.0) == pytest.approx(5.25)
    assert lead_in.left_s(213.0, WRITES) == 0.0


@pytest.mark.parametrize(
    ("lead_in", "needed_s"),
    [
        (expecting(long=3.0, short=8.0), 8.0),  # the slowest kind, if the others are much faster
        (after_runs(13.0), 3.0),  # one delayed start lengthens no later run
        (after_runs(13.0, 3.1), 3.1),
        (after_runs(13.0, 12.0), 13.0),  # two are what writers need
        (expecting(long=13.0), 13.0),
        (after_runs(3.1, expected_s=13.0), 3.1),  # delayed while the rate alone was measured
    ],
)
def test_the_lead_in_is_what_writers_usually_need_and_a_twentieth(lead_in, needed_s):
    assert lead_in.longest_s == pytest.approx(1.05 * needed_s)


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
        ("fabtests", 5e8, "software", "agent"),
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
