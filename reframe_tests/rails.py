"""Rail policies: the network devices (rails) that the writers or the application's MPI use.

MPI uses the rails between nodes. The policies are those of the multirail study. With `default`,
writers take all rails in turn, and MPI chooses. `nic0`, `nic1`, ... use one rail. `local` uses the
rails near the NUMA node of the writers' buffers, or near the NUMA node of each MPI rank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from records.checkout import ROOT
from records.errors import InputError
from records.machine import devices
from records.machine.site import Machine, Rail
from records.sample import Level
from records.units import plural

DEFAULT, LOCAL = "default", "local"
ALLOWED = "default, local, nic0, nic1, ..."
_SINGLE_RAIL = re.compile(r"nic([0-9])")

#: The script that chooses rails by a rank's NUMA node.
_LOCAL_RAIL_SCRIPT = ROOT / "reframe_tests/src/local_rail/local_rail.sh"


def require_policy(level: Level) -> None:
    """Raise ValueError for a level that is not allowed."""
    if level not in (DEFAULT, LOCAL) and not _SINGLE_RAIL.fullmatch(str(level)):
        raise ValueError


def why_unsupported(machine: Machine, level: Level) -> str | None:
    """Return why a machine does not have the rails of a policy; None if it does."""
    single = _SINGLE_RAIL.fullmatch(str(level))
    count = len(machine.rails)
    if (single and int(single[1]) >= count) or (level == LOCAL and not count):
        return f"{machine.name} has {plural(count, 'rail')} (rails in its site file)"
    if level == LOCAL and any(rail.numa_node is None for rail in machine.rails):
        return f"a rail of {machine.name} has no numa_node in its site file"
    return None


def why_unsupported_for_mpi(machine: Machine, level: Level) -> str | None:
    """Return why MPI cannot follow a policy; None if it can.

    MPI's variables need names of devices. Addresses cannot be used, since the variables are chosen
    before the nodes are known.
    """
    if level == DEFAULT:
        return None
    if reason := why_unsupported(machine, level):
        return reason
    for rail in _rails_of_policy(machine, str(level)):
        if devices.is_pci_address(rail.device):
            return (
                f"rail {rail.device} of {machine.name} has a PCI address for its device, but MPI"
                " needs a name"
            )
    rail_sets = [_rails_of_policy(machine, str(level))]
    if level == LOCAL:
        rail_sets = [rails_near(machine, node) for node in machine.node_facts().numa_nodes]
    try:
        for rails in rail_sets:
            _mpi_variables(rails)
    except ValueError as error:
        return str(error)
    return None


def writer_devices(machine: Machine, policy: str, buffer_node: int | None) -> tuple[str, ...]:
    """Return the devices that writers take in turn. Raises InputError."""
    if not machine.rails:
        _require_supported(machine, "writer_rail", policy)
        return (machine.device,) if machine.device else ()
    rails = _checked_rails(machine, "writer_rail", policy)
    if policy == LOCAL and buffer_node is not None:
        rails = rails_near(machine, buffer_node)
    return tuple(rail.device for rail in rails)


def devices_for_mpi(machine: Machine, policy: str) -> list[str]:
    """Return the devices that MPI must use between nodes; an empty list if MPI chooses.

    Raises InputError.
    """
    if policy == DEFAULT:
        return []
    return [rail.device for rail in _checked_rails(machine, "mpi_rail", policy)]


def environment_for_mpi(machine: Machine, policy: str) -> dict[str, str]:
    """Return the environment variables for MPI with a policy that uses one rail.

    For `default` and `local`, the dictionary is empty. Raises InputError.
    """
    if policy in (DEFAULT, LOCAL):
        return {}
    return _mpi_variables(_checked_rails(machine, "mpi_rail", policy))


def local_rail_wrapper(machine: Machine, policy: str) -> list[str]:
    """Return the command that wraps each rank and chooses rails by the rank's NUMA node.

    It is empty unless the policy is `local`. Raises InputError.
    """
    if policy != LOCAL:
        return []
    _require_supported(machine, "mpi_rail", policy)
    choices = []
    for node in machine.node_facts().numa_nodes:
        variables = _mpi_variables(rails_near(machine, node)).items()
        choices.append(" ".join([str(node), *(f"{name}={value}" for name, value in variables)]))
    return ["sh", str(_LOCAL_RAIL_SCRIPT), *choices, "--"]


def rails_near(machine: Machine, node: int) -> list[Rail]:
    """Return the rails of a NUMA node.

    If the node has none, returns the rails of its socket. If that has none, returns all rails.
    """
    facts = machine.node_facts()
    rails_and_nodes = [
        (rail, rail.numa_node) for rail in machine.rails if rail.numa_node is not None
    ]
    on_node = [rail for rail, rail_node in rails_and_nodes if rail_node == node]
    socket = facts.socket_of(node)
    on_socket = [
        rail for rail, rail_node in rails_and_nodes if facts.socket_of(rail_node) == socket
    ]
    return on_node or on_socket or machine.rails


def _checked_rails(machine: Machine, field: str, policy: str) -> list[Rail]:
    _require_supported(machine, field, policy)
    return _rails_of_policy(machine, policy)


def _rails_of_policy(machine: Machine, policy: str) -> list[Rail]:
    single = _SINGLE_RAIL.fullmatch(policy)
    return [machine.rails[int(single[1])]] if single else machine.rails


def _require_supported(machine: Machine, field: str, policy: str) -> None:
    """Raise InputError if the machine does not support the policy."""
    why_not = why_unsupported_for_mpi if field == "mpi_rail" else why_unsupported
    if reason := why_not(machine, policy):
        raise InputError(f"{field}: {policy}: {reason}; allowed: {DEFAULT}")


def _mpi_variables(rails: Sequence[Rail]) -> dict[str, str]:
    """Return the environment variables that bind MPI to rails.

    For one rail, these are the variables of all MPI libraries. For several rails, they are the
    variables that take a list of devices. Raises ValueError if there are none.
    """
    return devices.mpi_variables_of_all(
        {rail.device: rail.mpi_device or devices.ucx_name(rail.device) for rail in rails}
    )
