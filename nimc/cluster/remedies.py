"""Remedies that need root: a table of them, and the scripts that an operator installs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from nimc.base.errors import InputError
from nimc.base.kernel_text import as_list, cpu_list, number

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
    """One row of the table. `shell/NAME.sh.in` has its settings."""

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


_MASK_WORDS = "adjacent cache ways as a hexadecimal mask, such as f"

_TABLE = (
    RootRemedy(
        name="irq_affinity",
        does="Moves the interrupts of an RDMA device to the given CPUs, for example to a core that"
        " the application leaves free.",
        needs="/proc/irq; interrupts that the kernel itself manages cannot be moved.",
        price="The CPUs given, if the application does not run there.",
        trap="irqbalance moves interrupts again: stop it, or ban them there. Writes of an offload"
        " NIC cause no interrupts, so there is nothing to gain with one.",
        parameters=(
            Parameter("device", "name of an RDMA device", _device, "mlx5_0"),
            Parameter("cpus", "CPUs such as 0-3,8", _cpus, "0"),
        ),
    ),
    RootRemedy(
        name="cat",
        does="Restricts the application (resctrl's default group) to some ways of the last-level"
        " cache, so that it does not share those that the NIC writes to (CAT).",
        needs="A processor with CAT, and resctrl mounted without cdp.",
        price="The ways that the application loses.",
        trap="info/L3/shareable_bits shows which ways I/O uses. Processes in other resctrl groups"
        " are not affected.",
        parameters=(Parameter("mask", _MASK_WORDS, _mask, "f"),),
    ),
    RootRemedy(
        name="mba",
        does="Delays requests of the application's cores to memory, to the given percentage (MBA).",
        needs="A processor with MBA, and resctrl mounted without mba_MBps.",
        price="The application's own memory bandwidth, always.",
        trap="It slows the application's cores, not the NIC: device writes are not limited. It"
        " protects the network from the application, the opposite of what the application's owner"
        " wants. The value is approximate, and rounded up to the processor's step.",
        parameters=(Parameter("percent", "1 to 100", _percent, "100"),),
    ),
    RootRemedy(
        name="io_alloc",
        does="Gives device writes their own ways of the last-level cache (AMD, io_alloc).",
        needs="An AMD processor with SDCIAE, a kernel with io_alloc, and resctrl mounted without"
        " cdp.",
        price="One resctrl group, and the ways given if applications are kept off them.",
        trap="Whether applications share these ways depends on their own masks.",
        parameters=(Parameter("mask", _MASK_WORDS, _mask, "f"),),
    ),
    RootRemedy(
        name="mlnx_qos",
        does="Limits the rate at which an Ethernet port of NVIDIA (Mellanox) sends, for each"
        " traffic class.",
        needs="mlnx_qos, on origin nodes: it limits what a node sends, not what it receives.",
        price="Bandwidth of everything in these classes, the application's messages included.",
        trap="lldpad may overwrite it. Limits before must be whole Gbit/s, since mlnx_qos takes no"
        " others.",
        parameters=(
            Parameter("device", "name of a network interface", _device, "eth0"),
            Parameter(
                "limits",
                f"{_CLASSES} whole Gbit/s such as 5,0,0,0,0,0,0,0; 0 is no limit",
                _limits,
                "0,0,0,0,0,0,0,0",
            ),
        ),
    ),
    RootRemedy(
        name="ddio_ways",
        does="Sets the ways of the last-level cache that devices write to (DDIO, register 0xC8B),"
        " on every socket.",
        needs="An Intel Xeon of model 85 (Skylake, Cascade Lake), rdmsr and wrmsr (msr-tools), and"
        " a kernel that is not locked down.",
        price="More ways for devices are fewer for applications.",
        trap="The register is not documented by Intel. 600 is its value after a reset on processors"
        " with 11 ways.",
        parameters=(Parameter("mask", _MASK_WORDS, _mask, "600"),),
    ),
)

#: Name -> remedy.
ROOT_REMEDIES: dict[str, RootRemedy] = {remedy.name: remedy for remedy in _TABLE}


# The scripts of a remedy as text: a prolog and an epilog for Slurm, and a unit for systemd.


Part = Literal["prolog", "epilog", "unit"]
PARTS: tuple[Part, ...] = get_args(Part)

_SHELL = Path(__file__).with_name("shell")
#: Files that a remedy's settings need besides its own.
_SHARED = {"cat": ["schemata"], "mba": ["schemata"]}


#: Name of the licence that bounds the writers, as in the script.
_LICENCE = "nimc_writers"


def slurm_conf(writers: int) -> str:
    """Lines of slurm.conf that bound the writers; a site that has such lines extends them."""
    return f"Licenses={_LICENCE}:{writers}\nJobSubmitPlugins=lua\n"


def job_submit_lua() -> str:
    """The script that asks for one licence for each stage-out."""
    return (_SHELL / "job_submit.lua").read_text()


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
