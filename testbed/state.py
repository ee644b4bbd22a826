"""`state.json`: the description of a running minicluster for `status`, `down` and machine files."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from records.errors import InputError
from records.files import private_lock, replace_text, require_owned
from testbed.spec import ClusterLayout, Spec

#: The first file in a state folder; only folders with this file are removed.
MARKER = "minicluster"
#: Locked while a cluster or this host's network is changed. The file is never removed.
LOCK = Path("/run/nimc-minicluster.lock")
#: How long to wait for the lock before a message says so, seconds.
SILENT_WAIT_S = 5.0


@dataclass(frozen=True, kw_only=True)
class State:
    """The content of `state.json`."""

    spec: Spec
    #: `starting` until everything answers.
    phase: Literal["starting", "up"]
    #: The first three numbers of the nodes' addresses.
    subnet: str
    #: Processors and memory of each node, as in slurm.conf.
    cpus: int
    memory_mib: int
    #: `kvm` or `tcg`; None without virtual machines.
    accelerator: str | None = None
    #: How long `up` took, seconds; None while it starts.
    up_took_s: float | None = None
    #: True if only miniclusters used /run/netns at the start. Then the last `down` removes it.
    made_netns_folder: bool = False

    def as_dict(self, layout: ClusterLayout) -> dict[str, Any]:
        """Return the state and the names that follow from it, for people and programs."""
        return asdict(self) | {
            "state": str(layout.state),
            "tag": layout.tag,
            "slurm_conf": str(layout.slurm_conf),
            "partitions": self.spec.partitions(),
        }


_STATE = TypeAdapter(State)


def write(layout: ClusterLayout, state: State) -> None:
    """Replace `state.json` atomically."""
    replace_text(layout.state_json, json.dumps(asdict(state), indent=1) + "\n")


def read(layout: ClusterLayout) -> State | None:
    """Return the state; None if `state.json` is missing or incomplete."""
    with suppress(OSError, ValueError, InputError):
        return _STATE.validate_json(layout.state_json.read_bytes())
    return None


def require_cluster(folder: Path) -> None:
    """Raise InputError if a folder is not empty and no minicluster made it."""
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARKER).exists()):
        raise InputError(
            f"--state {folder}: not a minicluster's folder; allowed: one, or a new or empty folder"
        )


def claim(folder: Path) -> None:
    """Create a state folder with the marker file."""
    require_cluster(folder)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)  # with a umask such as 002, a group could write to it
    require_owned(folder, "--state")  # it may have been made since the path was checked
    (folder / MARKER).touch(mode=0o600)


@contextmanager
def locked() -> Iterator[None]:
    """Let only one `up` or `down` run on this host at a time; print a line if the wait is long."""
    with private_lock(LOCK) as lock:
        if not lock.acquire(SILENT_WAIT_S):
            message = f"waits for another 'minicluster up' or 'down', which holds {LOCK}"
            print(f"nimc: {message}", file=sys.stderr, flush=True)
            lock.acquire(None)
        yield
