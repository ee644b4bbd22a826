"""Maintenance reservations of Slurm that a night would run into."""

from __future__ import annotations

from collections.abc import Sequence

from campaigns.host.reservation import Reservation


def in_the_way(found: Sequence[Reservation], start_s: float, end_s: float) -> Reservation | None:
    """The first maintenance that begins before a night's end and is not over at its start.

    Slurm prints local times of the host.
    """
    ahead = [
        each
        for each in found
        if "MAINT" in each.flags and each.start.timestamp() < end_s
        if each.end.timestamp() > start_s
    ]
    return min(ahead, key=lambda each: each.start, default=None)
