"""`state.json`: description of a running minicluster, for `status`, `down` and machine files."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from records.errors import InputError
from records.files import private_lock, replace_text, require_own
from testbed.spec import ClusterLayout, Spec

#: The first file in a state folder: only a folder with it is removed.
MARKER = "minicluster"


@dataclass(frozen=True)
class State:
    """The content of `state.json`, for `status`, `down` and machine files."""

    spec: Spec
    #: `starting` until everything answers.
    phase: Literal["starting", "up"]
    subnet: str
    cpus: int
    memory_mib: int
    #: `kvm` or `tcg`; None without virtual machines.
    accelerator: str | None = None
    up_took_s: float | None = None
    made_netns_folder: bool = False

    def as_dict(self, layout: ClusterLayout) -> dict[str, Any]:
        """The document; with two `rails`, nodes have the device `rxe1` as well."""
        return {
            "minicluster": 1,
            "phase": self.phase,
            "state": str(layout.state),
            "fabric": self.spec.fabric,
            "tag": layout.tag,
            "subnet": self.subnet,
            "slurm_conf": str(layout.slurm_conf),
            "accelerator": self.accelerator,
            "spec": asdict(self.spec),
            "partitions": self.spec.partitions(),
            "nodes": [
                {
                    "name": node.name,
                    "role": node.role,
                    "address": f"{self.subnet}.{node.index}",
                    "interface": "eth0",
                    "rdma_device": "rxe0" if self.spec.fabric == "rxe" else None,
                    "cpus": self.cpus,
                    "memory_mib": self.memory_mib,
                    "numa_nodes": self.spec.numa,
                }
                for node in self.spec.members()
            ],
            "up_took_s": self.up_took_s,
            "made_netns_folder": self.made_netns_folder,
        }


def write(layout: ClusterLayout, state: State) -> None:
    """Replace `state.json` atomically."""
    replace_text(layout.state_json, json.dumps(state.as_dict(layout), indent=1) + "\n")


def read(layout: ClusterLayout) -> State | None:
    """The state, or None if there is none or it is incomplete."""
    with suppress(OSError, ValueError, LookupError, TypeError, RecursionError, InputError):
        found = json.loads(layout.state_json.read_text())
        names = ("phase", "subnet", "accelerator", "up_took_s", "made_netns_folder")
        known = {name: found[name] for name in names}
        sizes = {name: found["nodes"][0][name] for name in ("cpus", "memory_mib")}
        shares = tuple(found["spec"]["shares"])
        return State(spec=Spec(**{**found["spec"], "shares": shares}), **known, **sizes)
    return None


def require_cluster(folder: Path) -> None:
    """`InputError` if a folder was not made by a minicluster and is not empty."""
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARKER).exists()):
        raise InputError(
            f"--state {folder}: not a minicluster's folder; allowed: one, or a new or empty folder"
        )


def claim(folder: Path) -> None:
    """Create a state folder and mark it as one; the marker is its lock."""
    require_cluster(folder)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    folder.chmod(0o755)  # the umask of a group would let it write here
    require_own(folder, "--state")  # it may have been made since the path was checked
    (folder / MARKER).touch(mode=0o600)


#: How long to wait for another process without a word, seconds.
_SILENT_S = 5.0
#: Of changes to this host's network.
HOST = Path("/run/nimc-minicluster.lock")


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file, unless it is gone; a line is printed if that takes long."""
    while path.exists():
        with _held(path, create=False) as is_current:
            if is_current:
                yield
                return
    yield


@contextmanager
def locked_host() -> Iterator[None]:
    """One change of this host's network at a time; the lock file is removed afterwards."""
    while True:
        with _held(HOST, create=True) as is_current:
            if is_current:
                try:
                    yield
                finally:
                    HOST.unlink()
                return


@contextmanager
def _held(path: Path, *, create: bool) -> Iterator[bool]:
    """Lock a file; whether it is still the one at `path`, since its holder may have removed it."""
    with ExitStack() as opened:
        try:
            file = opened.enter_context(private_lock(path, create=create))
        except FileNotFoundError:
            yield False
            return
        if not file.take(_SILENT_S):
            print(
                f"nimc: waits for another 'minicluster up' or 'down', which holds {path}",
                file=sys.stderr,
                flush=True,
            )
            file.take(None)
        yield path.exists() and os.path.samestat(os.fstat(file.handle), path.stat())
