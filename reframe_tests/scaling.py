"""How many writers a scale has, how often they write, and how many origins that takes."""

from __future__ import annotations

from dataclasses import dataclass

from analysis import units
from analysis.errors import InputError
from analysis.writers import concurrent_writers, constant_writers, write_length_s
from injection.machine.machine import Machine
from injection.plan import TIMED_ARMS
from injection.schedule.short_writes import origins_needed
from injection.timetable import POLICIES, Policy


@dataclass(frozen=True)
class ScaleRequest:
    """What a campaign or a user asks of short writes; quantities as they are written."""

    #: Target nodes; ranks on each, 0 for one on every core but those spared.
    nodes: int
    ranks_per_node: int = 0
    spare_cores: int = 0
    #: What Daly's estimate and the constant share count on each target node, and what `node_mtti`
    #: is of: 1, the node itself; the study counted the ranks of its nodes, 16 (seed 000, Table V).
    counted_per_node: int = 1
    #: Length of a write, and the mean time to interrupt of a node; empty is the machine's.
    write: str = "1s"
    node_mtti: str = ""
    #: Arm -> writers at work at a time, in place of the computed ones: `daly:2,constant:1`.
    writers: str = ""
    #: Rate of one writer, and the share of an origin's link that its writers may take.
    rate: str = "full"
    link_share: float = 1.0
    #: Size of a message; messages of a write, 0 for as many as last the share `fill` of its length.
    message: str = "auto"
    messages: int = 0
    fill: float = 1.0
    #: How targets are drawn (`timetable.Policy`).
    draw: Policy = "sweep"
    #: What a run may be off by; 0 is the machine's.
    tolerance_s: float = 0.0
    allowed_share: float = 0.0


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
    #: Bytes of one write; None where neither its messages nor a link is known.
    write_b: float | None


def load(asked: ScaleRequest, machine: Machine) -> Load:
    """The writers, writes and origins of one scale. Raises InputError for what cannot be."""
    length_s = write_length_s(asked.write, "write")
    mtti_s = machine.node_mtti_s
    if asked.node_mtti:
        mtti_s = units.duration_s(asked.node_mtti, "node_mtti")
    if asked.nodes < 1 or not length_s > 0:
        raise InputError("nodes, write: allowed are whole numbers from 1, and lengths above 0")
    _check(asked)
    counted = asked.nodes * asked.counted_per_node
    daly = concurrent_writers(counted, mtti_s, length_s)
    counts = {"daly": daly.concurrent_writers, "constant": constant_writers(counted)}
    counts |= _given(asked.writers)
    if max(counts.values()) > asked.nodes:
        raise InputError(f"writers: {max(counts.values())} on {asked.nodes} nodes; allowed: fewer")
    rate_b_s = None if asked.rate == "full" else units.rate_b_s(asked.rate, "rate")
    if rate_b_s is None and asked.link_share < 1:
        raise InputError(
            f"link_share: {asked.link_share} found; a writer at full rate takes all of an origin's"
            " link; allowed: 1, or a rate"
        )
    origins, nic = machine.origins, machine.nic
    if origins.policy == "same_host":
        needed = 0
    elif nic:
        most = max(counts.values())
        needed = origins_needed(most, nic.link_rate_b_s, asked.link_share, rate_b_s)
    else:
        needed = origins.nodes
    writer_b_s = rate_b_s or (nic.link_rate_b_s * asked.link_share if nic else None)
    write_b = asked.fill * length_s * writer_b_s if writer_b_s else None
    if asked.messages:
        write_b = float(asked.messages * machine.message_b(asked.message))
    return Load(
        length_s=length_s,
        writers=counts,
        writes_per_s={arm: count / length_s for arm, count in counts.items()},
        origins=needed,
        writer_b_s=writer_b_s,
        write_b=write_b,
    )


def ranks_per_node(asked: ScaleRequest, cores: int) -> int:
    """Ranks on a node of so many cores. Raises InputError where none is left to the application."""
    ranks = asked.ranks_per_node or cores - asked.spare_cores
    if asked.ranks_per_node < 0 or asked.spare_cores < 0 or ranks < 1:
        raise InputError(
            f"ranks_per_node, spare_cores: {asked.ranks_per_node} and {asked.spare_cores} found;"
            f" allowed: whole numbers from 0 that leave a rank on {cores} cores"
        )
    return ranks


def _check(asked: ScaleRequest) -> None:
    """Raise InputError for what no timetable can be made of, or no run be held against."""
    if asked.draw not in POLICIES:
        raise InputError(f"draw: {asked.draw!r}; allowed: {', '.join(POLICIES)}")
    allowed = {
        "counted_per_node": (asked.counted_per_node >= 1, "whole numbers from 1"),
        "messages": (asked.messages >= 0, "whole numbers from 0"),
        "fill": (asked.fill > 0, "numbers above 0"),
        "tolerance_s": (asked.tolerance_s >= 0, "numbers from 0, seconds"),
        "allowed_share": (0 <= asked.allowed_share <= 1, "numbers from 0 to 1"),
    }
    for field, (fits, rule) in allowed.items():
        if not fits:
            raise InputError(f"{field}: {getattr(asked, field)} found; allowed: {rule}")


def _given(text: str) -> dict[str, int]:
    """`daly:2,constant:1` as a table; the empty text is the empty one."""
    counts = {}
    for part in filter(None, text.split(",")):
        arm, _, number = part.partition(":")
        if arm not in TIMED_ARMS or not number.isdecimal():
            raise InputError(f"writers: {text!r}; allowed: such as daly:2,constant:1")
        counts[arm] = int(number)
    return counts
