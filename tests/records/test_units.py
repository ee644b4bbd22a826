import pytest

from records.errors import InputError
from records.units import (
    count,
    distinguishable,
    duration_s,
    filled,
    fraction,
    percentage,
    plural,
    rate_b_s,
    share,
    size_b,
)

#: Function that reads a kind of quantity -> texts and their values. Every unit occurs once.
QUANTITIES = {
    duration_s: {
        "5y": 157_788_000, "2d": 172_800, "1.5h": 5400, "2min": 120,
        "1s": 1, "250ms": 0.25, "3us": 3e-6, "7ns": 7e-9,
    },
    size_b: {
        "0B": 0, "1.1kB": 1100, "1MB": 1_000_000, "2GB": 2_000_000_000, "1TB": 10**12,
        "8.3GB": 8_300_000_000,
        "64KiB": 65536, "3MiB": 3_145_728, "1GiB": 1_073_741_824, "2TiB": 2_199_023_255_552,
    },
    rate_b_s: {
        "3.2GB/s": 3.2e9, "1MiB/s": 1_048_576,
        "8bit/s": 1, "16kbit/s": 2000, "8Mbit/s": 1e6, "32Gbit/s": 4e9,
    },
    count: {"64": 64, "46k": 46_000, "2M": 2_000_000},
    share: {"50%": 0.5, "0.2%": 0.002, "250%": 2.5},
}  # fmt: skip


@pytest.mark.parametrize("read", QUANTITIES)
def test_quantities_in_si_units(read) -> None:
    values = QUANTITIES[read]
    assert {text: read(text, "x") for text in values} == pytest.approx(values, rel=1e-15)


#: Function that reads a kind of quantity -> texts that it refuses.
REFUSED = {
    duration_s: ["5m", "5 y", "-1s", "1", "1e3s", "nans", " 1s", "1s\n", "\u0661s", f"{10**400}s"],
    size_b: ["64K", "64KB", "0.5B", "0.05B"],
    rate_b_s: ["1Gb/s", "1GB"],
    count: ["1.5", "2G"],
    share: ["0%", "-1%", "50", "9" * 400 + "%"],
}


@pytest.mark.parametrize("read", REFUSED)
def test_the_error_for_an_invalid_text_names_the_field(read) -> None:
    for text in REFUSED[read]:
        with pytest.raises(InputError, match=r"^--this: "):
            read(text, "--this")


def test_a_share_may_be_a_percentage() -> None:
    assert [fraction(value) for value in ("2%", "0.5%", 0.02, "2 %", "-1%")] == [
        0.02,
        0.005,
        0.02,
        "2 %",
        "-1%",
    ]


def test_percentages_are_printed_with_a_space_as_in_si() -> None:
    assert percentage(0.25) == "25 %"
    assert percentage(0.0125, ".1f") == "1.2 %"  # rounded to the even digit
    assert percentage(0.0125, ".3g") == "1.25 %"
    assert filled("{a:.1%} of {b:.2f} {c}", {"a": 0.5, "b": 3, "c": "x"}) == "50.0 % of 3.00 x"
    assert [filled("{a:.3g%}", {"a": a}) for a in (0.004, 0.025, 0.02)] == ["0.4 %", "2.5 %", "2 %"]


def test_large_percentages_have_no_exponent() -> None:
    assert percentage(1.57, ".2g") == "160 %"
    assert percentage(1.0, ".2g") == "100 %"
    assert percentage(0.62, ".2g") == "62 %"


def test_a_value_and_its_limit_are_printed_with_enough_digits_to_differ() -> None:
    assert distinguishable(0.496, 0.5, 0, percentage) == ("49.6 %", "50.0 %")
    assert distinguishable(0.4, 0.5, 0, percentage) == ("40 %", "50 %")
    assert distinguishable(0.2504, 0.25, 2) == ("0.2504", "0.2500")
    assert distinguishable(0.0, 1e-9, 0, percentage) == ("0 %", "0 %")


def test_a_noun_after_a_count_is_singular_or_plural() -> None:
    assert [plural(n, "pair") for n in (0, 1, 1200)] == ["0 pairs", "1 pair", "1,200 pairs"]
