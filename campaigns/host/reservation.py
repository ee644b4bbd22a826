"""The reservation that holds a machine's origin nodes: made, looked at, checked and removed."""

from __future__ import annotations

import getpass
import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from datetime import datetime

from analysis.errors import InputError, MachineError
from injection.machine.machine import Machine

#: How Slurm writes times when asked for one line a record.
_TIME = "%Y-%m-%dT%H:%M:%S"


@dataclass(frozen=True)
class Reservation:
    """What Slurm says of a reservation."""

    name: str
    start: datetime
    end: datetime
    nodes: str
    node_count: int
    users: list[str]
    state: str


def parse(line: str) -> Reservation:
    """One line of `scontrol -o show reservation`."""
    fields = dict(re.findall(r"(\S+?)=(\S*)", line))
    users = "" if fields["Users"] == "(null)" else fields["Users"]
    return Reservation(
        name=fields["ReservationName"],
        start=datetime.strptime(fields["StartTime"], _TIME),
        end=datetime.strptime(fields["EndTime"], _TIME),
        nodes=fields["Nodes"],
        node_count=int(fields["NodeCnt"]),
        users=[user for user in users.split(",") if user],
        state=fields["State"],
    )


def name_of(machine: Machine) -> str:
    """The reservation that the machine's file names; InputError where it names none."""
    if machine.origins.reservation is None:
        raise InputError(
            f"site/{machine.name}.yaml: origins.reservation: names no reservation; write its name"
        )
    return machine.origins.reservation


def create_command(machine: Machine, minutes: int, nodes: str | None, user: str) -> list[str]:
    """The line that makes the reservation: of named nodes, or of as many of a partition."""
    command = ["scontrol", "create", "reservation", f"ReservationName={name_of(machine)}"]
    command += ["StartTime=now", f"Duration={minutes}", f"Users={user}"]
    if nodes:
        return [*command, f"Nodes={nodes}"]
    if machine.origins.partition is None:
        raise InputError(
            f"site/{machine.name}.yaml: origins.partition: is needed to reserve nodes from,"
            " or --nodes"
        )
    count = machine.origins.nodes
    return [*command, f"PartitionName={machine.origins.partition}", f"NodeCnt={count}"]


def shortcomings(
    found: Reservation | None,
    machine: Machine,
    nodes: int,
    needed_s: float,
    user: str,
    now: datetime,
) -> list[str]:
    """Why a campaign of `needed_s` seconds on `nodes` origins cannot use it; empty: it can."""
    name = name_of(machine)
    if found is None:
        return [f"reservation {name} does not exist"]
    faults = []
    if found.state != "ACTIVE":
        faults.append(f"reservation {name} is {found.state}, from {found.start}")
    left_s = (found.end - now).total_seconds()
    if left_s < needed_s:
        faults.append(
            f"reservation {name} ends in {max(left_s, 0) / 60:.0f} min; {needed_s / 60:.0f} min"
            " are needed"
        )
    if found.node_count < nodes:
        faults.append(f"reservation {name} holds {found.node_count} nodes; {nodes} are needed")
    if found.users and user not in found.users:
        faults.append(f"reservation {name} is for {', '.join(found.users)}, not for {user}")
    return faults


def find(name: str) -> Reservation | None:
    """The reservation as Slurm knows it; None where there is none of that name."""
    result = _scontrol(["scontrol", "-o", "show", "reservation", name])
    if "not found" in result.stdout + result.stderr:
        return None
    if result.returncode:
        raise MachineError(f"scontrol: {result.stderr.strip()}")
    return parse(result.stdout)


def create(machine: Machine, minutes: int, nodes: str | None) -> Reservation:
    """Make the reservation; MachineError with the operator's line where Slurm refuses."""
    command = create_command(machine, minutes, nodes, getpass.getuser())
    _or_tell_operator(command)
    found = find(name_of(machine))
    if found is None:
        raise MachineError(f"reservation {name_of(machine)} was made but is not shown")
    return found


def remove(machine: Machine) -> None:
    """Remove the reservation; MachineError with the operator's line where Slurm refuses."""
    _or_tell_operator(["scontrol", "delete", f"ReservationName={name_of(machine)}"])


def check(machine: Machine, nodes: int, needed_s: float) -> None:
    """Refuse a campaign whose origins are not held; nothing to do for other policies.

    `nodes` is the most origin nodes that one of its allocations takes.
    """
    if machine.origins.policy == "reservation":
        found = find(name_of(machine))
        faults = shortcomings(found, machine, nodes, needed_s, getpass.getuser(), datetime.now())
        if faults:
            raise MachineError("; ".join(faults) + " (see 'nimc origins')")


def _scontrol(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "SLURM_TIME_FORMAT": "standard"},  # users set it to their taste
        )
    except FileNotFoundError:
        raise MachineError("scontrol is missing: this host cannot speak to Slurm") from None


def _or_tell_operator(command: list[str]) -> None:
    result = _scontrol(command)
    if result.returncode:
        line = shlex.join(command)
        why = " ".join(result.stderr.split())
        raise MachineError(f"{why}; an operator can run: {line}")
