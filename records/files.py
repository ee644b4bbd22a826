"""Files: how they are written, whose may be read, and how they are locked.

Readers see the old or the new file, and no link leads it elsewhere. Others may write to the folder,
or may have made what is in it. So a file is written under a temporary name, which is random and
must be new, and renamed. What exists and is no regular file is refused: a link, a pipe, a device.
So is a folder that is a link.
"""

from __future__ import annotations

import fcntl
import grp
import os
import pwd
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from records.errors import InputError, MachineError

#: Ending of the name of a file that is being written.
PARTIAL = ".partial"
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ALLOWED_FOLDER = "allowed: a real folder"


def resolved_output(path: Path) -> Path:
    """A file or folder to write to that the user has named: links of the user or root are followed.

    Raises InputError for a link that another user made.
    """
    links = [part for part in (path.parent, path) if part.is_symlink()]
    for link in links:
        if link.lstat().st_uid not in (os.geteuid(), 0):
            raise InputError(f"{link}: is a symbolic link of another user; {_ALLOWED_FOLDER}")
    return Path(os.path.realpath(path)) if links else path


def make_named_folder(folder: Path) -> None:
    """Create a folder for outputs that the user has named, and those above it.

    Its path stays: where links lead to may have another name on other nodes. Raises InputError for
    a link that another user made.
    """
    resolved_output(folder)
    folder.mkdir(parents=True, exist_ok=True)
    resolved_output(folder)  # it may have become a link meanwhile


def require_output(path: Path, *, folder: bool = False) -> None:
    """Raises InputError for what exists and may not be written: see above."""
    if not folder:
        _require_regular(path)
    elif os.path.lexists(path):
        os.close(_open_folder(path))


def make_folder(folder: Path) -> None:
    """Create a folder for outputs and those above it. Raises InputError if it is a link."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
    os.close(_open_folder(folder))


def replace_text(path: Path, text: str, mode: int | None = None) -> None:
    """Do the same as `replace_bytes`, with text."""
    replace_bytes(path, text.encode(), mode)


def replace_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write `content` to disk; the folder must exist. `mode`: permissions, if not the usual ones.

    Raises InputError for what may not be written, and OSError, with the file's name, if it fails.
    """
    folder = _open_folder(path.parent)
    partial = f".{secrets.token_hex(8)}{PARTIAL}"
    try:
        _require_regular(path, folder)
        try:
            handle = os.open(
                partial, _NEW_FILE_FLAGS, 0o666 if mode is None else 0o600, dir_fd=folder
            )
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                if mode is not None:
                    os.fchmod(handle, mode)
                file.flush()
                os.fsync(handle)
            os.replace(partial, path.name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(partial, dir_fd=folder)
            raise
        os.fsync(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(folder)


def _open_folder(folder: Path) -> int:
    try:
        return os.open(folder, _FOLDER_FLAGS)
    except OSError as error:
        if folder.is_symlink():
            raise InputError(f"{folder}: is a symbolic link; {_ALLOWED_FOLDER}") from None
        if isinstance(error, NotADirectoryError):
            raise InputError(f"{folder}: is not a folder; {_ALLOWED_FOLDER}") from None
        raise


def _require_regular(path: Path, folder: int | None = None) -> None:
    with suppress(FileNotFoundError):
        mode = os.lstat(path if folder is None else path.name, dir_fd=folder).st_mode
        if not stat.S_ISREG(mode):
            kind = "symbolic link" if stat.S_ISLNK(mode) else "folder, pipe or device"
            raise InputError(f"{path}: is a {kind}; allowed: a new or a regular file")


def open_regular(path: Path, *, follow: bool = False) -> IO[bytes]:
    """A file, open for reading; only with `follow` may it be a link.

    Raises InputError for a folder, and for a pipe or a device, which may never end.
    """
    link = 0 if follow else os.O_NOFOLLOW
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path}: not a regular file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, most_b: int, *, follow: bool = False) -> bytes:
    """The content of a file (`open_regular`). Raises InputError if it has more than `most_b`."""
    with open_regular(path, follow=follow) as file:
        size_b = os.fstat(file.fileno()).st_size  # a sparse file may claim more than there is
        content = file.read(most_b + 1) if size_b <= most_b else b""
    if max(size_b, len(content)) > most_b:
        raise InputError(f"{path}: is longer than allowed: {most_b >> 20} MiB")
    return content


