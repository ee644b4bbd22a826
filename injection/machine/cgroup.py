"""Limits of this process by control groups, version 1 or 2. Reads below a root path."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from injection.machine.kernel_text import number
from injection.machine.kernel_text import read as _text


def cpu_quota(root: Path = Path("/")) -> float | None:
    """CPU time that may be used, in cores; None if not limited."""
    quotas = [quota for folder in _folders(root, "cpu") if (quota := _quota(folder)) is not None]
    return min(quotas, default=None)


def memory_limit_b(root: Path = Path("/")) -> int | None:
    """Memory that may be used, bytes; None if not limited.

    Version 1 shows its largest page-aligned number if there is no limit; callers take the minimum
    of this and the host's memory.
    """
    names = ("memory.max", "memory.limit_in_bytes")
    texts = [_text(folder / name) for folder in _folders(root, "memory") for name in names]
    return min((found for text in texts if (found := number(text)) is not None), default=None)


def _folders(root: Path, controller: str) -> Iterator[Path]:
    """Folders of the groups that limit this process, from its own up to the root.

    Lines of /proc/self/cgroup are `number:controllers:path`; version 2's has no controllers.
    """
    top = root / "sys/fs/cgroup"
    for line in _text(root / "proc/self/cgroup").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        base = top / controllers if controllers else top
        group = base / path.strip("/")
        yield group
        yield from (above for above in group.parents if above.is_relative_to(base))


def _quota(folder: Path) -> float | None:
    limit, _, period = _text(folder / "cpu.max").partition(" ")
    if not period:
        limit = _text(folder / "cpu.cfs_quota_us")
        period = _text(folder / "cpu.cfs_period_us")
    time, over = number(limit), number(period)
    return time / over if time is not None and time >= 0 and over else None
