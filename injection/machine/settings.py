"""Settings and firmware of a host that change what memory contention costs, read without root."""

from __future__ import annotations

import re
from pathlib import Path

from injection.machine.kernel_text import read as _read


def microcode(root: Path) -> str | None:
    """Revision of the processor's microcode; several if CPUs differ."""
    found = re.findall(r"^microcode\s*:\s*(\S+)", _read(root / "proc/cpuinfo"), re.MULTILINE)
    return ", ".join(sorted(set(found))) or None


def bios(root: Path) -> str | None:
    """Vendor, version and date of the firmware that started the host."""
    folder = root / "sys/class/dmi/id"
    words = [_read(folder / f"bios_{name}") for name in ("vendor", "version", "date")]
    return " ".join(word for word in words if word) or None


def transparent_huge_pages(root: Path) -> str | None:
    """`always`, `madvise` or `never`: the kernel marks the chosen one with brackets."""
    text = _read(root / "sys/kernel/mm/transparent_hugepage/enabled")
    chosen = re.search(r"\[(\w+)\]", text)
    return chosen[1] if chosen else None


def iommu(root: Path) -> str | None:
    """Kinds of the IOMMU's domains: `DMA`, `DMA-FQ`, `identity`; `on` if unknown, or `none`.

    Options of the kernel's command line that name an IOMMU follow in brackets.
    """
    units = root / "sys/class/iommu"
    if not units.is_dir():
        return None
    kinds = {_read(path) for path in root.glob("sys/kernel/iommu_groups/*/type")} - {""}
    state = ", ".join(sorted(kinds)) or "on" if any(units.iterdir()) else "none"
    options = [word for word in _read(root / "proc/cmdline").split() if "iommu" in word]
    return f"{state} ({' '.join(options)})" if options else state
