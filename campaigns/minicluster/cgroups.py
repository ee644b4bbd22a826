"""A control group for each container, so that slurmd can track the processes of its steps."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Literal

from analysis.errors import MachineError

#: Control groups that can be created on a host: version 1 (its freezer), version 2, or none.
Kind = Literal["v1", "v2", "none"]

ROOT = Path("/sys/fs/cgroup")


def kind_of(mounts: str) -> tuple[Kind, Path | None]:
    """The version to use and where its tree is mounted, from the text of /proc/mounts."""
    v2: Path | None = None
    for line in mounts.splitlines():
        _, where, fstype, options = (*line.split(), *[""] * 4)[:4]
        if fstype == "cgroup" and "freezer" in options.split(","):
            return "v1", Path(where)
        if fstype == "cgroup2" and Path(where) == ROOT:
            v2 = Path(where)
    return ("v2", v2) if v2 else ("none", None)


def make(tag: str, names: list[str]) -> tuple[Kind, dict[str, Path]]:
    """Create a group for each name. Kind `none` and no groups if the host does not allow it."""
    kind, root = kind_of(Path("/proc/mounts").read_text())
    if root is None:
        return "none", {}
    groups = {name: root / tag / name for name in names}
    try:
        for group in groups.values():
            group.mkdir(parents=True, exist_ok=True)
        if kind == "v2":
            for level in (root, root / tag):
                _hand_down(level)
    except OSError:
        remove(tag)
        return "none", {}
    return kind, groups


def _hand_down(level: Path) -> None:
    """Enable a level's version 2 controllers for the levels below it."""
    available = (level / "cgroup.controllers").read_text().split()
    wanted = [c for c in available if c in ("cpu", "cpuset", "memory", "pids")]
    (level / "cgroup.subtree_control").write_text(" ".join(f"+{c}" for c in wanted))


def remove(tag: str, timeout_s: float = 10) -> list[str]:
    """Remove a cluster's groups in every hierarchy, once their processes have ended."""
    removed = []
    roots = [
        Path(line.split()[1])
        for line in Path("/proc/mounts").read_text().splitlines()
        if line.split()[2] in ("cgroup", "cgroup2")
    ]
    for top in (root / tag for root in roots):
        if top.is_dir():
            _remove_tree(top, time.monotonic() + timeout_s)
            removed.append(f"control group {top}")
    return removed


def _remove_tree(top: Path, deadline_s: float) -> None:
    for folder, _, _ in os.walk(top, topdown=False):
        while True:
            try:
                os.rmdir(folder)
                break
            except FileNotFoundError:
                break
            except OSError as error:
                # A group stays busy for a moment after its last process has ended.
                if time.monotonic() > deadline_s:
                    raise MachineError(f"control group {folder}: {error.strerror}") from error
                time.sleep(0.02)
