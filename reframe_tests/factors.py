"""The table of factors: their allowed levels, and what a machine must have for them.

A factor is a variable of a check or of a mixin that varies between runs. It need not be in the
table. If it is not, and the check lists it in `within_block`, it varies within a block. If the
check does not list it, each of its levels makes a case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, get_args

from conductor.injectors import INJECTORS
from conductor.injectors.base import MOST_QUEUE_PAIRS
from records import units
from records.block_plan import MAX_NODES
from records.errors import InputError
from records.machine.site import Machine
from records.sample import Direction, Level
from records.units import plural
from reframe_tests import rails, tools

#: What the levels of a factor change.
Changed = Literal["writes", "application"]
#: Returns why a machine does not support a level of a factor; None if it does.
WhyUnsupported = Callable[[Machine, Any], str | None]


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A row of the table of factors."""

    name: str
    #: What the levels change. Only levels of the application have baselines of their own.
    changes: Changed
    #: Allowed levels, in words.
    allowed: str
    #: Raises InputError or ValueError for a level that is not allowed.
    check: Callable[[Level], object]
    #: Returns why a machine does not support a level; None if every machine supports every level.
    why_unsupported: WhyUnsupported | None = None
    #: True if each level needs a job of its own, and so makes a case of its own.
    between_jobs: bool = False


#: The factors that reduce the application's cores.
CORE_FACTORS = ("reserved_cores", "core_spec")

#: Places of buffers and workers in the check `numa`. `nic` is the NUMA node of the network
#: interface. `other` is the node at the same position in the next socket. On one socket, it is the
#: next node.
PLACES = ("nic", "other")
#: Level of `workers`: they are not bound, and their memory is on the node of the buffer.
FREE_WORKERS = "free"
#: Levels of `load`: kernels of membench that load memory.
LOAD_KERNELS = ("read", "write", "nt_write")
#: Level of `load` without workers.
IDLE_LOAD = "idle"
#: Level with which the machine, the injector or the check chooses a size or the queue pairs. The
#: variable `layout` also takes it, for the fastest layout, but the factor `layout` does not.
AUTO = "auto"
#: A size as a multiple or a part of the last-level caches.
_LLC_SIZE = re.compile(r"(?:([1-9]\d{0,3})\*)?llc(?:/([1-9]\d{0,3}))?", re.ASCII)


def share_of(rate: Level) -> float | None:
    """Return 0.25 for `25%`; None if the level is not a share.

    Raises InputError for a share that is not from 0 % to below 100 %. Raises ValueError if the text
    before `%` is not a number.
    """
    text = str(rate)
    if not text.endswith("%"):
        return None
    share = float(text[:-1]) / 100
    if not 0 <= share < 1:
        raise InputError(f"rate: {text!r} found; allowed: shares from 0% to below 100%, or full")
    return share


def _check_rate(level: Level) -> object:
    return level in (0, "full") or share_of(level) is not None or units.rate_b_s(str(level), "rate")


def _one_of(*words: Level) -> Callable[[Level], object]:
    def check(level: Level) -> None:
        if level not in words:
            raise ValueError

    return check


def _check_whole_number(level: Level) -> None:
    if type(level) is not int or level < 0:
        raise ValueError


def _check_message(level: Level) -> object:
    return level in ("auto", "dram") or units.size_b(str(level), "message")


def queue_pairs_of(level: Level) -> int | None:
    """Return the number of queue pairs; None for `auto`. Raises ValueError."""
    if level == AUTO:
        return None
    number = int(str(level))
    if not 1 <= number <= MOST_QUEUE_PAIRS:
        raise ValueError
    return number


def _check_size(level: Level) -> object:
    return level == AUTO or _LLC_SIZE.fullmatch(str(level)) or units.size_b(str(level), "size")


def size_of(level: Level, machine: Machine, field: str) -> int | None:
    """Return the size in bytes that a level names; None for `auto`.

    The level is a size such as `64KiB`, or a part or multiple of all last-level caches of a node,
    such as `llc/2` or `4*llc`. Raises InputError, which names `field` for any other text, or the
    site file if the size of the caches is not known.
    """
    if level == AUTO:
        return None
    if llc_multiple := _LLC_SIZE.fullmatch(str(level)):
        multiplier, divisor = (int(digits or 1) for digits in llc_multiple.groups())
        return multiplier * machine.llc_b() // divisor
    return units.size_b(str(level), field)


def layout_of(level: Level) -> tuple[int, int] | None:
    """Return ranks per node and threads per rank: (8, 2) for `8x2`; None for the empty default.

    Raises ValueError.
    """
    if level == "":
        return None
    ranks, _, threads = str(level).partition("x")
    if not (ranks.isdecimal() and threads.isdecimal() and int(ranks) and int(threads)):
        raise ValueError
    return int(ranks), int(threads)


def why_layout_too_large(level: Level, cores: int) -> str | None:
    """Return why a layout does not fit on the application's `cores` of a node; None if it does."""
    ranks, threads = layout_of(level) or (1, 1)
    if ranks * threads > cores:
        return f"{level} takes {plural(ranks * threads, 'core')}; the application has {cores}"
    return None


