"""`nimc origins`: the reservation of a machine's origin nodes."""

from __future__ import annotations

from dataclasses import asdict

import click

from analysis import units
from campaigns.document import print_document
from campaigns.host import reservation
from campaigns.host.reservation import Reservation
from campaigns.options import machine_option
from injection.machine.machine import load as load_machine

_json = click.option("--json", "as_json", is_flag=True, help="One JSON document.")


@click.group()
def command() -> None:
    """Create, show or remove the reservation of a machine's origin nodes."""


@command.command()
@machine_option
@click.option("--time", "length", default="4h", show_default=True, help="Duration.")
@click.option("--nodes", help="Node list [default: number and partition of the site file].")
@_json
def create(machine: str, length: str, nodes: str | None, as_json: bool) -> None:
    """Reserve the origin nodes for you, from now."""
    minutes = max(1, round(units.duration_s(length, "--time") / 60))
    _print("create", reservation.create(load_machine(machine), minutes, nodes), as_json)


@command.command()
@machine_option
@_json
def show(machine: str, as_json: bool) -> int:
    """Show the reservation; exit code 3 if there is none."""
    name = reservation.name_of(load_machine(machine))
    found = reservation.find(name)
    if found is None:
        click.echo(f"nimc: reservation {name} does not exist", err=True)
        return 3
    _print("show", found, as_json)
    return 0


@command.command()
@machine_option
def remove(machine: str) -> None:
    """Remove the reservation."""
    reservation.remove(load_machine(machine))


def _print(subcommand: str, found: Reservation, as_json: bool) -> None:
    if as_json:
        record = {**asdict(found), "start": str(found.start), "end": str(found.end)}
        print_document(f"origins {subcommand}", record)
    else:
        users = ", ".join(found.users) or "everyone"
        click.echo(
            f"{found.name}: {found.nodes} ({found.node_count} nodes) for {users},"
            f" {found.start} to {found.end}, {found.state}"
        )
