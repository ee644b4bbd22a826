"""What proves the writes of a run, and what refutes them. Pure functions.

The targets' devices counted, which is compared with what the writers claim. And the agents look at
each writer several times a second during a run: at the bytes that its origin's device has sent, or
at what the target's end reads of the marks that the writer puts into its memory. A look shows how
much has passed since the last one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from conductor.evidence.counters import Reading, difference
from conductor.evidence.rates import expected
from records.notes import Note
from records.plan import Demand
from records.sample import MANY, PROVEN_SHARE, Proof, WriterRecord

#: A look that shows less than this share of the mean rate of all looks shows nothing: devices carry
#: a little other traffic too.
_NOTHING = 0.05
#: A writer's own report is refuted if fewer looks at the target's memory showed something.
_REFUTED = 0.1
#: A pause is no silence if it is shorter than this many messages.
_MESSAGES = 3
#: Node -> reading of its device; None if it has no counter (writes over shared memory).
Readings = Mapping[str, Reading | None]


class Look(NamedTuple):
    """What passed between two times, bytes."""

    from_s: float
    to_s: float
    amount: float


@dataclass(frozen=True)
class Looked:
    """All looks at one writer during a run."""

    writer: int
    #: What was looked at: a counter's name, or `the target's memory`.
    at: str
    looks: int
    #: Looks that showed something; only those at memory count as proof.
    seen: int
    #: Longest time without anything, seconds.
    silent_s: float
    #: Whether the target looked at its memory.
    memory: bool
    #: Why there are no looks, or no more of them; None if all were made.
    fault: str | None = None


class Count(NamedTuple):
    """Bytes counted between two readings of a counter."""

    counter: str
    bytes_b: int
    over_s: float


def passed(before: Readings, after: Readings) -> dict[str, Count]:
    """Node -> bytes counted between two readings of its device; nodes without a count left out."""
    found = {}
    for node, first in before.items():
        last = after.get(node)
        if first and last and (gone_b := difference(first, last)) is not None:
            found[node] = Count(first.name, gone_b, last.at_s - first.at_s)
    return found


def with_total(counted: Mapping[str, Count], nodes: Sequence[str]) -> dict[str, Count]:
    """The counts, and under `MANY` the sum over all `nodes` if each of them has one."""
    found = dict(counted)
    if nodes and all(node in counted for node in nodes):
        each = [counted[node] for node in nodes]
        found[MANY] = Count(
            counter="+".join(dict.fromkeys(count.counter for count in each)),
            bytes_b=sum(count.bytes_b for count in each),
            over_s=max(count.over_s for count in each),
        )
    return found


def attach(
    records: list[WriterRecord],
    counted: Mapping[str, Count],
    alone: Mapping[str, Count] | None = None,
) -> list[WriterRecord]:
    """The records with the count of their target's device, for all its writers together.

    `alone` is the count without an application.
    """
    found = []
    for record in records:
        count, before = counted.get(record.target), (alone or {}).get(record.target)
        if count is not None and record.message_b:
            alone_b_s = before.bytes_b / before.over_s if before and before.over_s else None
            record = replace(
                record,
                counter=count.counter,
                counted_b=count.bytes_b,
                counted_s=count.over_s,
                counted_alone_b_s=alone_b_s,
            )
        found.append(record)
    return found


def disagreement(records: list[WriterRecord], share: float, alone: bool) -> str | None:
    """Why claim and count disagree, in one line; None if they agree, or nothing was counted.

    A claim is of the time that the writer's rows cover; what it wrote in the rest is unknown, from
    nothing to its rate. A count may exceed the claim by any amount unless the writers are `alone`
    on the device, since the application's own messages pass it too.
    """
    counted = [record for record in records if record.counted_b is not None]
    for target in dict.fromkeys(record.target for record in counted):
        ours = [record for record in counted if record.target == target]
        claim = sum(record.bytes_b for record in ours)
        most_b = sum(record.bytes_b / (record.observed_share or 1.0) for record in ours)
        count_b = ours[0].counted_b or 0
        too_many = alone and count_b > (1 + share) * most_b
        if claim and (count_b < (1 - share) * claim or too_many):
            who = "all targets together" if target == MANY else target
            upto = "" if most_b == claim else f" to {most_b / 1e6:.1f}"
            return (
                f"{who} counted {count_b / 1e6:.1f} MB ({ours[0].counter}), but the writers claim"
                f" {claim / 1e6:.1f}{upto} MB; allowed difference: {share:.0%}"
            )
    return None


def refuted(
    records: Sequence[WriterRecord], looked: Mapping[int, Looked], demand: Demand, alone: bool
) -> str | None:
    """Why looks or device counts refute the writers' claims, in one line; None if they do not.

    `alone` says that nothing but the writers sends to the targets.
    """
    for index, record in enumerate(records):
        if record.message_b and index in looked:
            usual_b_s = expected(record.rate_alone_b_s, record.asked_b_s).rate_b_s
            message_s = record.message_b / usual_b_s if usual_b_s else 0.0
            allowed_s, seen = max(demand.silent_s, _MESSAGES * message_s), looked[index]
            if seen.silent_s > allowed_s:
                return (
                    f"writer {index} wrote nothing for {seen.silent_s:.1f} s ({seen.at}); allowed:"
                    f" {allowed_s:.1f} s"
                )
            if seen.memory and seen.looks * _REFUTED > max(seen.seen, 1):
                looks = f"{seen.seen} of {seen.looks} looks"
                return f"writer {index} {looks} at the target's memory found it written"
    return disagreement(list(records), demand.counter_share, alone)


def longest_silence_s(looks: Sequence[Look]) -> float:
    """The longest time in a row in which looks showed nothing, seconds."""
    over_s = sum(look.to_s - look.from_s for look in looks)
    mean = sum(look.amount for look in looks) / over_s if over_s > 0 else 0.0
    longest_s = silent_s = 0.0
    for look in looks:
        length_s = look.to_s - look.from_s
        silent = look.amount <= _NOTHING * mean * length_s
        silent_s = silent_s + length_s if silent else 0.0
        longest_s = max(longest_s, silent_s)
    return longest_s


def with_proof(records: Sequence[WriterRecord], looked: Mapping[int, Looked]) -> list[WriterRecord]:
    """The records, in the writers' order, with what proves the writes of each."""
    found = []
    for index, record in enumerate(records):
        seen, share = looked.get(index), None
        if seen and seen.memory and seen.looks:
            share = seen.seen / seen.looks
        proof: Proof = "unproven"
        if record.counted_b is not None:
            proof = "device"
        elif share is not None and share >= PROVEN_SHARE:
            proof = "memory"
        if record.message_b:  # no control
            record = replace(record, proof=proof, overwritten_share=share)
        found.append(record)
    return found


