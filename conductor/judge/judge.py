"""Says of a run whether it counts, and if not, why: one pure function of its series.

The conductor asks it after each run, and `nimc verify` again of a stored one. What cannot be read
on a machine rejects nothing; a limit of None is not judged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

from conductor.counters import Passed
from conductor.injectors import INJECTORS
from conductor.judge.figures import Look, conditions, looks, writer_records
from conductor.judge.rates import Expected, InWindow, all_rows, in_window, required
from conductor.judge.series import NodeSeries, Rails, RateRow, Series, WriterSeries
from records.acceptance import AcceptanceLimits
from records.sample import (
    LIMITED_MESSAGES,
    LIMITED_SHARE,
    MANY,
    NodeConditions,
    WriterRecord,
)
from records.units import distinct, plural

#: A look that shows less than this share of the mean rate of all looks shows nothing: devices carry
#: a little other traffic too.
_NOTHING = 0.05
#: A writer's own report is refuted if fewer looks at the target's memory showed something.
_REFUTED = 0.1
#: A pause is no silence if it is shorter than this many messages.
_MESSAGES = 3

Window = tuple[float, float]


def faults(
    series: Series, window_s: Window, limits: AcceptanceLimits, *, others: bool = False
) -> Iterator[str]:
    """Why a run does not count, one line each, the first cause first; nothing if it counts.

    `window_s`: when its application started and ended, by the conductor's clock (Unix time).
    `others`: whether something else may send to a single target, too.
    """
    if series.stood_still_s > limits.pause_s:
        yield f"the conductor did not run for {series.stood_still_s:.1f} s"
    if abs(series.clock_moved_s) > limits.pause_s:
        moved = f"{series.clock_moved_s:+.1f} s"
        yield f"the wall clock moved by {moved} against the monotonic clock"
    targets = [conditions(node) for node in series.nodes]
    for target, node in zip(targets, series.nodes, strict=True):
        yield from _disturbed(target, node, limits)
    if series.ran:
        yield f"{plural(len(series.ran), 'held writer')} ran within the run"
    for direction in series.silent:
        yield from _foreign_bytes(targets, direction, series.alone_b_s, limits)
    yield from _misrouted(targets, series.rails, limits)
    for writer in series.writers:
        who = "writer" if INJECTORS[writer.injector].writes else "control"
        for why in _rates(writer, window_s, limits):
            yield f"{who} {writer.number} {why}"
    yield from series.off_plan
    for writer in series.writers:
        if INJECTORS[writer.injector].writes:
            yield from _silences(writer, window_s, limits)
    records = writer_records(series, window_s)
    yield from _disagreements(records, limits, alone=len(series.nodes) == 1 and not others)
    yield from _misplaced(records)


def _disturbed(target: NodeConditions, node: NodeSeries, limits: AcceptanceLimits) -> Iterator[str]:
    """The limits that a target's conditions exceed, the same ones in all arms."""
    usual_hz = node.usual_hz
    if beyond := _beyond(target.foreign_cpus, limits.foreign_cpus):
        used, most = distinct(*beyond, 2, "f")
        yield (
            f"{target.node}: foreign processes used {used} hardware threads"
            f" (most: {node.busiest or 'unknown'}); allowed: {most}"
        )
    if beyond := _beyond(target.steal_share, limits.steal_share):
        took, most = distinct(*beyond, 1, "%")
        yield (f"{target.node}: the hypervisor took {took} of the processor time; allowed: {most}")
    drop, hz = limits.frequency_drop, target.frequency_hz
    if drop is not None and hz and usual_hz and hz < (1 - drop) * usual_hz:
        yield (
            f"{target.node}: its cores ran at {hz / 1e9:.2f} GHz, in the accepted runs of this"
            f" block at {usual_hz / 1e9:.2f} GHz; allowed: {drop:.0%} less"
        )


def _beyond(value: float | None, limit: float | None) -> tuple[float, float] | None:
    """Value and limit, if it exceeds a limit that there is."""
    if value is None or limit is None or value <= limit:
        return None
    return value, limit