#: Value of `reserved_cores` that leaves the machine's default number of cores free.
DEFAULT_RESERVED_CORES = -1


def most_points(ranks: int) -> int:
    """Return how many points of a grid each rank may have if a program counts in 32 bits.

    The program has a matrix with 27 entries a point. Two of its counts must fit into 32 bits: the
    entries of a rank, and the points of all ranks.
    """
    return (2**31 - 1) // max(27, ranks)


def app_cores(
    machine: Machine, reserved_cores: int = DEFAULT_RESERVED_CORES, core_spec: int = 0
) -> int:
    """Return the number of cores that the application has on a node.

    If the writers run on other nodes, Slurm takes `core_spec` cores away first. Raises InputError.
    """
    app_cpus, _ = machine.split_cores(None if reserved_cores < 0 else reserved_cores)
    if app_cpus:
        return len(app_cpus)
    cores = machine.node_facts().cores - core_spec - max(reserved_cores, 0)
    if cores < 1:
        raise InputError(
            f"reserved_cores: {max(reserved_cores, 0)}, and core_spec: {core_spec} found; allowed:"
            f" together fewer than the {machine.node_facts().cores} cores of a node"
        )
    return cores


def _why_no_core_left(machine: Machine, level: Level) -> str | None:
    cores = len(machine.usable_cores()) or machine.node_facts().cores
    if isinstance(level, int) and level >= cores:
        return f"leaves no core of {cores} on {machine.name} for the application"
    return None


def _why_no_core_spec(machine: Machine, level: Level) -> str | None:
    if level and not machine.core_spec:
        return f"core_spec of site/{machine.name}.yaml does not allow it"
    return _why_no_core_left(machine, level)


