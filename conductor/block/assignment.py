"""The assignment of a block's writers to origins, targets, devices and ports."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from conductor.block.allocation import Allocation
from conductor.injectors import INJECTORS
from conductor.injectors.base import MOST_QUEUE_PAIRS, Writer
from records.block_plan import BlockPlan
from records.treatment import Writes

#: Ports that writers use.
_FIRST_PORT = 20000
_PORTS = 12000
#: The ports of a block begin at random, so that no other process can occupy them in advance.
_PORT_OFFSET = secrets.randbelow(_PORTS)
#: Maximum passive sides of a target under a timetable; each needs a port.
MOST_PASSIVE_SIDES = 4
#: Maximum share of a node's memory that buffers of held writers may take.
_HELD_MEMORY_SHARE = 0.25
#: Assumed room of an end, in messages; ucx_perftest was seen to have room for one
#: (`origin_buffers_b`).
_BUFFERED_MESSAGES = 2
#: The reason why writers are not held if their buffers do not fit.
BUFFERS_TOO_LARGE = "with held writers, their buffers exceed a quarter of a node's memory"


class Assignment:
    """Assigns writers round-robin to the origins, targets and devices of a block."""

    def __init__(self, plan: BlockPlan, nodes: Allocation) -> None:
        self.targets = nodes.targets
        self.origins = nodes.origins[: plan.n_origins]
        self._cpus = plan.origin_cpus
        self._kinds = [treatment.writes for treatment in plan.treatments if treatment.writes]

    def number(self, writes: Writes, queue_pairs: int = 1) -> int:
        """Return the number of writers in one run.

        Each target has `clients` writers; by default there are as many writers as targets or
        origins, whichever is more. If the program opens one queue pair only, each writer is
        repeated for each queue pair.
        """
        opens_one = INJECTORS[writes.injector].most_queue_pairs == 1
        repetitions = queue_pairs if opens_one else 1
        if writes.clients:
            return repetitions * writes.clients * len(self.targets)
        return repetitions * max(len(self.targets), len(self.origins))

    def buffers_fit(self, kinds: Iterable[Writes], facts: Mapping[str, Any]) -> bool:
        """Return whether the buffers of writers of all these kinds may stay in memory.

        `facts` are those of `Hub.facts`.
        """
        held_b = Counter[str]()
        for writes in kinds:
            pairs = writes.queue_pairs or MOST_QUEUE_PAIRS
            buffer_b = _BUFFERED_MESSAGES * max(pairs * writes.message_b, writes.footprint_b or 0)
            for index in range(self.number(writes)):
                held_b[self.origins[index % len(self.origins)]] += buffer_b
                held_b[self.targets[index % len(self.targets)]] += buffer_b
        return all(
            size_b <= _HELD_MEMORY_SHARE * facts[node]["memory_b"]
            for node, size_b in held_b.items()
        )

    def writers(
        self,
        writes: Writes,
        addresses: Mapping[str, str],
        start_number: int,
        *,
        full_b_s: Sequence[float] | None = None,
        kind: int = 0,
        queue_pairs: int = 1,
    ) -> list[Writer]:
        """Return the writers of one kind.

        Each start of writers uses new ports, since the kernel may still hold the last ones.
        `full_b_s` is the rate that each writer reaches alone at full rate; a throttled writer's
        rate is a share of it. `kind` is the number of the kind of writes in the block: writers of
        several kinds may be held at the same time.
        """
        count = self.number(writes, queue_pairs)
        most_writers = max(
            self.number(planned, planned.queue_pairs or MOST_QUEUE_PAIRS)
            for planned in (writes, *self._kinds)
        )
        first_offset = _PORT_OFFSET + start_number * most_writers
        full_rates_b_s = full_b_s if full_b_s and writes.throttled else [None] * count
        devices = writes.devices or (None,)
        template = self.template(writes)
        writers = []
        for index in range(count):
            target = self.targets[index % len(self.targets)]
            writer = replace(
                template,
                index=kind * most_writers + index,
                origin=self.origins[index % len(self.origins)],
                target=target,
                address=addresses[target],
                port=_FIRST_PORT + (first_offset + index) % _PORTS,
                queue_pairs=queue_pairs,
                rate_b_s=writes.asked_b_s(full_rates_b_s[index]),
                full_b_s=full_rates_b_s[index],
                device=devices[index % len(devices)],
            )
            writers.append(writer)
        return writers

    def template(self, writes: Writes) -> Writer:
        """Return a writer from the first origin to the first target, to be copied for others."""
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


def first_port(start_number: int) -> int:
    """Return the first of the ports that targets listen on in one run under a timetable."""
    return _FIRST_PORT + (_PORT_OFFSET + start_number * MOST_PASSIVE_SIDES) % _PORTS