# Files that may be read as the user's own: others on a machine can plant folders and files.


def reason_to_distrust(path: Path, *, or_root: bool = False) -> str | None:
    """Return why another user may have made the file or folder `path`; None if it is one's own.

    One's own is real (not a link), owned by this user (or, with `or_root`, by root), and not
    writable by others: by its group only if nobody else is in that (umask 002). Raises
    FileNotFoundError if there is nothing.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return "is neither a file nor a folder"
    if status.st_uid != os.geteuid() and not (or_root and status.st_uid == 0):
        return f"belongs to {user_name(status.st_uid)}"
    by_group = status.st_mode & stat.S_IWGRP and not _is_private_group(path, status)
    if by_group or status.st_mode & stat.S_IWOTH:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _is_private_group(path: Path, status: os.stat_result) -> bool:
    """Return whether a file's group is its owner's private one, and no list of access adds users.

    A directory service may not list whose primary group it is, so name or number must be equal.
    """
    with suppress(OSError):  # a file system without such lists
        if "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False):
            return False  # then the mode's bits of the group are those of all who are listed
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    named_alike = user.pw_name == group.gr_name or user.pw_uid == group.gr_gid
    return user.pw_gid == group.gr_gid and named_alike and {*group.gr_mem} <= {user.pw_name}


def require_owned(path: Path, field: str, *, or_root: bool = False) -> None:
    """Raise InputError that begins with `field` unless `path` is absent or the user's own."""
    with suppress(FileNotFoundError):
        if reason := reason_to_distrust(path, or_root=or_root):
            raise InputError(
                f"{field}: {path} {reason}; allowed: no link, your own, and not writable by others"
            )


def user_name(uid: int) -> str:
    """Name of a user; the number of one without an entry in passwd, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_names(user: str, gid: int) -> list[str]:
    """Names of a user's groups, `gid` among them; a group without an entry gives its number."""
    names = []
    for number in os.getgrouplist(user, gid):
        try:
            names.append(grp.getgrgid(number).gr_name)
        except KeyError:
            names.append(str(number))
    return names


# Lock files that no other user can open: a stranger who holds one would block their owner.


_POLL_S = 0.05
#: Longest text on the holder.
_HOLDER_B = 200


@dataclass(frozen=True)
class PrivateLock:
    """An open lock file."""

    path: Path
    #: A child that inherits it keeps the lock.
    handle: int

    def acquire(self, within_s: float | None = 0.0) -> bool:
        """Return whether it could be locked within that time; released when the file is closed.

        None waits without a limit. Raises MachineError if the file system has no locks.
        """
        began_s = time.monotonic()
        operation = fcntl.LOCK_EX | (fcntl.LOCK_NB if within_s is not None else 0)
        while True:
            try:
                fcntl.flock(self.handle, operation)
                return True
            except BlockingIOError:
                if time.monotonic() - began_s >= (within_s or 0.0):
                    return False
                time.sleep(_POLL_S)
            except OSError as error:
                raise MachineError(
                    f"{self.path}: {error.strerror}: this file system has no locks (Lustre: mount"
                    " option flock)"
                ) from error

    def holder(self) -> str:
        """Return what the holder wrote of itself."""
        return os.pread(self.handle, _HOLDER_B, 0).decode(errors="replace").strip()

    def write_holder(self, text: str) -> None:
        """Write who holds it, which is only for messages."""
        with suppress(OSError):
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, f"{text}\n".encode(), 0)


@contextmanager
def private_lock(path: Path) -> Iterator[PrivateLock]:
    """A lock file, not yet locked, which is closed when the context ends.

    Raises InputError if it is another user's, MachineError if it cannot be opened.
    """
    require_owned(path, "lock")
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from error
    try:
        os.fchmod(handle, 0o600)
        yield PrivateLock(path, handle)
    finally:
        os.close(handle)
