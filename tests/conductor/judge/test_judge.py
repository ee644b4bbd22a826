"""Runs that are rejected because of the conductor or its clock, and which cause is named first."""

import pytest

from conductor.judge.series import Series
from tests.conductor.made_series import assert_named, node, reasons


@pytest.mark.parametrize(
    ("series", "reason"),
    [
        (Series(nodes=[node()]), None),
        (Series(stood_still_s=1.0, clock_moved_s=-1.0), None),
        (Series(stood_still_s=9.96), "the conductor did not run for 10.0 s"),
        (Series(clock_moved_s=10.0), "the wall clock moved by +10.0 s against the monotonic"),
        (Series(clock_moved_s=-3600.0), "the wall clock moved by -3600.0 s"),
        (Series(ran=[3]), "1 held writer ran during the run"),
        (Series(ran=[3, 5]), "2 held writers ran during the run"),
        (Series(ran=[3], stood_still_s=2.0), "the conductor did not run for 2.0 s"),
        (Series(off_plan=["10.0 % is missing"]), "10.0 % is missing"),
    ],
)
def test_a_run_is_accepted_only_if_conductor_clock_and_writers_behaved(
    series: Series, reason: str | None
) -> None:
    assert_named(reasons(series), reason)
