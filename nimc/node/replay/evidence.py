"""Whether a writer followed the rates of its window. Pure functions on its reported rows.

Rows are compared with what the rates ask for in the same time. They last about a second of writing;
one within which the writer was suspended lasts longer.
"""

from __future__ import annotations

from collections.abc import Sequence

from nimc.node.evidence.rates import Expected, Seen
from nimc.records.sample import ReplayBin

#: Largest difference of the bytes of all rows, and of one, as shares of the wanted bytes; or, if
#: that is more, as shares of what the writer writes alone in that time.
TOTAL_SHARE, TOTAL_ALONE_SHARE = 0.1, 0.01
BIN_SHARE, BIN_ALONE_SHARE = 0.3, 0.1
#: Least share of the rows' time in which they agree, and of the run that rows cover.
AGREEING_SHARE = 0.8
COVERED_SHARE = 0.5
#: What a row must show in itself: anything, since the rates may be low.
ANYTHING = Expected(0.0, "the traffic")


def due_b(rates_b_s: Sequence[float], after_s: float) -> float:
    """Bytes that are due so long after the begin: one rate a second, again and again."""
    laps, left_s = divmod(max(after_s, 0.0), len(rates_b_s))
    whole = int(left_s)
    passed_b = laps * sum(rates_b_s) + sum(rates_b_s[:whole])
    return passed_b + rates_b_s[whole] * (left_s - whole)


def compare(
    rows: Sequence[Seen],
    rates_b_s: Sequence[float],
    followed_s: tuple[float, float],
    run_s: tuple[float, float],
    alone_b_s: float,
) -> tuple[list[ReplayBin], float, str | None]:
    """Rows next to what was wanted, the share of time that agrees, and why that is too little.

    `followed_s` and `run_s`: from when until when rates were followed, and the application ran.
    """
    from_s, until_s = followed_s
    bins = [
        ReplayBin(
            start_s=row.start_s - run_s[0],
            length_s=row.end_s - row.start_s,
            wanted_b=due_b(rates_b_s, row.end_s - from_s) - due_b(rates_b_s, row.start_s - from_s),
            done_b=row.bytes_b,
        )
        for row in rows
        if row.start_s >= from_s and row.end_s <= until_s
    ]
    covered_s = sum(each.length_s for each in bins)
    if covered_s < COVERED_SHARE * (run_s[1] - run_s[0]) or not covered_s:
        return bins, 0.0, f"its rows cover {covered_s:.1f} s of the run; allowed: half of it"
    agreeing = sum(each.length_s for each in bins if _agrees(each, alone_b_s)) / covered_s
    wanted_b, done_b = (sum(getattr(each, n) for each in bins) for n in ("wanted_b", "done_b"))
    reason = None
    if abs(done_b - wanted_b) > max(
        TOTAL_SHARE * wanted_b, TOTAL_ALONE_SHARE * alone_b_s * covered_s
    ):
        reason = (
            f"wrote {done_b / 1e6:.1f} MB of {wanted_b / 1e6:.1f} MB of the traffic; allowed"
            f" difference: {TOTAL_SHARE:.0%}"
        )
    elif agreeing < AGREEING_SHARE:
        reason = (
            f"followed the traffic in {agreeing:.0%} of the time, within {BIN_SHARE:.0%}; at least"
            f" {AGREEING_SHARE:.0%} is required"
        )
    return bins, agreeing, reason


def _agrees(each: ReplayBin, alone_b_s: float) -> bool:
    most_b = max(BIN_SHARE * each.wanted_b, BIN_ALONE_SHARE * alone_b_s * each.length_s)
    return abs(each.done_b - each.wanted_b) <= most_b
