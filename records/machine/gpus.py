"""NVIDIA GPUs of this host, read from /sys and from their driver's files; standard library only."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from records.kernel_text import numa_node_of, number
from records.kernel_text import read as _text

_VENDOR = "0x10de"
#: Classes of PCI: display and 3D controllers.
_CLASS = re.compile(r"0x03[0-9a-f]{4}")
#: `16.0 GT/s PCIe`; older kernels leave the last word out.
_SPEED = re.compile(r"([0-9]{1,3}(?:\.[0-9])?) GT/s")
#: `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 ...`.
_VERSION = re.compile(r"Kernel Module.*?\s([0-9]+(?:\.[0-9]+)+)\s")
_MODEL = re.compile(r"^Model:\s*(.+)$", re.MULTILINE)
#: From 8 GT/s on, 128 of 130 bits are payload and headers; before, 8 of 10 (PCI Express).
_NEWER_GT_S = 8.0


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    #: PCI address, such as `0000:01:00.0`.
    pci: str
    #: Its model; None without the driver.
    name: str | None
    #: NUMA node that it is attached to; None if the host has only one.
    numa_node: int | None
    #: Rate of its PCIe link in each direction, headers included, bytes per second; None: unknown.
    link_rate_b_s: float | None


def detect(root: Path = Path("/")) -> list[Gpu]:
    """All of them, by PCI address."""
    gpus = []
    for path in sorted((root / "sys/bus/pci/devices").glob("*")):
        if _text(path / "vendor") == _VENDOR and _CLASS.fullmatch(_text(path / "class")):
            about = _text(root / "proc/driver/nvidia/gpus" / path.name / "information")
            model = _MODEL.search(about)
            name = model[1].strip() if model else None
            gpus.append(Gpu(path.name, name, numa_node_of(path), _link_rate_b_s(path)))
    return gpus


def driver_version(root: Path = Path("/")) -> str | None:
    """Version of the loaded driver; None if it is not."""
    version = _VERSION.search(_text(root / "proc/driver/nvidia/version"))
    return version[1] if version else None


def _link_rate_b_s(path: Path) -> float | None:
    """Of the fastest link that both ends can have: an idle GPU slows its link down."""
    speed = _SPEED.match(_text(path / "max_link_speed"))
    lanes = number(_text(path / "max_link_width"))
    if not speed or not lanes:
        return None
    gt_s = float(speed[1])
    share = 128 / 130 if gt_s >= _NEWER_GT_S else 8 / 10
    return gt_s * 1e9 / 8 * share * lanes
