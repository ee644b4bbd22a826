import math

import pytest
from scipy.optimize import brentq

from analysis.subjects.table_5 import FDR_WRITES_S, table_5
from records.daly import concurrent_writers, optimum_interval_s, parse_write
from records.errors import InputError
from records.units import duration_s

FIVE_YEARS_S = duration_s("5y", "")
RANKS = [64, 512, 1024, 2048, 4096, 8192]


def test_qdr_and_constant_columns_of_table_5_and_a_row_by_hand() -> None:
    rows = [concurrent_writers(ranks, FIVE_YEARS_S, 1.0) for ranks in RANKS]
    assert [row.concurrent_writers for row in rows] == [0, 1, 2, 5, 15, 42]
    assert [row.constant_share_writers for row in rows] == [0, 1, 2, 4, 8, 16]
    # By hand: 5 years of 365.25 days over 8,192 ranks are an MTTI of M = 19,261.2 s. With a write
    # of d = 1 s, sqrt(2 d M) is 196.2714 s. Daly's series multiplies this by
    # 1 + sqrt(d / 2M) / 3 + (d / 2M) / 9 = 1.0017012, which gives 196.6053 s, the write included.
    # Then 8,192 / 196.6053 = 41.667 writers write at a time.
    assert rows[-1].mtti_s == pytest.approx(19_261.2, abs=0.1)
    assert rows[-1].interval_s + 1 == pytest.approx(196.6053, abs=0.0001)
    assert rows[-1].concurrent_writers_exact == pytest.approx(41.667, abs=0.001)
    # By hand: an MTTI of 100 s a node is M = 50 s for 2 nodes. With d = 1 s, the interval is
    # 10 (1 + 1/30 + 1/900) - 1 = 9.3444 s.
    row = concurrent_writers(2, 100.0, 1.0)
    assert row.mtti_s == 50.0
    assert row.interval_s == pytest.approx(9.34444, abs=1e-5)
    assert row.writes_per_s == pytest.approx(2 / 10.34444, rel=1e-6)
    assert row.concurrent_writers_exact == pytest.approx(row.writes_per_s * 1.0)
    # All columns of the table agree, except the FDR column with the paper's write of 0.5 s.
    assert [column.agrees for column in table_5()[1]] == [True, False, True, True]


@pytest.mark.parametrize(
    ("write_s", "follows"),
    [
        (0.5, False),
        (0.769, False),
        *((write_s, True) for write_s in FDR_WRITES_S),
        (0.799, False),
    ],
)
def test_fdr_column_follows_as_a_rate_only_from_its_effective_length(
    write_s: float, follows: bool
) -> None:
    rows = [concurrent_writers(ranks, FIVE_YEARS_S, write_s) for ranks in RANKS]
    assert ([round(row.writes_per_s) for row in rows] == [0, 1, 2, 6, 17, 47]) == follows


@pytest.mark.parametrize(
    ("text", "rate_b_s", "length_s"),
    [
        ("1s", None, 1.0),
        ("1s", 4e9, 1.0),
        # 46,000 x 65,536 B are 3,014,656,000 B. They are sent at a stated rate, or at the rates of
        # QDR, FDR and HDR (32, 54.54 and 200 Gbit/s of data).
        ("46k messages of 64KiB at 3.2GB/s", 25e9, 0.94208),
        ("46k messages of 64KiB", 4e9, 0.753664),
        ("46k messages of 64KiB", 6.8175e9, 0.442194),
        ("46k messages of 64KiB", 25e9, 0.12058624),
    ],
)
def test_length_of_a_write(text: str, rate_b_s: float | None, length_s: float) -> None:
    assert parse_write(text, "x").length_at(rate_b_s, "x") == pytest.approx(length_s, rel=1e-5)


def test_the_length_of_messages_needs_their_rate() -> None:
    with pytest.raises(InputError, match="x: 46000 messages last as long as their rate allows"):
        parse_write("46k messages of 64KiB", "x").length_at(None, "x")


@pytest.mark.parametrize(
    "text",
    ["46k messages", "1 s", "46k messages of 64K at 3.2GB/s", "1k messages of 1B at 0B/s", "1"],
)
def test_invalid_lengths_of_a_write_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--write"):
        parse_write(text, "--write")


@pytest.mark.parametrize(
    ("ratio", "relative_error"),
    [(1e-5, 1e-9), (1e-3, 1e-6), (0.01, 2e-5), (0.1, 5e-4), (0.5, 0.01)],
)
def test_the_interval_agrees_with_the_exact_optimum(ratio: float, relative_error: float) -> None:
    """The exact optimum is the root of the condition for the least waste of time."""
    exact = brentq(lambda tau: math.exp(-(tau + ratio)) - 1 + tau, 1e-9, 1.0, xtol=1e-14)
    optimum = optimum_interval_s(ratio * 20_000, 20_000) / 20_000
    assert optimum == pytest.approx(exact, rel=relative_error)
    # If a write takes at least twice the mean time to interrupt, the interval is that mean time.
    assert optimum_interval_s(20.0, 10.0) == 10.0
    assert optimum_interval_s(19.99, 10.0) < 10.0


@pytest.mark.parametrize(
    ("write_s", "mtti_s"), [(0, 1), (1, 0), (-1, 1), (math.nan, 1), (1, math.inf)]
)
def test_times_that_are_not_positive_and_finite_are_refused(write_s: float, mtti_s: float) -> None:
    with pytest.raises(InputError, match="allowed: above 0"):
        optimum_interval_s(write_s, mtti_s)
