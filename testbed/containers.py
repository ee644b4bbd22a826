"""Containers: the controller, and the nodes of the veth fabric."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from records.errors import MachineError
from records.kernel_text import read
from testbed import namespaces
from testbed.shell import run, start, wait_for
from testbed.spec import SITE_FOLDER, ClusterLayout, Spec

# Each container has a control group, so that slurmd can track the processes of its steps.


#: Control groups that containers can have on a host: version 1 (its freezer), version 2, or none.
CgroupKind = Literal["v1", "v2", "none"]

#: Mount point of version 2 if it is the only version.
CGROUP_ROOT = Path("/sys/fs/cgroup")
#: Time within which control groups can be removed once their processes have ended, seconds.
_REMOVE_TIMEOUT_S = 10.0


def cgroup_kind(mounts: str) -> tuple[CgroupKind, Path | None]:
    """Return the kind to use and its mount point (None for no kind), from /proc/mounts's text."""
    has_v2 = False
    for mount_point, filesystem, options in _mount_entries(mounts):
        if filesystem == "cgroup" and "freezer" in options:
            return "v1", mount_point
        if filesystem == "cgroup2" and mount_point == CGROUP_ROOT:
            has_v2 = True
    return ("v2", CGROUP_ROOT) if has_v2 else ("none", None)


def _mount_entries(mounts: str) -> Iterator[tuple[Path, str, list[str]]]:
    """Yield mount point, filesystem and options of each line of /proc/mounts."""
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) >= 4:
            _device, mount_point, filesystem, options, *_ = fields
            yield Path(mount_point), filesystem, options.split(",")


def make_cgroups(tag: str, names: list[str]) -> tuple[CgroupKind, dict[str, Path]]:
    """Create a control group for each name; return their kind, and name -> folder.

    The kind is `none`, without groups, if the host does not allow it.
    """
    kind, root = cgroup_kind(Path("/proc/mounts").read_text())
    if root is None:
        return "none", {}
    groups = {name: root / tag / name for name in names}
    try:
        for group in groups.values():
            group.mkdir(parents=True, exist_ok=True)
        if kind == "v2":
            # Each level must pass its controllers on to the level below.
            for level in (root, root / tag):
                available = (level / "cgroup.controllers").read_text().split()
                controllers = {"cpu", "cpuset", "memory", "pids"}.intersection(available)
                change = " ".join(f"+{controller}" for controller in controllers)
                (level / "cgroup.subtree_control").write_text(change)
    except OSError:
        remove_cgroups(tag)
        return "none", {}
    return kind, groups


def remove_cgroups(tag: str) -> list[str]:
    """Remove a cluster's control groups in all hierarchies; return what was removed.

    All processes in them must have ended. Raises MachineError if a group stays busy.
    """
    removed = []
    roots = [
        mount_point
        for mount_point, filesystem, _ in _mount_entries(Path("/proc/mounts").read_text())
        if filesystem in ("cgroup", "cgroup2")
    ]
    deadline_s = time.monotonic() + _REMOVE_TIMEOUT_S
    for root in roots:
        group = root / tag
        if not group.is_dir():
            continue
        for folder, _, _ in os.walk(group, topdown=False):
            while Path(folder).exists():
                try:
                    os.rmdir(folder)
                except OSError as error:
                    # A group stays busy for a moment after its last process has ended.
                    if time.monotonic() > deadline_s:
                        raise MachineError(f"control group {folder}: {error.strerror}") from error
                    time.sleep(0.02)
        removed.append(f"control group {group}")
    return removed


def launch(layout: ClusterLayout, name: str, kind: CgroupKind, group: Path | None) -> None:
    """Start a container. `wait_ready` waits until it can be entered."""
    command = [
        "sh",
        str(SITE_FOLDER / "container.sh"),
        layout.netns(name),
        name,
        str(layout.state),
        kind,
    ]
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
    """Run a command in a container and return its output; `label` names it in errors."""
    init_pid = running_pid(layout, name)
    return run(enter_command(init_pid, command), env=env, label=f"{label or command[0]} on {name}")


def running_pid(layout: ClusterLayout, name: str) -> int:
    """Return the host's PID of a container's process 1.

    Raises MachineError if the container is not running.
    """
    init_pid = pid(layout, name)
    if init_pid is None:
        raise MachineError(f"container {name} is not running")
    return init_pid


def enter_command(init_pid: int, command: Sequence[str]) -> list[str]:
    """Return the command line that joins the namespaces and the control group of a process."""
    namespace_options = ["--net", "--uts", "--ipc", "--mount", "--pid", "--cgroup"]
    join_group = (
        "for g in init freezer; do f=/sys/fs/cgroup/$g/cgroup.procs; "
        '[ ! -e "$f" ] || echo $$ > "$f"; done; exec "$@"'
    )
    shell_command = ["sh", "-c", join_group, "sh", *command]
    return ["nsenter", f"--target={init_pid}", *namespace_options, *shell_command]


def start_nodes(
    layout: ClusterLayout,
    controller_netns: str,
    spec: Spec,
    subnet: str,
    kind: CgroupKind,
    groups: dict[str, Path],
) -> None:
    """Start the nodes' containers, and wait until all can be entered."""
    nodes = spec.members()
    for node in nodes:
        launch(layout, node.name, kind, groups.get(node.name))
        namespaces.connect_node(
            controller_netns, layout.netns(node.name), node.index, subnet, spec.rails
        )
    for node in nodes:
        wait_ready(layout, node.name)


def pid(layout: ClusterLayout, name: str) -> int | None:
    """Return the host's PID of a container's process 1; None if the container is not running."""
    for host_pid in namespaces.pids_in([layout.netns(name)]):
        if namespaces.inner_pid(read(Path(f"/proc/{host_pid}/status"))) == 1:
            return host_pid
    return None
