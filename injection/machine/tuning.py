"""What operators tune against memory contention: the values read, whoever set them.

nimc sets none of them. Registers are readable by root only; what cannot be read is None.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from analysis.processors import identity
from injection.machine.kernel_text import read as _read

#: Ways of the last-level cache that devices write to, on Intel processors of model 85 (Farshin et
#: al., ATC 2020); and the hardware prefetchers, of which a set bit turns one off.
_DDIO_WAYS, _DDIO_MODEL = 0xC8B, "GenuineIntel-6-85-"
_PREFETCH, _PREFETCH_MODEL = 0x1A4, "GenuineIntel-6-"
_PREFETCHERS = ("L2", "L2 adjacent line", "L1", "L1 stride")
_REGISTER_B = 8
_LINE = re.compile(r"[A-Z0-9_]{1,16}: *[0-9]{1,4}=[0-9A-Za-z; =]{1,4096}")


def ddio(root: Path) -> str | None:
    """Mask of the ways that devices write to, hexadecimal; several if sockets differ."""
    values = _registers(root, _DDIO_WAYS, _DDIO_MODEL)
    return ", ".join(f"{value:x}" for value in values) or None


def prefetchers(root: Path) -> str | None:
    """`all on`, or those that are off; several if CPUs differ."""
    values = _registers(root, _PREFETCH, _PREFETCH_MODEL)
    return " | ".join(_prefetchers(value) for value in values) or None


def _prefetchers(value: int) -> str:
    off = [name for bit, name in enumerate(_PREFETCHERS) if value >> bit & 1]
    return f"off: {', '.join(off)}" if off else "all on"


def resctrl(root: Path) -> str | None:
    """The default group's schemata, one resource after the other: `L3:0=7ff;1=7ff MB:0=100`."""
    lines = [line.strip() for line in _read(root / "sys/fs/resctrl/schemata").splitlines()]
    found = [line.replace(" ", "") for line in lines if _LINE.fullmatch(line)]
    return " ".join(sorted(found)) or None


def _registers(root: Path, register: int, model: str) -> list[int]:
    """The distinct values of a register over all CPUs of that model; empty if unreadable."""
    if not identity(_read(root / "proc/cpuinfo")).startswith(model):
        return []
    found = set()
    for path in (root / "dev/cpu").glob("[0-9]*/msr"):
        try:
            file = os.open(path, os.O_RDONLY)
        except OSError:
            return []
        try:
            data = os.pread(file, _REGISTER_B, register)
        except OSError:
            return []
        finally:
            os.close(file)
        if len(data) == _REGISTER_B:
            found.add(int.from_bytes(data, "little"))
    return sorted(found)
