"""Everything decided of a block before it starts: its levels checked, crossed and resolved. Pure.

A campaign calls this once for each case, and writes the block for the check to read. With ReFrame
alone the check calls it with its own variables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.injectors import INJECTORS, get, writing_rate_b_s
from conductor.injectors.base import Injector
from records.acceptance import AcceptanceLimits
from records.arms import ARMS, SCHEDULED
from records.block_plan import BlockPlan, Scale
from records.errors import InputError
from records.machine import fabrics
from records.machine.site import Machine
from records.sample import Level
from records.slurm import options
from records.treatment import Treatment, Writes
from reframe_tests import rails, scaling
from reframe_tests.crossing import RATE, Cell, Factors, cross, is_nothing
from reframe_tests.factors import (
    AUTO,
    EVERYWHERE,
    FACTORS,
    OF_CORES,
    check_level,
    node_at,
    queue_pairs_of,
    share_of,
    size_of,
)

#: Values of variables that leave a choice to the machine, and are no levels.
CHOSEN_BY_MACHINE = {"injector": "auto", "comm_node": -1, "reserved_cores": -1, "layout": AUTO}
#: The levels of writers unless a check or a campaign says otherwise.
WRITES: dict[str, Level] = {
    "rate": "full",
    "message": AUTO,
    "footprint": AUTO,
    "queue_pairs": AUTO,
    "injector": "auto",
    "direction": "write",
    "clients": 0,
    "comm_node": -1,
    "writer_rail": rails.DEFAULT,
}
#: Size of one write if a footprint is chosen and the message is not; or the footprint, if smaller.
_MESSAGE_B = 64 << 10


@dataclass(frozen=True)
class CaseRequest:
    """A request to a check: by a campaign's case, or by the check's own variables."""

    arms: Sequence[str]
    #: Values of the variables that decide what writers do, or that are factors of other checks.
    levels: Mapping[str, Level] = field(default_factory=dict)
    factors: Factors = field(default_factory=dict)
    exclude: Sequence[Cell] = ()
    only: Sequence[Cell] = ()


def planned(variables: Collection[str], within_block: Collection[str]) -> frozenset[str]:
    """Return which of a check's variables `CaseRequest.levels` has."""
    return (EVERYWHERE | (FACTORS.keys() & within_block) | scaling.FIELDS.keys()) & set(variables)


def level_faults(
    levels: Mapping[str, Level],
    factors: Factors,
    *,
    comparable_across_cores: bool,
    check: Callable[[str, Level], object] = check_level,
) -> Iterator[tuple[str, int | None, str]]:
    """The only check of levels: name, index among its levels, and what is wrong.

    The index is None for a variable's own value, and for a factor that the check cannot have.
    """

    def fault(name: str, index: int | None, level: Level) -> Iterator[tuple[str, int | None, str]]:
        try:
            check(name, level)
        except InputError as error:
            yield name, index, str(error).removeprefix(f"{name}: ")

    for name, value in levels.items():
        if name not in factors and value != CHOSEN_BY_MACHINE.get(name) and name != "injector":
            yield from fault(name, None, value)
    why = (
        "figures of merit of different numbers of cores cannot be compared; allowed: another"
        " factor, or a check with comparable_across_cores"
    )
    for name, values in factors.items():
        for index, value in enumerate(values):
            yield from fault(name, index, value)
        if name in OF_CORES and not comparable_across_cores:
            yield name, None, why


def resolved_scale(request: CaseRequest, machine: Machine) -> Scale | None:
    """The short writes of a request; None if no arm, or not the check, makes them.

    Raises InputError.
    """
    makes = request.levels.keys() >= set(scaling.FIELDS)
    if not makes or set(SCHEDULED).isdisjoint(request.arms):
        return None
    return scaling.resolve(scaling.request_of(request.levels), machine)


def treatments(
    request: CaseRequest, machine: Machine, resolved: Scale | None = None
) -> list[Treatment]:
    """The treatments of a pair, before the application is laid out. Raises InputError.

    Levels must be valid (`level_faults`). `resolved`: the short writes (`resolved_scale`).
    """
    try:
        return [
            replace(
                treatment,
                writes=_writes(treatment.arm, request, treatment.factors, machine, resolved),
            )
            for treatment in cross(request.arms, request.factors, request.exclude, request.only)
        ]
    except ValueError as error:
        raise InputError(str(error)) from None


