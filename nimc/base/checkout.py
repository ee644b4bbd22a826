"""The checkout of this project: its folder and its commit."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

#: Folder of the checkout.
ROOT = Path(__file__).resolve().parents[2]


def commit(root: Path = ROOT) -> str | None:
    """The checkout's commit, with `+` if files were changed since; None if it is unknown.

    Git refuses a checkout of another user, unless its configuration names it as safe: its code
    runs already. No program that the checkout's configuration names is started.
    """
    git = ["git", "-c", f"safe.directory={root}", "-c", "core.fsmonitor=false", "-C", str(root)]
    with suppress(OSError, subprocess.CalledProcessError):
        asked = [git + ["rev-parse", "HEAD"], git + ["status", "--porcelain", "-uno"]]
        head, changes = (
            subprocess.run(each, capture_output=True, text=True, check=True).stdout
            for each in asked
        )
        return head.strip() + ("+" if changes.strip() else "")
    return None
