"""Tests how figures are written as text: digits, prefixes and signs."""

import math

import pytest

from analysis.display.figures import (
    divisor_and_unit,
    number,
    quantity,
    relative_change_text,
    signed_text,
)


def test_four_digits_without_exponent() -> None:
    shown = {14.204: "14.20", 372.04: "372.0", 0.0031704: "0.003170", 12345.6: "12346"}
    shown |= {9.99996: "10.00", -0.5: "-0.5000", 0: "0", math.inf: "inf"}
    assert {value: number(value) for value in shown} == shown
    assert number(None) == "-"


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        ("B/s", {14.2e9: "14.20 GB/s", 999.96e6: "1.000 GB/s", 999.94e6: "999.9 MB/s"}),
        ("B/s", {-14.2e9: "-14.20 GB/s", math.inf: "inf B/s", 9.99996e9: "10.00 GB/s"}),
        ("B/s", {999.0: "999.0 B/s", 5e18: "5000 PB/s"}),
        ("B", {65536: "65.54 kB"}),  # kB are 1000 B, not 1024
        ("Hz", {2.4e9: "2.400 GHz"}),
        ("1/s", {5.0: "5.000 1/s", 2.5e6: "2.500 M/s"}),
        ("s", {8.4: "8.400 s", 1e-4: "0.0001000 s", 1e-5: "0.00001000 s", 0.0: "0 s"}),
        ("s", {9.9e-6: "9900 ns", -1.76e-6: "-1760 ns", 8e-8: "80.00 ns", None: "-"}),
    ],
)
def test_prefixes_are_powers_of_a_thousand(unit: str, shown: dict[float | None, str]) -> None:
    assert {value: quantity(value, unit) for value in shown} == shown


def test_without_a_figure_the_unit_has_no_prefix() -> None:
    assert divisor_and_unit(None, "B/s") == (1.0, "B/s")


def test_a_change_has_a_sign_unless_it_rounds_to_nothing() -> None:
    assert [signed_text(value) for value in (-24.8, 0.26, -0.26, 7)] == ["\u221225", "0", "0", "+7"]
    assert (signed_text(-0.25, 1), signed_text(-0.04, 1)) == ("\u22120.2", "0.0")
    changes = [relative_change_text(ratio) for ratio in (1.123, 0.752, 1.0004, 0.9996, 1.5)]
    assert changes == ["+12.3 %", "\u221224.8 %", "0.0 %", "0.0 %", "+50.0 %"]
    # Large changes are factors, since a change of +428 % of a time would be one of -59 % of a rate.
    assert [relative_change_text(ratio) for ratio in (5.283, 0.406)] == ["5.28 times", "0.41 times"]
