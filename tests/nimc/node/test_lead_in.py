"""The same time before every run: by hand, on a clock that starts at 100 s."""

import pytest

from nimc.node.runs import LeadIn
from nimc.records.treatment import Writes

WRITES, SHORT = Writes("ucx", 1 << 26), Writes("perftest", 1 << 16)


def after_runs(*needed_s):
    """A block whose writers were expected to need 3 s, and needed these times in its runs."""
    lead_in = LeadIn()
    lead_in.expect(WRITES, 3.0)
    for each_s in needed_s:
        lead_in.ended(100.0)
        lead_in.left_s(100.0 + each_s, WRITES)
    return lead_in


def test_the_first_run_of_a_block_has_none():
    lead_in = LeadIn()
    lead_in.expect(WRITES, 3.0)
    assert lead_in.left_s(100.0, WRITES) == 0.0
    assert lead_in.of(100.0) is None


def test_a_silent_run_waits_as_long_as_writers_need():
    lead_in = LeadIn()
    lead_in.expect(WRITES, 3.0)  # and a twentieth more
    lead_in.ended(100.0)
    assert lead_in.left_s(100.1) == pytest.approx(3.05)  # nothing to start: ready at once
    assert lead_in.left_s(102.9, WRITES) == pytest.approx(0.25)  # at speed a little earlier
    assert lead_in.of(103.15) == pytest.approx(3.15)


def test_a_slower_start_is_given_to_all_runs_after_it():
    lead_in = LeadIn()
    lead_in.expect(WRITES, 3.0)
    lead_in.expect(SHORT, 1.0)  # other writers, faster
    lead_in.ended(100.0)
    assert lead_in.left_s(105.0, WRITES) == pytest.approx(0.25)
    lead_in.ended(200.0)
    assert lead_in.left_s(200.0) == pytest.approx(5.25)


def test_the_slowest_kind_of_writes_counts_even_if_the_others_are_much_faster():
    lead_in = LeadIn()
    lead_in.expect(WRITES, 3.0)
    lead_in.expect(SHORT, 8.0)
    assert lead_in.longest_s == pytest.approx(8.4)


def test_one_delayed_start_lengthens_no_later_run():
    assert after_runs(13.0).longest_s == pytest.approx(1.05 * 3.0)
    assert after_runs(13.0, 3.1).longest_s == pytest.approx(1.05 * 3.1)


def test_a_delay_while_the_rate_alone_was_measured_is_forgotten_after_a_run():
    lead_in = LeadIn()
    lead_in.expect(WRITES, 13.0)
    assert lead_in.longest_s == pytest.approx(13.65)
    lead_in.ended(100.0)
    lead_in.left_s(103.1, WRITES)
    assert lead_in.longest_s == pytest.approx(1.05 * 3.1)


def test_two_delayed_starts_are_what_writers_need():
    assert after_runs(13.0, 12.0).longest_s == pytest.approx(1.05 * 13.0)


def test_a_delayed_run_waits_no_longer():
    lead_in = after_runs(3.0)
    lead_in.ended(100.0)
    assert lead_in.left_s(113.0, WRITES) == 0.0


def test_without_writers_there_is_nothing_to_wait_for():
    lead_in = LeadIn()
    lead_in.ended(100.0)
    assert lead_in.left_s(100.002) == 0.0
