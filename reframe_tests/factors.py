"""The table of factors: their allowed levels, and what a machine must have for them.

A factor is a variable of the checks (of the mixins, or a check's own) that varies between runs. One
that is not in the table is a check's own variable: it varies within a block if the check lists it
in `within_block`; otherwise each level is a case of its own.
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

Part = Literal["writes", "application"]
#: Why a machine does not support a level; None if it does.
Missing = Callable[[Machine, Any], str | None]


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One row of the table."""

    name: str
    #: Part of a treatment that its levels change. Only levels of the application have baselines.
    part: Part
    #: Allowed levels, in words.
    allowed: str
    #: Checks a level; raises InputError or ValueError if it is not allowed.
    check: Callable[[Level], object]
    #: Why a machine does not support a level; None if it does.
    missing: Missing | None = None
    #: True if each level is a job, and so a case, of its own.
    between_jobs: bool = False


#: The factors that leave the application fewer cores.
OF_CORES = ("reserved_cores", "core_spec")

#: Where the check `numa` places buffers and workers. Names mean the same on every machine: `nic`
#: is the NUMA node of the network interface, `other` the first node of another socket (of the
#: same socket if there is only one).
PLACES = ("nic", "other")
#: Workers that are not bound; their memory is on the node of the buffer.
FREE = "free"
#: Kernels of membench that load memory, and the level without workers.
LOADS = ("read", "write", "nt_write")
IDLE = "idle"
#: The size that an injector or a check has by itself; of `layout` no level: the fastest.
AUTO = "auto"
#: A size as a multiple or a part of the last-level caches.
_OF_LLC = re.compile(r"(?:([1-9]\d{0,3})\*)?llc(?:/([1-9]\d{0,3}))?", re.ASCII)


def share_of(rate: Level) -> float | None:
    """`25%` as 0.25; None if the level is not a share."""
    text = str(rate)
    if not text.endswith("%"):
        return None
    share = float(text[:-1]) / 100
    if not 0 <= share < 1:
        raise InputError(f"rate: {text!r} found; allowed: shares from 0% to below 100%, or full")
    return share


def _rate(level: Level) -> object:
    return level in (0, "full") or share_of(level) is not None or units.rate_b_s(str(level), "rate")


def _one_of(*words: Level) -> Callable[[Level], object]:
    def check(level: Level) -> None:
        if level not in words:
            raise ValueError

    return check


def _whole(level: Level) -> None:
    if type(level) is not int or level < 0:
        raise ValueError


def _message(level: Level) -> object:
    return level in ("auto", "dram") or units.size_b(str(level), "message")


def queue_pairs_of(level: Level) -> int | None:
    """The number of queue pairs; None for `auto`. Raises ValueError."""
    number = None if level == AUTO else int(str(level))
    if number is not None and not 1 <= number <= MOST_QUEUE_PAIRS:
        raise ValueError
    return number


def _size(level: Level) -> object:
    return level == AUTO or _OF_LLC.fullmatch(str(level)) or units.size_b(str(level), "size")


def size_of(level: Level, machine: Machine) -> int | None:
    """`64KiB`, `llc/2` or `4*llc` in bytes, of all last-level caches of a node; None for `auto`.

    Raises InputError if caches are of unknown size.
    """
    if level == AUTO:
        return None
    if llc_multiple := _OF_LLC.fullmatch(str(level)):
        times, parts = (int(part or 1) for part in llc_multiple.groups())
        return times * machine.llc_b() // parts
    return units.size_b(str(level), "size")


def layout_of(level: Level) -> tuple[int, int] | None:
    """`8x2` as 8 ranks of 2 threads a node; None for empty, the check's own. Raises ValueError."""
    if level == "":
        return None
    ranks, _, threads = str(level).partition("x")
    if not (ranks.isdecimal() and threads.isdecimal() and int(ranks) and int(threads)):
        raise ValueError
    return int(ranks), int(threads)


