"""Everything decided of a block before it starts: its levels checked, crossed and resolved. Pure.

A campaign calls this once for each case, and writes the block for the check to read. With ReFrame
alone the check calls it with its own variables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from conductor.injectors import INJECTORS, get, writing_rate_b_s
from conductor.injectors.base import Injector
from records import units
from records.acceptance import AcceptanceLimits
from records.arms import ARMS
from records.campaign import TrafficChoice
from records.chain import file_digest
from records.errors import InputError
from records.machine import slurm
from records.machine.site import Machine
from records.notes import Note
from records.plan import BlockPlan, ShortWrites
from records.sample import Level
from records.treatment import Burst, Replay, Treatment, Writes
from reframe_tests import rails, scaling
from reframe_tests.crossing import RATE, Cell, Factors, cross, is_nothing
from reframe_tests.factors import (
    AUTO,
    FACTORS,
    NO_BURST,
    OF_CORES,
    burst_of,
    check_level,
    node_at,
    share_of,
    size_of,
)

#: Values of variables that leave a choice to the machine, and are no levels.
CHOSEN_BY_MACHINE = {"injector": "auto", "comm_node": -1, "reserved_cores": -1, "layout": AUTO}
#: What writers do unless a check or a campaign says otherwise.
WRITES: dict[str, Level] = {
    "rate": "full",
    "message": AUTO,
    "footprint": AUTO,
    "limiter": "software",
    "burst": NO_BURST,
    "injector": "auto",
    "direction": "write",
    "clients": 0,
    "comm_node": -1,
    "writer_rail": rails.DEFAULT,
}
#: Size of one write if a footprint is chosen and the message is not; or the footprint, if smaller.
_MESSAGE_B = 64 << 10
#: By how much a rate may differ from a burst's share of the time, as a share of it, to be full rate
#: within the bursts.
_SAME_RATE = 0.01
#: What the machine's file requires of a proof besides `min_share`.
_PROOF = ("max_share", "counter_share", "rail_share", "late_rows", "silent_s", "pause_s")


@dataclass(frozen=True)
class CaseRequest:
    """What is asked of a check: by a campaign's case, or by the check's own variables."""

    arms: Sequence[str]
    #: Values of the variables that decide what writers do, or that are factors of other checks.
    levels: Mapping[str, Level] = field(default_factory=dict)
    factors: Factors = field(default_factory=dict)
    exclude: Sequence[Cell] = ()
    only: Sequence[Cell] = ()
    #: Traffic that writers follow.
    replay: Replay | None = None


def planned(variables: Collection[str], within_block: Collection[str]) -> set[str]:
    """Which of a check's variables `CaseRequest.levels` has."""
    names = {name for name, factor in FACTORS.items() if factor.everywhere or name in within_block}
    return (names | set(scaling.FIELDS)) & set(variables)


def replay_of(traffic: TrafficChoice) -> Replay:
    """The traffic of a trace. Raises InputError for one that does not exist, or a wrong share."""
    share, file = units.share(traffic.rate, "traffic_rate"), Path(traffic.trace)
    if not file.is_file():
        raise InputError(f"traffic: {file} does not exist; allowed: a trace")
    return Replay(file_digest(file), traffic.speed, share, tuple(traffic.nodes))


def level_faults(
    levels: Mapping[str, Level], factors: Factors, *, comparable_across_cores: bool
) -> Iterator[tuple[str, int | None, str]]:
    """The only check of levels: name, index among its levels, and what is wrong.

    The index is None for a variable's own value, and for a factor that the check cannot have.
    """
    for name, value in levels.items():
        if name not in factors and value != CHOSEN_BY_MACHINE.get(name) and name != "injector":
            yield from _level_fault(name, None, value)
    for name, values in factors.items():
        for index, value in enumerate(values):
            yield from _level_fault(name, index, value)
        if name in OF_CORES and not comparable_across_cores:
            yield (
                name,
                None,
                "figures of merit of different numbers of cores cannot be compared; allowed:"
                " another factor, or a check with comparable_across_cores",
            )


def _level_fault(
    name: str, index: int | None, level: Level
) -> Iterator[tuple[str, int | None, str]]:
    try:
        check_level(name, level)
    except InputError as error:
        yield name, index, str(error).removeprefix(f"{name}: ")


def treatments(asked: CaseRequest, machine: Machine) -> list[Treatment]:
    """The treatments of a pair, before the application is laid out. Raises InputError.

    Levels must be valid (`level_faults`).
    """
    try:
        crossed = cross(asked.arms, asked.factors, asked.exclude, asked.only)
        counts = _scale(asked, machine)
        return [
            Treatment(
                name=each.name,
                role=each.role,
                baseline=each.baseline,
                factors=each.factors,
                writes=(writes := _writes(each.arm, asked, each.factors, machine, counts)),
                notes=[_noted(writes.replay)] if writes and writes.replay else [],
            )
            for each in crossed
        ]
    except ValueError as error:
        raise InputError(str(error)) from None


