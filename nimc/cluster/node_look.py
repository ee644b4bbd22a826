"""What one node of a job has: run by `srun`, one task a node, standard library only.

Writes `RANK.json` next to the request. The first task locks a file; the others report whether they
see that.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from conductor import wire
from conductor.agent import node_name
from conductor.injectors import INJECTORS
from records.files import replace_text
from records.machine import host

#: How long nodes wait for each other, seconds: a shared file system shows a new file late.
_WAIT_S = 30.0
_POLL_S = 0.1


def main() -> None:
    """`node_look REQUEST`."""
    file = Path(sys.argv[1])
    request, folder = json.loads(file.read_text()), file.parent
    rank = int(os.environ.get("SLURM_PROCID", "0"))
    here = host.detect()
    record: dict[str, Any] = {
        "node": node_name(),
        "host": here.as_dict(),
        "unseen": [path for path in request["paths"] if not os.path.exists(path)],
        "addresses": {of.name: _address(of.name) for of in here.interfaces},
        "injectors": {name: injector.missing() for name, injector in INJECTORS.items()},
        "lock": _lock(folder, rank, request["nodes"]),
    }
    replace_text(folder / f"{rank}.json", json.dumps(record))


def _address(interface: str) -> str | None:
    """Its IPv4 address; None if it has none."""
    try:
        return wire.interface_address(interface)
    except wire.WireError:
        return None


def _lock(folder: Path, rank: int, tasks: int) -> str:
    """`held` by the first task, `seen` or `unseen` by the others; `late` if one did not come."""
    with (folder / "lock").open("a") as file:
        if rank == 0:
            fcntl.flock(file, fcntl.LOCK_EX)
            (folder / "held").touch()
            others = {f"tried.{other}" for other in range(1, tasks)}
            return "held" if _wait(lambda: others <= set(os.listdir(folder))) else "late"
        if not _wait(lambda: "held" in os.listdir(folder)):
            return "late"
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state = "unseen"
        except BlockingIOError:
            state = "seen"
        (folder / f"tried.{rank}").touch()
        return state


def _wait(ready: Callable[[], bool]) -> bool:
    until_s = time.monotonic() + _WAIT_S
    while not ready():
        if time.monotonic() > until_s:
            return False
        time.sleep(_POLL_S)
    return True


if __name__ == "__main__":
    main()