def _foreign_bytes(
    targets: Sequence[NodeConditions],
    direction: Passed,
    alone_b_s: float,
    limits: AcceptanceLimits,
) -> Iterator[str]:
    """Bytes that passed the targets' devices although nothing wrote.

    Several targets receive each other's messages, which cancel: what they received less what they
    sent is judged.
    """
    several = len(targets) > 1
    gone_b = [_passed_b(target, direction, several=several) for target in targets]
    if limits.foreign_share is None or not alone_b_s or None in gone_b:
        return
    all_b = sum(bytes_b for bytes_b in gone_b if bytes_b is not None)
    over_s = max((target.over_s for target in targets), default=0.0)
    allowed_b = limits.foreign_share * alone_b_s * over_s
    if all_b > allowed_b:
        who, more = ", ".join(target.node for target in targets), "more " if several else ""
        yield (
            f"{who} {direction} {all_b / 1e6:.1f} MB {more}({targets[0].counter}) although nothing"
            f" wrote; allowed: {allowed_b / 1e6:.1f} MB"
        )


def _passed_b(target: NodeConditions, direction: Passed, *, several: bool) -> float | None:
    """Bytes that passed in a direction, of several targets less those of the other one."""
    both_b_s = target.received_b_s, target.sent_b_s
    this_b_s, other_b_s = both_b_s if direction == "received" else reversed(both_b_s)
    if this_b_s is None or other_b_s is None:
        return None
    return (this_b_s - (other_b_s if several else 0.0)) * target.over_s


def _misrouted(
    targets: Sequence[NodeConditions], rails: Rails | None, limits: AcceptanceLimits
) -> Iterator[str]:
    """Rails that passed bytes against the policy, or none although it names them.

    Bytes are those of all targets, received and sent. Other traffic, up to `rail_share` of all
    bytes, is no evidence.
    """
    if not rails or not rails.required:
        return
    share, counted = limits.rail_share, dict.fromkeys(rails.devices, 0)
    for target in targets:
        if not target.devices:
            listed = ", ".join(rails.devices)
            yield f"{target.node}: a rail's byte counter is missing or was set back ({listed})"
            return
        for device in target.devices:
            counted[device.device] += device.received_b + device.sent_b
    all_b, policy = sum(counted.values()), f"the policy names {', '.join(sorted(rails.required))}"
    for name, bytes_b in counted.items():
        statement = (
            f"{name} passed {bytes_b / 1e6:.2f} of {all_b / 1e6:.2f} MB of all rails; {policy}"
        )
        if name in rails.required and bytes_b <= share * all_b:
            yield f"{statement}; allowed there: more than {share:.0%}"
        elif name not in rails.allowed and bytes_b > share * all_b:
            yield f"{statement}; allowed elsewhere: {share:.0%}"


# Whether a writer kept its rate through the whole window.


def _rates(writer: WriterSeries, window_s: Window, limits: AcceptanceLimits) -> Iterator[str]:
    """Why a writer's rows reject a run.

    Rows must come before, during and after the window, each no later than `late_rows` intervals
    after the previous one, and show at least `min_share` of the expected rate. Their mean must be
    at most `max_share` of the rate alone, and at most the limit of a throttled writer.
    """
    rows, wanted, did = all_rows(writer), required(writer), in_window(writer, window_s)
    start_s, end_s = window_s
    if not did.rows:
        around = bool(rows) and rows[0].start_s <= start_s < end_s <= rows[-1].end_s
        yield f"{'reported no row' if around else f'{wanted.verb} nothing'} within the window"
        return
    # A control's row is of all the time since the one before: a late one hides nothing.
    late_s = limits.late_rows * writer.row_s if wanted.rate_b_s else math.inf
    yield from _gaps(rows, window_s, late_s)
    yield from _too_slow(did, start_s, wanted, limits.min_share)
    if (share := _share_of_alone(did, wanted)) > limits.max_share:
        reached, most = distinct(share, limits.max_share, 0, "%")
        yield (
            f"{wanted.verb} at {reached} of its rate alone; at most {most} is allowed: the rate"
            " alone was disturbed"
        )
    most_b_s = _most_b_s(writer, window_s)
    if did.rate_b_s > most_b_s:
        shares = did.rate_b_s / wanted.rate_b_s, most_b_s / wanted.rate_b_s
        reached, most = distinct(*shares, 0, "%")
        yield f"{wanted.verb} at {reached} of {wanted.name}; at most {most} is allowed"


def _most_b_s(writer: WriterSeries, window_s: Window) -> float:
    """Largest mean rate of a writer in a window; infinite without a limit."""
    planned = writer.writer
    over_s = window_s[1] - window_s[0]
    if planned.rate_b_s is None or not INJECTORS[writer.injector].writes:
        return math.inf
    return LIMITED_SHARE * planned.rate_b_s + LIMITED_MESSAGES * planned.message_b / over_s


