"""`nimc init`: both files of a new machine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import click

from analysis.checkout import ROOT
from analysis.errors import InputError, MachineError
from analysis.escape import visible
from campaigns.new_machine.ask import learn
from campaigns.new_machine.config_text import config_text
from campaigns.new_machine.site_text import entries, site_text, unknown
from campaigns.options import only_with, wait_option
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
    if no_job:
        only_with("--no-job")
    if not _NAME.fullmatch(machine):
        raise InputError(
            f"MACHINE: {machine!r} found; allowed: up to 40 small letters, digits and _, a letter"
            " first"
        )
    site, config = ROOT / "site" / f"{machine}.yaml", ROOT / "configs" / f"{machine}.py"
    for path in (site, config):
        if os.path.lexists(path):  # a link that leads nowhere, too
            raise InputError(f"{path}: exists; allowed: a new name, or remove both files first")
        if not os.access(path.parent, os.W_OK):
            raise MachineError(f"{path.parent}: no permission to write; clone the project yourself")
    with exit_when_stopped():
        found = learn(None if no_job else wait_s, _tell)
    _write({site: site_text(found), config: config_text(machine, found)})
    fill_in = ", ".join(unknown(entries(found))) or "nothing"
    _tell(f"wrote site/{machine}.yaml; to fill in, if wanted: {fill_in}")
    partitions = ", ".join(each.name for each in found.partitions)
    _tell(f"wrote configs/{machine}.py; partitions: {partitions}")
    _tell(f"read both, then: nimc doctor --machine {machine} --in-job")


def _write(texts: Mapping[Path, str]) -> None:
    """Write all of these new files, or none."""
    made: list[Path] = []
    try:
        for path, text in texts.items():
            with path.open("x", encoding="utf-8") as file:
                made.append(path)
                file.write(text)
    except OSError as error:
        for each in made:
            each.unlink()
        raise MachineError(f"{path}: {error.strerror}") from error


def _tell(line: str) -> None:
    click.echo(visible(line))