def _why_too_many_workers(machine: Machine, level: Level) -> str | None:
    cores_per_numa_node = max(1, app_cores(machine) // len(machine.node_facts().numa_nodes))
    if isinstance(level, int) and level > cores_per_numa_node:
        cores = plural(cores_per_numa_node, "core")
        return f"a NUMA node of {machine.name} has {cores} for the application"
    return None


def _why_no_program(machine: Machine, name: str) -> str | None:
    """Return why a tool or an injector cannot run; None if it can, or only nodes can tell."""
    if name == tools.NONE or machine.origins.policy != "same_host":
        return None
    return why_missing(name)


@cache
def why_missing(name: str) -> str | None:
    """Return why this host cannot run a tool or an injector; None if it can.

    The answer is cached, since every case asks for it.
    """
    return tools.TOOLS[name].why_missing() if name in tools.TOOLS else INJECTORS[name].why_missing()


def _why_no_numa_node(machine: Machine, level: Level) -> str | None:
    nodes = machine.node_facts().bindable_nodes()
    if level in nodes:
        return None
    return f"{machine.name} has {plural(len(nodes), 'NUMA node')}: {', '.join(map(str, nodes))}"


def numa_nodes_of_places(machine: Machine) -> dict[str, int]:
    """Return the NUMA node of each of `PLACES`. A machine with one NUMA node has no `other`.

    Raises InputError.
    """
    facts = machine.node_facts()
    nic_node = machine.nic_node()
    numa_nodes = facts.numa_nodes
    if len(numa_nodes) == 1:
        return {"nic": nic_node}
    # From a node to the node at the same position in the next socket.
    distance = facts.numa_nodes_per_socket if facts.sockets > 1 else 1
    nic_index = numa_nodes.index(nic_node) if nic_node in numa_nodes else 0
    return {"nic": nic_node, "other": numa_nodes[(nic_index + distance) % len(numa_nodes)]}


def numa_node_of_place(machine: Machine, factor: str, level: str) -> int:
    """Return the NUMA node of the place that is a factor's level.

    Raises InputError if the machine lacks the place.
    """
    if reason := _why_no_place(machine, level):
        raise InputError(f"{factor}: {level}: {reason}; allowed: nic")
    return numa_nodes_of_places(machine)[level]


def _why_no_place(machine: Machine, level: Level) -> str | None:
    if level in PLACES and level not in numa_nodes_of_places(machine):
        return f"{machine.name} has 1 NUMA node"
    return None


_DIRECTIONS = get_args(Direction)
_INJECTORS = [
    name
    for name, injector in INJECTORS.items()
    if injector.writes and injector.direction == "write"
]
_ALLOWED_NUMBERS = "whole numbers from 0"
_ALLOWED_SIZES = (
    f"{AUTO}, a size with its unit, such as 2MiB, or of the last-level caches: llc/2, 4*llc"
)


def _factor_of_words(
    name: str, changes: Changed, words: Sequence[str], why_unsupported: WhyUnsupported | None = None
) -> Factor:
    """Return a factor whose levels are words."""
    return Factor(
        name=name,
        changes=changes,
        allowed=", ".join(words),
        check=_one_of(*words),
        why_unsupported=why_unsupported,
    )


_COMMON_ROWS = (
    Factor(
        name="rate",
        changes="writes",
        allowed="0, full, a share such as 25%, or a rate such as 500MB/s",
        check=_check_rate,
    ),
    Factor(
        name="message",
        changes="writes",
        allowed="auto, dram, or a size with its unit, such as 64KiB",
        check=_check_message,
    ),
    Factor(name="footprint", changes="writes", allowed=_ALLOWED_SIZES, check=_check_size),
    Factor(
        name="queue_pairs",
        changes="writes",
        allowed=f"{AUTO}, or a number from 1 to {MOST_QUEUE_PAIRS}",
        check=queue_pairs_of,
    ),
    _factor_of_words("injector", "writes", _INJECTORS, _why_no_program),
    Factor(
        name="clients",
        changes="writes",
        allowed="whole numbers from 0; 0: as many as targets or origins, whichever is more",
        check=_check_whole_number,
    ),
    _factor_of_words("direction", "writes", _DIRECTIONS),
    Factor(
        name="comm_node",
        changes="writes",
        allowed="numbers of NUMA nodes",
        check=_check_whole_number,
        why_unsupported=_why_no_numa_node,
    ),
    Factor(
        name="writer_rail",
        changes="writes",
        allowed=rails.ALLOWED,
        check=rails.require_policy,
        why_unsupported=rails.why_unsupported,
    ),
    Factor(
        name="mpi_rail",
        changes="application",
        allowed=rails.ALLOWED,
        check=rails.require_policy,
        why_unsupported=rails.why_unsupported_for_mpi,
    ),
    Factor(
        name="reserved_cores",
        changes="application",
        allowed=_ALLOWED_NUMBERS,
        check=_check_whole_number,
        why_unsupported=_why_no_core_left,
    ),
    Factor(
        name="core_spec",
        changes="application",
        allowed=_ALLOWED_NUMBERS,
        check=_check_whole_number,
        why_unsupported=_why_no_core_spec,
        between_jobs=True,
    ),
    _factor_of_words("tool", "application", tools.NAMES, _why_no_program),
)
#: Factors of the checks that list them in `within_block`.
_CHECK_ROWS = (
    Factor(name="working_set", changes="application", allowed=_ALLOWED_SIZES, check=_check_size),
    Factor(
        name="layout",
        changes="application",
        allowed="RANKSxTHREADS of a node, such as 8x2",
        check=layout_of,
        why_unsupported=lambda machine, level: why_layout_too_large(level, app_cores(machine)),
    ),
    _factor_of_words("buffer", "application", PLACES, _why_no_place),
    _factor_of_words("workers", "application", (*PLACES, FREE_WORKERS), _why_no_place),
    _factor_of_words("load", "application", (IDLE_LOAD, *LOAD_KERNELS)),
    Factor(
        name="local_workers",
        changes="application",
        allowed=_ALLOWED_NUMBERS,
        check=_check_whole_number,
        why_unsupported=_why_too_many_workers,
    ),
)

#: Name -> factor.
FACTORS: dict[str, Factor] = {factor.name: factor for factor in (*_COMMON_ROWS, *_CHECK_ROWS)}
#: Names of the factors that every check has.
COMMON_FACTORS = frozenset(factor.name for factor in _COMMON_ROWS)


def check_level(name: str, level: Level) -> None:
    """Raise InputError for a level that is not allowed. The message says what is allowed."""
    factor = FACTORS.get(name)
    if factor is None:
        return
    try:
        factor.check(level)
    except (InputError, ValueError):
        raise InputError(f"{name}: {level} found; allowed: {factor.allowed}") from None


def variable_fault(reframe_check: Any, variable: str, why: str) -> InputError:
    """Return the error of an invalid value of a variable; `why` says what is wrong or allowed."""
    value = getattr(reframe_check, variable)
    return InputError(f"{reframe_check.name}.{variable}: {value} found; {why}")


def changes_within_jobs(name: str) -> bool:
    """Return whether a factor is common to all checks and can change between runs of a job."""
    factor = FACTORS.get(name)
    return factor is not None and name in COMMON_FACTORS and not factor.between_jobs


def why_too_many_nodes(machine: Machine, targets: int) -> str | None:
    """Return why a machine cannot have `targets` target nodes; None if its site file allows it."""
    origins = plural(machine.origins.nodes, "origin")
    if targets + machine.origins.nodes > MAX_NODES:
        return f"{plural(targets, 'target')} and {origins} are more than {MAX_NODES} nodes"
    if machine.nodes is not None and targets + machine.origins.separate_nodes > machine.nodes:
        words = f"{plural(targets, 'target')} and {origins}"
        return f"{words} are more than `nodes` of site/{machine.name}.yaml: {machine.nodes}"
    if targets > 1 and machine.origins.policy == "same_host":
        return f"origins and target of {machine.name} share one host (origins.policy: same_host)"
    return None


def why_unsupported(machine: Machine, name: str, level: Level) -> str | None:
    """Return why a machine does not support a level of a factor, in one line; None if it does."""
    factor = FACTORS.get(name)
    if factor is None or factor.why_unsupported is None:
        return None
    return factor.why_unsupported(machine, level)
