"""`nimc remedy`: what an operator installs for a remedy that needs root, and how it is reverted."""

from __future__ import annotations

import click

from nimc.base.errors import InputError
from nimc.base.tables import aligned
from nimc.cli.document import Form, print_document, show
from nimc.cli.options import form_options, json_option
from nimc.cluster.remedies import PARTS, ROOT_REMEDIES, Part, RootRemedy, path_of, render, values


@click.group()
def remedy_command() -> None:
    """Remedies that need root. nimc sets none of them: it prints what an operator installs."""


@remedy_command.command(name="list")
@form_options
def list_(form: Form | None) -> None:
    """List the remedies."""
    rows = [_facts(remedy) for remedy in ROOT_REMEDIES.values()]
    cells = [[remedy.name, remedy.does] for remedy in ROOT_REMEDIES.values()]
    show("remedy list", {"remedies": rows}, form, aligned(["remedy", "what it does"], cells))


@remedy_command.command(name="show")
@click.argument("name")
@click.option(
    "--set", "given", multiple=True, metavar="NAME=VALUE", help="A value that the scripts need."
)
@click.option("--part", type=click.Choice(PARTS), help="Print only this file.")
@json_option
def show_(name: str, given: tuple[str, ...], part: Part | None, form: Form | None) -> None:
    """Print prolog and epilog for Slurm, and a systemd unit that runs the epilog at boot."""
    remedy = ROOT_REMEDIES.get(name)
    if remedy is None:
        raise InputError(f"{name}: no such remedy; allowed: {', '.join(ROOT_REMEDIES)}")
    chosen = values(remedy, given)
    if form:
        parts: dict[str, object] = {each: render(remedy, chosen, each) for each in PARTS}
        print_document("remedy show", {**_facts(remedy), "values": chosen, **parts})
    elif part:
        click.echo(render(remedy, chosen, part), nl=False)
    else:
        click.echo(_described(remedy, chosen))


def _facts(remedy: RootRemedy) -> dict[str, object]:
    return {
        "name": remedy.name,
        "does": remedy.does,
        "needs": remedy.needs,
        "price": remedy.price,
        "trap": remedy.trap,
        "feature": remedy.feature,
        "parameters": {each.name: each.allowed for each in remedy.parameters},
    }


def _described(remedy: RootRemedy, chosen: dict[str, str]) -> str:
    about = [
        f"{remedy.name}: {remedy.does}",
        f"needs: {remedy.needs}",
        f"price: {remedy.price}",
        f"trap: {remedy.trap}",
        f"request: sbatch --exclusive --constraint={remedy.feature} (docs/remedies.md)",
        *(
            f"value: {each.name}={chosen[each.name]} (--set {each.name}=...: {each.allowed})"
            for each in remedy.parameters
        ),
    ]
    parts = [f"---- {path_of(remedy, p)} ----\n{render(remedy, chosen, p)}" for p in PARTS]
    return "\n".join(about) + "\n\n" + "\n".join(parts)
