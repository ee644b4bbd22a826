"""What the targets' devices counted, held against what the writers claim. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analysis.sample import WriterRecord
from reframe_tests.injection.counters import Counter, difference

#: Node -> reading of its device; None where it has no counter (writes over shared memory).
Readings = Mapping[str, Counter | None]


def passed(before: Readings, after: Readings) -> dict[str, tuple[str, int]]:
    """Node -> name of its counter and bytes between two readings, where they can tell."""
    found = {}
    for node, first in before.items():
        last = after.get(node)
        if first and last and (gone_b := difference(first, last)) is not None:
            found[node] = (first.name, gone_b)
    return found


def attach(
    records: list[WriterRecord], counted: Mapping[str, tuple[str, int]]
) -> list[WriterRecord]:
    """The records with what their target's device counted, all its writers together."""
    return [
        replace(record, counter=counted[record.target][0], counted_b=counted[record.target][1])
        if record.target in counted and record.message_b
        else record
        for record in records
    ]


def disagreement(records: list[WriterRecord], share: float, alone: bool) -> str | None:
    """Why claim and count do not go together, in one line; None where they do, or none counted.

    A count may exceed the claim by any amount unless the writers are `alone` on the device: the
    application's own messages come over it too.
    """
    claimed: dict[str, float] = {}
    for record in records:
        if record.counted_b is not None:
            claimed[record.target] = claimed.get(record.target, 0.0) + record.bytes_b
    for record in records:
        if record.counted_b is None or not (claim := claimed.get(record.target)):
            continue
        ratio = record.counted_b / claim
        if ratio < 1 - share or (alone and ratio > 1 + share):
            return (
                f"{record.target} counted {record.counted_b / 1e6:.1f} MB ({record.counter}) where"
                f" its writers claim {claim / 1e6:.1f} MB; within {share:.0%} was asked"
            )
    return None
