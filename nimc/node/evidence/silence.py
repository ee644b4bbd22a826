"""How long a writer wrote nothing. Pure functions.

The agents look at each writer several times a second during a run: at the bytes that its origin's
device has sent, or at marks in the target's buffer. A look shows how much has passed since the last
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

#: A look that shows less than this share of the mean rate of all looks shows nothing: devices carry
#: a little other traffic too.
_NOTHING = 0.05
#: Below this share of overwritten marks a writer's own report is refuted.
_REFUTED = 0.1


class Look(NamedTuple):
    """What passed between two times: bytes, or 1 if a mark was overwritten and 0 if not."""

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
    #: Looks that showed something; only marks in memory count as proof.
    seen: int
    #: Longest time without anything, seconds.
    silent_s: float
    #: Whether the looks were at marks in the target's memory.
    memory: bool
    #: Why there are no looks, or no more of them; None if all were made.
    fault: str | None = None


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


def fault(looked: Looked, allowed_s: float) -> str | None:
    """Why the looks refute that the writer wrote all the time, in one line; None if they do not.

    Looks shorter than `allowed_s` in total say nothing.
    """
    if looked.silent_s > allowed_s:
        return (
            f"wrote nothing for {looked.silent_s:.1f} s ({looked.at}); allowed: {allowed_s:.1f} s"
        )
    if looked.memory and looked.looks * _REFUTED > max(looked.seen, 1):
        return f"{looked.seen} of {looked.looks} looks at the target's memory found it written"
    return None
