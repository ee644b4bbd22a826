"""Counts that refute a writer's own report: its silence, devices, memory, placement. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conductor.judge.rates import expected_rate
from conductor.judge.series import Window, WriterSeries
from conductor.judge.series_figures import Span, spans
from records.acceptance import AcceptanceLimits
from records.sample import MANY_TARGETS, WriterRecord

#: A span that shows less than this share of the mean rate of all spans shows nothing: devices carry
#: a little other traffic too.
_NOTHING = 0.05
#: A writer's own report is refuted if fewer readings of the target's memory showed something.
_REFUTED = 0.1
#: A pause is no silence if it is shorter than this many messages.
_MESSAGES = 3


def silences(writer: WriterSeries, window_s: Window, limits: AcceptanceLimits) -> Iterator[str]:
    """Times in which nothing of a writer was counted, and memory that it did not write."""
    counts = spans(writer, window_s)
    source = writer.meter.at
    usual_b_s = expected_rate(writer).rate_b_s
    message_s = writer.writer.message_b / usual_b_s if usual_b_s else 0.0
    allowed_s = max(limits.silent_s, _MESSAGES * message_s)
    silent_s = longest_silence_s(counts)
    if silent_s > allowed_s:
        yield (
            f"writer {writer.number} wrote nothing for {silent_s:.1f} s ({source}); allowed:"
            f" {allowed_s:.1f} s"
        )
    shown = sum(count.amount > 0 for count in counts)
    if writer.meter.memory and len(counts) * _REFUTED > max(shown, 1):
        yield (
            f"writer {writer.number} {shown} of {len(counts)} looks at the target's memory found it"
            " written"
        )


def longest_silence_s(counts: Sequence[Span]) -> float:
    """The longest time in a row in which spans showed nothing, seconds."""
    over_s = sum(count.length_s for count in counts)
    mean = sum(count.amount for count in counts) / over_s if over_s > 0 else 0.0
    longest_s = silent_s = 0.0
    for count in counts:
        is_silent = count.amount <= _NOTHING * mean * count.length_s
        silent_s = silent_s + count.length_s if is_silent else 0.0
        longest_s = max(longest_s, silent_s)
    return longest_s


def disagreements(
    records: Sequence[WriterRecord], limits: AcceptanceLimits, *, alone: bool
) -> Iterator[str]:
    """Targets whose devices counted something else than the writers claim.

    A claim is of the time that the writer's rows cover; what it wrote in the rest is unknown, from
    nothing to its rate. A count may exceed the claim by any amount unless the writers are `alone`
    on the devices, since the application's own messages pass them too.
    """
    counted = [record for record in records if record.counted_b is not None]
    for target in dict.fromkeys(record.target for record in counted):
        claims = [record for record in counted if record.target == target]
        claim_b = sum(record.bytes_b for record in claims)
        most_b = sum(record.bytes_b / (record.observed_share or 1.0) for record in claims)
        count_b, share = claims[0].counted_b or 0, limits.counter_share
        too_many = alone and count_b > (1 + share) * most_b
        if claim_b and (count_b < (1 - share) * claim_b or too_many):
            subject = "all targets together" if target == MANY_TARGETS else target
            upper_end = "" if most_b == claim_b else f" to {most_b / 1e6:.1f}"
            yield (
                f"{subject} counted {count_b / 1e6:.1f} MB ({claims[0].counter}), but the writers"
                f" claim {claim_b / 1e6:.1f}{upper_end} MB; allowed difference: {share:.0%}"
            )


def misplaced_buffers(records: Sequence[WriterRecord]) -> Iterator[str]:
    """Buffers outside the node that they were bound to.

    Those whose placement is unknown do not reject the run: their binding is unverified.
    """
    for index, record in enumerate(records):
        if record.buffer_node is None or not record.message_b:
            continue
        ends = {"target": record.target_buffers_b, "origin": record.origin_buffers_b}
        for role, buffers_b in ends.items():
            away_b = sum(b for node, b in buffers_b.items() if node != str(record.buffer_node))
            if away_b:
                yield (
                    f"writer {index}: {away_b / 2**20:.1f} MiB of the {role}'s buffers lay outside"
                    f" NUMA node {record.buffer_node}"
                )
