"""What the last job that inspected nodes found missing on them.

This host cannot see it, so `nimc plan` and `nimc run` read it from a file beside the site file.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nimc.readiness.finding import HostFinding
from records.commands import command
from records.errors import InputError
from records.files import replace_text
from records.json_limits import read_json
from records.machine.site import Machine
from records.run import digest_of


def _file(machine: Machine, root: Path) -> Path:
    return root / "site" / f"{machine.name}.nodes.json"


def _digest(machine: Machine) -> str:
    return digest_of(machine.model_dump(mode="json"))


def save_missing(machine: Machine, missing: Sequence[HostFinding], root: Path) -> None:
    """Store the findings about what nodes of a machine lack; nothing if `root` is read-only."""
    lines = [f"{finding.what}: {finding.detail}" for finding in missing]
    with suppress(OSError, InputError):
        record = {"site": _digest(machine), "missing": lines}
        replace_text(_file(machine, root), f"{json.dumps(record, indent=1)}\n")


def missing_on_nodes(machine: Machine, root: Path) -> list[str]:
    """Return a line for each stored finding; none if the site file has changed since then."""
    with suppress(OSError, InputError, KeyError, TypeError):
        record = read_json(_file(machine, root))
        if record["site"] == _digest(machine):
            again = command("doctor", "--machine", machine.name, "--in-job")
            hint = f"(when nodes were inspected; again: `{again}`)"
            return [f"{line} {hint}" for line in record["missing"]]
    return []
