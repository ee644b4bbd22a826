"""What a timetable of short writes needs, and its records. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from nimc.base.errors import InputError
from nimc.node.injectors.base import Injector, Writer
from nimc.node.short_writes.evidence import Done
from nimc.node.short_writes.origin_side import Due
from nimc.records.plan import ShortWrites
from nimc.records.sample import MANY, TimetableRecord, WriterRecord
from nimc.records.timetable import Origin, Timetable, writers_of_link

#: Fewest and most passive sides of a target; each needs a port.
_LEAST_SIDES = 2
MOST_SIDES = 4
#: Longest rest of a target between two writes, until its next passive side listens, seconds.
_REST_S = 1.0


def messages_of(short: ShortWrites, rate_b_s: float, message_b: int) -> int:
    """Messages of a write: as requested, else as many as last `fill` times its length."""
    return short.messages or max(round(short.fill * short.length_s * rate_b_s / message_b), 1)


def origins_needed(writers: int, link_b_s: float, share: float, rate_b_s: float | None) -> int:
    """Number of origin nodes for `writers` at a time; at least one.

    `rate_b_s` is that of one writer; None is full rate, which takes an origin's whole share of its
    link. Raises InputError if an origin has no room for a single writer.
    """
    room = writers_of_link(link_b_s, share, rate_b_s or link_b_s * share)
    if room < 1:
        raise InputError(
            f"rate: one writer takes more than {share:.0%} of an origin's link; allowed: a lower"
            " rate, or a larger link_share"
        )
    return max(math.ceil(writers / room), 1)


def rooms(
    origins: Sequence[str], writers: int, short: ShortWrites, rate_b_s: float
) -> list[Origin]:
    """How many writers of a rate each origin may run, limited by the link if its rate is known."""
    if short.link_b_s is None:
        room = math.ceil(writers / len(origins))
    else:
        room = writers_of_link(short.link_b_s, short.link_share, rate_b_s)
    return [Origin(name, room) for name in origins]


def rest_s(targets: int, writers: int, length_s: float) -> float:
    """How long a target can rest between two writes; 0 if every target is always written to."""
    return min(max(length_s * (targets - writers) / writers, 0.0), _REST_S)


def sides(lead_s: float, table: Timetable) -> int:
    """Passive sides that a target needs so that one listens whenever a connection is set up.

    A side is in use from the set-up of a write to its end, and its replacement needs about one
    set-up time until it listens. The next write to the target starts after its rest.
    """
    taken_s = lead_s + table.length_s + lead_s
    needed = math.ceil(taken_s / (table.length_s + table.setup_s))
    return min(max(needed, _LEAST_SIDES), MOST_SIDES)


def due(table: Timetable, sides: int) -> dict[str, list[Due]]:
    """Origin -> its writes, as sent to its agent.

    A target's passive sides take turns: while a write goes to one, others listen for the next, so
    that its set-up need not wait.
    """
    turns = [0] * len(table.targets)
    parts: dict[str, list[Due]] = {name: [] for name in table.origins}
    for write, target in zip(table, table.hits, strict=True):
        side = turns[target]
        turns[target] = (side + 1) % sides
        parts[write.origin].append(Due(write.number, target, side, round(write.start_s, 6)))
    return parts


def nothing(short: ShortWrites) -> TimetableRecord:
    """The record of an arm whose number of writers is 0."""
    return TimetableRecord(0, short.length_s, short.tolerance_s, short.allowed_share)


def slot_records(
    table: Timetable,
    done: Iterable[Done],
    window_s: tuple[float, float],
    alone_b_s: float,
    writer: Writer,
    injector: Injector,
) -> list[WriterRecord]:
    """One record for each of the W writers: the sum of its writes within a window.

    `window_s` is by the clock of the writes. A write at the window's edge counts with the part
    inside it; the rate is over the time that writes took.
    """
    of_slot: list[list[tuple[float, float]]] = [[] for _ in range(table.writers)]
    for each in done:
        length_s = each.end_s - each.start_s
        inside_s = min(each.end_s, window_s[1]) - max(each.start_s, window_s[0])
        if 0 <= each.number < len(table) and inside_s > 0:
            rate_b_s = each.bytes_b / length_s
            of_slot[each.number % table.writers].append((rate_b_s, inside_s))
    records = []
    for slot, parts in enumerate(of_slot):
        bytes_b = sum(rate * span for rate, span in parts)
        written_s = sum(span for _, span in parts)
        records.append(
            WriterRecord(
                injector=injector.name,
                direction=injector.direction,
                origin=table.origins[table.slots[slot]],
                target=table.targets[0] if len(table.targets) == 1 else MANY,
                transport=injector.transport(writer),
                message_b=writer.message_b,
                asked_b_s=writer.rate_b_s,
                rate_alone_b_s=alone_b_s,
                rate_b_s=bytes_b / written_s if written_s else 0.0,
                rate_min_b_s=min((rate for rate, _ in parts), default=0.0),
                bytes_b=bytes_b,
                buffer_node=writer.buffer_node,
            )
        )
    return records
