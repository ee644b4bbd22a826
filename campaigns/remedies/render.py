"""The scripts of a remedy as text: a prolog and an epilog for Slurm, and a unit for systemd."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

from analysis.errors import InputError
from campaigns.remedies.table import RootRemedy

Part = Literal["prolog", "epilog", "unit"]
PARTS: tuple[Part, ...] = get_args(Part)

_SHELL = Path(__file__).with_name("shell")
#: Files that a remedy's settings need besides its own.
_SHARED = {"cat": ["schemata"], "mba": ["schemata"]}


def values(remedy: RootRemedy, given: Sequence[str]) -> dict[str, str]:
    """Parameter -> value, from words such as `cpus=0-3`. Raises InputError."""
    known = {parameter.name: parameter for parameter in remedy.parameters}
    found = {name: parameter.example for name, parameter in known.items()}
    for word in given:
        name, _, text = word.partition("=")
        if name not in known:
            raise InputError(f"--set {word}: allowed: {', '.join(f'{n}=VALUE' for n in known)}")
        try:
            found[name] = known[name].canonical(text)
        except ValueError:
            raise InputError(f"--set {word}: allowed: {known[name].allowed}") from None
    return found


def path_of(remedy: RootRemedy, part: Part) -> str:
    """Where an operator puts a part."""
    if part == "unit":
        return f"/etc/systemd/system/nimc-{remedy.name}.service"
    return f"/etc/slurm/{part}.d/nimc-{remedy.name}"


def render(remedy: RootRemedy, chosen: Mapping[str, str], part: Part) -> str:
    """One part."""
    if part == "unit":
        return _unit(remedy)
    head = [
        "#!/bin/sh",
        f"# {part.capitalize()} of the remedy {remedy.name}, as printed by 'nimc remedy show'.",
        f"# {remedy.does}",
        "set -u",
        f"remedy='{remedy.name}'",
        *(f"{name}={shlex.quote(value)}" for name, value in chosen.items()),
    ]
    files = ["state", *_SHARED.get(remedy.name, []), remedy.name, part]
    texts = ["\n".join(head) + "\n", *((_SHELL / f"{name}.sh.in").read_text() for name in files)]
    return "\n".join(texts)


def _unit(remedy: RootRemedy) -> str:
    return f"""\
[Unit]
Description=Revert the remedy {remedy.name} of a job that ended with the node
After=local-fs.target
Before=slurmd.service

[Service]
Type=oneshot
ExecStart={path_of(remedy, "epilog")}

[Install]
WantedBy=multi-user.target
"""
