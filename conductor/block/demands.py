"""What a run must show at its targets, by the plan of its block."""

from __future__ import annotations

from conductor.block.assignment import Assignment
from conductor.counters import Passed
from conductor.injectors import INJECTORS
from conductor.injectors.base import PASSES
from conductor.judge.series import Rails
from records.block_plan import BlockPlan
from records.treatment import Treatment, Writes


class Demands:
    """The demands on the runs of one block."""

    def __init__(self, plan: BlockPlan, assignment: Assignment) -> None:
        self._assignment = assignment
        self._rails = plan.rails
        self._on_one_host = plan.origin_policy == "same_host"
        kinds = [treatment.writes for treatment in plan.treatments if treatment.writes]
        #: All kinds of writes of the block, without its control.
        self._writing = [writes for writes in kinds if _writes(writes)]

    @property
    def devices(self) -> list[str]:
        """Devices of the targets whose bytes are counted; on one host writes pass none."""
        if self._on_one_host:
            return []
        named = dict.fromkeys(device for writes in self._writing for device in writes.devices)
        return self._rails or list(named)

    def silent_directions(self, treatment: Treatment) -> list[Passed]:
        """The directions of the block's writes at the targets, if this treatment writes nothing."""
        writes = treatment.writes
        if writes and _writes(writes) and writes.scheduled != 0:
            return []
        at_targets = (PASSES[INJECTORS[planned.injector].direction][1] for planned in self._writing)
        return list(dict.fromkeys(at_targets))

    def rails(self, treatment: Treatment) -> Rails | None:
        """The devices that a treatment names; None if rails are not judged.

        An application on one node sends nothing over them, and one whose MPI chooses by itself may
        use any. Each writer takes the next device; a timetable uses the first.
        """
        if not self._rails or self._on_one_host:
            return None
        writes, start = treatment.writes, treatment.start
        required = set[str]()
        if writes and writes.scheduled != 0:
            writers = 1 if writes.scheduled else self._assignment.number(writes)
            required |= set(writes.devices[:writers])
        between = len(self._assignment.targets) > 1 and bool(start.ranks)
        if between:
            required |= set(start.devices)
        allowed = set(self._rails) if between and not start.devices else required
        return Rails(self._rails, sorted(required), sorted(allowed))


def _writes(writes: Writes) -> bool:
    """Return whether these are writes, not the control's."""
    return INJECTORS[writes.injector].writes
