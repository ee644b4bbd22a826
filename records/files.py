"""Writes files, finds out whether a file may be another user's, and locks files.

Readers see the old or the new file, never a part of it. Other users may write to the folder, and a
link of theirs must not redirect a write. So a file is written under a new random name, and then
renamed. If there is a link, a pipe or a device of the file's name, writing is refused. It is also
refused if the folder is a link.
"""

from __future__ import annotations

import errno
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
    """The path of an output that the user has named, with links of the user or of root followed.

    Raises InputError if the path or its folder is a link that another user made. Links further up
    are followed, whoever made them.
    """
    links = [part for part in (path.parent, path) if part.is_symlink()]
    for link in links:
        if link.lstat().st_uid not in (os.geteuid(), 0):
            raise InputError(f"{link}: is a symbolic link of another user; allowed: your own")
    return Path(os.path.realpath(path)) if links else path


def make_named_folder(folder: Path) -> None:
    """Create a folder for outputs that the user has named, and its parents.

    The path is used with its links, since their target may have another name on other nodes. Raises
    InputError as `resolved_output` does.
    """
    resolved_output(folder)
    folder.mkdir(parents=True, exist_ok=True)
    resolved_output(folder)  # the folder may have become a link meanwhile


def make_own_folder(folder: Path) -> None:
    """Create a folder into which nobody but this user writes.

    A default access control list of its parent would let others write, whatever the umask. Raises
    FileExistsError if it exists, and InputError if the file system lets others write anyway.
    """
    folder.mkdir()
    with suppress(OSError):  # there is no such list
        os.removexattr(folder, "system.posix_acl_default")
        folder.chmod(folder.stat().st_mode & ~(stat.S_IWGRP | stat.S_IWOTH))
    if reason := reason_to_distrust(folder):
        folder.rmdir()
        allowed = "a folder in which new folders are writable by you only (umask, getfacl)"
        raise InputError(f"{folder}: {reason}; allowed: {allowed}")


def require_output_file(path: Path) -> None:
    """Raise InputError if the path exists but is not a regular file."""
    _require_regular(path)


def require_output_folder(path: Path) -> None:
    """Raise InputError if the path exists but is not a folder, or is a link."""
    if os.path.lexists(path):
        os.close(_open_folder(path))


