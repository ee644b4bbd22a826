import pytest

from nimc.base.errors import InputError
from nimc.base.units import count, duration_s, rate_b_s, size_b


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("5y", 157_788_000.0), ("1s", 1.0), ("250ms", 0.25), ("1.5h", 5400.0), ("2min", 120.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration_s(text, "x") == seconds


@pytest.mark.parametrize(
    ("text", "bytes_"), [("64KiB", 65536), ("1MB", 1_000_000), ("1.1kB", 1100), ("0B", 0)]
)
def test_sizes(text: str, bytes_: int) -> None:
    assert size_b(text, "x") == bytes_


@pytest.mark.parametrize(
    ("text", "rate"), [("3.2GB/s", 3.2e9), ("32Gbit/s", 4e9), ("1MiB/s", 1048576.0)]
)
def test_rates(text: str, rate: float) -> None:
    assert rate_b_s(text, "x") == rate


def test_counts() -> None:
    assert count("46k", "x") == 46_000
    assert count("64", "x") == 64


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (duration_s, "5m"),
        (duration_s, "5 y"),
        (duration_s, "-1s"),
        (duration_s, "1"),
        (duration_s, "1e3s"),
        (duration_s, "nans"),
        (duration_s, " 1s"),
        (duration_s, "1s\n"),
        (duration_s, "\u0661s"),
        (size_b, "64K"),
        (size_b, "64KB"),
        (size_b, "0.5B"),
        (rate_b_s, "1Gb/s"),
        (rate_b_s, "1GB"),
        (count, "1.5"),
        (count, "2G"),
    ],
)
def test_what_is_refused_names_its_field(read, text: str) -> None:
    with pytest.raises(InputError, match=r"^--this: "):
        read(text, "--this")
