import math

import pytest

from records.errors import InputError
from records.units import (
    change,
    count,
    distinct,
    duration_s,
    fraction,
    number,
    plural,
    quantity,
    rate_b_s,
    scale,
    share,
    signed,
    size_b,
)

#: How a kind of quantity is read -> texts and their values; every unit is there once.
QUANTITIES = {
    duration_s: {
        **{"5y": 157_788_000, "2d": 172_800, "1.5h": 5400, "2min": 120},
        **{"1s": 1, "250ms": 0.25, "3us": 3e-6, "7ns": 7e-9},
    },
    size_b: {
        **{"0B": 0, "1.1kB": 1100, "1MB": 1_000_000, "2GB": 2_000_000_000, "1TB": 10**12},
        **{"64KiB": 65536, "3MiB": 3_145_728, "1GiB": 1_073_741_824, "2TiB": 2_199_023_255_552},
    },
    rate_b_s: {
        **{"3.2GB/s": 3.2e9, "1MiB/s": 1_048_576},
        **{"8bit/s": 1, "16kbit/s": 2000, "8Mbit/s": 1e6, "32Gbit/s": 4e9},
    },
    count: {"64": 64, "46k": 46_000, "2M": 2_000_000},
    share: {"50%": 0.5, "0.2%": 0.002, "250%": 2.5},
}


@pytest.mark.parametrize("read", QUANTITIES)
def test_quantities_in_si_units(read) -> None:
    values = QUANTITIES[read]
    assert {text: read(text, "x") for text in values} == pytest.approx(values, rel=1e-15)


#: How a kind of quantity is read -> texts that are none.
REFUSED = {
    duration_s: ["5m", "5 y", "-1s", "1", "1e3s", "nans", " 1s", "1s\n", "\u0661s", f"{10**400}s"],
    size_b: ["64K", "64KB", "0.5B", "0.05B"],
    rate_b_s: ["1Gb/s", "1GB"],
    count: ["1.5", "2G"],
    share: ["0%", "-1%", "50", "9" * 400 + "%"],
}


@pytest.mark.parametrize("read", REFUSED)
def test_what_is_refused_names_its_field(read) -> None:
    for text in REFUSED[read]:
        with pytest.raises(InputError, match=r"^--this: "):
            read(text, "--this")


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
        ("B", {65536: "65.54 kB"}),  # a thousand, not KiB
        ("Hz", {2.4e9: "2.400 GHz"}),
        ("1/s", {5.0: "5.000 1/s", 2.5e6: "2.500 M/s"}),
        ("s", {8.4: "8.400 s", 1e-4: "0.0001000 s", 1e-5: "0.00001000 s", 0.0: "0 s"}),
        ("s", {9.9e-6: "9900 ns", -1.76e-6: "-1760 ns", 8e-8: "80.00 ns", None: "-"}),
    ],
)
def test_prefixes_are_powers_of_a_thousand(unit: str, shown: dict[float | None, str]) -> None:
    assert {value: quantity(value, unit) for value in shown} == shown


def test_scale_of_nothing_is_the_unit_itself() -> None:
    assert scale(None, "B/s") == (1.0, "B/s")


def test_a_share_may_be_in_per_cent() -> None:
    assert [fraction(value) for value in ("2%", "0.5%", 0.02, "2 %", "-1%")] == [
        *(0.02, 0.005, 0.02, "2 %", "-1%")
    ]


def test_a_change_has_a_sign_unless_it_rounds_to_nothing() -> None:
    assert [signed(value) for value in (-24.8, 0.26, -0.26, 7)] == ["\u221225", "0", "0", "+7"]
    assert (signed(-0.25, 1), signed(-0.04, 1)) == ("\u22120.2", "0.0")
    changes = [change(ratio) for ratio in (1.123, 0.752, 1.0004, 0.9996, 1.5)]
    assert changes == ["+12.3 %", "\u221224.8 %", "0.0 %", "0.0 %", "+50.0 %"]
    # +428 % and -59 % say the same of a time and of its rate in two ways.
    assert [change(ratio) for ratio in (5.283, 0.406)] == ["5.28 times", "0.41 times"]


def test_a_value_and_its_limit_never_read_the_same() -> None:
    assert distinct(0.496, 0.5, 0, "%") == ("49.6%", "50.0%")
    assert distinct(0.4, 0.5, 0, "%") == ("40%", "50%")
    assert distinct(0.2504, 0.25, 2, "f") == ("0.2504", "0.2500")
    assert distinct(0.0, 1e-9, 0, "%") == ("0%", "0%")


def test_counts_agree_with_their_noun() -> None:
    assert [plural(n, "pair") for n in (0, 1, 1200)] == ["0 pairs", "1 pair", "1,200 pairs"]
