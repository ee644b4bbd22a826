"""The checkout of this project: its folder and its commit."""

from __future__ import annotations

from pathlib import Path

from nimc.base.programs import ask

#: Folder of the checkout.
ROOT = Path(__file__).resolve().parents[2]


def commit(root: Path = ROOT) -> str | None:
    """The checkout's commit, with `+` if files were changed since; None if it is unknown.

    Git refuses a checkout of another user, unless its configuration names it as safe: its code
    runs already. No program that the checkout's configuration names is started.
    """
    git = ["git", "-c", f"safe.directory={root}", "-c", "core.fsmonitor=false", "-C", str(root)]
    head, changes = ask([*git, "rev-parse", "HEAD"]), ask([*git, "status", "--porcelain", "-uno"])
    if not (head.ok and changes.ok):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")
