"""Containers: the controller, and the nodes of the veth fabric."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from records.errors import MachineError
from records.kernel_text import read
from testbed import namespaces
from testbed.shell import run, start, wait_for
from testbed.spec import SITE, ClusterLayout, Spec

# A control group for each container, so that slurmd can track the processes of its steps.


#: Control groups that can be created on a host: version 1 (its freezer), version 2, or none.
Kind = Literal["v1", "v2", "none"]

ROOT = Path("/sys/fs/cgroup")


def kind_of(mounts: str) -> tuple[Kind, Path | None]:
    """The version to use and where its tree is mounted, from the text of /proc/mounts."""
    v2: Path | None = None
    for line in mounts.splitlines():
        _, mount_point, fstype, options = (*line.split(), *[""] * 4)[:4]
        if fstype == "cgroup" and "freezer" in options.split(","):
            return "v1", Path(mount_point)
        if fstype == "cgroup2" and Path(mount_point) == ROOT:
            v2 = Path(mount_point)
    return ("v2", v2) if v2 else ("none", None)


def make_cgroup(tag: str, names: list[str]) -> tuple[Kind, dict[str, Path]]:
    """Create a group for each name. Kind `none` and no groups if the host does not allow it."""
    kind, root = kind_of(Path("/proc/mounts").read_text())
    if root is None:
        return "none", {}
    groups = {name: root / tag / name for name in names}
    try:
        for group in groups.values():
            group.mkdir(parents=True, exist_ok=True)
        if kind == "v2":
            for level in (root, root / tag):  # hand its controllers down
                available = (level / "cgroup.controllers").read_text().split()
                wanted = {"cpu", "cpuset", "memory", "pids"}.intersection(available)
                (level / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in wanted))
    except OSError:
        remove_cgroup(tag)
        return "none", {}
    return kind, groups


def remove_cgroup(tag: str, timeout_s: float = 10) -> list[str]:
    """Remove a cluster's groups in every hierarchy, once their processes have ended."""
    removed = []
    roots = [
        Path(line.split()[1])
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[2] in ("cgroup", "cgroup2")
    ]
    deadline_s = time.monotonic() + timeout_s
    for top in (root / tag for root in roots if (root / tag).is_dir()):
        for folder, _, _ in os.walk(top, topdown=False):
            while Path(folder).exists():
                try:
                    os.rmdir(folder)
                except OSError as error:
                    # A group stays busy for a moment after its last process has ended.
                    if time.monotonic() > deadline_s:
                        raise MachineError(f"control group {folder}: {error.strerror}") from error
                    time.sleep(0.02)
        removed.append(f"control group {top}")
    return removed


def launch(layout: ClusterLayout, name: str, kind: Kind, group: Path | None) -> None:
    """Start a container; `wait_ready` waits until it can be entered."""
    command = ["sh", str(SITE / "container.sh"), layout.netns(name), name, str(layout.state), kind]
    start(command + ([str(group)] if group else []), layout.log(name))


def wait_ready(layout: ClusterLayout, name: str) -> None:
    """Wait until a container's mounts are in place."""
    ready = layout.state / "run" / f"{name}.ready"
    wait_for(f"container {name}", ready.exists, 60, layout.log(name))


def enter(
    layout: ClusterLayout,
    name: str,
    command: Sequence[str],
    env: Mapping[str, str] | None = None,
    label: str = "",
) -> str:
    """Run a command in a container and return its output; errors call it `label`."""
    init = container(layout, name)
    return run(enter_command(init, command), env=env, label=f"{label or command[0]} on {name}")


def container(layout: ClusterLayout, name: str) -> int:
    """Id on this host of a container's process 1."""
    init = pid(layout, name)
    if init is None:
        raise MachineError(f"container {name} is not running")
    return init


def enter_command(init: int, command: Sequence[str]) -> list[str]:
    """The command line that joins the namespaces and control group of process `init`."""
    everything = ["--net", "--uts", "--ipc", "--mount", "--pid", "--cgroup"]
    join = (
        "for g in init freezer; do f=/sys/fs/cgroup/$g/cgroup.procs; "
        '[ ! -e "$f" ] || echo $$ > "$f"; done; exec "$@"'
    )
    return ["nsenter", f"--target={init}", *everything, "sh", "-c", join, "sh", *command]


def start_nodes(
    layout: ClusterLayout,
    control: str,
    spec: Spec,
    subnet: str,
    kind: Kind,
    groups: dict[str, Path],
) -> None:
    """Start the nodes' containers; return when all can be entered."""
    nodes = spec.members()
    for node in nodes:
        launch(layout, node.name, kind, groups.get(node.name))
        namespaces.plug_node(control, layout.netns(node.name), node.index, subnet, spec.rails)
    for node in nodes:
        wait_ready(layout, node.name)


def pid(layout: ClusterLayout, name: str) -> int | None:
    """Id on this host of a node's process 1, None if the node is not running."""
    for process in namespaces.processes([layout.netns(name)]):
        if namespaces.inner_pid(read(Path(f"/proc/{process}/status"))) == 1:
            return process
    return None
