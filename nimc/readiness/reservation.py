"""Creates, checks and removes the reservation of a machine's origin nodes."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from datetime import datetime

from records.commands import command
from records.errors import InputError, MachineError
from records.files import group_names, user_name
from records.machine.site import Machine
from records.slurm import client
from records.slurm.parse import Reservation
from records.units import plural


def name_of(machine: Machine) -> str:
    """Return the reservation that the site file names. Raises InputError if it names none."""
    if machine.origins.reservation is None:
        field = f"site/{machine.name}.yaml: origins.reservation"
        raise InputError(f"{field}: missing; allowed: a reservation's name")
    return machine.origins.reservation


def create_command(machine: Machine, minutes: int, nodes: str | None, user: str) -> list[str]:
    """Return the command that creates the reservation, of named nodes or from a partition.

    Raises InputError if neither is known.
    """
    origins = machine.origins
    create_without_nodes = client.create_reservation_command(name_of(machine), minutes, user)
    if nodes:
        return [*create_without_nodes, f"Nodes={nodes}"]
    if origins.partition is None:
        field = f"site/{machine.name}.yaml: origins.partition"
        raise InputError(f"{field}: missing; give a partition to reserve nodes from, or --nodes")
    return [*create_without_nodes, f"PartitionName={origins.partition}", f"NodeCnt={origins.nodes}"]


def admits(access_list: Sequence[str], names: Collection[str]) -> bool:
    """Return whether a reservation's list of users or groups admits somebody with these names.

    A name with a `-` in front excludes everybody who has it. A list that names nobody to admit
    admits everybody else.
    """
    excluded = {name[1:] for name in access_list if name.startswith("-")}
    admitted = {name for name in access_list if not name.startswith("-")}
    return excluded.isdisjoint(names) and (not admitted or not admitted.isdisjoint(names))


def account_doubt(current: Reservation) -> str | None:
    """Return which accounts the reservation is for; None if it is for any.

    Only Slurm can tell whether jobs are charged to them: an account includes those below it.
    """
    if not current.accounts:
        return None
    names = ", ".join(current.accounts)
    return f"it is for the account {names}: not known whether jobs are charged to it"


def shortcomings(
    current: Reservation,
    nodes: int,
    needed_s: float,
    user: str,
    groups: Collection[str],
    now: datetime,
) -> list[str]:
    """Return why the reservation does not give `nodes` origins for `needed_s` seconds.

    The list is empty if it does. Accounts are not judged (`account_doubt`).
    """
    faults = []
    left_s = (current.end - now).total_seconds()
    if current.state != "ACTIVE":
        faults.append(f"is {current.state}, from {current.start}")
    if left_s < needed_s:
        faults.append(f"ends in {max(left_s, 0) / 60:.0f} min; {needed_s / 60:.0f} min are needed")
    if current.node_count < nodes:
        faults.append(f"holds {plural(current.node_count, 'node')}; needed: {nodes}")
    if not admits(current.users, [user]):
        faults.append(f"is for {', '.join(current.users)}, not for {user}")
    if not admits(current.groups, groups):
        allowed_groups = ", ".join(current.groups)
        faults.append(f"is for the group {allowed_groups}, and {user} is in {', '.join(groups)}")
    return [f"reservation {current.name} {fault}" for fault in faults]


def create(machine: Machine, minutes: int, nodes: str | None) -> Reservation:
    """Create the reservation.

    Raises MachineError, with a command for the operator, if Slurm refuses.
    """
    client.run_or_advise(create_command(machine, minutes, nodes, user_name(os.geteuid())))
    current = client.find_reservation(name_of(machine))
    if current is None:
        raise MachineError(f"Slurm does not show the new reservation {name_of(machine)}")
    return current


def remove(machine: Machine) -> None:
    """Remove the reservation.

    Raises MachineError, with a command for the operator, if Slurm refuses.
    """
    client.run_or_advise(client.delete_reservation_command(name_of(machine)))


def check(machine: Machine, nodes: int, needed_s: float) -> Reservation | None:
    """Return the reservation of the origins; None if the machine's origins need none.

    `nodes` is the largest number of origin nodes of one allocation. Raises MachineError if the
    reservation does not exist or does not suffice.
    """
    if machine.origins.policy != "reservation":
        return None
    current = client.find_reservation(name_of(machine))
    user = user_name(os.geteuid())
    if current is None:
        advice = command("origins", "create", "--machine", machine.name)
        raise MachineError(f"reservation {name_of(machine)} does not exist; `{advice}` creates it")
    groups = group_names(user, os.getegid())
    if faults := shortcomings(current, nodes, needed_s, user, groups, datetime.now()):
        advice = command("origins", "remove", "--machine", machine.name)
        raise MachineError(f"{'; '.join(faults)}; to create another one, first run `{advice}`")
    return current
