"""Which bytes the devices of a run's targets must or must not count, according to the plan."""

from __future__ import annotations

from conductor.block.assignment import Assignment
from conductor.counters import TrafficDirection
from conductor.injectors import INJECTORS
from conductor.injectors.base import TRAFFIC
from conductor.judge.series import Rails
from records.block_plan import BlockPlan
from records.treatment import Treatment, Writes


class Demands:
    """The demands on the runs of one block."""

    def __init__(self, plan: BlockPlan, assignment: Assignment) -> None:
        self._assignment = assignment
        self._rails = plan.rails
        self._on_one_host = plan.origin_policy == "same_host"
        #: All kinds of writes of the block except those of its control.
        self._kinds = [
            treatment.writes
            for treatment in plan.treatments
            if treatment.writes and not is_control(treatment.writes)
        ]

    @property
    def devices(self) -> list[str]:
        """Return the targets' devices whose bytes are counted.

        Empty on one host, where writes pass no device.
        """
        if self._on_one_host:
            return []
        if self._rails:
            return self._rails
        return list(dict.fromkeys(device for writes in self._kinds for device in writes.devices))

    def forbidden_directions(self, treatment: Treatment) -> list[TrafficDirection]:
        """Return the directions in which nothing may write here, although other runs write in them.

        Empty if this treatment writes.
        """
        writes = treatment.writes
        if writes and not is_control(writes) and writes.scheduled != 0:
            return []
        injectors = [INJECTORS[kind.injector] for kind in self._kinds]
        at_targets = (TRAFFIC[injector.direction].at_target for injector in injectors)
        return list(dict.fromkeys(at_targets))

    def rails(self, treatment: Treatment) -> Rails | None:
        """Return the rails that must pass bytes, and the rails that may; None if not judged.

        Rails are the RDMA devices of a node. An application on one node sends nothing over rails.
        An MPI that chooses rails by itself may use any rail. Writers use the devices of their list
        in turn, and a timetable uses the first device.
        """
        if not self._rails or self._on_one_host:
            return None
        writes, start = treatment.writes, treatment.start
        required = set[str]()
        if writes and writes.scheduled != 0:
            routes = self._assignment.routes(writes)
            if writes.has_timetable:
                routes = routes[:1]
            required |= {route.device for route in routes if route.device}
        mpi_between_nodes = len(self._assignment.targets) > 1 and bool(start.ranks)
        if mpi_between_nodes:
            required |= set(start.devices)
        mpi_chooses = mpi_between_nodes and not start.devices
        allowed = set(self._rails) if mpi_chooses else required
        return Rails(self._rails, sorted(required), sorted(allowed))


def is_control(writes: Writes) -> bool:
    """Return whether the injector is a control, which writes nothing."""
    return not INJECTORS[writes.injector].writes
