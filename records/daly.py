"""The number of nodes that receive a checkpoint at any time, if ranks checkpoint independently.

Groves, Grant and Arnold (2016), section VI: ranks write checkpoints without coordination, at Daly's
interval for the whole system. At any time, a rank writes with the probability
write / (interval + write). If each write goes to the memory of another node, the number of nodes
that receive a checkpoint equals the number of ranks that write one.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from records import units
from records.errors import InputError

# An application works for `interval`, writes a checkpoint for `write`, and repeats both. Interrupts
# are a Poisson process with the mean time M between them. After each one the application returns to
# its last checkpoint. The expected time per unit of work is proportional to
# (exp((interval + write) / M) - 1) / interval. It is smallest for
#
# exp(-(interval + write) / M) = 1 - interval / M.
#
# Expanded in sqrt(write / 2M) this gives the closed form of J. T. Daly, "A higher order estimate of
# the optimum checkpoint interval for restart dumps", Future Generation Computer Systems 22 (2006)
# 303-312, which Groves, Grant and Arnold (2016) use (section VI).


def optimum_interval_s(write_s: float, mtti_s: float) -> float:
    """Seconds of work between two checkpoints at which the least time is wasted.

    `write_s` is the duration of one checkpoint, `mtti_s` the mean time to interrupt of the whole
    job. The series is valid for `write_s` < 2 `mtti_s`. A longer checkpoint costs more than it
    saves, and the estimate is `mtti_s`, as in the paper. The result is within 1 % of the exact
    optimum for `write_s` up to `mtti_s` / 2. Raises InputError for values not above 0.
    """
    for name, value in (("write", write_s), ("mtti", mtti_s)):
        if not (math.isfinite(value) and value > 0):
            raise InputError(f"{name}: {value:g} s is not a duration; allowed: above 0")
    if write_s >= 2 * mtti_s:
        return mtti_s
    ratio = write_s / (2 * mtti_s)
    series = 1 + math.sqrt(ratio) / 3 + ratio / 9
    return math.sqrt(2 * write_s * mtti_s) * series - write_s


#: Mean time to interrupt of a rank (section VI), and the constant share of ranks that write
#: (Table V).
PAPER_MTTI_S = 5 * units.SECONDS["y"]
PAPER_WRITER_SHARE = 0.002

_MESSAGES = re.compile(r"(\S+) messages of (\S+?)(?: at (\S+))?")


@dataclass(frozen=True, kw_only=True)
class DalyWriters:
    """The concurrent writers of a system."""

    #: Number of ranks, as in the paper, or of other units that checkpoint independently.
    counted: int
    #: Mean time to interrupt of the system, and the work between two checkpoints, seconds.
    mtti_s: float
    interval_s: float
    #: Number of writes in progress at any time, rounded and as computed.
    concurrent_writers: int
    concurrent_writers_exact: float
    #: Number of writers if the paper's constant share of the ranks writes.
    constant_share_writers: int
    #: Writes started per second at Daly's interval.
    writes_per_s: float
    #: True if Daly's series is valid. If it is not, the interval is the mean time to interrupt.
    in_range: bool


def concurrent_writers(rank_count: int, rank_mtti_s: float, write_s: float) -> DalyWriters:
    """The concurrent writers of a system, at Daly's interval and as a constant share.

    `rank_mtti_s` is the mean time to interrupt of one of the ranks. Since ranks fail independently,
    the mean time of the system is `rank_mtti_s / rank_count`. `write_s` is the duration
    of one write. Raises InputError for values not above 0.
    """
    if rank_count < 1:
        raise InputError(f"ranks: {rank_count} found; allowed: 1 or more")
    mtti_s = rank_mtti_s / rank_count
    interval_s = optimum_interval_s(write_s, mtti_s)
    writes_per_s = rank_count / (interval_s + write_s)
    exact_writers = writes_per_s * write_s
    return DalyWriters(
        counted=rank_count,
        mtti_s=mtti_s,
        interval_s=interval_s,
        concurrent_writers=round(exact_writers),
        concurrent_writers_exact=exact_writers,
        constant_share_writers=round(rank_count * PAPER_WRITER_SHARE),
        writes_per_s=writes_per_s,
        in_range=write_s < 2 * mtti_s,
    )


def daly_rule_text(rank_mtti_s: float, write_s: float) -> str:
    """The sentence, printed with the results, that says what `concurrent_writers` counts."""
    mtti = f"{rank_mtti_s / units.SECONDS['y']:.3g} years"
    return (
        f"daly: each counted rank writes for {write_s:.3g} s at Daly's interval, with a mean time"
        f" to interrupt of {mtti} each; constant:"
        f" {units.percentage(PAPER_WRITER_SHARE, '.1f')} of them write. Table V of Groves, Grant"
        " and Arnold (2016) counts ranks."
    )


@dataclass(frozen=True)
class Write:
    """A write, given by its length or by its messages."""

    #: None if the messages are given: the length then follows from their rate.
    length_s: float | None = None
    messages: int | None = None
    message_b: int = 0
    #: Rate of the messages, bytes per second; None: not stated.
    rate_b_s: float | None = None

    def length_at(self, rate_b_s: float | None, field: str) -> float:
        """Length in seconds. Messages without a rate of their own are written at `rate_b_s`.

        Raises InputError, which names `field`, if neither rate is known.
        """
        if self.length_s is not None:
            return self.length_s
        rate_b_s = self.rate_b_s or rate_b_s
        if not rate_b_s:
            raise InputError(
                f"{field}: {self.messages} messages last as long as their rate allows, which is not"
                " known; allowed: messages at a rate, such as 46k messages of 64KiB at 3GB/s, or a"
                " duration"
            )
        return (self.messages or 0) * self.message_b / rate_b_s


def parse_write(text: str, field: str) -> Write:
    """Parse `1s`, `46k messages of 64KiB` or `46k messages of 64KiB at 3GB/s`.

    Raises InputError, which names `field`, for any other text.
    """
    phrase = _MESSAGES.fullmatch(text)
    if phrase is None:
        if " " in text:
            raise InputError(
                f"{field}: {text!r} is not a write; allowed: a duration, such as 1s, or"
                " messages, such as 46k messages of 64KiB, also at a rate: ... at 3GB/s"
            )
        return Write(length_s=units.duration_s(text, field))
    count, size, rate = phrase.groups()
    messages = units.count(count, field)
    message_b = units.size_b(size, field)
    rate_b_s = units.rate_b_s(rate, field) if rate else None
    if rate_b_s == 0 or not messages:
        raise InputError(f"{field}: {text!r} writes nothing; allowed: numbers and rates above 0")
    return Write(messages=messages, message_b=message_b, rate_b_s=rate_b_s)