def _noted(replay: Replay) -> str:
    return Note.TRAFFIC(speed=replay.speed, share=replay.share)


def _scale(asked: CaseRequest, machine: Machine) -> scaling.Load | None:
    """The short writes of a check that can make them; None of others."""
    if not asked.levels.keys() >= set(scaling.FIELDS):
        return None
    return scaling.load(scaling.request_of(asked.levels), machine)


def block(
    asked: CaseRequest,
    treated: list[Treatment],
    machine: Machine,
    demand: Mapping[str, Any],
    *,
    traffic: TrafficChoice | None = None,
    targets: int = 1,
    **fixed: Any,
) -> BlockPlan:
    """The block of these treatments; what only the check knows in its place is not in it yet.

    `demand`: limits that are asked for. `fixed`: other fields of the plan. Raises InputError.
    """
    load = _scale(asked, machine)
    reserved = asked.levels.get("reserved_cores", -1)
    shared = machine.origins.policy == "same_host"
    _, origin_cpus = machine.split_cpus(
        reserved if isinstance(reserved, int) and reserved >= 0 else None
    )
    origins = machine.origins if load is None else machine.with_origins(load.origins or 1).origins
    of_machine = {name: getattr(machine.proof, name) for name in _PROOF}
    limits = {**demand, "min_share": demand.get("min_share") or machine.proof.min_share}
    plan = BlockPlan(
        treatments=treated,
        origin_cpus=origin_cpus,
        origin_policy=origins.policy,
        n_origins=origins.nodes,
        agent_launcher=[] if shared else slurm.agent_launcher(origins),
        rails=[rail.device for rail in machine.rails],
        interface=machine.interface,
        demand=AcceptanceLimits(**of_machine, **limits),
        short=_short_writes(load, scaling.request_of(asked.levels), machine) if load else None,
        notes=[*machine.caveats],
        **fixed,
    )
    if traffic is None or asked.replay is None:
        return plan
    from records.traffic import trace  # reads with polars, which starts slowly

    names = [f"{plan.seed}/{plan.case}/{plan.block}/{pair}" for pair in range(plan.pairs)]
    windows = trace.draw_windows(trace.load(Path(traffic.trace)), asked.replay, targets, names)
    return replace(plan, windows=windows)


def _short_writes(
    load: scaling.Load, request: scaling.ScaleRequest, machine: Machine
) -> ShortWrites:
    proof = machine.proof
    return ShortWrites(
        length_s=load.length_s,
        messages=request.messages or None,
        fill=request.fill,
        tolerance_s=request.tolerance_s or proof.write_tolerance_s,
        allowed_share=request.allowed_share or proof.write_share,
    )


# What the writers of a treatment do.


def _writes(
    arm: str,
    asked: CaseRequest,
    factors: Mapping[str, Level],
    site: Machine,
    load: scaling.Load | None,
) -> Writes | None:
    """The writes of an arm; None if it has no writers. Raises InputError or ValueError."""
    row = ARMS[arm]
    if row.control:
        return Writes(row.control, 0)
    if row.silent:
        return None
    if row.writing == "scheduled" and load is None:
        raise InputError(f"arms: {arm} found; allowed: only in lammps_scaling")
    levels = {**WRITES, **asked.levels, **factors}
    rate = levels["rate"]
    injector = _injector(levels, site, special=row.writing == "scheduled" or bool(asked.replay))
    if injector.on_own_host and site.origins.policy != "same_host":
        why = "it writes memory of its own host; allowed: with 'origins: {policy: same_host}' in"
        raise _fault("injector", injector.name, f"{why} site/{site.name}.yaml")
    share = share_of(rate)
    if RATE not in asked.factors and is_nothing(rate):
        raise _fault("rate", rate, "allowed: above 0, or 0 as a level of factors")
    if (burst := _burst(injector, levels, share)) and rate == "full":
        share = burst.duty
    if row.writing == "scheduled":
        _require_short(injector, levels, arm)
    limiter = levels["limiter"]
    if limiter == "hardware" and limiter not in injector.limiters:
        why = f"{injector.name} has no such limiter; allowed: software, or injector perftest"
        raise _fault("limiter", limiter, why)
    node = _buffer_node(levels, site)
    if asked.replay:
        _require_free(injector, levels, arm)
    message_b, footprint_b = _sizes(injector, levels, site)
    return Writes(
        injector=injector.name,
        message_b=message_b,
        footprint_b=footprint_b,
        clients=int(levels["clients"]) or None,
        direction=injector.direction,
        rate_b_s=None if share is not None else writing_rate_b_s(injector, str(rate)),
        rate_share=share,
        limiter="hardware" if limiter == "hardware" else "software",
        burst=burst,
        devices=rails.of_writers(site, str(levels["writer_rail"]), node),
        buffer_node=node,
        scheduled=load.writers[arm] if load and row.writing == "scheduled" else None,
        replay=asked.replay,
    )


