"""Reasons for rejected runs, grouped."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Kind:
    """Runs rejected for the same reason."""

    outcome: str
    #: The reason; numbers that differ between the runs are replaced by dots.
    reason: str
    times: int


def kinds(rejected: Iterable[tuple[str, str]]) -> list[Kind]:
    """Groups (outcome, reason) of runs whose reasons differ only in numbers; commonest first."""
    groups: dict[tuple[str, str], list[str]] = {}
    for outcome, reason in rejected:
        groups.setdefault((outcome, _NUMBER.sub("0", reason)), []).append(reason)
    found = [
        Kind(outcome, _common(reasons), len(reasons)) for (outcome, _), reasons in groups.items()
    ]
    return sorted(found, key=lambda kind: -kind.times)


def _common(reasons: list[str]) -> str:
    """One text for reasons that differ only in numbers."""
    numbers = zip(*(_NUMBER.findall(reason) for reason in dict.fromkeys(reasons)), strict=True)
    shared = iter([same[0] if len(set(same)) == 1 else "..." for same in numbers])
    return _NUMBER.sub(lambda _: next(shared), reasons[0])
