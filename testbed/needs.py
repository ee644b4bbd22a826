"""The programs and files that a minicluster needs on its host, and their packages."""

from __future__ import annotations

import glob
import platform
import shutil
from dataclasses import dataclass

from records.errors import MachineError
from testbed.shell import PATH
from testbed.spec import SITE_FOLDER, Fabric


@dataclass(frozen=True)
class Requirement:
    """A row of `needs.txt`."""

    #: `all`, or the fabric that needs it.
    fabric: str
    #: A program on the daemons' PATH, or the absolute path of a file, with wildcards.
    program_or_file: str
    #: The packages that have it.
    debian: str
    rhel: str


def parse(text: str) -> list[Requirement]:
    """Return the rows of `needs.txt`."""
    lines = (line.split("#")[0].split() for line in text.splitlines())
    return [Requirement(*fields) for fields in lines if fields]


def missing(fabric: Fabric) -> list[Requirement]:
    """Return the requirements of a fabric that this host does not meet."""

    def is_present(name: str) -> bool:
        if name.startswith("/"):
            return bool(glob.glob(name))
        return shutil.which(name, path=PATH) is not None

    requirements = parse((SITE_FOLDER / "needs.txt").read_text())
    return [
        requirement
        for requirement in requirements
        if requirement.fabric in ("all", fabric) and not is_present(requirement.program_or_file)
    ]


def require(fabric: Fabric) -> None:
    """Raise MachineError, with one line that lists what is missing, if anything is."""
    if fabric == "rxe" and platform.machine() != "x86_64":
        raise MachineError(
            f"minicluster: --fabric rxe boots an x86_64 virtual machine from this host's files, "
            f"but this host is {platform.machine()}: use --fabric veth"
        )
    unmet = missing(fabric)
    if unmet:
        listed = ", ".join(f"{need.program_or_file} (package {need.debian})" for need in unmet)
        raise MachineError(
            f"minicluster: missing for --fabric {fabric}: {listed}; "
            f"site/minicluster/install.sh --fabric {fabric} installs it on Debian"
        )
