"""`state.json`: what a running minicluster is, for `status`, for `down`, and for machine files.

    {"minicluster": 1, "phase": "up", "state": PATH, "fabric": "veth", "tag": "nimc-1a2b3c",
     "subnet": "10.77.5", "slurm_conf": PATH, "accelerator": null, "spec": {...},
     "partitions": {"compute": ["node1"], "origin": ["node2"], "all": ["node1", "node2"]},
     "nodes": [{"name": "node1", "role": "target", "address": "10.77.5.1", "interface": "eth0",
                "rdma_device": null, "cpus": 2, "memory_mib": 2000, "numa_nodes": 1}],
     "up_took_s": 3.2, "made_netns_folder": true}

`rdma_device` is `rxe0` on the rxe fabric, `accelerator` there `kvm` or `tcg`. `phase` is
`starting` until everything answered.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from analysis.errors import InputError
from campaigns.minicluster.layout import ClusterLayout
from campaigns.minicluster.spec import Spec

VERSION = 1
#: The first file in a state folder: only a folder with it is ever removed.
MARKER = "minicluster"


@dataclass(frozen=True)
class State:
    """The content of `state.json`."""

    spec: Spec
    phase: Literal["starting", "up"]
    subnet: str
    cpus: int
    memory_mib: int
    accelerator: str | None = None
    up_took_s: float | None = None
    made_netns_folder: bool = False

    def as_dict(self, layout: ClusterLayout) -> dict[str, Any]:
        """The document, as the module's docstring shows it."""
        return {
            "minicluster": VERSION,
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
    """Replaces `state.json` as a whole."""
    part = layout.state_json.with_suffix(".part")
    part.write_text(json.dumps(state.as_dict(layout), indent=1) + "\n")
    os.replace(part, layout.state_json)


def read(layout: ClusterLayout) -> State | None:
    """The state, or None where there is none or it was not written to its end."""
    try:
        found = json.loads(layout.state_json.read_text())
        spec = found["spec"]
        return State(
            spec=Spec(**{**spec, "shares": tuple(spec["shares"])}),
            phase=found["phase"],
            subnet=found["subnet"],
            cpus=found["nodes"][0]["cpus"],
            memory_mib=found["nodes"][0]["memory_mib"],
            accelerator=found["accelerator"],
            up_took_s=found["up_took_s"],
            made_netns_folder=found["made_netns_folder"],
        )
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def check_ours(folder: Path) -> None:
    """`InputError` where a folder holds something that no minicluster put there."""
    if not folder.exists():
        return
    if folder.stat().st_uid != os.geteuid():
        raise InputError(f"--state {folder}: allowed is a folder of your own, this is not")
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / MARKER).exists()):
        raise InputError(
            f"--state {folder}: allowed are a new or empty folder and one of a minicluster"
        )


def claim(folder: Path) -> None:
    """Makes a state folder and marks it as one."""
    check_ours(folder)
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    (folder / MARKER).touch()
