"""Remedies that need root: their table, and the scripts for them that an operator installs.

A remedy is a setting of a node that may reduce how much writes slow an application.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import yaml

from records.errors import InputError
from records.kernel_text import cpu_list, cpu_list_text

#: A file that an operator installs: a prolog or an epilog of Slurm, or a unit of systemd.
Part = Literal["prolog", "epilog", "unit"]
PARTS: tuple[Part, ...] = get_args(Part)

_SHELL = Path(__file__).with_name("shell")
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_MASK = re.compile(r"(?:0x)?(?P<digits>[0-9a-fA-F]{1,8})")


@dataclass(frozen=True, kw_only=True)
class RootRemedy:
    """One remedy: an entry of `shell/remedies.yaml`. Its texts have one or two sentences each."""

    name: str
    #: What it does.
    does: str
    #: What it needs.
    needs: str
    #: What it costs.
    price: str
    #: What an operator may overlook.
    trap: str
    #: Parameter of the scripts -> its allowed values in words (`allowed`) and its default
    #: (`example`).
    parameters: Mapping[str, Mapping[str, str]]

    @property
    def feature(self) -> str:
        """Return the name of the node feature with which a job requests the remedy."""
        return f"nimc_{self.name}"


#: Name -> remedy.
ROOT_REMEDIES: dict[str, RootRemedy] = {
    name: RootRemedy(name=name, **row)
    for name, row in yaml.safe_load((_SHELL / "remedies.yaml").read_text()).items()
}


def _device(text: str) -> str | None:
    return text if _DEVICE.fullmatch(text) else None


def _cpus(text: str) -> str | None:
    """Return a list of CPUs in the kernel's form, such as `0-2,8` for `0,1,2,8`.

    Returns None if it is not a list of CPUs.
    """
    try:
        return cpu_list_text(set(cpu_list(text))) or None
    except ValueError:
        return None


def _mask(text: str) -> str | None:
    """Return a hexadecimal mask without `0x` and leading zeros.

    Returns None if it is not such a mask, or if its set bits are not adjacent.
    """
    match = _MASK.fullmatch(text)
    mask = int(match["digits"], 16) if match else 0
    return f"{mask:x}" if re.fullmatch("1+0*", f"{mask:b}") else None


#: Parameter -> function that returns a value in the form in which the kernel prints it, or None if
#: the value is not allowed.
_CANONICAL_VALUES: dict[str, Callable[[str], str | None]] = {
    "device": _device,
    "cpus": _cpus,
    "mask": _mask,
}


def parameter_values(remedy: RootRemedy, assignments: Sequence[str]) -> dict[str, str]:
    """Return parameter -> value of a remedy, from words such as `cpus=0-3`. Raises InputError.

    Parameters without such a word have their default.
    """
    values = {name: parameter["example"] for name, parameter in remedy.parameters.items()}
    for word in assignments:
        name, _, text = word.partition("=")
        if name not in values:
            allowed = ", ".join(f"{parameter}=VALUE" for parameter in values)
            raise InputError(f"--set {word}: allowed: {allowed}")
        value = _CANONICAL_VALUES[name](text)
        if value is None:
            raise InputError(f"--set {word}: allowed: {remedy.parameters[name]['allowed']}")
        values[name] = value
    return values


def path_of(remedy: RootRemedy, part: Part) -> str:
    """Return the path at which an operator installs a file of a remedy."""
    if part == "unit":
        return f"/etc/systemd/system/nimc-{remedy.name}.service"
    return f"/etc/slurm/{part}.d/nimc-{remedy.name}"


def render(remedy: RootRemedy, values: Mapping[str, str], part: Part) -> str:
    """Return the text of a file of a remedy, such as the epilog, with the values of parameters."""
    if part == "unit":
        unit = (_SHELL / "unit.in").read_text()
        return unit.format(name=remedy.name, epilog=path_of(remedy, "epilog"))
    head = [
        "#!/bin/sh",
        f"# {part.capitalize()} of the remedy {remedy.name}, as printed by 'remedy show' of nimc.",
        f"# {remedy.does}",
        "set -u",
        f"remedy='{remedy.name}'",
        *(f"{name}={shlex.quote(value)}" for name, value in values.items()),
    ]
    files = (_SHELL / f"{name}.sh.in" for name in ("state", remedy.name, part))
    texts = ["\n".join(head) + "\n", *(file.read_text() for file in files)]
    return "\n".join(texts)
