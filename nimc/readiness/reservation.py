"""Creates, checks and removes the Slurm reservation of a machine's origin nodes.

Origins are the nodes on which only writers run.
"""

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
    """Return the name of the reservation in the site file. Raises InputError if it has none."""
    if machine.origins.reservation is None:
        field = f"site/{machine.name}.yaml: origins.reservation"
        raise InputError(f"{field}: missing; allowed: a reservation's name")
    return machine.origins.reservation


def create_command(machine: Machine, minutes: int, nodes: str | None, user: str) -> list[str]:
    """Return the command that creates the reservation.

    `nodes` are the names of the nodes to reserve. If it is None, Slurm chooses nodes from the
    partition of the origins. Raises InputError if there is no such partition either.
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
    """Return whether a reservation's list of users or of groups admits a user.

    `names` are the name of the user or of the user's groups. A name in the list that begins with
    `-` excludes the users that have this name. A list that has only such names, or is empty, admits
    all other users.
    """
    excluded = {name[1:] for name in access_list if name.startswith("-")}
    admitted = {name for name in access_list if not name.startswith("-")}
    return excluded.isdisjoint(names) and (not admitted or not admitted.isdisjoint(names))


def account_doubt(current: Reservation) -> str | None:
    """Return a doubt that names the accounts of the reservation; None if it is for any account.

    Whether jobs are charged to these accounts is known to Slurm only, since an account includes the
    accounts below it.
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
    """Return why the reservation cannot provide `nodes` origins to a user for `needed_s` seconds.

    The list is empty if the reservation can. `groups` are the groups of the user. Accounts are not
    checked here; see `account_doubt`.
    """
    faults = []
    # Clocks may change in between, so the difference of two local times would be wrong.
    left_s = current.end.timestamp() - now.timestamp()
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
    """Create the reservation for the present user; `nodes` as in `create_command`.

    If Slurm refuses, raises MachineError with the command that an operator can run.
    """
    client.run_or_advise(create_command(machine, minutes, nodes, user_name(os.geteuid())))
    current = client.find_reservation(name_of(machine))
    if current is None:
        raise MachineError(f"Slurm does not show the new reservation {name_of(machine)}")
    return current


def remove(machine: Machine) -> None:
    """Remove the reservation.

    If Slurm refuses, raises MachineError with the command that an operator can run.
    """
    client.run_or_advise(client.delete_reservation_command(name_of(machine)))


def check(machine: Machine, nodes: int, needed_s: float) -> Reservation | None:
    """Return the reservation of the origins; None if the origins of the machine need none.

    `nodes` is the largest number of origin nodes that an allocation takes. `needed_s` is the time
    for which they are needed, seconds. Raises MachineError if the reservation does not exist, or if
    it cannot provide these nodes for this time.
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