def missing_cores(level: Level, cores: int) -> str | None:
    """Return why a layout does not fit on the application's cores of a node; None if it does."""
    ranks, threads = layout_of(level) or (1, 1)
    if ranks * threads > cores:
        return f"{level} takes {plural(ranks * threads, 'core')}; the application has {cores}"
    return None


def app_cores(machine: Machine, reserved_cores: int = -1, core_spec: int = 0) -> int:
    """Cores of a node that the application has; -1 leaves the machine's number of cores free.

    On other hosts than the origins', Slurm takes `core_spec` of them first. Raises InputError.
    """
    reserved = max(reserved_cores, 0)
    app_cpus, _ = machine.split_cpus(None if reserved_cores < 0 else reserved_cores)
    return len(app_cpus) or machine.node_facts().cores - core_spec - reserved


def _too_few_cores(machine: Machine, level: Level) -> str | None:
    cores = len(machine.usable_cpus()) or machine.node_facts().cores
    if isinstance(level, int) and level >= cores:
        return f"leaves no core of {cores} on {machine.name} for the application"
    return None


def _no_core_spec(machine: Machine, level: Level) -> str | None:
    if level and not machine.core_spec:
        return f"core_spec of site/{machine.name}.yaml does not allow it"
    return _too_few_cores(machine, level)


