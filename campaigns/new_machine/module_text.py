"""What `module avail` prints, and the modules that an environment of ReFrame may load."""

from __future__ import annotations

import re
from collections.abc import Sequence

_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:]+)\))?", re.ASCII)
#: Kind of module -> names, the usual choice first.
_KINDS = {
    "compiler": ("gcc", "GCC", "gnu"),
    "mpi": ("openmpi", "OpenMPI", "mpich", "MPICH", "mvapich2"),
    "workload": ("lammps", "LAMMPS"),
}


def modules_in(text: str) -> list[str]:
    """`NAME/VERSION` from `module --terse --default avail` of Lmod or environment-modules."""
    found = (_MODULE.fullmatch(line.strip()) for line in text.splitlines())
    return list(dict.fromkeys(match[1] for match in found if match))


def suggested(modules: Sequence[str]) -> dict[str, str]:
    """Kind -> the module of that kind that is to be loaded; only kinds that there are."""
    found: dict[str, str] = {}
    for kind, names in _KINDS.items():
        for name in names:
            if matching := [each for each in modules if each.rpartition("/")[0] == name]:
                found[kind] = max(matching, key=version)
                break
    return found


def version(module: str) -> list[tuple[int, str]]:
    """Sort key of `NAME/VERSION`: numbers by value."""
    words = re.findall(r"[0-9]{1,18}|[A-Za-z]+", module.rpartition("/")[2])
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]
