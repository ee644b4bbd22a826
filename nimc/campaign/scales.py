"""Computes the figures of a campaign's plan about short writes: bytes at each scale, and warnings.

Short writes follow a timetable, as checkpoints do. An *arm* says what the writers of a run do. A
*scale* is the number of nodes of a case, from which the number of writers is computed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from records.arms import SCHEDULED
from records.campaign import Campaign
from records.machine.site import Machine


def scheduled_arms(arms: Sequence[str]) -> list[str]:
    """Return the arms whose writers follow a timetable."""
    return [arm for arm in arms if arm in SCHEDULED]


@dataclass(frozen=True, kw_only=True)
class ScaleRow:
    """The short writes of one arm at one scale."""

    case: str
    arm: str
    target_nodes: int
    origin_nodes: int
    #: Number of ranks from which the number of writers is computed; None if the campaign gives the
    #: number of writers.
    counted: int | None
    #: Mean time to interrupt of one rank, seconds.
    mtti_s: float
    #: Number of messages of a write; None if its length is given as a time.
    messages: int | None
    #: How early or late a write may start or end, seconds.
    tolerance_s: float
    #: Number of concurrent writers.
    writers: int
    #: Duration of a write, seconds.
    write_s: float
    #: Number of writes that begin in a second.
    writes_per_s: float
    #: Bytes of one write; None if neither its number of messages nor the link's rate is known.
    write_b: float | None
    #: Bytes of all writes of one run; None if the bytes of one write are not known.
    run_b: float | None
    #: The origin with the most writers uses this share of its link's rate during a write. It is
    #: None if the bytes of a write or the rate of the link are not known.
    link_share: float | None


def scales(campaign: Campaign, machine: Machine) -> Iterator[ScaleRow]:
    """Yield the short writes of each arm at each scale."""
    link_b_s = machine.nic.link_rate_b_s if machine.nic else None
    for case, arm in product(campaign.cases, scheduled_arms(campaign.arms)):
        scale = case.scale
        if scale is None:
            continue
        write_b, writes_per_s = scale.write_b, scale.writes_per_s[arm]
        write_s, writers = scale.short.length_s, scale.writers[arm]
        writers_of_busiest = math.ceil(writers / max(scale.origins, 1))
        expected_run_s = case.expect
        run_b = None if write_b is None else write_b * writes_per_s * expected_run_s
        link_share = None
        if write_b is not None and link_b_s:
            link_share = writers_of_busiest * write_b / write_s / link_b_s
        yield ScaleRow(
            case=case.name,
            arm=arm,
            target_nodes=case.nodes,
            origin_nodes=scale.origins,
            counted=None if arm in scale.given_arms else scale.counted_ranks,
            mtti_s=scale.mtti_s,
            messages=scale.short.messages,
            tolerance_s=scale.short.tolerance_s,
            writers=writers,
            write_s=write_s,
            writes_per_s=writes_per_s,
            write_b=write_b,
            run_b=run_b,
            link_share=link_share,
        )


def short_write_warnings(rows: Iterable[ScaleRow]) -> list[str]:
    """Return a line for each kind of write whose duration is shorter than its tolerance."""
    too_short_writes = dict.fromkeys(
        (row.messages, row.write_s, row.tolerance_s)
        for row in rows
        if row.write_s < row.tolerance_s
    )
    warnings = []
    for messages, write_s, tolerance_s in too_short_writes:
        length_text = f"lasts {write_s:.3g} s, less than its tolerance of {tolerance_s:.3g} s"
        if messages:
            needed = math.ceil(messages * tolerance_s / write_s)
            warnings.append(
                f"a write of {messages} messages {length_text}: {needed} messages last as long as"
                " the tolerance"
            )
        else:
            warnings.append(f"a write {length_text}")
    return warnings
