"""Whether an MPI that Spack builds drives the machine's fast network.

`common.yaml` requires it, but a machine's file may require something else, and a fabric that is not
asked for is left out without a word. So what Spack chose is checked before it is built.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

#: MPI -> the variant that names its networks, and the values of which it needs at least one. Others
#: have their network by themselves, or come with the machine.
_NETWORK = {
    "openmpi": ("fabrics", {"ucx", "ofi", "psm", "psm2"}),
    "mpich": ("netmod", {"ucx", "ofi"}),
}
#: Without these, UCX has shared memory and TCP alone.
_UCX = ("verbs", "rc")


def lacking(specs: Iterable[dict[str, Any]], machine_file: Path) -> str | None:
    """Why the chosen MPI has no fast network, and what to set; None if it has one.

    `specs`: the concrete specs of a lock. Those of the machine (externals) are not judged.
    """
    built = {spec["name"]: spec for spec in specs if "external" not in spec}
    for name, (variant, good) in _NETWORK.items():
        if name in built and not good & _values(built[name], variant):
            chosen = ",".join(sorted(_values(built[name], variant))) or "none"
            return (
                f"Spack would build {_title(built[name])} without a fast network"
                f" ({variant}={chosen}): name the machine's own MPI in {machine_file}, or require"
                f" {variant}=ucx there (docs/spack.md)"
            )
    missing = [name for name in _UCX if "ucx" in built and not _values(built["ucx"], name)]
    if missing and any(
        name in built and "ucx" in _values(built[name], variant)
        for name, (variant, _) in _NETWORK.items()
    ):
        return (
            f"Spack would build {_title(built['ucx'])} without {' and '.join(missing)}, so that it"
            f" has no InfiniBand: require ucx +{' +'.join(_UCX)} in {machine_file} (docs/spack.md)"
        )
    return None


def _values(spec: dict[str, Any], variant: str) -> set[str]:
    """The values of a variant; none of one that is off or absent."""
    found = spec.get("parameters", {}).get(variant) or []
    values = found if isinstance(found, list) else [str(found)]
    return {value for value in values if value != "none"}


def _title(spec: dict[str, Any]) -> str:
    return f"{spec['name']}@{spec['version']}"
