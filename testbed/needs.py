"""The needs of a minicluster on its host, and how to get what is missing."""

from __future__ import annotations

import glob
import platform
import shutil
from dataclasses import dataclass

from records.errors import MachineError
from testbed.shell import PATH
from testbed.spec import SITE, Fabric


@dataclass(frozen=True)
class Requirement:
    """A program on the daemons' PATH, or a file by its absolute path with wildcards."""

    #: `all` or the one fabric that needs it.
    fabric: str
    program_or_file: str
    debian: str
    rhel: str


def parse(text: str) -> list[Requirement]:
    """The rows of `needs.txt`."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return [Requirement(*fields) for fields in lines if fields]


def missing(fabric: Fabric) -> list[Requirement]:
    """Requirements of a fabric that this host lacks."""

    def is_present(name: str) -> bool:
        if name.startswith("/"):
            return bool(glob.glob(name))
        return shutil.which(name, path=PATH) is not None

    rows = parse((SITE / "needs.txt").read_text())
    return [
        row for row in rows if row.fabric in ("all", fabric) and not is_present(row.program_or_file)
    ]


def require(fabric: Fabric) -> None:
    """Raise `MachineError` with one line that lists what is missing."""
    if fabric == "rxe" and platform.machine() != "x86_64":
        raise MachineError(
            f"minicluster: --fabric rxe boots an x86_64 virtual machine from this host's files, "
            f"but this host is {platform.machine()}: use --fabric veth"
        )
    if absent := missing(fabric):
        listed = ", ".join(f"{n.program_or_file} (package {n.debian})" for n in absent)
        raise MachineError(
            f"minicluster: missing for --fabric {fabric}: {listed}; "
            f"site/minicluster/install.sh --fabric {fabric} installs it on Debian"
        )
