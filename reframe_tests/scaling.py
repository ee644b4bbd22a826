"""How many writers a scale has, how often they write, and how many origins that takes."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import units
from analysis.errors import InputError
from analysis.writers import concurrent_writers, constant_writers, write_length_s
from reframe_tests.injection.plan import TIMED_ARMS
from reframe_tests.injection.short_writes import origins_needed
from reframe_tests.machine import Machine


@dataclass(frozen=True)
class Asked:
    """What a campaign or a user asks of short writes; quantities as they are written."""

    #: Target nodes.
    nodes: int
    #: Length of a write, and the mean time to interrupt of a node; empty is the machine's.
    write: str = "1s"
    node_mtti: str = ""
    #: Arm -> writers at work at a time, in place of the computed ones: `daly:2,constant:1`.
    writers: str = ""
    #: Rate of one writer, and the share of an origin's link that its writers may take.
    rate: str = "full"
    link_share: float = 1.0


@dataclass(frozen=True)
class Load:
    """The short writes of one scale."""

    length_s: float
    #: Arm -> writers at work at a time, and writes that begin in a second.
    writers: dict[str, int]
    writes_per_s: dict[str, float]
    #: Origin nodes; 0 where they share the target's host.
    origins: int
    #: Rate of one writer, as asked or as its link and share allow; None where no link is known.
    writer_b_s: float | None


def load(asked: Asked, machine: Machine) -> Load:
    """The writers, writes and origins of one scale. Raises InputError for what cannot be."""
    length_s = write_length_s(asked.write, "write")
    mtti_s = machine.node_mtti_s
    if asked.node_mtti:
        mtti_s = units.duration_s(asked.node_mtti, "node_mtti")
    if asked.nodes < 1 or not length_s > 0:
        raise InputError("nodes, write: allowed are whole numbers from 1, and lengths above 0")
    daly = concurrent_writers(asked.nodes, mtti_s, length_s)
    counts = {"daly": daly.concurrent_writers, "constant": constant_writers(asked.nodes)}
    counts |= _given(asked.writers)
    if max(counts.values()) > asked.nodes:
        raise InputError(f"writers: {max(counts.values())} on {asked.nodes} nodes; allowed: fewer")
    rate_b_s = None if asked.rate == "full" else units.rate_b_s(asked.rate, "rate")
    origins, nic = machine.origins, machine.nic
    if origins.policy == "same_host":
        needed = 0
    elif nic:
        most = max(counts.values())
        needed = origins_needed(most, nic.link_rate_b_s, asked.link_share, rate_b_s)
    else:
        needed = origins.nodes
    return Load(
        length_s=length_s,
        writers=counts,
        writes_per_s={arm: count / length_s for arm, count in counts.items()},
        origins=needed,
        writer_b_s=rate_b_s or (nic.link_rate_b_s * asked.link_share if nic else None),
    )


def _given(text: str) -> dict[str, int]:
    """`daly:2,constant:1` as a table; the empty text is the empty one."""
    counts = {}
    for part in filter(None, text.split(",")):
        arm, _, number = part.partition(":")
        if arm not in TIMED_ARMS or not number.isdecimal():
            raise InputError(f"writers: {text!r}; allowed: such as daly:2,constant:1")
        counts[arm] = int(number)
    return counts
