"""Units and directions of figures, as checks write them."""

from __future__ import annotations

import pytest

from reframe_tests.foreign import direction, si, suffixed


@pytest.mark.parametrize(
    ("reference", "asked", "unit", "better"),
    [
        ((10, -0.1, None, "s"), "", "s", "higher"),
        ((10, None, 0.1, "x/s"), "", "x/s", "lower"),
        ((10, -0.1, 0.1, "s"), "", "s", "lower"),
        ((0, None, None, "x/s"), "", "x/s", "higher"),
        ((10, None, 0.1, "x"), "higher", "x", "higher"),
        (None, "lower", "x", "lower"),
    ],
)
def test_direction_is_as_asked_then_by_reference_then_by_unit(reference, asked, unit, better):
    assert direction(reference, asked, unit)[0] == better


def test_nothing_says_the_direction_of_an_unknown_unit():
    with pytest.raises(ValueError, match=r"^$"):
        direction((10, -0.1, 0.1, None), "", "furlongs")


@pytest.mark.parametrize(
    ("unit", "factor", "si_unit"),
    [
        ("us", 1e-6, "s"),
        ("seconds", 1, "s"),
        ("usec", 1e-6, "s"),
        ("MB/s", 1e6, "B/s"),
        ("MBytes/sec", 1e6, "B/s"),
        ("GiB/s", 2**30, "B/s"),
        ("Gbit/s", 1e9 / 8, "B/s"),
        ("byte", 1, "B"),
        ("Gflops/seconds", 1e9, "flop/s"),
        ("GFLOPS/s", 1e9, "flop/s"),
        ("GFLOPS", 1, "GFLOPS"),
        ("timesteps/s", 1, "timesteps/s"),
        ("ns/day", 1, "ns/day"),
        ("Flops/byte", 1, "Flops/B"),
    ],
)
def test_units_as_checks_write_them(unit, factor, si_unit):
    assert si(unit) == (factor, si_unit)


def test_names_end_in_their_unit_once():
    assert suffixed("copy", "B/s") == "copy_b_s"
    assert suffixed("time_s", "s") == "time_s"
    assert suffixed("perf", "timesteps/s") == "perf"