def _gaps(rows: Sequence[RateRow], window_s: Window, late_s: float) -> Iterator[str]:
    start_s, end_s = window_s
    if rows[0].start_s > start_s:
        yield f"started {rows[0].start_s - start_s:.2f} s late"
    if rows[-1].end_s < end_s:
        yield f"stopped {end_s - rows[-1].end_s:.2f} s before the application ended"
    ends_s = [rows[0].start_s, *(row.end_s for row in rows)]
    # Between the ends of two rows, so that it is known for all of the second one.
    silent_s = max(
        to_s - from_s for from_s, to_s in pairwise(ends_s) if to_s > start_s and from_s < end_s
    )
    if silent_s > late_s:
        yield f"reported nothing for {silent_s:.1f} s"


def _too_slow(did: InWindow, start_s: float, wanted: Expected, min_share: float) -> Iterator[str]:
    slowest = min(did.rows, key=lambda row: row.rate_b_s)
    least_b_s = min(slowest.rate_b_s, did.rate_b_s)
    where = f"from second {max(slowest.start_s - start_s, 0.0):.1f} of the window"
    if not wanted.rate_b_s:
        if slowest.rate_b_s <= 0:
            yield f"{wanted.verb} nothing {where}"
    elif not 0 < least_b_s >= min_share * wanted.rate_b_s:
        share, least = distinct(least_b_s / wanted.rate_b_s, min_share, 0, "%")
        yield f"{wanted.verb} at {share} of {wanted.name} {where}; at least {least} is required"


def _share_of_alone(did: InWindow, wanted: Expected) -> float:
    """The mean rate as a share of the rate alone; 0 if that is not known.

    In a window that is short compared with a row, the rate is uncertain; that of whole rows counts
    as well.
    """
    if not wanted.alone_b_s or not did.rows:
        return 0.0
    over_s = sum(row.end_s - row.start_s for row in did.rows)
    rows_b_s = sum(row.bytes_b for row in did.rows) / over_s
    return min(did.rate_b_s, rows_b_s) / wanted.alone_b_s


def shows_disturbed_alone(series: Series, window_s: Window, limits: AcceptanceLimits) -> bool:
    """Whether a writer is so much above its rate alone that this was disturbed when measured."""
    return any(
        _share_of_alone(in_window(writer, window_s), required(writer)) > limits.max_share
        for writer in series.writers
    )


# What refutes a writer's own report.


def _silences(writer: WriterSeries, window_s: Window, limits: AcceptanceLimits) -> Iterator[str]:
    """Times in which nothing of a writer was counted, and memory that it did not write."""
    counts = looks(writer, window_s)
    source = writer.meter.at
    usual_b_s = required(writer).rate_b_s
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


def longest_silence_s(counts: Sequence[Look]) -> float:
    """The longest time in a row in which looks showed nothing, seconds."""
    over_s = sum(count.length_s for count in counts)
    mean = sum(count.amount for count in counts) / over_s if over_s > 0 else 0.0
    longest_s = silent_s = 0.0
    for count in counts:
        is_silent = count.amount <= _NOTHING * mean * count.length_s
        silent_s = silent_s + count.length_s if is_silent else 0.0
        longest_s = max(longest_s, silent_s)
    return longest_s


def _disagreements(
    records: Sequence[WriterRecord], limits: AcceptanceLimits, *, alone: bool
) -> Iterator[str]:
    """Targets whose devices counted something else than the writers claim.

    A claim is of the time that the writer's rows cover; what it wrote in the rest is unknown, from
    nothing to its rate. A count may exceed the claim by any amount unless the writers are `alone`
    on the devices, since the application's own messages pass them too.
    """
    counted = [record for record in records if record.counted_b is not None]
    for target in dict.fromkeys(record.target for record in counted):
        ours = [record for record in counted if record.target == target]
        claim_b = sum(record.bytes_b for record in ours)
        most_b = sum(record.bytes_b / (record.observed_share or 1.0) for record in ours)
        count_b, share = ours[0].counted_b or 0, limits.counter_share
        too_many = alone and count_b > (1 + share) * most_b
        if claim_b and (count_b < (1 - share) * claim_b or too_many):
            who = "all targets together" if target == MANY else target
            upto = "" if most_b == claim_b else f" to {most_b / 1e6:.1f}"
            yield (
                f"{who} counted {count_b / 1e6:.1f} MB ({ours[0].counter}), but the writers claim"
                f" {claim_b / 1e6:.1f}{upto} MB; allowed difference: {share:.0%}"
            )


def _misplaced(records: Sequence[WriterRecord]) -> Iterator[str]:
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
