"""The reservation of a machine's origin nodes: create, find, check, remove."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from records.commands import command
from records.errors import InputError, MachineError
from records.files import group_names, user_name
from records.machine.site import Machine
from records.programs import ProgramAnswer, ask
from records.slurm.parse import fields_of

#: Slurm's format of times in one-line records.
_TIME = "%Y-%m-%dT%H:%M:%S"
#: How such a record begins; other lines say that there is none.
_RECORD = "ReservationName="


@dataclass(frozen=True)
class Reservation:
    """A reservation as Slurm shows it."""

    name: str
    start: datetime
    end: datetime
    nodes: str
    node_count: int
    #: Whom it admits, everyone if all are empty; a name with `-` is excluded.
    users: list[str]
    groups: list[str]
    accounts: list[str]
    state: str
    #: Such as `MAINT`.
    flags: list[str]


def parse(line: str) -> Reservation:
    """One line of `scontrol -o show reservation`. Raises MachineError if it is not one."""
    fields = fields_of(line)

    def listed(key: str) -> list[str]:
        return [name for name in fields.get(key, "").split(",") if name not in ("", "(null)")]

    try:
        return Reservation(
            name=fields["ReservationName"],
            start=datetime.strptime(fields["StartTime"], _TIME),
            end=datetime.strptime(fields["EndTime"], _TIME),
            nodes=fields["Nodes"],
            node_count=int(fields["NodeCnt"]),
            users=listed("Users"),
            groups=listed("Groups"),
            accounts=listed("Accounts"),
            state=fields["State"],
            flags=listed("Flags"),
        )
    except (KeyError, ValueError) as error:
        what = " ".join(str(error).split())
        raise MachineError(f"scontrol: its reservation cannot be read: {what}") from None


def name_of(machine: Machine) -> str:
    """The reservation in the machine's file. Raises InputError if there is none."""
    if machine.origins.reservation is None:
        at = f"site/{machine.name}.yaml: origins.reservation"
        raise InputError(f"{at}: missing; allowed: a reservation's name")
    return machine.origins.reservation


def create_command(machine: Machine, minutes: int, nodes: str | None, user: str) -> list[str]:
    """The command that creates the reservation, of named nodes or from a partition."""
    command = ["scontrol", "create", "reservation", f"ReservationName={name_of(machine)}"]
    command += ["StartTime=now", f"Duration={minutes}", f"Users={user}"]
    if nodes:
        return [*command, f"Nodes={nodes}"]
    if machine.origins.partition is None:
        at = f"site/{machine.name}.yaml: origins.partition"
        raise InputError(f"{at}: missing; give a partition to reserve nodes from, or --nodes")
    count = machine.origins.nodes
    return [*command, f"PartitionName={machine.origins.partition}", f"NodeCnt={count}"]


def admits(listed: Sequence[str], names: Collection[str]) -> bool:
    """Whether a list of a reservation admits someone of these names: an empty one does."""
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
    """Why a campaign of `needed_s` seconds on `nodes` origins cannot use it; empty if it can.

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


def find(name: str) -> Reservation | None:
    """The reservation as Slurm shows it; None if there is none of that name."""
    answer = _scontrol(["scontrol", "-o", "show", "reservation", name])
    if "not found" in answer.text:
        return None
    lines = answer.required().splitlines()
    return parse(next((line for line in lines if line.startswith(_RECORD)), ""))


def create(machine: Machine, minutes: int, nodes: str | None) -> Reservation:
    """Create the reservation; MachineError with a command for the operator if Slurm refuses."""
    _run_or_advise(create_command(machine, minutes, nodes, user_name(os.geteuid())))
    current = find(name_of(machine))
    if current is None:
        raise MachineError(f"Slurm does not show the new reservation {name_of(machine)}")
    return current


def remove(machine: Machine) -> None:
    """Remove the reservation; MachineError with a command for the operator if Slurm refuses."""
    _run_or_advise(["scontrol", "delete", f"ReservationName={name_of(machine)}"])


def check(machine: Machine, nodes: int, needed_s: float) -> Reservation | None:
    """The reservation of the origins, None without one. Raises MachineError if it does not suffice.

    `nodes` is the largest number of origin nodes of one allocation.
    """
    if machine.origins.policy != "reservation":
        return None
    current, user = find(name_of(machine)), user_name(os.geteuid())
    if current is None:
        create = command("origins", "create", "--machine", machine.name)
        raise MachineError(f"reservation {name_of(machine)} does not exist; to have it: `{create}`")
    groups = group_names(user, os.getegid())
    if faults := shortcomings(current, nodes, needed_s, user, groups, datetime.now()):
        remove = command("origins", "remove", "--machine", machine.name)
        raise MachineError(f"{'; '.join(faults)}; for another one, first: `{remove}`")
    return current


def _scontrol(command: list[str]) -> ProgramAnswer:
    # Users may have changed the format of times.
    return ask(command, {**os.environ, "SLURM_TIME_FORMAT": "standard"}).ended()


def _run_or_advise(command: list[str]) -> None:
    answer = _scontrol(command)
    if not answer.ok:
        raise MachineError(f"{answer.last}; an operator can run: {shlex.join(command)}")