def block(
    request: CaseRequest,
    treated: list[Treatment],
    machine: Machine,
    limits: Mapping[str, Any],
    resolved: Scale | None = None,
    /,
    **fixed: Any,
) -> BlockPlan:
    """The block of these treatments; what only the check knows in its place is not in it yet.

    `limits`: those of acceptance that a campaign or a check sets. The machine's file has the
    others, and `min_share` if it is None or missing. `resolved`: the short writes
    (`resolved_scale`). `fixed`: other fields of the plan. Raises InputError.
    """
    reserved = request.levels.get("reserved_cores", -1)
    shared = machine.origins.policy == "same_host"
    _, origin_cpus = machine.split_cpus(
        reserved if isinstance(reserved, int) and reserved >= 0 else None
    )
    origins = machine.origins
    if resolved:
        origins = machine.with_origins(resolved.origins or 1).origins
    min_share = limits.get("min_share") or machine.proof.min_share
    limits = {**machine.proof.limits(), **limits, "min_share": min_share}
    return BlockPlan(
        treatments=treated,
        origin_cpus=origin_cpus,
        origin_policy=origins.policy,
        n_origins=origins.nodes,
        agent_launcher=[] if shared else options.agent_launcher(origins, machine.network),
        rails=[rail.device for rail in machine.rails],
        link_rate_b_s=machine.nic.link_rate_b_s if machine.nic else None,
        interface=machine.interface,
        limits=AcceptanceLimits(**limits),
        short=resolved.short if resolved else None,
        notes=[*machine.caveats],
        **fixed,
    )


# The writers of a treatment.


def _writes(
    arm: str,
    request: CaseRequest,
    factors: Mapping[str, Level],
    machine: Machine,
    resolved: Scale | None,
) -> Writes | None:
    """The writes of an arm; None if it has no writers. Raises InputError or ValueError."""
    row = ARMS[arm]
    if row.control:
        return Writes(injector=row.control, message_b=0)
    if row.silent:
        return None
    if row.scheduled and resolved is None:
        raise InputError(f"arms: {arm} found; allowed: only in lammps_scaling")
    levels = {**WRITES, **request.levels, **factors}
    injector = _injector(levels, machine, short=row.scheduled)
    shown = {**levels, "injector": injector.name, "arms": arm}
    for name, allowed, why in _rules(arm, request, levels, injector, machine):
        if not allowed:
            raise InputError(f"{name}: {shown[name]} found; {why}")
    share = share_of(levels["rate"])
    node = _buffer_node(levels, machine)
    message_b, footprint_b = _sizes(injector, levels, machine)
    return Writes(
        injector=injector.name,
        message_b=message_b,
        footprint_b=footprint_b,
        queue_pairs=_queue_pairs(levels, machine, fixed=row.scheduled or footprint_b is not None),
        clients=int(levels["clients"]) or None,
        options=tuple(machine.perftest_options) if injector.takes_options else (),
        direction=injector.direction,
        rate_b_s=None if share is not None else writing_rate_b_s(injector, str(levels["rate"])),
        rate_share=share,
        devices=rails.writer_devices(machine, str(levels["writer_rail"]), node),
        buffer_node=node,
        scheduled=resolved.writers[arm] if resolved and row.scheduled else None,
    )


def _injector(levels: Mapping[str, Level], machine: Machine, *, short: bool) -> Injector:
    """The injector that is named; `auto` is the machine's.

    On one host that is ucx for `short` writes, if the machine's makes none: both go through the
    same memory. Raises InputError.
    """
    named, direction = str(levels["injector"]), str(levels["direction"])
    if named != "auto":
        return get(named, direction)
    injector = get(machine.injector, direction)
    on_one_host = machine.origins.policy == "same_host"
    if on_one_host and short and not injector.writes_short:
        return get("ucx", direction)
    return injector


