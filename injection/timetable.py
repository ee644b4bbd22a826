"""Who writes to whom and when, planned once for a whole run.

W writers are always at work, one write of length L after the other, staggered evenly: write k
starts at k L / W and ends when write k + W starts. Slot k mod W is a stream of writes from one
origin; the connection of its next write is set up while the write before it is still going on,
so that setting up takes nothing from writing. A plan is thus the target of every write and the
origin of every slot; all else follows.

Time 0 is the start of the first write. W writers are at work from `steady_from_s` on.
"""

from __future__ import annotations

import json
import math
import random
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from analysis.errors import InputError

#: `sweep`: no target is hit again until all were hit. `uniform`: any target that is free.
Policy = Literal["sweep", "uniform"]
POLICIES: tuple[Policy, ...] = ("sweep", "uniform")
#: Whoever asks for more mistook a unit; they would fill the memory.
MOST_WRITES = 20_000_000


@dataclass(frozen=True)
class Origin:
    """A node that writes, and how many writers may be at work on it at once."""

    name: str
    writers: int


class PlannedWrite(NamedTuple):
    """One planned write; times in seconds after the start of the first. In JSON a short list."""

    number: int
    origin: str
    target: str
    start_s: float
    end_s: float


def writers_of_link(link_b_s: float, share: float, rate_b_s: float) -> int:
    """How many writers of `rate_b_s` fit into a share of an origin's link (bytes per second)."""
    if not (rate_b_s > 0 and 0 < share <= 1):
        raise InputError("link share: allowed are a rate above 0 and a share above 0, up to 1")
    # Ten writers of a tenth are ten, whatever a tenth is in binary.
    return math.floor(link_b_s * share / rate_b_s * (1 + 1e-12))


@dataclass(frozen=True)
class Timetable:
    """A plan. The same arguments of `plan` make the same plan."""

    seed: int
    policy: Policy
    #: Writers at work at any time, W.
    writers: int
    #: Length of a write, and least time between two writes of a connection or to a target.
    length_s: float
    setup_s: float
    #: Time for which W writers are at work.
    run_s: float
    targets: tuple[str, ...]
    origins: tuple[str, ...]
    #: Origin of each of the W slots, as an index of `origins`.
    slots: tuple[int, ...]
    #: Target of each write in order of start, as an index of `targets`.
    hits: array[int]

    def __len__(self) -> int:
        return len(self.hits)

    def __iter__(self) -> Iterator[PlannedWrite]:
        return (self.write(number) for number in range(len(self)))

    @property
    def steady_from_s(self) -> float:
        """When all writers are at work."""
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

    def to_json(self) -> str:
        """The plan as one JSON object without spaces."""
        record = {**self.__dict__, "hits": self.hits.tolist()}
        return json.dumps(record, separators=(",", ":"))

    @staticmethod
    def from_json(text: str) -> Timetable:
        """Read what `to_json` wrote."""
        record: dict[str, Any] = json.loads(text)
        for name in ("targets", "origins", "slots"):
            record[name] = tuple(record[name])
        return Timetable(**{**record, "hits": array("I", record["hits"])})


def plan(
    targets: Sequence[str],
    origins: Sequence[Origin],
    writers: int,
    length_s: float,
    run_s: float,
    seed: int,
    *,
    policy: Policy = "sweep",
    setup_s: float = 0.0,
) -> Timetable:
    """Plan `writers` whole writers, each write of `length_s`, for `run_s` after the first starts.

    A target rests for `setup_s` after a write, and so does a connection. No writers make an empty
    plan. Raises InputError where there are too few targets to rest, or too little room on origins.
    """
    if not (length_s > 0 and run_s > 0 and setup_s >= 0 and writers >= 0):
        raise InputError("timetable: lengths of write and run must be above 0, the rest not below")
    for kind, names in (("targets", targets), ("origins", [o.name for o in origins])):
        if len(set(names)) < len(names):
            raise InputError(f"timetable: {kind} must differ from each other")
    resting = writers + math.ceil(setup_s * writers / length_s)
    if writers and len(targets) < resting:
        raise InputError(
            f"timetable: {writers} writers of {length_s:g} s with {setup_s:g} s between two "
            f"writes to a target need {resting} targets; there are {len(targets)}"
        )
    # Writes that start before all are at work, and those that keep them so until the run's end.
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
        tuple(origin.name for origin in origins),
        _slots(origins, writers),
        _hits(len(targets), count, resting, policy, random.Random(seed)),
    )


def _slots(origins: Sequence[Origin], writers: int) -> tuple[int, ...]:
    """Origin of each slot: origins in turn, as long as they have room."""
    room = sum(max(origin.writers, 0) for origin in origins)
    if room < writers:
        raise InputError(
            f"timetable: {len(origins)} origins have room for {room} writers within their links' "
            f"share; {writers} are asked for"
        )
    rounds = range(max((origin.writers for origin in origins), default=0))
    turns = (i for turn in rounds for i, origin in enumerate(origins) if turn < origin.writers)
    return tuple(slot for slot, _ in zip(turns, range(writers), strict=False))


def _hits(targets: int, count: int, resting: int, policy: Policy, rng: random.Random) -> array[int]:
    """Draw `count` targets, none of them twice among any `resting` that follow each other."""
    hits = array("I")
    free, done = list(range(targets)), list[int]()
    busy: deque[int] = deque()
    for number in range(count):
        sweep, position = divmod(number, targets)
        if policy == "sweep" and sweep and position == 0:
            free, done = done, free
        if len(busy) == resting:
            # Whoever was hit in this sweep waits for the next one.
            again = policy == "sweep" and (number - resting) // targets == sweep
            (done if again else free).append(busy.popleft())
        # random() alone gives the same numbers in every version of Python.
        chosen = int(rng.random() * len(free))
        free[chosen], free[-1] = free[-1], free[chosen]
        hits.append(free[-1])
        busy.append(free.pop())
    return hits
