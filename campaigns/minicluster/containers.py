"""Containers: the controller, and the nodes of the veth fabric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from analysis.errors import MachineError
from campaigns.minicluster import cgroups, namespaces
from campaigns.minicluster.layout import SITE, ClusterLayout
from campaigns.minicluster.shell import run, start, wait_for


def launch(layout: ClusterLayout, name: str, kind: cgroups.Kind, group: Path | None) -> None:
    """Start a container; `wait_ready` waits until it can be entered."""
    command = ["sh", str(SITE / "container.sh"), layout.netns(name), name, str(layout.state), kind]
    start(command + ([str(group)] if group else []), layout.log(name))


def wait_ready(layout: ClusterLayout, name: str) -> None:
    """Wait until a container's mounts are in place."""
    ready = layout.state / "run" / f"{name}.ready"
    wait_for(f"container {name}", ready.exists, 20, layout.log(name))


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
    init = namespaces.find_inner(layout.netns(name), 1)
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
