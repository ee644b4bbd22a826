"""Whether a writer kept its rate through the whole window. Pure functions on its reported rows."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Seen:
    """A row that a writer reported: its rate over (start_s, end_s], Unix time."""

    start_s: float
    end_s: float
    rate_b_s: float


@dataclass(frozen=True)
class Judgement:
    """What a writer did within a window; `reason` says why it is rejected, None if accepted."""

    rate_b_s: float
    rate_min_b_s: float
    bytes_b: float
    reason: str | None


def rate_alone(rows: list[Seen]) -> float:
    """The writer's rate with no application: median of all rows but the first, which ramps up."""
    return median(row.rate_b_s for row in rows[1:])


def at_speed(rows: list[Seen], alone_b_s: float, min_share: float) -> bool:
    """Whether the latest row reaches the rate at which a window may start."""
    return bool(rows) and rows[-1].rate_b_s > 0 and rows[-1].rate_b_s >= min_share * alone_b_s


def judge(
    rows: list[Seen],
    start_s: float,
    end_s: float,
    alone_b_s: float,
    min_share: float,
    row_s: float,
    late_rows: float,
) -> Judgement:
    """Check rows against the application's window [start_s, end_s].

    Rows must cover the whole window, none may be late by more than `late_rows` intervals, and
    each must show at least `min_share` of the rate alone.
    """
    inside = [row for row in rows if row.end_s > start_s and row.start_s < end_s]
    if not inside or end_s <= start_s:
        return Judgement(0.0, 0.0, 0.0, "wrote nothing within the window")
    spans = [min(row.end_s, end_s) - max(row.start_s, start_s) for row in inside]
    bytes_b = sum(row.rate_b_s * span for row, span in zip(inside, spans, strict=True))
    slowest = min(inside, key=lambda row: row.rate_b_s)
    reason = _gap(inside, start_s, end_s, late_rows * row_s)
    if (reason is None and slowest.rate_b_s < min_share * alone_b_s) or slowest.rate_b_s <= 0:
        at_s = max(slowest.start_s - start_s, 0.0)
        share = slowest.rate_b_s / alone_b_s if alone_b_s else 0.0
        reason = (
            f"wrote at {share:.0%} of its rate alone from second {at_s:.1f} of the window;"
            f" at least {min_share:.0%} is required"
        )
    return Judgement(bytes_b / sum(spans), slowest.rate_b_s, bytes_b, reason)


def _gap(inside: list[Seen], start_s: float, end_s: float, late_s: float) -> str | None:
    if inside[0].start_s > start_s:
        return f"started {inside[0].start_s - start_s:.2f} s late"
    if inside[-1].end_s < end_s:
        return f"stopped {end_s - inside[-1].end_s:.2f} s before the application ended"
    silent = max(row.end_s - row.start_s for row in inside)
    if silent > late_s:
        return f"reported nothing for {silent:.1f} s"
    return None
