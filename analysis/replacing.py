"""The way to write a file: readers see the old or the new one, and no link leads it elsewhere.

Others may write to the folder, or may have made what is in it. So the file is written under a
temporary name, which is random and must be new, and renamed. What exists and is no regular file is
refused: a link, a pipe, a device. So is a folder that is a link.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from analysis.errors import InputError

#: Ending of the name of a file that is being written.
PARTIAL = ".partial"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_ALLOWED = "allowed: a real folder"


def named_output(path: Path) -> Path:
    """A file or folder to write to that the user has named: links of the user or root are followed.

    Raises InputError for a link that somebody else made.
    """
    links = [each for each in (path.parent, path) if each.is_symlink()]
    for link in links:
        if link.lstat().st_uid not in (os.geteuid(), 0):
            raise InputError(f"{link}: is a symbolic link of another user; {_ALLOWED}")
    return Path(os.path.realpath(path)) if links else path


def require_output(path: Path, *, folder: bool = False) -> None:
    """Raises InputError for what exists and may not be written: see above."""
    if not folder:
        _require_regular(path)
    elif os.path.lexists(path):
        os.close(_opened(path))


def make_folder(folder: Path) -> None:
    """Create a folder for outputs and those above it. Raises InputError if it is a link."""
    with suppress(FileExistsError):
        folder.mkdir(parents=True)
    os.close(_opened(folder))


def replace_text(path: Path, text: str, mode: int | None = None) -> None:
    """As `replace`, with text."""
    replace(path, text.encode(), mode)


def replace(path: Path, content: bytes, mode: int | None = None) -> None:
    """Write `content` to disk; the folder must exist. `mode`: permissions, if not the usual ones.

    Raises InputError for what may not be written, and OSError, with the file's name, if it fails.
    """
    folder = _opened(path.parent)
    partial = f".{secrets.token_hex(8)}{PARTIAL}"
    try:
        _require_regular(path, folder)
        handle = os.open(partial, _NEW_FILE, 0o666 if mode is None else 0o600, dir_fd=folder)
        try:
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


def _opened(folder: Path) -> int:
    try:
        return os.open(folder, _FOLDER)
    except OSError as error:
        if folder.is_symlink():
            raise InputError(f"{folder}: is a symbolic link; {_ALLOWED}") from None
        if isinstance(error, NotADirectoryError):
            raise InputError(f"{folder}: is not a folder; {_ALLOWED}") from None
        raise


def _require_regular(path: Path, folder: int | None = None) -> None:
    with suppress(FileNotFoundError):
        mode = os.lstat(path if folder is None else path.name, dir_fd=folder).st_mode
        if not stat.S_ISREG(mode):
            kind = "symbolic link" if stat.S_ISLNK(mode) else "folder, pipe or device"
            raise InputError(f"{path}: is a {kind}; allowed: a new or a regular file")
