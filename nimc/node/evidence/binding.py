"""Where the kernel placed the writers' buffers, compared with where they were bound. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nimc.records.sample import WriterRecord

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


def attach(records: list[WriterRecord], placed: Sequence[Placed]) -> list[WriterRecord]:
    """The records, in the writers' order, with the placement of both ends' buffers."""
    found = {(end.writer, end.role): end for end in placed}
    attached = []
    for index, record in enumerate(records):
        target, origin = found.get((index, "target")), found.get((index, "origin"))
        at_target = target.buffers_b if target else {}
        at_origin = origin.buffers_b if origin else {}
        # Over shared memory the origin maps the target's buffer, sometimes the origin alone.
        seen_b = at_target or (at_origin if record.transport == "shared memory" else {})
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
