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

_FIRST_PORT = 20000
#: Most passive sides of a target under a timetable; each needs a port.
MOST_SIDES = 4
_PORTS = 12000
#: Unknown to others until writers listen, so that nobody can be there first.
_BASE = secrets.randbelow(_PORTS)
#: Largest share of a node's memory that buffers of held writers may take, and how many messages an
#: end is assumed to have room for: one was seen with ucx_perftest (`origin_buffers_b`).
_HELD_SHARE = 0.25
_BUFFERS = 2
#: The reason given for writers that do not fit.
UNFIT = "with held writers, their buffers exceed a quarter of a node's memory"


class Assignment:
    """Assigns writers round-robin to the origins, targets and devices of a block.

    So one origin writes to one target, many origins to one target, or one to many.
    """

    def __init__(self, plan: BlockPlan, nodes: Allocation) -> None:
        self.targets = nodes.targets
        self.origins = nodes.origins[: plan.n_origins]
        self._cpus = plan.origin_cpus
        self._planned = [treatment.writes for treatment in plan.treatments if treatment.writes]

    def number(self, writes: Writes, queue_pairs: int = 1) -> int:
        """Number of writers in one run: clients of each target, or targets or origins, if more.

        Of a program that opens one queue pair, as many times that as queue pairs are wanted.
        """
        one_pair = INJECTORS[writes.injector].most_queue_pairs == 1
        programs = queue_pairs if one_pair else 1
        if writes.clients:
            return programs * writes.clients * len(self.targets)
        return programs * max(len(self.targets), len(self.origins))

    def buffers_fit(self, kinds: Iterable[Writes], facts: Mapping[str, Any]) -> bool:
        """Return whether the buffers of writers of all these kinds may stay in memory.

        `facts` are those of `Hub.facts`.
        """
        held_b = Counter[str]()
        for writes in kinds:
            pairs = writes.queue_pairs or MOST_QUEUE_PAIRS
            written_b = _BUFFERS * max(pairs * writes.message_b, writes.footprint_b or 0)
            for index in range(self.number(writes)):
                held_b[self.origins[index % len(self.origins)]] += written_b
                held_b[self.targets[index % len(self.targets)]] += written_b
        limits_b = {node: _HELD_SHARE * facts[node]["memory_b"] for node in held_b}
        return all(size_b <= limits_b[node] for node, size_b in held_b.items())

    def writers(
        self,
        writes: Writes,
        addresses: Mapping[str, str],
        turn: int,
        *,
        full_b_s: Sequence[float] | None = None,
        kind: int = 0,
        queue_pairs: int = 1,
    ) -> list[Writer]:
        """The writers of one kind.

        Each turn uses new ports, since the kernel may still hold the last ones. `full_b_s` is the
        rate that each writer reaches alone at full rate; a throttled writer's rate is a share of
        it. `kind` numbers the kinds of writes of a block: writers of several may be held at a time.
        """
        count = self.number(writes, queue_pairs)
        most = max(
            self.number(planned, planned.queue_pairs or MOST_QUEUE_PAIRS)
            for planned in (writes, *self._planned)
        )
        first = _BASE + turn * most
        full = full_b_s if full_b_s and writes.throttled else [None] * count
        devices = writes.devices or (None,)
        shared = self.shared(writes)
        return [
            replace(
                shared,
                index=kind * most + index,
                origin=self.origins[index % len(self.origins)],
                target=(target := self.targets[index % len(self.targets)]),
                address=addresses[target],
                port=_FIRST_PORT + (first + index) % _PORTS,
                queue_pairs=queue_pairs,
                rate_b_s=writes.asked_b_s(full[index]),
                full_b_s=full[index],
                device=devices[index % len(devices)],
            )
            for index in range(count)
        ]

    def shared(self, writes: Writes) -> Writer:
        """What all writers of one kind share, as a writer between the first origin and target."""
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


def first_port(turn: int) -> int:
    """The first of the ports that targets listen on in one run under a timetable."""
    return _FIRST_PORT + (_BASE + turn * MOST_SIDES) % _PORTS
