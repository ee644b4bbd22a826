"""What one node of a job has: run by `srun`, one task a node, standard library only.

Writes `RANK.json` next to the request.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from conductor import wire
from conductor.agent import node_name
from conductor.injectors import INJECTORS
from records.errors import MachineError
from records.files import private_lock, replace_text
from records.machine import host


def main() -> None:
    """`node_look REQUEST`."""
    file = Path(sys.argv[1])
    here, request = host.detect(), json.loads(file.read_text())
    device = request["device"]
    record: dict[str, Any] = {
        "node": node_name(),
        "host": here.as_dict(),
        "unseen": [path for path in request["paths"] if not os.path.exists(path)],
        "addresses": {of.name: _address(of.name) for of in here.interfaces},
        "injectors": {name: injector.missing(device) for name, injector in INJECTORS.items()},
        "lock": _lock(file.with_name("lock")),
    }
    rank = os.environ.get("SLURM_PROCID", "0")
    replace_text(file.with_name(f"{rank}.json"), json.dumps(record))


def _lock(path: Path) -> str:
    """`seen` if this task cannot take it: whoever submits the job holds it; else `unseen`."""
    try:
        with private_lock(path) as lock:
            return "unseen" if lock.take() else "seen"
    except MachineError:  # a file system without locks
        return "unseen"


def _address(interface: str) -> str | None:
    """Its IPv4 address; None if it has none."""
    try:
        return wire.interface_address(interface)
    except wire.WireError:
        return None


if __name__ == "__main__":
    main()
