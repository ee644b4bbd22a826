"""Resolves the short writes at one scale: number of writers, length of writes, origins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from records import units
from records.arms import SCHEDULED
from records.block_plan import Scale, ShortWrites
from records.daly import concurrent_writers, parse_write
from records.errors import InputError
from records.machine.site import Machine
from records.units import percentage, plural


@dataclass(frozen=True, kw_only=True)
class ScaleRequest:
    """The short writes that a campaign or a user requests; quantities are text with units.

    The fields are variables of the check `lammps_scaling`, which explains them. `rate` and
    `message` are variables of all checks.
    """

    nodes: int
    ranks_per_node: int = 0
    spare_cores: int = 0
    counted_per_node: int = 0
    write: str = "1s"
    node_mtti: str = ""
    writers: str = ""
    rate: str = "full"
    link_share: float = 1.0
    message: str = "auto"
    fill: float = 1.0
    tolerance_s: float = 0.0
    allowed_share: float = 0.0


#: Fields of a request: the variables of a check that makes short writes.
FIELDS = ScaleRequest.__dataclass_fields__


def request_of(values: Mapping[str, Any]) -> ScaleRequest:
    """Return the request that a check's variables make. Variables that are no field are ignored."""
    fields = {"nodes": 1, **{name: value for name, value in values.items() if name in FIELDS}}
    for name, value in fields.items():
        if isinstance(FIELDS[name].default, str):
            fields[name] = str(value)  # YAML makes a number of a quantity without a unit
    return ScaleRequest(**fields)


def resolve(request: ScaleRequest, machine: Machine) -> Scale:
    """Return the writers, writes and origins of one scale. Raises InputError."""
    rate_b_s = None if request.rate == "full" else units.rate_b_s(request.rate, "rate")
    if rate_b_s == 0:
        raise InputError(f"rate: {request.rate} found; allowed: above 0")
    nic = machine.nic
    writer_b_s = rate_b_s
    if writer_b_s is None and nic:
        writer_b_s = nic.link_rate_b_s * request.link_share
    short = _short_writes(request, machine, writer_b_s)
    mtti_s = machine.node_mtti_s
    if request.node_mtti:
        mtti_s = units.duration_s(request.node_mtti, "node_mtti")
    counted_per_node = request.counted_per_node or ranks_per_node(
        request, machine.node_facts().cores
    )
    estimate = concurrent_writers(request.nodes * counted_per_node, mtti_s, short.length_s)
    writers = {"daly": estimate.concurrent_writers, "constant": estimate.constant_share_writers}
    given_writers = _given_writers(request.writers)
    writers |= given_writers
    max_writers = max(writers.values())
    if max_writers > request.nodes:
        raise InputError(
            f"writers: {max_writers} on {plural(request.nodes, 'node')}; allowed: at most one on"
            " each node (counted_per_node: 1 counts nodes)"
        )
    if rate_b_s is None and request.link_share < 1:
        raise InputError(
            f"link_share: {request.link_share} found; a writer at full rate takes all of an"
            " origin's link; allowed: 1, or a rate"
        )
    origins = machine.origins.nodes
    if machine.origins.policy == "same_host":
        origins = 0
    elif nic:
        origins = origins_needed(max_writers, nic.link_rate_b_s, request.link_share, rate_b_s)
    write_b = request.fill * short.length_s * writer_b_s if writer_b_s else None
    if short.messages:
        write_b = float(short.messages * machine.message_b(request.message))
    return Scale(
        short=short,
        counted_ranks=estimate.counted,
        mtti_s=mtti_s,
        writers=writers,
        given_arms=tuple(given_writers),
        origins=origins,
        writer_b_s=writer_b_s,
        write_b=write_b,
    )


def _short_writes(request: ScaleRequest, machine: Machine, writer_b_s: float | None) -> ShortWrites:
    """Return the requested short writes of a writer with this rate. Raises InputError."""
    write = parse_write(request.write, "write")
    length_s = write.length_at(writer_b_s, "write")
    message_b = machine.message_b(request.message)
    if write.messages and write.message_b != message_b:
        raise InputError(
            f"write: messages of {write.message_b} B found; the writers' messages have"
            f" {message_b} B (message: {request.message}); allowed: the same"
        )
    if request.nodes < 1 or not length_s > 0:
        raise InputError("nodes, write: allowed: whole numbers from 1, and lengths above 0")
    for field, is_valid, allowed in (
        ("counted_per_node", request.counted_per_node >= 0, "whole numbers from 0"),
        ("fill", request.fill > 0, "numbers above 0"),
        ("link_share", 0 < request.link_share <= 1, "numbers above 0, up to 1"),
        ("tolerance_s", request.tolerance_s >= 0, "numbers from 0, seconds"),
        ("allowed_share", 0 <= request.allowed_share <= 1, "numbers from 0 to 1"),
    ):
        if not is_valid:
            raise InputError(f"{field}: {getattr(request, field)} found; allowed: {allowed}")
    return ShortWrites(
        length_s=length_s,
        messages=write.messages,
        fill=request.fill,
        tolerance_s=request.tolerance_s or machine.proof.write_tolerance_s,
        allowed_share=request.allowed_share or machine.proof.write_share,
    )


def _given_writers(text: str) -> dict[str, int]:
    """Return the writers of each arm in a text such as `daly:2,constant:1`. Raises InputError."""
    writers = {}
    for entry in filter(None, text.split(",")):
        arm, _, number = entry.partition(":")
        if arm not in SCHEDULED or not number.isdecimal():
            raise InputError(f"writers: {text!r} found; allowed: a list such as daly:2,constant:1")
        writers[arm] = int(number)
    return writers


def origins_needed(writers: int, link_b_s: float, share: float, rate_b_s: float | None) -> int:
    """Return the number of origin nodes for `writers` that write at the same time; at least one.

    The writers of an origin may take the `share` of its link. `rate_b_s` is the rate of one writer.
    At full rate (None), an origin has one writer. Raises InputError if one writer takes more than
    this share.
    """
    writers_per_origin = 1
    if rate_b_s:
        # The factor allows for rounding: ten writers of a tenth of the link must fit.
        writers_per_origin = math.floor(link_b_s * share / rate_b_s * (1 + 1e-12))
    if writers_per_origin < 1:
        raise InputError(
            f"rate: one writer takes more than {percentage(share)} of an origin's link; allowed:"
            " a lower rate, or a larger link_share"
        )
    return max(math.ceil(writers / writers_per_origin), 1)


def ranks_per_node(request: ScaleRequest, cores: int) -> int:
    """Return the ranks on a node with `cores`. Raises InputError if no rank is left."""
    ranks = request.ranks_per_node or cores - request.spare_cores
    if request.ranks_per_node < 0 or request.spare_cores < 0 or ranks < 1:
        raise InputError(
            f"ranks_per_node, spare_cores: {request.ranks_per_node} and {request.spare_cores}"
            f" found; allowed: whole numbers from 0 that leave a rank on {plural(cores, 'core')}"
        )
    return ranks
