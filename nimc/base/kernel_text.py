"""Files of /proc and sysfs as text and numbers; what is not what it should be is unknown."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

#: The kernel's numbers have 64 bits.
_NUMBER = re.compile(r"\s*(-?[0-9]{1,20})\s*")


def read(path: Path) -> str:
    """The file's text without space around it; empty if it cannot be read."""
    with suppress(OSError):
        return path.read_text(errors="replace").strip()
    return ""


def number(text: str) -> int | None:
    """The whole number that a text is; None if it is none of the kernel's."""
    found = _NUMBER.fullmatch(text)
    return int(found[1]) if found else None
