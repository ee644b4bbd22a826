"""What proves the writes of a run, and what refutes them. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nimc.node.evidence import claims, silence
from nimc.node.evidence.rates import expected
from nimc.node.evidence.silence import Looked
from nimc.records.plan import Demand
from nimc.records.sample import MANY, Proof, WriterRecord

#: A writer's marks prove its writes if at least this share of the looks found them overwritten. A
#: look or two may come before the next message of a writer that the application slows down.
_PROVEN = 0.9
#: A pause is no silence if it is shorter than this many messages at the lowest accepted rate.
_MESSAGES = 3


def refuted(
    records: Sequence[WriterRecord], looked: Mapping[int, Looked], demand: Demand, alone: bool
) -> str | None:
    """Why looks or device counts refute the writers' claims, in one line; None if they do not.

    `alone` says that nothing but the writers sends to the targets.
    """
    for index, record in enumerate(records):
        if record.message_b and index in looked:
            # A device shows parts of a message, memory only all of it.
            share = demand.min_share if looked[index].memory else 1.0
            slowest_b_s = share * expected(record.rate_alone_b_s, record.asked_b_s).rate_b_s
            message_s = record.message_b / slowest_b_s if slowest_b_s else 0.0
            allowed_s = max(demand.silent_s, _MESSAGES * message_s)
            if fault := silence.fault(looked[index], allowed_s):
                return f"writer {index} {fault}"
    return claims.disagreement(list(records), demand.counter_share, alone)


def attach(records: Sequence[WriterRecord], looked: Mapping[int, Looked]) -> list[WriterRecord]:
    """The records, in the writers' order, with what proves the writes of each."""
    return [_proven(record, looked.get(index)) for index, record in enumerate(records)]


def _proven(record: WriterRecord, looked: Looked | None) -> WriterRecord:
    if not record.message_b:
        return record
    share = None
    if looked and looked.memory and looked.looks:
        share = looked.seen / looked.looks
    proof: Proof = "unproven"
    if record.counted_b is not None:
        proof = "device"
    elif share is not None and share >= _PROVEN:
        proof = "memory"
    return replace(record, proof=proof, overwritten_share=share)


def unproven(records: Sequence[WriterRecord], looked: Mapping[int, Looked]) -> str | None:
    """A note on the targets whose writes nothing but the writers' reports shows; None if none."""
    found = {
        record.target: looked[index].fault if index in looked else None
        for index, record in enumerate(records)
        if record.proof == "unproven"
    }
    if not found:
        return None
    why = next((fault for fault in found.values() if fault), None)
    who = "the targets" if MANY in found else ", ".join(found)
    return (
        f"unproven: no device counted what arrived at {who}, and its memory was not looked at"
        f"{f' ({why})' if why else ''}: only the writers report the writes"
    )