def _rules(
    arm: str,
    request: CaseRequest,
    levels: Mapping[str, Level],
    injector: Injector,
    machine: Machine,
) -> Iterator[tuple[str, bool, str]]:
    """Yield for each rule its field, whether it is kept, and what is allowed and why."""
    rate = levels["rate"]
    has_rate = RATE in request.factors or not is_nothing(rate)
    yield "rate", has_rate, "allowed: above 0, or 0 as a level of factors"
    apart = machine.origins.policy != "same_host"
    fabric = fabrics.by_name(machine.device) if machine.device and apart else None
    if fabric and injector.missing_for(fabric):
        why = f"device {machine.device} of site/{machine.name}.yaml is of {fabric.name}"
        yield "injector", False, f"{why}; allowed: {', '.join(fabric.injectors)}"
    pairs = queue_pairs_of(levels["queue_pairs"])
    why = f"writers of site/{machine.name}.yaml share the target's memory; allowed: {AUTO}, 1"
    yield "queue_pairs", pairs in (None, 1) or machine.origins.policy != "same_host", why
    why = f"a queue pair for each message of footprint {levels['footprint']}; allowed: {AUTO}"
    yield "queue_pairs", pairs is None or levels["footprint"] == AUTO, why
    if ARMS[arm].scheduled:
        why = f"it makes no short writes (arm {arm}); allowed: perftest, ucx"
        yield "injector", injector.writes_short, why
        why = f"arm {arm} has a timetable; allowed:"
        yield "footprint", levels["footprint"] == AUTO, f"{why} {AUTO}"
        yield "queue_pairs", pairs in (None, 1), f"{why} {AUTO}, 1"
        yield "clients", levels["clients"] == 0, f"{why} 0"
        why = f"{injector.name} cannot limit the rate of short writes (arm {arm}); allowed: full,"
        paced = rate == "full" or injector.paced_by != "agent"
        yield "rate", paced, f"{why} or injector perftest"


def _queue_pairs(levels: Mapping[str, Level], machine: Machine, *, fixed: bool) -> int | None:
    """Queue pairs of each writer; None: as many as help. A chosen footprint has its own."""
    if fixed or machine.origins.policy == "same_host":
        return 1
    return queue_pairs_of(levels["queue_pairs"])


def _sizes(
    injector: Injector, levels: Mapping[str, Level], machine: Machine
) -> tuple[int, int | None]:
    """Size of one write and the chosen footprint, bytes; None leaves that to the injector."""
    message, level = str(levels["message"]), levels["footprint"]
    footprint_b = size_of(level, machine)
    if footprint_b is None:
        return machine.message_b(message), None
    if injector.footprint_by is None:
        with_footprint = ", ".join(
            name for name, candidate in INJECTORS.items() if candidate.footprint_by
        )
        why = f"that of {injector.name} cannot be chosen"
        allowed = f"{AUTO}, or injector {with_footprint}"
        raise InputError(f"footprint: {level} found; {why}; allowed: {allowed}")
    if injector.footprint_by == "message":
        if message != AUTO:
            why = f"the message of {injector.name} is its footprint, {level}; allowed: {AUTO}"
            raise InputError(f"message: {message} found; {why}")
        return footprint_b, footprint_b
    message_b = min(_MESSAGE_B, footprint_b) if message == AUTO else machine.message_b(message)
    most_b = message_b * injector.most_places if injector.most_places else footprint_b
    if not message_b <= footprint_b <= most_b:
        most = f" to {injector.most_places} of them, {most_b} B" if injector.most_places else " on"
        why = f"{footprint_b} B of {injector.name}; allowed: from one message, {message_b} B,{most}"
        raise InputError(f"footprint: {level} found; {why}")
    return message_b, footprint_b


def _buffer_node(levels: Mapping[str, Level], machine: Machine) -> int | None:
    """NUMA node of the writers' buffers: by its number, by the check's place, or by the rail."""
    number = machine.numa_node(int(levels["comm_node"]), "comm_node")
    if number is None and "buffer" in levels:
        return node_at(machine, "buffer", str(levels["buffer"]))
    if number is None and levels["writer_rail"] == rails.LOCAL:
        return machine.nic_node()
    return number
