"""The reservation of a machine's origin nodes: create, check, remove."""

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


def name_of(machine: Machine) -> str:
    """The reservation in the machine's file. Raises InputError if there is none."""
    if machine.origins.reservation is None:
        field = f"site/{machine.name}.yaml: origins.reservation"
        raise InputError(f"{field}: missing; allowed: a reservation's name")
    return machine.origins.reservation


def create_command(machine: Machine, minutes: int, nodes: str | None, user: str) -> list[str]:
    """The command that creates the reservation, of named nodes or from a partition."""
    origins = machine.origins
    command = client.create_reservation(name_of(machine), minutes, user)
    if nodes:
        return [*command, f"Nodes={nodes}"]
    if origins.partition is None:
        key = f"site/{machine.name}.yaml: origins.partition"
        raise InputError(f"{key}: missing; give a partition to reserve nodes from, or --nodes")
    return [*command, f"PartitionName={origins.partition}", f"NodeCnt={origins.nodes}"]


def admits(listed: Sequence[str], names: Collection[str]) -> bool:
    """Return whether a list of a reservation admits someone of these names: an empty one does."""
    excluded = {name[1:] for name in listed if name.startswith("-")}
    wanted = {name for name in listed if not name.startswith("-")}
    return excluded.isdisjoint(names) and (not wanted or not wanted.isdisjoint(names))


def doubt(current: Reservation) -> str | None:
    """Whom else it is for, which only Slurm can judge: an account includes those below it."""
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
    """Return why `nodes` origins cannot be had for `needed_s` seconds; empty if they can.

    Unless Slurm refuses the account of its jobs: `doubt`.
    """
    faults, left_s = [], (current.end - now).total_seconds()
    if current.state != "ACTIVE":
        faults.append(f"is {current.state}, from {current.start}")
    if left_s < needed_s:
        faults.append(f"ends in {max(left_s, 0) / 60:.0f} min; {needed_s / 60:.0f} min are needed")
    if current.node_count < nodes:
        faults.append(f"holds {current.node_count} nodes; {nodes} are needed")
    if not admits(current.users, [user]):
        faults.append(f"is for {', '.join(current.users)}, not for {user}")
    if not admits(current.groups, groups):
        listed = ", ".join(current.groups)
        faults.append(f"is for the group {listed}, and {user} is in {', '.join(groups)}")
    return [f"reservation {current.name} {fault}" for fault in faults]


def create(machine: Machine, minutes: int, nodes: str | None) -> Reservation:
    """Create the reservation; MachineError with a command for the operator if Slurm refuses."""
    client.run_or_advise(create_command(machine, minutes, nodes, user_name(os.geteuid())))
    current = client.find_reservation(name_of(machine))
    if current is None:
        raise MachineError(f"Slurm does not show the new reservation {name_of(machine)}")
    return current


def remove(machine: Machine) -> None:
    """Remove the reservation; MachineError with a command for the operator if Slurm refuses."""
    client.run_or_advise(client.delete_reservation(name_of(machine)))


def check(machine: Machine, nodes: int, needed_s: float) -> Reservation | None:
    """The reservation of the origins, None without one. Raises MachineError if it does not suffice.

    `nodes` is the largest number of origin nodes of one allocation.
    """
    if machine.origins.policy != "reservation":
        return None
    current, user = client.find_reservation(name_of(machine)), user_name(os.geteuid())
    if current is None:
        create = command("origins", "create", "--machine", machine.name)
        raise MachineError(f"reservation {name_of(machine)} does not exist; to have it: `{create}`")
    groups = group_names(user, os.getegid())
    if faults := shortcomings(current, nodes, needed_s, user, groups, datetime.now()):
        remove = command("origins", "remove", "--machine", machine.name)
        raise MachineError(f"{'; '.join(faults)}; for another one, first: `{remove}`")
    return current
