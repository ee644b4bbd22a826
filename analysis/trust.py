"""What may be read as one's own: other users of a machine can plant folders and files."""

from __future__ import annotations

import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from analysis.errors import InputError

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def distrust(path: Path, *, or_root: bool = False) -> str | None:
    """Why the file or folder `path` may be somebody else's doing; None if it is one's own.

    One's own is real (not a link), owned by this user (or, with `or_root`, by root), and not
    writable by others. Raises FileNotFoundError if there is nothing.
    """
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "is a symbolic link"
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        return "is neither a file nor a folder"
    if found.st_uid != os.geteuid() and not (or_root and found.st_uid == 0):
        return f"belongs to {user_name(found.st_uid)}"
    if found.st_mode & _OTHERS_WRITE:
        return f"can be written by others (mode {stat.S_IMODE(found.st_mode):o})"
    return None


def require_own(path: Path, field: str, *, or_root: bool = False) -> None:
    """Raise InputError, which begins with `field`, unless `path` is one's own or does not exist."""
    with suppress(FileNotFoundError):
        if why := distrust(path, or_root=or_root):
            raise InputError(
                f"{field}: {path} {why}; allowed: a real one of your own that nobody else can write"
                " to"
            )


def user_name(uid: int) -> str:
    """Name of a user; the number of one without an entry in passwd, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
