"""Writing a file such that readers see the old or the new one, never a part of it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

#: Ending of the name of a file that is being written.
PARTIAL = ".partial"


def replace_text(path: Path, text: str, mode: int | None = None) -> None:
    """As `replace`, with text."""
    replace(path, text.encode(), mode)


def replace(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write `content` to disk under a temporary name next to `path`, which it then replaces.

    Others may write to the folder, so the temporary name is random and must be new. `mode`: its
    permissions, if not the usual ones.
    """
    partial = path.with_name(f".{secrets.token_hex(8)}{PARTIAL}")
    with partial.open("xb") as file:
        try:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
