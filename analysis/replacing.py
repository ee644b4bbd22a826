"""Writing a file such that readers see the old or the new one, never a part of it."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def replace_text(path: Path, text: str, mode: int | None = None) -> None:
    """Write `text` to disk under a temporary name next to `path`, which it then replaces.

    Others may write to the folder, so the temporary name is random and must be new. `mode`: its
    permissions, if not the usual ones.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    with partial.open("x", encoding="utf-8") as file:
        try:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