def _injector(levels: Mapping[str, Level], site: Machine, *, special: bool) -> Injector:
    """The injector that is named; `auto` is the machine's.

    On one host that is ucx for what is `special`, short writes and replayed traffic, if the
    machine's makes none: both go through the same memory. Raises InputError.
    """
    named, direction = str(levels["injector"]), str(levels["direction"])
    if named != "auto":
        return get(named, direction)
    injector = get(site.injector, direction)
    lacks = special and not injector.writes_short and not injector.on_own_host
    return get("ucx", direction) if lacks and site.origins.policy == "same_host" else injector


def _fault(name: str, value: object, why: str) -> InputError:
    return InputError(f"{name}: {value} found; {why}")


def _sizes(
    injector: Injector, levels: Mapping[str, Level], site: Machine
) -> tuple[int, int | None]:
    """Size of one write and the chosen footprint, bytes; None leaves that to the injector."""
    message, level = str(levels["message"]), levels["footprint"]
    footprint_b = size_of(level, site)
    if footprint_b is None:
        return site.message_b(message), None
    if injector.footprint_by is None:
        able = [name for name, each in INJECTORS.items() if each.footprint_by]
        why = f"that of {injector.name} cannot be chosen; allowed: {AUTO}, or injector"
        raise _fault("footprint", level, f"{why} {', '.join(able)}")
    if injector.footprint_by == "message":
        if message != AUTO:
            why = f"the message of {injector.name} is its footprint, {level}; allowed: {AUTO}"
            raise _fault("message", message, why)
        return footprint_b, footprint_b
    message_b = min(_MESSAGE_B, footprint_b) if message == AUTO else site.message_b(message)
    most_b = message_b * injector.most_places if injector.most_places else footprint_b
    if not message_b <= footprint_b <= most_b:
        what = f"allowed: from one message, {message_b} B,"
        most = f" to {injector.most_places} of them, {most_b} B" if injector.most_places else " on"
        raise _fault("footprint", level, f"{footprint_b} B of {injector.name}; {what}{most}")
    return message_b, footprint_b


def _buffer_node(levels: Mapping[str, Level], site: Machine) -> int | None:
    """NUMA node of the writers' buffers: by its number, by the check's place, or by the rail."""
    number = site.numa_node(int(levels["comm_node"]), "comm_node")
    if number is None and "buffer" in levels:
        return node_at(site, "buffer", str(levels["buffer"]))
    if number is None and levels["writer_rail"] == rails.LOCAL:
        return site.nic_node()
    return number


def _require_short(injector: Injector, levels: Mapping[str, Level], arm: str) -> None:
    """Raise InputError for writes that cannot follow the timetable of an arm."""
    if not injector.writes_short:
        why = f"it makes no short writes (arm {arm}); allowed: perftest, ucx"
        raise _fault("injector", injector.name, why)
    if levels["burst"] != NO_BURST:
        raise _fault("burst", levels["burst"], f"arm {arm} has a timetable; allowed: {NO_BURST}")
    for name, allowed in (("footprint", AUTO), ("clients", 0)):
        if levels[name] != allowed:
            raise _fault(name, levels[name], f"arm {arm} has a timetable; allowed: {allowed}")
    if levels["rate"] != "full" and injector.paced_by == "agent":
        why = f"{injector.name} cannot limit the rate of short writes (arm {arm})"
        raise _fault("rate", levels["rate"], f"{why}; allowed: full, or injector perftest")


def _require_free(injector: Injector, levels: Mapping[str, Level], arm: str) -> None:
    """Raise InputError for what excludes traffic, which sets the writers' rate."""
    for name, value, allowed in (
        ("injector", injector.name, "ucx"),
        ("rate", levels["rate"], "full"),
        ("burst", levels["burst"], NO_BURST),
        ("arms", arm, "on"),
    ):
        if value != allowed:
            raise _fault(name, value, f"it cannot be combined with traffic; allowed: {allowed}")


def _burst(injector: Injector, levels: Mapping[str, Level], share: float | None) -> Burst | None:
    """Bursts whose rate is at most the full one, which most programs write at within them."""
    level, rate = levels["burst"], levels["rate"]
    burst = burst_of(level)
    if burst is None:
        return None
    if levels["limiter"] == "hardware":
        why = f"it cannot be combined with burst {level}; allowed: software"
        raise _fault("limiter", "hardware", why)
    same = share is not None and abs(share / burst.duty - 1) <= _SAME_RATE
    lower = injector.spaces_bursts and (share is None or share < burst.duty)
    if not (rate == "full" or same or lower):
        below = "or less, " if injector.spaces_bursts else ""
        why = f"it cannot be combined with burst {level} of {injector.name}; allowed: full,"
        share_text = f"{100 * burst.duty:.4g}%, {below}which is full rate within the bursts"
        raise _fault("rate", rate, f"{why} or {share_text}")
    return burst