def _too_few_in_node(machine: Machine, level: Level) -> str | None:
    in_node = max(1, app_cores(machine) // len(machine.node_facts().numa_nodes))
    if isinstance(level, int) and level > in_node:
        return f"a NUMA node of {machine.name} has {in_node} cores for the application"
    return None


def _no_such_program(machine: Machine, name: str) -> str | None:
    """Return why a tool or an injector cannot run; only hosts that are origins and targets know."""
    if name == tools.NONE or machine.origins.policy != "same_host":
        return None
    return why_missing(name)


@cache
def why_missing(name: str) -> str | None:
    """Tried once per process, since every case of a campaign asks."""
    return tools.TOOLS[name].missing() if name in tools.TOOLS else INJECTORS[name].missing()


def _no_such_node(machine: Machine, level: Level) -> str | None:
    nodes = machine.node_facts().bindable_nodes()
    return None if level in nodes else f"{machine.name} has {plural(len(nodes), 'NUMA node')}"


def node_of_places(machine: Machine) -> dict[str, int]:
    """Place -> NUMA node; without `other` if the machine has one node. Raises InputError."""
    facts = machine.node_facts()
    nic = machine.nic_node()
    numbers = facts.numa_nodes
    if len(numbers) == 1:
        return {"nic": nic}
    apart = len(numbers) // facts.sockets if facts.sockets > 1 else 1
    position = numbers.index(nic) if nic in numbers else 0
    return {"nic": nic, "other": numbers[(position + apart) % len(numbers)]}


def node_at(machine: Machine, field: str, placement: str) -> int:
    """NUMA node of a place. Raises InputError if the machine lacks it."""
    if reason := _no_such_place(machine, placement):
        raise InputError(f"{field}: {placement}: {reason}; allowed: nic")
    return node_of_places(machine)[placement]


def _no_such_place(machine: Machine, level: Level) -> str | None:
    if level in PLACES and level not in node_of_places(machine):
        return f"{machine.name} has 1 NUMA node"
    return None


_DIRECTIONS = get_args(Direction)
_INJECTORS = [name for name, it in INJECTORS.items() if it.writes and it.direction == "write"]
_NUMBERS = "whole numbers from 0"
_SIZES = f"{AUTO}, a size with its unit, such as 2MiB, or of the last-level caches: llc/2, 4*llc"


def _named(name: str, part: Part, words: Sequence[str], missing: Missing | None = None) -> Factor:
    """A factor whose levels are words."""
    return Factor(
        name=name, part=part, allowed=", ".join(words), check=_one_of(*words), missing=missing
    )


_TABLE = (
    Factor(
        name="rate",
        part="writes",
        allowed="0, full, a share such as 25%, or a rate such as 500MB/s",
        check=_rate,
    ),
    Factor(
        name="message",
        part="writes",
        allowed="auto, dram, or a size with its unit, such as 64KiB",
        check=_message,
    ),
    Factor(name="footprint", part="writes", allowed=_SIZES, check=_size),
    Factor(
        name="queue_pairs",
        part="writes",
        allowed=f"{AUTO}, or a number from 1 to {MOST_QUEUE_PAIRS}",
        check=queue_pairs_of,
    ),
    _named("injector", "writes", _INJECTORS, _no_such_program),
    Factor(
        name="clients",
        part="writes",
        allowed="whole numbers; 0: as the machine has origins",
        check=_whole,
    ),
    _named("direction", "writes", _DIRECTIONS),
    Factor(
        name="comm_node",
        part="writes",
        allowed="numbers of NUMA nodes",
        check=_whole,
        missing=_no_such_node,
    ),
    Factor(
        name="writer_rail",
        part="writes",
        allowed=rails.ALLOWED,
        check=rails.check,
        missing=rails.missing,
    ),
    Factor(
        name="mpi_rail",
        part="application",
        allowed=rails.ALLOWED,
        check=rails.check,
        missing=rails.missing_for_mpi,
    ),
    Factor(
        name="reserved_cores",
        part="application",
        allowed=_NUMBERS,
        check=_whole,
        missing=_too_few_cores,
    ),
    Factor(
        name="core_spec",
        part="application",
        allowed=_NUMBERS,
        check=_whole,
        missing=_no_core_spec,
        between_jobs=True,
    ),
    _named("tool", "application", tools.NAMES, _no_such_program),
)
#: Factors of checks that name them in `within_block`.
_OF_CHECKS = (
    Factor(name="working_set", part="application", allowed=_SIZES, check=_size),
    Factor(
        name="layout",
        part="application",
        allowed="RANKSxTHREADS of a node, such as 8x2",
        check=layout_of,
        missing=lambda machine, level: missing_cores(level, app_cores(machine)),
    ),
    _named("buffer", "application", PLACES, _no_such_place),
    _named("workers", "application", (*PLACES, FREE), _no_such_place),
    _named("load", "application", (IDLE, *LOADS)),
    Factor(
        name="local_workers",
        part="application",
        allowed=_NUMBERS,
        check=_whole,
        missing=_too_few_in_node,
    ),
)

#: Name -> factor.
FACTORS: dict[str, Factor] = {factor.name: factor for factor in (*_TABLE, *_OF_CHECKS)}
#: Names of those that every check has.
EVERYWHERE = frozenset(factor.name for factor in _TABLE)


def check_level(name: str, level: Level) -> None:
    """Check a level. Raises InputError, which says what is allowed."""
    factor = FACTORS.get(name)
    if factor is None:
        return
    try:
        factor.check(level)
    except (InputError, ValueError):
        raise InputError(f"{name}: {level} found; allowed: {factor.allowed}") from None


def fault(check: Any, variable: str, why: str) -> InputError:
    """The value of a check's variable is not allowed; `why` says what is."""
    return InputError(f"{check.name}.{variable}: {getattr(check, variable)} found; {why}")


def changes_within_jobs(name: str) -> bool:
    """Return whether a factor that every check has changes from one run to the next."""
    factor = FACTORS.get(name)
    return factor is not None and name in EVERYWHERE and not factor.between_jobs


def missing_nodes(machine: Machine, targets: int) -> str | None:
    """Return why a machine cannot give an application so many nodes; None if its file allows it."""
    if targets + machine.origins.nodes > MAX_NODES:
        return f"{targets} and {machine.origins.nodes} of origins are more than {MAX_NODES} nodes"
    if targets > 1 and machine.origins.policy == "same_host":
        return f"origins and target of {machine.name} share one host (origins.policy: same_host)"
    return None


def missing_level(machine: Machine, name: str, level: Level) -> str | None:
    """Return why a machine does not support a level of a factor, in one line; None if it does."""
    factor = FACTORS.get(name)
    return factor.missing(machine, level) if factor and factor.missing else None
