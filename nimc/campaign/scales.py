"""What a plan shows of short writes: how much is written at which scale, and what is doubtful."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from records.arms import SCHEDULED
from records.campaign import Campaign
from records.machine.site import Machine


def scheduled(arms: Sequence[str]) -> list[str]:
    """The arms whose writers follow a timetable."""
    return [arm for arm in arms if arm in SCHEDULED]


@dataclass(frozen=True, kw_only=True)
class ScaleRow:
    """One arm of one scale; None if machine file and campaign do not give it."""

    case: str
    arm: str
    target_nodes: int
    origin_nodes: int
    #: Ranks for which the writers are computed, None if they are given; mean time to interrupt of
    #: each.
    counted: int | None
    mtti_s: float
    #: Messages of a write, if it is counted in messages; how late or early it may start or end.
    messages: int | None
    tolerance_s: float
    #: Concurrent writers, length of a write, and writes that begin in a second.
    writers: int
    write_s: float
    writes_per_s: float
    #: Bytes of one write, and of all writes of one run.
    write_b: float | None
    run_b: float | None
    #: Share of the busiest origin's link that its writers use during a write.
    link_share: float | None


def scales(campaign: Campaign, machine: Machine) -> Iterator[ScaleRow]:
    """Every scale and arm of short writes."""
    link_b_s = machine.nic.link_rate_b_s if machine.nic else None
    for case, arm in product(campaign.cases, scheduled(campaign.arms)):
        resolved = case.scale
        if resolved is None:
            continue
        write_b, writes_per_s = resolved.write_b, resolved.writes_per_s[arm]
        write_s, writers = resolved.short.length_s, resolved.writers[arm]
        writers_of_busiest = math.ceil(writers / max(resolved.origins, 1))
        yield ScaleRow(
            case=case.name,
            arm=arm,
            target_nodes=case.nodes,
            origin_nodes=resolved.origins,
            counted=None if arm in resolved.given_arms else resolved.counted,
            mtti_s=resolved.mtti_s,
            messages=resolved.short.messages,
            tolerance_s=resolved.short.tolerance_s,
            writers=writers,
            write_s=write_s,
            writes_per_s=writes_per_s,
            write_b=write_b,
            run_b=write_b and write_b * writes_per_s * case.expect,
            link_share=write_b and link_b_s and writers_of_busiest * write_b / write_s / link_b_s,
        )


def short_write_warnings(rows: Iterable[ScaleRow]) -> list[str]:
    """Return a line for each kind of write that is shorter than its tolerance."""
    short_writes = dict.fromkeys(
        (row.messages, row.write_s, row.tolerance_s)
        for row in rows
        if row.write_s < row.tolerance_s
    )
    warnings = []
    for messages, write_s, tolerance_s in short_writes:
        length = f"lasts {write_s:.3g} s, less than its tolerance of {tolerance_s:.3g} s"
        if messages:
            needed = math.ceil(messages * tolerance_s / write_s)
            warnings.append(f"a write of {messages} messages {length}: {needed} last as long")
        else:
            warnings.append(f"a write {length}")
    return warnings
