"""Remedies that need root: a table of them, and the scripts that an operator installs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import yaml

from records.errors import InputError
from records.kernel_text import as_list, cpu_list, number

_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_HEX = re.compile(r"(0x)?([0-9a-fA-F]{1,8})")
#: mlnx_qos takes a limit for each of eight traffic classes.
_CLASSES = 8
_MOST_GBIT_S = 1000


@dataclass(frozen=True)
class Parameter:
    """One value that the scripts need."""

    name: str
    #: Allowed values, in words.
    allowed: str
    #: The value in the form that the kernel prints; raises ValueError if it is not allowed.
    canonical: Callable[[str], str]
    #: Used unless the operator gives another one.
    example: str


@dataclass(frozen=True)
class RootRemedy:
    """One entry of `shell/remedies.yaml`."""

    name: str
    #: What it does, what it needs, its price, and its trap, one sentence or two each.
    does: str
    needs: str
    price: str
    trap: str
    parameters: tuple[Parameter, ...]

    @property
    def feature(self) -> str:
        """The node feature with which a job requests it."""
        return f"nimc_{self.name}"


def _device(text: str) -> str:
    if not _DEVICE.fullmatch(text):
        raise ValueError
    return text


def _cpus(text: str) -> str:
    """A list of CPUs as the kernel prints it: `0,1,2,8` as `0-2,8`."""
    if not (cpus := set(cpu_list(text))):
        raise ValueError
    return as_list(cpus)


def _mask(text: str) -> str:
    """Hexadecimal without `0x` and leading zeros; its set bits must be adjacent."""
    found = _HEX.fullmatch(text)
    bits = int(found[2], 16) if found else 0
    adjacent = bits // (bits & -bits) if bits else 0
    if not bits or adjacent & (adjacent + 1):
        raise ValueError
    return f"{bits:x}"


def _percent(text: str) -> str:
    value = number(text)
    if value is None or not 1 <= value <= 100:
        raise ValueError
    return str(value)


def _limits(text: str) -> str:
    limits = [number(part) for part in text.split(",")]
    if len(limits) != _CLASSES or any(v is None or not 0 <= v <= _MOST_GBIT_S for v in limits):
        raise ValueError
    return ",".join(map(str, limits))


#: Name of a value -> how it is read.
_CANONICAL = {
    "device": _device,
    "cpus": _cpus,
    "mask": _mask,
    "percent": _percent,
    "limits": _limits,
}
_SHELL = Path(__file__).with_name("shell")


def _remedy(name: str, parameters: Mapping[str, Mapping[str, str]], **about: str) -> RootRemedy:
    known = (
        Parameter(each, of["allowed"], _CANONICAL[each], of["example"])
        for each, of in parameters.items()
    )
    return RootRemedy(name, **about, parameters=tuple(known))


#: Name -> remedy.
ROOT_REMEDIES: dict[str, RootRemedy] = {
    name: _remedy(name, **row)
    for name, row in yaml.safe_load((_SHELL / "remedies.yaml").read_text()).items()
}


# The scripts of a remedy as text: a prolog and an epilog for Slurm, and a unit for systemd.


Part = Literal["prolog", "epilog", "unit"]
PARTS: tuple[Part, ...] = get_args(Part)

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
