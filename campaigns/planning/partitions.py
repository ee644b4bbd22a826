"""Scheduler and time limit of a campaign's jobs, from ReFrame's partitions. Pure functions."""

from __future__ import annotations

import re

from campaigns.host.settings import Partitions
from campaigns.planning.plan import Plan
from campaigns.text import duration

_LIMIT = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_SECONDS = (86400, 3600, 60, 1)


def use_slurm(partitions: Partitions) -> bool:
    """Whether Slurm runs the jobs of any of them."""
    return any(part.get("scheduler") in ("slurm", "squeue") for part in partitions)


def time_limit_s(partitions: Partitions) -> float | None:
    """The shortest of their time limits, seconds; None if ReFrame sets none."""
    limits = [_seconds(part.get("time_limit")) for part in partitions]
    return min((limit for limit in limits if limit), default=None)


def _seconds(limit: object) -> float:
    """A limit in ReFrame's form, `1d2h3m4s` or a number of seconds; 0 is none."""
    if isinstance(limit, int | float):
        return float(limit)
    found = _LIMIT.fullmatch(limit) if isinstance(limit, str) else None
    parts = found.groups(default="0") if found else ()
    return float(sum(int(part) * unit for part, unit in zip(parts, _SECONDS, strict=False)))


def too_long(planned: Plan, limit_s: float | None) -> list[str]:
    """A line for each case whose blocks are expected to exceed the time limit of their job."""
    lines = []
    for case in planned.cases:
        longest = max(case.blocks, key=lambda block: block.duration_s)
        if limit_s is not None and longest.duration_s > limit_s:
            lines.append(
                f"{case.case}: {longest.pairs} pairs in one job take {duration(longest.duration_s)}"
                f", but time_limit in configs/{planned.machine}.py is {duration(limit_s)}:"
                " reduce pairs.block, or raise the limit"
            )
    return lines
