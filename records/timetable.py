"""Which origin writes to which target when, planned once for a whole run.

W writers always write, one write of length L after the other, evenly staggered: write k starts at
k L / W and ends when write k + W starts. Slot k mod W is a stream of writes from one origin; the
connection of its next write is set up while its last one is still in progress, so that set-up
takes no time from writing. A plan is the target of every write and the origin of every slot.

Time 0 is the start of the first write. All W writers write from `steady_from_s` on.
"""

from __future__ import annotations

import math
import random
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from records.errors import InputError

#: `sweep`: no target is written to again until all were. `uniform`: any target that is free.
Policy = Literal["sweep", "uniform"]
POLICIES: tuple[Policy, ...] = ("sweep", "uniform")
#: More would fill the memory, and come from a wrong unit.
MOST_WRITES = 20_000_000
#: A rest that is exactly some writes long may be longer by this share of one, as a float.
_ROUNDING = 1e-9


class PlannedWrite(NamedTuple):
    """One planned write; times in seconds after the start of the first. A short list in JSON."""

    number: int
    origin: str
    target: str
    start_s: float
    end_s: float


def writers_of_link(link_b_s: float, share: float, rate_b_s: float) -> int:
    """How many writers of `rate_b_s` fit into a share of an origin's link (bytes per second)."""
    if not (rate_b_s > 0 and 0 < share <= 1):
        raise InputError("link share: allowed are a rate above 0 and a share above 0, up to 1")
    # Ten writers of a tenth are ten, despite rounding.
    return math.floor(link_b_s * share / rate_b_s * (1 + 1e-12))


@dataclass(frozen=True)
class Timetable:
    """A plan. The same arguments of `plan` give the same plan."""

    seed: int
    policy: Policy
    #: Number of writers that write at any time, W.
    writers: int
    #: Length of a write, and shortest time between two writes of a connection or to a target.
    length_s: float
    setup_s: float
    #: Time during which all W writers write.
    run_s: float
    targets: tuple[str, ...]
    origins: tuple[str, ...]
    #: Origin of each of the W slots, as an index into `origins`.
    slots: tuple[int, ...]
    #: Target of each write in order of start, as an index into `targets`.
    hits: array[int]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[PlannedWrite]:
        return (self.write(number) for number in range(len(self)))

    @property
    def steady_from_s(self) -> float:
        """When all writers are writing, seconds."""
        return self.start_s(max(self.writers - 1, 0))

    def start_s(self, number: int) -> float:
        """When a write starts, seconds."""
        return number * self.length_s / self.writers if self.writers else 0.0

    def write(self, number: int) -> PlannedWrite:
        """One write in full."""
        return PlannedWrite(
            number,
            self.origins[self.slots[number % self.writers]],
            self.targets[self.hits[number]],
            self.start_s(number),
            self.start_s(number + self.writers),
        )

    def as_dict(self) -> dict[str, Any]:
        """The plan as in JSON."""
        return {**vars(self), "hits": self.hits.tolist()}


def plan(
    targets: Sequence[str],
    origins: Sequence[str],
    writers: int,
    length_s: float,
    run_s: float,
    seed: int,
    *,
    policy: Policy = "sweep",
    setup_s: float = 0.0,
    room: int | None = None,
) -> Timetable:
    """Plan `writers` whole writers, each write of `length_s`, for `run_s` with all of them writing.

    A target rests for `setup_s` after a write, and so does a connection. An origin has room for so
    many writers at once, None for any number. With 0 writers the plan is empty. Raises InputError
    for too few targets, or too little room on origins.
    """
    if not (length_s > 0 and run_s > 0 and setup_s >= 0 and writers >= 0):
        raise InputError(
            "timetable: allowed: lengths of write and run above 0, set-up time and writers from 0"
        )
    for kind, names in (("targets", targets), ("origins", origins)):
        if len(set(names)) < len(names):
            raise InputError(f"timetable: duplicate {kind}; allowed: each once")
    resting = writers + math.ceil(setup_s * writers / length_s - _ROUNDING)
    if writers and len(targets) < resting:
        raise InputError(
            f"timetable: {writers} writers of {length_s:g} s with {setup_s:g} s between two "
            f"writes to a target need {resting} targets; there are {len(targets)}"
        )
    if room is not None and room * len(origins) < writers:
        raise InputError(
            f"timetable: {writers} writers requested; {len(origins)} origins have room for"
            f" {room * len(origins)} within their share of the links"
        )
    # Writes that start until all writers write, and those until the end of the run.
    count = writers - 1 + math.ceil(run_s * writers / length_s) if writers else 0
    if count > MOST_WRITES:
        raise InputError(
            f"timetable: {count} writes of {length_s:g} s in {run_s:g} s; allowed: {MOST_WRITES}"
        )
    return Timetable(
        seed,
        policy,
        writers,
        length_s,
        setup_s,
        run_s,
        tuple(targets),
        tuple(origins),
        tuple(slot % len(origins) for slot in range(writers)),
        _hits(len(targets), count, resting, policy, random.Random(seed)),
    )


def _hits(targets: int, count: int, resting: int, policy: Policy, rng: random.Random) -> array[int]:
    """Draw `count` targets, none twice within any `resting` consecutive ones."""
    hits = array("I")
    free, done = list(range(targets)), list[int]()
    busy: deque[int] = deque()
    for number in range(count):
        sweep, position = divmod(number, targets)
        if policy == "sweep" and sweep and position == 0:
            free, done = done, free
        if len(busy) == resting:
            # A target written to in this sweep waits for the next one.
            again = policy == "sweep" and (number - resting) // targets == sweep
            (done if again else free).append(busy.popleft())
        # Of this module only random() gives the same numbers in every version of Python.
        chosen = int(rng.random() * len(free))
        free[chosen], free[-1] = free[-1], free[chosen]
        hits.append(free[-1])
        busy.append(free.pop())
    return hits
