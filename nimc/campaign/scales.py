"""What a plan shows of short writes: how much is written at which scale, and what is doubtful."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from records.arms import SCHEDULED
from records.campaign import Campaign
from records.machine.site import Machine


def scheduled_arms(arms: Sequence[str]) -> list[str]:
    """The arms whose writers follow a timetable."""
    return [arm for arm in arms if arm in SCHEDULED]


@dataclass(frozen=True, kw_only=True)
class ScaleRow:
    """One arm of one scale. Fields are None if neither machine file nor campaign gives them."""

    case: str
    arm: str
    target_nodes: int
    origin_nodes: int
    #: Ranks from which the number of writers is computed; None if that number is given.
    counted: int | None
    #: Mean time to interrupt of one rank.
    mtti_s: float
    #: Messages of a write, if its length is given in messages.
    messages: int | None
    #: How early or late a write may start or end.
    tolerance_s: float
    #: Number of concurrent writers.
    writers: int
    #: Length of a write.
    write_s: float
    #: How many writes begin in a second.
    writes_per_s: float
    #: Bytes of one write.
    write_b: float | None
    #: Bytes of all writes of one run.
    run_b: float | None
    #: Share of the busiest origin's link that its writers use during a write.
    link_share: float | None


def scales(campaign: Campaign, machine: Machine) -> Iterator[ScaleRow]:
    """Every scale and arm of short writes."""
    link_b_s = machine.nic.link_rate_b_s if machine.nic else None
    for case, arm in product(campaign.cases, scheduled_arms(campaign.arms)):
        resolved = case.scale
        if resolved is None:
            continue
        write_b, writes_per_s = resolved.write_b, resolved.writes_per_s[arm]
        write_s, writers = resolved.short.length_s, resolved.writers[arm]
        writers_of_busiest = math.ceil(writers / max(resolved.origins, 1))
        run_b = None if write_b is None else write_b * writes_per_s * case.expect
        link_share = None
        if write_b is not None and link_b_s:
            link_share = writers_of_busiest * write_b / write_s / link_b_s
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
            run_b=run_b,
            link_share=link_share,
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
        too_short = f"lasts {write_s:.3g} s, less than its tolerance of {tolerance_s:.3g} s"
        if messages:
            needed = math.ceil(messages * tolerance_s / write_s)
            warnings.append(f"a write of {messages} messages {too_short}: {needed} last as long")
        else:
            warnings.append(f"a write {too_short}")
    return warnings
