"""To which CPUs the interrupts of network devices are bound. Read only: binding them needs root."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from injection.machine import kernel_text

#: Where an interrupt goes, and where it may go; kernels before 4.14 lack the first.
_FILES = ("effective_affinity_list", "smp_affinity_list")


def of_devices(root: Path = Path("/")) -> dict[str, dict[str, int]]:
    """RDMA device or network interface -> CPUs (the kernel's list) -> number of its interrupts.

    Without devices whose interrupts are unknown, as those of virtual ones.
    """
    found = {}
    for folder in ("infiniband", "net"):
        for device in sorted((root / "sys/class" / folder).glob("*/device")):
            lists = [_cpus(root / "proc/irq" / each.name) for each in device.glob("msi_irqs/*")]
            if known := Counter(cpus for cpus in lists if cpus):
                found[device.parent.name] = dict(sorted(known.items()))
    return found


def _cpus(folder: Path) -> str:
    """CPUs of one interrupt, such as `3` or `0-31`; empty if unknown."""
    return next(filter(None, (kernel_text.read(folder / name) for name in _FILES)), "")
