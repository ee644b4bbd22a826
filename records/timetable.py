"""The timetable of short writes to many targets, planned before a run.

W writers make writes of length L. Write k starts at k L / W, and ends when write k + W starts. So W
writers write at any time. Write k belongs to slot k mod W. All writes of a slot come from one
origin.

All functions are pure. This module uses only the standard library.
"""

from __future__ import annotations

import math
import random
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from records.errors import InputError
from records.units import plural

#: Maximum number of planned writes. More writes would fill the memory, and are a sign of a wrong
#: unit.
MAX_WRITES = 20_000_000
#: Maximum rest of a target between two short writes, seconds. During the rest, the target's program
#: for the next write starts to listen.
_MAX_REST_S = 1.0
#: Subtracted from a number of writes, so that a rounding error does not make `ceil` return one
#: more.
_ROUNDING = 1e-9


class PlannedWrite(NamedTuple):
    """One planned short write, a list in JSON. Times are seconds after the timetable's start."""

    number: int
    #: Index of the target in `StaggeredWrites.targets`.
    target: int
    start_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class StaggeredWrites:
    """Planned short writes to many targets. `staggered_writes` plans them reproducibly.

    Only the target of each write is stored. Origin, start and end follow from its number.
    """

    seed: int
    #: Number of writers that write at any time, W.
    writers: int
    #: Length of a write, and the shortest time between two writes to the same target, seconds.
    length_s: float
    rest_s: float
    #: Time during which all W writers write.
    run_s: float
    targets: tuple[str, ...]
    origins: tuple[str, ...]
    #: Target of each write in order of start, as an index into `targets`.
    hits: array[int]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[PlannedWrite]:
        return map(self.write, range(len(self)))

    @property
    def steady_from_s(self) -> float:
        """Time from which all writers write, seconds."""
        return self.start_s(max(self.writers - 1, 0))

    def start_s(self, number: int) -> float:
        """Start of the write with a number, seconds."""
        return number * self.length_s / self.writers if self.writers else 0.0

    def write(self, number: int) -> PlannedWrite:
        """The write with a number."""
        start_s, end_s = self.start_s(number), self.start_s(number + self.writers)
        return PlannedWrite(number, self.hits[number], start_s, end_s)

    def slot(self, number: int) -> int:
        """Index of the writer, of all W, that makes a write."""
        return number % self.writers

    def origin(self, number: int) -> str:
        """The origin of a write. Slots are assigned to origins round-robin."""
        return self.origins[self.slot(number) % len(self.origins)]

    def writes_of(self, origin: str) -> list[PlannedWrite]:
        """The writes of an origin, in the order of their starts."""
        slots = range(self.origins.index(origin), self.writers, len(self.origins))
        numbers = [n for slot in slots for n in range(slot, len(self), self.writers)]
        return [self.write(number) for number in sorted(numbers)]

    def as_dict(self) -> dict[str, Any]:
        """The plan as in JSON."""
        return {**vars(self), "hits": self.hits.tolist()}


def longest_rest_s(target_count: int, writers: int, length_s: float) -> float:
    """Seconds that a target can rest between writes, from 0 to 1. `writers` must be above 0."""
    return min(max(length_s * (target_count - writers) / writers, 0.0), _MAX_REST_S)


def staggered_writes(
    targets: Sequence[str],
    origins: Sequence[str],
    writers: int,
    length_s: float,
    run_s: float,
    seed: int,
    *,
    rest_s: float = 0.0,
) -> StaggeredWrites:
    """Plan writes of `length_s` each, so that `writers` of them are in progress throughout `run_s`.

    A target rests for `rest_s` after a write. With 0 writers the plan is empty. Raises InputError
    for numbers out of range, too few targets or too many writes.
    """
    if not (length_s > 0 and run_s > 0 and rest_s >= 0 and writers >= 0):
        raise InputError(
            f"timetable: writes of {length_s:g} s, a run of {run_s:g} s, a rest of {rest_s:g} s and"
            f" {plural(writers, 'writer')} found; allowed: lengths of write and run above 0, rest"
            " and writers from 0"
        )
    spacing = writers + math.ceil(rest_s * writers / length_s - _ROUNDING)
    if len(targets) < spacing:
        raise InputError(
            f"timetable: {plural(writers, 'writer')} of {length_s:g} s with {rest_s:g} s between"
            f" two writes to a target need {spacing} targets; there are {len(targets)}"
        )
    # Writes that start before all writers write, and writes from then until the end of the run.
    write_count = writers - 1 + math.ceil(run_s * writers / length_s) if writers else 0
    if write_count > MAX_WRITES:
        raise InputError(
            f"timetable: {write_count} writes of {length_s:g} s in {run_s:g} s; allowed: at most"
            f" {MAX_WRITES}"
        )
    hits = _drawn_targets(len(targets), write_count, spacing, random.Random(seed))
    return StaggeredWrites(
        seed=seed,
        writers=writers,
        length_s=length_s,
        rest_s=rest_s,
        run_s=run_s,
        targets=tuple(targets),
        origins=tuple(origins),
        hits=hits,
    )


def _drawn_targets(
    target_count: int, write_count: int, spacing: int, rng: random.Random
) -> array[int]:
    """Draw the target of each write. No target is repeated in a round or within `spacing` writes.

    A round is a series of writes with one write to each target.
    """
    hits = array("I")
    free, free_next_round = list(range(target_count)), list[int]()
    for number in range(write_count):
        if number and number % target_count == 0:
            free, free_next_round = free_next_round, free
        if number >= spacing:
            rested_write = number - spacing
            is_of_this_round = rested_write // target_count == number // target_count
            (free_next_round if is_of_this_round else free).append(hits[rested_write])
        # Of Python's random module, only random() gives the same numbers in every version.
        index = int(rng.random() * len(free))
        free[index], free[-1] = free[-1], free[index]
        hits.append(free.pop())
    return hits
