"""`nimc init`: both files of a new machine."""

from __future__ import annotations

import re
from pathlib import Path

import click

from analysis.checkout import ROOT
from analysis.errors import InputError
from analysis.escape import visible
from campaigns.new_machine.ask import learn
from campaigns.new_machine.config_text import config_text
from campaigns.new_machine.site_text import entries, site_text, unknown
from campaigns.options import wait_option
from campaigns.running.interrupts import exit_when_stopped

#: A module of Python and a system of ReFrame.
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)


@click.command()
@click.argument("machine")
@click.option("--no-job", is_flag=True, help="Do not look at nodes in a job of a minute.")
@wait_option
def command(machine: str, no_job: bool, wait_s: float) -> None:
    """Write site/MACHINE.yaml and configs/MACHINE.py for the cluster of this host.

    Values are from Slurm, the modules system and a job that looks at two nodes, each with a comment
    where it came from. Existing files are not changed.
    """
    if not _NAME.fullmatch(machine):
        raise InputError(
            f"MACHINE: {machine!r} found; allowed: up to 40 small letters, digits and _, a letter"
            " first"
        )
    site, config = ROOT / "site" / f"{machine}.yaml", ROOT / "configs" / f"{machine}.py"
    for path in (site, config):
        if path.exists():
            raise InputError(f"{path}: exists; allowed: a new name, or remove both files first")
    with exit_when_stopped():
        found = learn(None if no_job else wait_s, _tell)
    _write(site, site_text(found))
    _write(config, config_text(machine, found))
    fill_in = ", ".join(unknown(entries(found))) or "nothing"
    _tell(f"wrote site/{machine}.yaml; to fill in, if wanted: {fill_in}")
    partitions = ", ".join(each.name for each in found.partitions)
    _tell(f"wrote configs/{machine}.py; partitions: {partitions}")
    _tell(f"read both, then: nimc doctor --machine {machine} --in-job")


def _write(path: Path, text: str) -> None:
    with path.open("x", encoding="utf-8") as file:
        file.write(text)


def _tell(line: str) -> None:
    click.echo(visible(line))