def make_folder(folder: Path) -> None:
    """Create a folder for outputs, and its parents. Raises InputError if it is a link."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
    os.close(_open_folder(folder))


def refresh(folder: Path) -> None:
    """Let this host see the files that other hosts have put into a folder and its parents.

    A client of NFS remembers which names a folder lacked, by default for up to a minute. When the
    folder is opened, the client asks the server (nfs(5): lookupcache, close-to-open consistency).
    """
    for parent in (*reversed(folder.parents), folder):
        with suppress(OSError):  # a parent may be unreadable
            os.close(os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))


def read_written(path: Path) -> bytes:
    """Content of a file that another host may have just written. Raises OSError."""
    refresh(path.parent)
    return path.read_bytes()


def replace_text(path: Path, text: str, mode: int | None = None) -> None:
    """Write `text` as `replace_bytes` writes bytes."""
    replace_bytes(path, text.encode(), mode)


def replace_bytes(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write `content` to disk; the folder must exist. `mode`: permissions; None: the usual ones.

    Raises InputError if the path is not a regular file, and OSError with the file's name if writing
    fails.
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
        _flush_folder(folder)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        os.close(folder)


def _flush_folder(folder: int) -> None:
    """Write an open folder to disk, unless its file system cannot, such as AFS and OrangeFS."""
    try:
        os.fsync(folder)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise


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
    """Raise InputError if the path exists but is not a regular file.

    `folder`: the open folder of the path, in which its name is looked up.
    """
    with suppress(FileNotFoundError):
        mode = os.lstat(path if folder is None else path.name, dir_fd=folder).st_mode
        if not stat.S_ISREG(mode):
            file_type = "symbolic link" if stat.S_ISLNK(mode) else "folder, pipe or device"
            raise InputError(f"{path}: is a {file_type}; allowed: a new or a regular file")


def open_regular(path: Path, *, follow: bool = False) -> IO[bytes]:
    """Open a file for reading.

    Raises OSError for a link, unless `follow` is set. Raises InputError for a folder, and for a
    pipe or a device, which may never end.
    """
    link_flag = 0 if follow else os.O_NOFOLLOW
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | link_flag)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise InputError(f"{path}: not a regular file")
    return os.fdopen(handle, "rb")


def read_regular(path: Path, most_b: int, *, follow: bool = False) -> bytes:
    """The content of a file (`open_regular`). Raises InputError if it has more than `most_b`."""
    with open_regular(path, follow=follow) as file:
        # A file that is too long is not read. The size of some files, as in /proc, is 0.
        size_b = os.fstat(file.fileno()).st_size
        content = file.read(most_b + 1) if size_b <= most_b else b""
    if max(size_b, len(content)) > most_b:
        raise InputError(f"{path}: is longer than allowed: {most_b >> 20} MiB")
    return content


# Checks that files are the user's own, since other users can put folders and files in their place.


def reason_to_distrust(path: Path, *, or_root: bool = False) -> str | None:
    """Return why another user may have made a file or folder; None if it is the user's own.

    A file is the user's own if it is not a link, belongs to this user (or, with `or_root`, to
    root), and cannot be written by others. Its group may write if nobody else is in the group
    (umask 002). Raises FileNotFoundError if there is no such file.
    """
    status = path.lstat()
    if stat.S_ISLNK(status.st_mode):
        return "is a symbolic link"
    if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
        return "is neither a file nor a folder"
    if status.st_uid != os.geteuid() and not (or_root and status.st_uid == 0):
        return f"belongs to {user_name(status.st_uid)}"
    group_can_write = status.st_mode & stat.S_IWGRP and not _is_private_group(path, status)
    if group_can_write or status.st_mode & stat.S_IWOTH:
        return f"can be written by others (mode {stat.S_IMODE(status.st_mode):o})"
    return None


def _is_private_group(path: Path, status: os.stat_result) -> bool:
    """Return whether only the owner is in a file's group, and no access control list adds users.

    A directory service may not list the users of a primary group. So the group must have the name
    or the number of the owner.
    """
    with suppress(OSError):  # a file system without access control lists
        if "system.posix_acl_access" in os.listxattr(path, follow_symlinks=False):
            return False  # the group's bits of the mode then apply to all listed users
    try:
        user, group = pwd.getpwuid(status.st_uid), grp.getgrgid(status.st_gid)
    except KeyError:
        return False
    named_alike = user.pw_name == group.gr_name or user.pw_uid == group.gr_gid
    return user.pw_gid == group.gr_gid and named_alike and {*group.gr_mem} <= {user.pw_name}


def require_owned(path: Path, field: str, *, or_root: bool = False) -> None:
    """Raise InputError, beginning with `field`, if `path` exists and is not the user's own."""
    with suppress(FileNotFoundError):
        if reason := reason_to_distrust(path, or_root=or_root):
            raise InputError(
                f"{field}: {path} {reason}; allowed: no link, your own, and not writable by others"
            )


def user_name(uid: int) -> str:
    """Name of a user; the number if passwd has no entry for it, as in some containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_names(user: str, gid: int) -> list[str]:
    """Names of a user's groups, `gid` among them; for a group without an entry, its number."""
    names = []
    for group_id in os.getgrouplist(user, gid):
        try:
            names.append(grp.getgrgid(group_id).gr_name)
        except KeyError:
            names.append(str(group_id))
    return names


# Lock files. No other user can open them, since another user who locked one would block the owner.


_POLL_S = 0.05
#: Maximum length of the text that names the holder, bytes.
_MAX_HOLDER_B = 200


@dataclass(frozen=True)
class PrivateLock:
    """An open lock file."""

    path: Path
    #: A child that inherits it keeps the lock.
    handle: int

    def acquire(self, within_s: float | None = 0.0) -> bool:
        """Lock the file; return whether this succeeded within `within_s` (None: no limit).

        The lock is released when the file is closed. Raises MachineError if the file system has no
        locks.
        """
        began_s = time.monotonic()
        operation = fcntl.LOCK_EX
        if within_s is not None:
            operation |= fcntl.LOCK_NB
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
        """The text that the holder of the lock has written."""
        return os.pread(self.handle, _MAX_HOLDER_B, 0).decode(errors="replace").strip()

    def write_holder(self, text: str) -> None:
        """Write a text that names the holder of the lock; it is used in messages only."""
        with suppress(OSError):
            os.ftruncate(self.handle, 0)
            os.pwrite(self.handle, f"{text}\n".encode(), 0)


@contextmanager
def private_lock(path: Path) -> Iterator[PrivateLock]:
    """Open a lock file without locking it, and close it when the context ends.

    Raises InputError if it is not the user's own, MachineError if it cannot be opened.
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
