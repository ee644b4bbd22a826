"""Rail policies: which devices writers use, and the application's MPI between nodes.

As in the multirail study: `default` leaves the choice (writers take all rails in turn), `nic0`,
`nic1`, ... use one rail, `local` the rails of the NUMA node: for writers that of their buffers, for
MPI that of each rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from records.checkout import ROOT
from records.errors import InputError
from records.machine import devices
from records.machine.site import Machine, Rail
from records.sample import Level

DEFAULT, LOCAL = "default", "local"
ALLOWED = "default, local, nic0, nic1, ..."
_ONE = re.compile(r"nic([0-9])")

#: The script that chooses by a rank's NUMA node.
_LOCAL_RAIL = ROOT / "reframe_tests/src/local_rail/local_rail.sh"


def check(level: Level) -> None:
    """Raise ValueError for a level that is not allowed."""
    if level not in (DEFAULT, LOCAL) and not _ONE.fullmatch(str(level)):
        raise ValueError


def missing(machine: Machine, level: Level) -> str | None:
    """Return why a machine does not have a policy; None if it does."""
    single = _ONE.fullmatch(str(level))
    count = len(machine.rails)
    if (single and int(single[1]) >= count) or (level == LOCAL and not count):
        return f"{machine.name} has {count} rails (rails in its site file)"
    if level == LOCAL and any(rail.numa_node is None for rail in machine.rails):
        return f"a rail of {machine.name} has no numa_node in its site file"
    return None


def missing_for_mpi(machine: Machine, level: Level) -> str | None:
    """The same for the application's MPI, which takes names only, before its nodes are known."""
    if level == DEFAULT:
        return None
    if reason := missing(machine, level):
        return reason
    for rail in _rails_of_policy(machine, str(level)):
        if devices.has_address(rail.device):
            address = f"rail {rail.device} of {machine.name} has a PCI address for its device"
            return f"{address}, where MPI needs a name"
    choices = [_rails_of_policy(machine, str(level))]
    if level == LOCAL:
        choices = [local_to(machine, node) for node in machine.node_facts().numa_nodes]
    try:
        for chosen in choices:
            _variables(chosen)
    except ValueError as error:
        return str(error)
    return None


def writer_devices(machine: Machine, policy: str, buffer_node: int | None) -> tuple[str, ...]:
    """Devices of the writers, which take them in turn. Raises InputError."""
    if not machine.rails:
        _require(machine, "writer_rail", policy)
        return (machine.device,) if machine.device else ()
    chosen = _chosen(machine, "writer_rail", policy)
    if policy == LOCAL and buffer_node is not None:
        chosen = local_to(machine, buffer_node)
    return tuple(rail.device for rail in chosen)


def devices_for_mpi(machine: Machine, policy: str) -> list[str]:
    """Devices that MPI must use between nodes; empty if it chooses. Raises InputError."""
    if policy == DEFAULT:
        return []
    return [rail.device for rail in _chosen(machine, "mpi_rail", policy)]


def environment_for_mpi(machine: Machine, policy: str) -> dict[str, str]:
    """Variables for MPI over one rail; none for other policies. Raises InputError."""
    if policy in (DEFAULT, LOCAL):
        return {}
    return _variables(_chosen(machine, "mpi_rail", policy))


def wrapper(machine: Machine, policy: str) -> list[str]:
    """Words before each rank's command: `local` chooses by the rank's NUMA node."""
    if policy != LOCAL:
        return []
    _require(machine, "mpi_rail", policy)
    choices = []
    for node in machine.node_facts().numa_nodes:
        values = _variables(local_to(machine, node))
        choices.append(" ".join([str(node), *(f"{name}={text}" for name, text in values.items())]))
    return ["sh", str(_LOCAL_RAIL), *choices, "--"]


def local_to(machine: Machine, node: int) -> list[Rail]:
    """The rails of a NUMA node; without one, those of its socket; without one there, all."""
    facts = machine.node_facts()
    placed = [(rail, rail.numa_node) for rail in machine.rails if rail.numa_node is not None]
    local = [rail for rail, rail_node in placed if rail_node == node]
    near = [
        rail for rail, rail_node in placed if facts.socket_of(rail_node) == facts.socket_of(node)
    ]
    return local or near or machine.rails


def _chosen(machine: Machine, field: str, policy: str) -> list[Rail]:
    _require(machine, field, policy)
    return _rails_of_policy(machine, policy)


def _rails_of_policy(machine: Machine, policy: str) -> list[Rail]:
    single = _ONE.fullmatch(policy)
    return [machine.rails[int(single[1])]] if single else machine.rails


def _require(machine: Machine, field: str, policy: str) -> None:
    missing_rail = missing_for_mpi if field == "mpi_rail" else missing
    if reason := missing_rail(machine, policy):
        raise InputError(f"{field}: {policy}: {reason}; allowed: {DEFAULT}")


def _variables(chosen: Sequence[Rail]) -> dict[str, str]:
    """For one rail those of all libraries; of several, those that take a list.

    Raises ValueError if there are none.
    """
    return devices.mpi_variables_of_all(
        {rail.device: rail.mpi_device or str(devices.parse_name(rail.device)) for rail in chosen}
    )
