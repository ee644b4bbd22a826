"""The assignment of a block's writers to origins, targets, devices and ports."""

from __future__ import annotations

import math
import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from conductor.block.allocation import Allocation
from conductor.injectors import INJECTORS
from conductor.injectors.base import MOST_QUEUE_PAIRS, Writer
from records.block_plan import BlockPlan
from records.treatment import Writes

#: The first port of writers, and the number of ports that they use in turn.
_FIRST_PORT, _N_PORTS = 20000, 12000
#: Maximum share of a node's memory that the buffers of held writers may take.
_HELD_MEMORY_SHARE = 0.25
#: Assumed size of an end's buffers / the size of its messages or footprint. The buffers of
#: ucx_perftest were seen to have half of this (`origin_buffers_b`).
_BUFFER_FACTOR = 2
#: Why writers are not held if their buffers do not fit.
BUFFERS_TOO_LARGE = "if writers were held, their buffers would exceed a quarter of a node's memory"


class Route(NamedTuple):
    """The nodes and the device of one writer; the device is None if the plan names none."""

    origin: str
    target: str
    device: str | None


class Assignment:
    """Assigns writers round-robin to the origins, targets and devices of a block."""

    def __init__(self, plan: BlockPlan, allocation: Allocation) -> None:
        self.targets = allocation.targets
        self.origins = allocation.origins[: plan.n_origins]
        self._cpus = plan.origin_cpus
        self._kinds = [treatment.writes for treatment in plan.treatments if treatment.writes]
        # The first port is random, so that no other process can occupy the ports in advance.
        self._port_offset = secrets.randbelow(_N_PORTS)

    def new_ports(self, count: int) -> range:
        """Return ports for the passive sides of each target, which earlier starts did not use.

        The kernel may still hold ports of earlier starts. They are used again after all others.
        """
        if self._port_offset + count > _N_PORTS:
            self._port_offset = 0
        first_port = _FIRST_PORT + self._port_offset
        self._port_offset += count
        return range(first_port, first_port + count)

    def writer_count(self, writes: Writes, queue_pairs: int = 1) -> int:
        """Return the number of writers in one run.

        Each target has `clients` writers. By default there are as many writers as targets or
        origins, whichever are more. If the program can open only one queue pair, each writer is
        started once for each of its queue pairs.
        """
        opens_one = INJECTORS[writes.injector].most_queue_pairs == 1
        starts = queue_pairs if opens_one else 1
        if writes.clients:
            return starts * writes.clients * len(self.targets)
        return starts * max(len(self.targets), len(self.origins))

    def routes(self, writes: Writes) -> list[Route]:
        """Return the route of each writer.

        The first writers of the targets use the devices in turn, and so do the writers of each
        target.
        """
        devices = writes.devices or (None,)
        routes = []
        for number in range(self.writer_count(writes)):
            nth_of_target, target_index = divmod(number, len(self.targets))
            route = Route(
                origin=self.origins[number % len(self.origins)],
                target=self.targets[target_index],
                device=devices[(target_index + nth_of_target) % len(devices)],
            )
            routes.append(route)
        return routes

    def buffers_fit(self, kinds: Iterable[Writes], facts: Mapping[str, Any]) -> bool:
        """Return whether the buffers of writers of all these kinds may be in memory together.

        `facts` are those of each node's host (`conductor.block.hub.Hub.facts`).
        """
        held_b = Counter[str]()
        for writes in kinds:
            queue_pairs = writes.queue_pairs or MOST_QUEUE_PAIRS
            buffer_b = _BUFFER_FACTOR * max(queue_pairs * writes.message_b, writes.footprint_b or 0)
            for route in self.routes(writes):
                held_b[route.origin] += buffer_b
                held_b[route.target] += buffer_b
        return all(
            size_b <= _HELD_MEMORY_SHARE * facts[node]["memory_b"]
            for node, size_b in held_b.items()
        )

    def writers(
        self,
        writes: Writes,
        addresses: Mapping[str, str],
        *,
        full_b_s: Sequence[float] | None = None,
        kind_index: int = 0,
        queue_pairs: int = 1,
    ) -> list[Writer]:
        """Return the writers of one kind, with new ports.

        `full_b_s` has the uncontended rate of each writer without a limit; the rate of a throttled
        writer may be a share of it. `kind_index` numbers the kinds of writes in the block: writers
        of several kinds may be held at the same time. If a writer is started once for each of its
        queue pairs, these use the same device between the same nodes, and share the writer's rate.
        """
        count, routes = self.writer_count(writes, queue_pairs), self.routes(writes)
        n_starts = count // len(routes)
        most_writers = max(
            self.writer_count(planned, planned.queue_pairs or MOST_QUEUE_PAIRS)
            for planned in (writes, *self._kinds)
        )
        ports = self.new_ports(n_starts * math.ceil(len(routes) / len(self.targets)))
        target_ports = {target: iter(ports) for target in self.targets}
        full_rates_b_s = full_b_s if full_b_s and writes.throttled else [None] * count
        template = self.template(writes)
        writers = []
        for index in range(count):
            route = routes[index % len(routes)]
            rate_b_s = writes.requested_rate_b_s(full_rates_b_s[index])
            if rate_b_s and writes.rate_share is None:
                rate_b_s /= n_starts
            writer = replace(
                template,
                index=kind_index * most_writers + index,
                origin=route.origin,
                target=route.target,
                address=addresses[route.target],
                port=next(target_ports[route.target]),
                queue_pairs=queue_pairs,
                rate_b_s=rate_b_s,
                full_b_s=full_rates_b_s[index],
                device=route.device,
            )
            writers.append(writer)
        return writers

    def template(self, writes: Writes) -> Writer:
        """Return a writer from first origin to first target, of which the others are copies."""
        return Writer(
            index=0,
            origin=self.origins[0],
            target=self.targets[0],
            address="",
            port=0,
            message_b=writes.message_b,
            footprint_b=writes.footprint_b,
            options=writes.options,
            rate_b_s=writes.rate_b_s,
            device=next(iter(writes.devices), None),
            buffer_node=writes.buffer_node,
            cpus=self._cpus,
        )
