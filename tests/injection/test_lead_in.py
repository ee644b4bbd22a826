"""The same time before every run: by hand, on a clock that starts at 100 s."""

import pytest

from injection.lead_in import LeadIn


def test_the_first_run_of_a_block_has_none():
    lead_in = LeadIn()
    lead_in.expect(3.0)
    assert lead_in.left_s(100.0) == 0.0
    assert lead_in.of(100.0) is None


def test_a_silent_run_waits_as_long_as_writers_need():
    lead_in = LeadIn()
    lead_in.expect(3.0)  # and a twentieth more
    lead_in.ended(100.0)
    assert lead_in.left_s(100.1) == pytest.approx(3.05)  # nothing to start: ready at once
    assert lead_in.left_s(102.9) == pytest.approx(0.25)  # writers were at speed a little earlier
    assert lead_in.of(103.15) == pytest.approx(3.15)


def test_a_slower_start_is_given_to_all_runs_after_it():
    lead_in = LeadIn()
    lead_in.expect(3.0)
    lead_in.expect(1.0)  # other writers, faster
    lead_in.ended(100.0)
    assert lead_in.left_s(105.0) == pytest.approx(0.25)
    lead_in.ended(200.0)
    assert lead_in.left_s(200.0) == pytest.approx(5.25)


def test_a_slightly_slower_start_changes_nothing():
    lead_in = LeadIn()
    lead_in.expect(3.0)
    lead_in.ended(100.0)
    assert lead_in.left_s(103.1) == pytest.approx(0.05)
    assert lead_in.longest_s == pytest.approx(3.15)


def test_without_writers_there_is_nothing_to_wait_for():
    lead_in = LeadIn()
    lead_in.ended(100.0)
    assert lead_in.left_s(100.002) == pytest.approx(0.0001)
