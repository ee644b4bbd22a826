"""What may be read as one's own: other users of a machine can plant folders and files.

A site may name a group that it trusts (`trusted_group`). Where a caller allows it (`team`), members
of this group count as oneself, and what the group can write to is trusted.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Literal

from analysis.errors import InputError

#: What a trusted group may: nothing, write to what is one's own, or also own what is trusted.
Team = Literal["nothing", "writes", "owns"]
#: Gives the numbers of the groups that sites trust; they are read from above (`campaigns.cli`).
trusted_groups: Callable[[], Collection[int]] = frozenset


def distrust(path: Path, *, or_root: bool = False, team: Team = "nothing") -> str | None:
    """Why the file or folder `path` may be somebody else's doing; None if it is one's own.

    One's own is real (not a link), owned by this user (or, with `or_root`, by root), and not
    writable by others. Raises FileNotFoundError if there is nothing.
    """
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return "is neither a file nor a folder"
    own = found.st_uid == os.geteuid() or (or_root and found.st_uid == 0)
    if not own and not (team == "owns" and _groups(found.st_uid).intersection(trusted_groups())):
        return f"belongs to {user_name(found.st_uid)}"
    group = found.st_mode & stat.S_IWGRP
    if found.st_mode & stat.S_IWOTH or (
        group and (team == "nothing" or found.st_gid not in trusted_groups())
    ):
        return f"can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def require_own(path: Path, field: str, *, or_root: bool = False, team: Team = "nothing") -> None:
    """Raise InputError, which begins with `field`, unless `path` is one's own or does not exist."""
    with suppress(FileNotFoundError):
        if why := distrust(path, or_root=or_root, team=team):
            raise InputError(
                f"{field}: {path} {why}; allowed: a real one of your own that nobody else can write"
                " to"
            )


def share_as_above(folder: Path) -> None:
    """Let the trusted group add to a new folder if it may add to the one above."""
    above = folder.parent.lstat()
    if above.st_mode & stat.S_IWGRP and above.st_gid in trusted_groups():
        os.chown(folder, -1, above.st_gid)
        folder.chmod(stat.S_IMODE(folder.lstat().st_mode) | stat.S_IWGRP | stat.S_ISGID)


@cache
def _groups(uid: int) -> frozenset[int]:
    """The groups of a user; none of one without an entry in passwd."""
    try:
        user = pwd.getpwuid(uid)
    except KeyError:
        return frozenset()
    return frozenset(os.getgrouplist(user.pw_name, user.pw_gid))


def user_name(uid: int) -> str:
    """Name of a user; the number of one without an entry in passwd, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
