"""Plans a block (the runs of one job): checks, crosses and resolves the levels of its factors.

All functions are pure.

A campaign plans each case once, and writes the plan of each block for the check to read. If ReFrame
is used alone, the check plans its block from its own variables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from conductor.injectors import INJECTORS, injector_for, writing_rate_b_s
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
from reframe_tests.crossing import RATE, Cell, Factors, cross, is_zero_rate
from reframe_tests.factors import (
    AUTO,
    COMMON_FACTORS,
    CORE_FACTORS,
    DEFAULT_RESERVED_CORES,
    FACTORS,
    check_level,
    numa_node_of_place,
    queue_pairs_of,
    share_of,
    size_of,
)

#: Variable -> the value that lets the site file decide or, for `layout`, a measurement. This value
#: is no level of the factor.
LEFT_TO_MACHINE = {
    "injector": "auto",
    "comm_node": -1,
    "reserved_cores": DEFAULT_RESERVED_CORES,
    "layout": AUTO,
}
#: Default levels of the factors of the writes.
DEFAULT_WRITES: dict[str, Level] = {
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
#: Why a check cannot have a factor that changes its number of cores.
_NOT_COMPARABLE = (
    "figures of merit of different numbers of cores cannot be compared; allowed: another"
    " factor, or a check with comparable_across_cores"
)
#: Largest size of one write if a footprint is chosen and the message is not, bytes.
_MAX_MESSAGE_B = 64 << 10


@dataclass(frozen=True)
class CaseRequest:
    """What a campaign's case, or a check's own variables, request."""

    arms: Sequence[str]
    #: Values of the variables that decide what writers do, and of those that can be factors.
    levels: Mapping[str, Level] = field(default_factory=dict)
    factors: Factors = field(default_factory=dict)
    exclude: Sequence[Cell] = ()
    only: Sequence[Cell] = ()


def planning_variables(variables: Collection[str], within_block: Collection[str]) -> frozenset[str]:
    """Return the names of those variables of a check that belong in `CaseRequest.levels`."""
    return (COMMON_FACTORS | (FACTORS.keys() & within_block) | scaling.FIELDS.keys()) & set(
        variables
    )


def level_faults(
    levels: Mapping[str, Level],
    factors: Factors,
    *,
    comparable_across_cores: bool,
    check: Callable[[str, Level], object] = check_level,
) -> Iterator[tuple[str, int | None, str]]:
    """Yield the factor's name, the level's index and the reason, for each invalid level.

    The index is None for the value of a variable, and for a factor that the check cannot have.
    """

    def fault(name: str, level: Level) -> str:
        """Return what is wrong with a level; empty if it is valid."""
        try:
            check(name, level)
        except InputError as error:
            return str(error).removeprefix(f"{name}: ")
        return ""

    for name, value in levels.items():
        # The variable `injector` may also name an injector that is no level, such as `ucx_read`.
        is_level = value != LEFT_TO_MACHINE.get(name) and name != "injector"
        if name not in factors and is_level and (why := fault(name, value)):
            yield name, None, why
    for name, factor_levels in factors.items():
        for index, level in enumerate(factor_levels):
            if why := fault(name, level):
                yield name, index, why
        if name in CORE_FACTORS and not comparable_across_cores:
            yield name, None, _NOT_COMPARABLE


def resolved_scale(request: CaseRequest, machine: Machine) -> Scale | None:
    """Return the scale of a request: its numbers of writers and origins, and its short writes.

    Returns None if the check or the arms make no short writes. Raises InputError.
    """
    check_makes_short_writes = request.levels.keys() >= set(scaling.FIELDS)
    if not check_makes_short_writes or set(SCHEDULED).isdisjoint(request.arms):
        return None
    return scaling.resolve(scaling.request_of(request.levels), machine)


def treatments(
    request: CaseRequest, machine: Machine, scale: Scale | None = None
) -> list[Treatment]:
    """Return the treatments of a pair, before the application is laid out. Raises InputError.

    The levels must be valid (`level_faults`). `scale` has the short writes (`resolved_scale`).
    """
    complete = []
    try:
        for treatment in cross(request.arms, request.factors, request.exclude, request.only):
            writes = _writes(treatment.arm, request, treatment.factors, machine, scale)
            complete.append(replace(treatment, writes=writes))
    except ValueError as error:
        raise InputError(str(error)) from None
    return complete


def plan_of_block(
    request: CaseRequest,
    crossed_treatments: list[Treatment],
    machine: Machine,
    limits: Mapping[str, Any],
    scale: Scale | None = None,
    *,
    case: str,
    workload: str,
    block: int,
    seed: int,
    pairs: int,
    warmups: int,
    nimc_dir: str,
    rest_s: float = 0.0,
    nodelist: str = "",
    settings: Mapping[str, Level] | None = None,
) -> BlockPlan:
    """Return the plan of a block with these treatments. The check adds what only the check knows.

    `limits` are the limits of acceptance that a campaign or a check sets. The others come from the
    site file, as does `min_share` if it is None or missing. `scale` has the short writes
    (`resolved_scale`). The keywords are the fields of the plan with the same names. Raises
    InputError.
    """
    reserved = request.levels.get("reserved_cores", DEFAULT_RESERVED_CORES)
    reserved_cores = reserved if isinstance(reserved, int) and reserved >= 0 else None
    _, origin_cpus = machine.split_cores(reserved_cores)
    origins = machine.origins
    if scale:
        origins = machine.with_origins(scale.origins or 1).origins
    agent_launcher = []
    if machine.origins.policy != "same_host":
        agent_launcher = options.agent_launcher(origins, machine.agent_network)
    min_share = limits.get("min_share")
    if min_share is None:
        min_share = machine.proof.min_share
    limits = {**machine.proof.limits(), **limits, "min_share": min_share}
    return BlockPlan(
        treatments=crossed_treatments,
        origin_cpus=origin_cpus,
        origin_policy=origins.policy,
        n_origins=origins.nodes,
        agent_launcher=agent_launcher,
        rails=[rail.device for rail in machine.rails],
        link_rate_b_s=machine.nic.link_rate_b_s if machine.nic else None,
        interface=machine.interface,
        limits=AcceptanceLimits(**limits),
        short=scale.short if scale else None,
        notes=[*machine.caveats],
        case=case,
        workload=workload,
        block=block,
        seed=seed,
        pairs=pairs,
        warmups=warmups,
        nimc_dir=nimc_dir,
        rest_s=rest_s,
        nodelist=nodelist,
        settings=dict(settings or {}),
    )


def plan_of_writers(
    request: CaseRequest,
    crossed_treatments: list[Treatment],
    machine: Machine,
    limits: Mapping[str, Any],
    *,
    case: str,
    nimc_dir: str,
) -> BlockPlan:
    """Return the plan of a block that measures no pairs: only its writers are started.

    `limits` are as for `plan_of_block`. Raises InputError.
    """
    return plan_of_block(
        request,
        crossed_treatments,
        machine,
        limits,
        case=case,
        workload="",
        block=0,
        seed=0,
        pairs=0,
        warmups=0,
        nimc_dir=nimc_dir,
    )


# The writers of a treatment.


def _writes(
    arm: str,
    request: CaseRequest,
    factors: Mapping[str, Level],
    machine: Machine,
    scale: Scale | None,
) -> Writes | None:
    """Return the writes of an arm; None if it has no writers. Raises InputError or ValueError."""
    arm_record = ARMS[arm]
    if arm_record.control_injector:
        return Writes(injector=arm_record.control_injector, message_b=0)
    if arm_record.silent:
        return None
    if arm_record.scheduled and scale is None:
        raise InputError(f"arms: {arm} found; allowed: only in lammps_scaling")
    levels = {**DEFAULT_WRITES, **request.levels, **factors}
    injector = _injector(levels, machine, short=arm_record.scheduled)
    named_levels = {**levels, "injector": injector.name}
    for name, why in _conflicts(arm, request, levels, injector, machine):
        raise InputError(f"{name}: {named_levels[name]} found; {why}")
    rate_share = share_of(levels["rate"])
    buffer_node = _buffer_node(levels, machine)
    message_b, footprint_b = _sizes(injector, levels, machine)
    for name, size_b in (("message", message_b), ("footprint", footprint_b)):
        _require_fit(name, levels[name], size_b, machine)
    return Writes(
        injector=injector.name,
        message_b=message_b,
        footprint_b=footprint_b,
        queue_pairs=_queue_pairs(
            levels, machine, fixed=arm_record.scheduled or footprint_b is not None
        ),
        clients=int(levels["clients"]) or None,
        options=tuple(machine.perftest_options) if injector.takes_options else (),
        direction=injector.direction,
        rate_b_s=None
        if rate_share is not None
        else writing_rate_b_s(injector, str(levels["rate"])),
        rate_share=rate_share,
        devices=rails.writer_devices(machine, str(levels["writer_rail"]), buffer_node),
        buffer_node=buffer_node,
        scheduled=scale.writers[arm] if scale and arm_record.scheduled else None,
    )


def _injector(levels: Mapping[str, Level], machine: Machine, *, short: bool) -> Injector:
    """Return the injector of the levels; `auto` is the machine's.

    A shared host uses ucx for `short` writes if the machine's injector makes none: both injectors
    write through the same memory. Raises InputError.
    """
    name = str(levels["injector"])
    direction = str(levels["direction"])
    if name != "auto":
        return injector_for(name, direction)
    injector = injector_for(machine.injector, direction)
    is_shared_host = machine.origins.policy == "same_host"
    if is_shared_host and short and not injector.writes_short:
        return injector_for("ucx", direction)
    return injector


def _conflicts(
    arm: str,
    request: CaseRequest,
    levels: Mapping[str, Level],
    injector: Injector,
    machine: Machine,
) -> Iterator[tuple[str, str]]:
    """Yield the name and a reason for each level that the arm, the machine or other levels forbid.

    The reason says what is allowed.
    """
    rate = levels["rate"]
    if RATE not in request.factors and is_zero_rate(rate):
        yield "rate", "allowed: above 0, or 0 as a level of factors"
    is_shared_host = machine.origins.policy == "same_host"
    if machine.device and not is_shared_host:
        fabric = fabrics.by_name(machine.device)
        if fabric and injector.why_not_over(fabric):
            why = f"device {machine.device} of site/{machine.name}.yaml belongs to {fabric.name}"
            yield "injector", f"{why}; allowed: {', '.join(fabric.injectors)}"
    queue_pairs = queue_pairs_of(levels["queue_pairs"])
    if is_shared_host and queue_pairs not in (None, 1):
        why = f"writers of site/{machine.name}.yaml share the target's memory"
        yield "queue_pairs", f"{why}; allowed: {AUTO}, 1"
    has_footprint = levels["footprint"] != AUTO
    if has_footprint and queue_pairs is not None:
        why = f"footprint {levels['footprint']} needs a queue pair per message"
        yield "queue_pairs", f"{why}; allowed: {AUTO}"
    if not ARMS[arm].scheduled:
        return
    if not injector.writes_short:
        yield "injector", f"it makes no short writes (arm {arm}); allowed: perftest, ucx"
    has_timetable = f"arm {arm} has a timetable"
    if has_footprint:
        yield "footprint", f"{has_timetable}; allowed: {AUTO}"
    if queue_pairs not in (None, 1):
        yield "queue_pairs", f"{has_timetable}; allowed: {AUTO}, 1"
    if levels["clients"] != 0:
        yield "clients", f"{has_timetable}; allowed: 0"
    if rate != "full" and injector.paced_by == "agent":
        why = f"{injector.name} cannot limit the rate of short writes (arm {arm})"
        yield "rate", f"{why}; allowed: full, or injector perftest"


def _queue_pairs(levels: Mapping[str, Level], machine: Machine, *, fixed: bool) -> int | None:
    """Return the number of queue pairs of each writer; None for as many as raise its rate.

    The number is 1 if it is `fixed`. On a shared host, it is always 1.
    """
    if fixed or machine.origins.policy == "same_host":
        return 1
    return queue_pairs_of(levels["queue_pairs"])


def _sizes(
    injector: Injector, levels: Mapping[str, Level], machine: Machine
) -> tuple[int, int | None]:
    """Return the size of one write and the footprint, bytes.

    The footprint is the memory that a writer's messages pass through. If it is None, the injector
    chooses it.
    """
    message = str(levels["message"])
    footprint = levels["footprint"]
    footprint_b = size_of(footprint, machine, "footprint")
    if footprint_b is None:
        return _message_b(injector, message, machine), None
    if injector.footprint_by is None:
        with_footprint = ", ".join(
            name for name, candidate in INJECTORS.items() if candidate.footprint_by
        )
        why = f"the footprint of {injector.name} cannot be chosen"
        allowed = f"{AUTO}, or injector {with_footprint}"
        raise InputError(f"footprint: {footprint} found; {why}; allowed: {allowed}")
    if injector.footprint_by == "message":
        if message != AUTO:
            why = f"the message of {injector.name} is its footprint, {footprint}; allowed: {AUTO}"
            raise InputError(f"message: {message} found; {why}")
        return footprint_b, footprint_b
    if message == AUTO:
        message_b = min(_MAX_MESSAGE_B, footprint_b)
    else:
        message_b = _message_b(injector, message, machine)
    max_b = footprint_b
    allowed = f"from {message_b} B (one message)"
    if injector.most_places:
        max_b = message_b * injector.most_places
        allowed += f" to {max_b} B ({injector.most_places} messages)"
    if not message_b <= footprint_b <= max_b:
        why = f"it is {footprint_b} B, with {injector.name}; allowed: {allowed}"
        raise InputError(f"footprint: {footprint} found; {why}")
    return message_b, footprint_b


def _require_fit(name: str, level: Level, size_b: int | None, machine: Machine) -> None:
    """Raise InputError if a size exceeds the memory of a node, as far as both are known."""
    memory_b = machine.node_facts().memory_b
    if size_b is not None and memory_b is not None and size_b > memory_b:
        allowed = f"at most the memory of a node of {machine.name}, {memory_b} B"
        raise InputError(f"{name}: {level} found; it is {size_b} B; allowed: {allowed}")


def _message_b(injector: Injector, message: str, machine: Machine) -> int:
    """Return the size of one message, bytes. Raises InputError if the injector cannot send it."""
    message_b = machine.message_b(message)
    if injector.max_message_b and message_b > injector.max_message_b:
        why = f"it is {message_b} B, with {injector.name}"
        allowed = f"at most {injector.max_message_b} B, or 256KiB and the footprint 2*llc"
        raise InputError(f"message: {message} found; {why}; allowed: {allowed}")
    return message_b


def _buffer_node(levels: Mapping[str, Level], machine: Machine) -> int | None:
    """Return the NUMA node of the writers' buffers; None leaves it to the injector.

    The node comes from `comm_node`, or else from the check's variable `buffer`, or else from
    `writer_rail`.
    """
    comm_node = machine.known_numa_node(int(levels["comm_node"]), "comm_node")
    if comm_node is None and "buffer" in levels:
        return numa_node_of_place(machine, "buffer", str(levels["buffer"]))
    if comm_node is None and levels["writer_rail"] == rails.LOCAL:
        return machine.nic_node()
    return comm_node