def unproven(records: Sequence[WriterRecord], looked: Mapping[int, Looked]) -> str | None:
    """A note on the targets whose writes nothing but the writers' reports shows; None if none."""
    found = {
        record.target: looked[index].fault if index in looked else None
        for index, record in enumerate(records)
        if record.proof == "unproven"
    }
    if not found:
        return None
    reason = next((fault for fault in found.values() if fault), None)
    who = "the targets" if MANY in found else ", ".join(found)
    return Note.UNPROVEN(targets=who, reason=f" ({reason})" if reason else "")


# Where the kernel placed the writers' buffers, compared with where they were bound.


#: The two ends of a writer.
EndRole = Literal["target", "origin"]


@dataclass(frozen=True)
class Placed:
    """Placement of one end of a writer, read by its agent just before stopping it."""

    writer: int
    role: EndRole
    #: NUMA binding that the program does itself (`Injector.own_binding`).
    own_binding: str
    #: NUMA node -> bytes of its buffers there; empty if unknown.
    buffers_b: dict[str, int]
    #: Bytes of its memory whose pages cannot be moved; None if unknown.
    pinned_b: int | None = None


def with_placement(records: list[WriterRecord], placed: Sequence[Placed]) -> list[WriterRecord]:
    """The records, in the writers' order, with the placement of both ends' buffers."""
    found = {(end.writer, end.role): end for end in placed}
    attached = []
    for index, record in enumerate(records):
        target, origin = found.get((index, "target")), found.get((index, "origin"))
        at_target = target.buffers_b if target else {}
        at_origin = origin.buffers_b if origin else {}
        # On one host the origin maps the target's buffer, sometimes the origin alone.
        seen_b = at_target or (at_origin if record.origin == record.target else {})
        share = None
        if record.buffer_node is not None and seen_b:
            share = seen_b.get(str(record.buffer_node), 0) / sum(seen_b.values())
        with_ends = replace(
            record,
            own_binding=origin.own_binding if origin else None,
            target_buffers_b=at_target,
            origin_buffers_b=at_origin,
            target_on_node_share=share,
            target_pinned_b=target.pinned_b if target else None,
        )
        attached.append(with_ends)
    return attached


def misplaced(records: Sequence[WriterRecord]) -> str | None:
    """Which buffers lie outside the node they were bound to, in one line; None if none do.

    Buffers whose placement is unknown do not reject the run: their binding is unverified.
    """
    for index, record in enumerate(records):
        if record.buffer_node is None or not record.message_b:
            continue
        for role, buffers_b in (
            ("target", record.target_buffers_b),
            ("origin", record.origin_buffers_b),
        ):
            away_b = sum(b for node, b in buffers_b.items() if node != str(record.buffer_node))
            if away_b:
                return (
                    f"writer {index}: {away_b / 2**20:.1f} MiB of the {role}'s buffers lay outside"
                    f" NUMA node {record.buffer_node}"
                )
    return None
