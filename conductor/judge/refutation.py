"""Finds counts that refute a writer's own report, and buffers on the wrong NUMA node.

A *span* is the time between two counts of a writer's bytes. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from conductor.judge.rates import expected_rate
from conductor.judge.series import Window, WriterSeries
from conductor.judge.series_figures import Span, spans_in_window
from records.acceptance import AcceptanceLimits
from records.sample import MANY_TARGETS, WriterRecord
from records.units import percentage

#: A span is silent if its rate is at most this share of the mean rate. The share is above 0, since
#: a device also carries a little other traffic.
_SILENT_SHARE = 0.05
#: A writer's own report is refuted if less than this share of the spans show new bytes in the
#: target's memory, or if no span does although several messages were due.
_LEAST_WRITTEN_SHARE = 0.1
#: A pause is allowed if it is no longer than this many messages take.
_PAUSE_MESSAGES = 3


def silences(writer: WriterSeries, window_s: Window, limits: AcceptanceLimits) -> Iterator[str]:
    """Yield a line if a writer paused for too long, and one if too few of its bytes reached memory.

    A pause is a time without counted bytes. Memory means the target's memory.
    """
    spans = spans_in_window(writer, window_s)
    source = writer.meter.source
    expected_b_s = expected_rate(writer).rate_b_s
    message_s = writer.writer.message_b / expected_b_s if expected_b_s else 0.0
    allowed_s = max(limits.silent_s, _PAUSE_MESSAGES * message_s)
    silent_s = longest_silence_s(spans)
    if silent_s > allowed_s:
        yield (
            f"writer {writer.number} wrote nothing for {silent_s:.1f} s ({source}); allowed:"
            f" {allowed_s:.1f} s"
        )
    written = sum(span.amount > 0 for span in spans)
    is_silent = written == 0 and len(spans) > 1
    is_silent &= sum(span.length_s for span in spans) > _PAUSE_MESSAGES * message_s
    is_rare = len(spans) * _LEAST_WRITTEN_SHARE > max(written, 1)
    if writer.meter.in_memory and (is_silent or is_rare):
        yield (
            f"writer {writer.number} was seen to write in {written} of {len(spans)} readings of the"
            " target's memory"
        )


def longest_silence_s(spans: Sequence[Span]) -> float:
    """Return the longest time of consecutive silent spans, seconds."""
    total_s = sum(span.length_s for span in spans)
    mean_rate = sum(span.amount for span in spans) / total_s if total_s > 0 else 0.0
    longest_s = silent_s = 0.0
    for span in spans:
        is_silent = span.amount <= _SILENT_SHARE * mean_rate * span.length_s
        silent_s = silent_s + span.length_s if is_silent else 0.0
        longest_s = max(longest_s, silent_s)
    return longest_s


def disagreements(
    records: Sequence[WriterRecord], limits: AcceptanceLimits, *, only_writers_send: bool
) -> Iterator[str]:
    """Yield a line for each target whose devices disagree with the bytes that its writers claim.

    A writer claims (reports) bytes for the time that its rows cover. In the rest of the window the
    writer may have written anything from nothing to its rate. If other programs send to the devices
    too, such as the application, a count may exceed the claim by any amount. `only_writers_send`
    says that there are no such programs.
    """
    counted_records = [record for record in records if record.counted_b is not None]
    for target in dict.fromkeys(record.target for record in counted_records):
        claims = [record for record in counted_records if record.target == target]
        claim_b = sum(record.bytes_b for record in claims)
        most_b = sum(record.bytes_b / (record.observed_share or 1.0) for record in claims)
        # Each record has the same count, which is the count of all writers of the target.
        count_b, allowed_share = claims[0].counted_b or 0, limits.counter_share
        too_many = only_writers_send and count_b > (1 + allowed_share) * most_b
        if claim_b and (count_b < (1 - allowed_share) * claim_b or too_many):
            subject = "all targets together" if target == MANY_TARGETS else target
            upper_end = "" if most_b == claim_b else f" to {most_b / 1e6:.1f}"
            yield (
                f"{subject} counted {count_b / 1e6:.1f} MB ({claims[0].counter}), but the writers"
                f" claim {claim_b / 1e6:.1f}{upper_end} MB; allowed difference:"
                f" {percentage(allowed_share)}"
            )


def misplaced_buffers(records: Sequence[WriterRecord]) -> Iterator[str]:
    """Yield a line for each end with buffers outside the NUMA node that they were bound to.

    A buffer whose placement is unknown yields no line.
    """
    for index, record in enumerate(records):
        if record.buffer_node is None or not record.message_b:
            continue
        ends = {"target": record.target_buffers_b, "origin": record.origin_buffers_b}
        for role, buffers_b in ends.items():
            bound_node = str(record.buffer_node)
            outside_b = sum(size_b for node, size_b in buffers_b.items() if node != bound_node)
            if outside_b:
                yield (
                    f"writer {index}: {outside_b / 2**20:.1f} MiB of the {role}'s buffers lay"
                    f" outside NUMA node {bound_node}"
                )
