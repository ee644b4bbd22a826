"""Files: how they are read and written, whom they belong to, and locks.

A write replaces a regular file in its folder, and never a link, folder, pipe or device. Files of
other users are not trusted. A lock is held by one process at a time.
"""

import errno
import fcntl
import grp
import os
import pwd
import stat
import struct
import time
import tracemalloc
from pathlib import Path

import pytest

from records import files
from records.errors import InputError, MachineError
from records.files import (
    make_folder,
    make_named_folder,
    private_lock,
    read_regular,
    read_written,
    reason_to_distrust,
    replace_bytes,
    replace_text,
    require_output_file,
    require_output_folder,
    require_owned,
    resolved_output,
)
from records.run import own_runs
from records.run_folder import reason_to_distrust_run
from tests.analysis.history.made import made_run

only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")

# How files are read.


def test_a_file_is_read_up_to_its_limit_and_through_links_only_if_asked(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_bytes(b"four")
    link.symlink_to(file)
    assert read_regular(file, 4) == read_regular(link, 4, follow=True) == b"four"
    file.write_bytes(bytes((2 << 20) + 1))
    with pytest.raises(InputError, match=f"^{file}: is longer than allowed: 2 MiB"):
        read_regular(file, 2 << 20)
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(link, 4)
    with pytest.raises(InputError, match="not a regular file"):
        read_regular(tmp_path, 4)


def test_a_sparse_file_is_measured_before_it_is_read(tmp_path: Path) -> None:
    """The file has 1 TiB without data. The refusal takes less than 1 MiB of memory, not 64 MiB."""
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, 1 << 40)
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="is longer than allowed: 64 MiB"):
            read_regular(file, 64 << 20)
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# How files are written.


def test_a_file_is_new_or_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in ("first, longer", "second"):
        with path.open("w") if path.exists() else Path("/dev/null").open("w") as before:
            replace_text(path, text)
            before.write("written by a process that had opened the old file")
        assert path.read_text() == text
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_file_that_another_host_wrote_is_found_although_nfs_had_cached_that_it_was_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An NFS client caches that a file is missing until its folder is opened.

    See nfs(5), lookupcache.
    """
    opened: list[str] = []
    written = tmp_path / "run/logs/block.json"
    written.parent.mkdir(parents=True)
    written.write_text("{}")
    real_open, real_read = os.open, Path.read_bytes

    def open_folder(path: str | Path, flags: int, *mode: int) -> int:
        opened.append(str(path))
        return real_open(path, flags, *mode)

    def read(path: Path) -> bytes:
        if str(path.parent) not in opened:
            raise FileNotFoundError(path)
        return real_read(path)

    monkeypatch.setattr(os, "open", open_folder)
    monkeypatch.setattr(Path, "read_bytes", read)
    with pytest.raises(FileNotFoundError):
        written.read_bytes()
    assert read_written(written) == b"{}"
    # A folder may be new as well, so its parents are opened before it.
    assert opened[0] == "/"
    assert opened[-2:] == [str(tmp_path / "run"), str(written.parent)]
    with pytest.raises(FileNotFoundError):
        read_written(tmp_path / "none/block.json")


def test_permissions_of_written_files(tmp_path: Path) -> None:
    replace_bytes(tmp_path / "secret", b"x", 0o600)
    replace_bytes(tmp_path / "shown", b"x", 0o644)
    before = os.umask(0o027)
    replace_bytes(tmp_path / "usual", b"x")
    os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"secret": 0o600, "shown": 0o644, "usual": 0o640}


def test_folders_for_outputs_are_made_and_files_in_their_place_refused(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    with pytest.raises(FileNotFoundError, match=str(file.parent)):
        replace_bytes(file, b"x")
    require_output_folder(file.parent)
    make_folder(file.parent)
    make_folder(file.parent)
    replace_bytes(file, b"x")
    require_output_folder(file.parent)
    for refuse in (make_folder, require_output_folder):
        with pytest.raises(InputError, match=f"^{file}: is not a folder; allowed: a real folder"):
            refuse(file)


def test_a_link_is_not_followed_whether_its_target_exists_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current folder has a file with the name of one of the links.

    So the test fails if only the name is looked up there, and not the whole path.
    """
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "nowhere-link").write_text("mine")
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "victim").write_text("mine")
    for target in ("victim", "nowhere"):
        link = tmp_path / f"{target}-link"
        link.symlink_to(target)
        for refuse in (require_output_file, lambda path: replace_text(path, "x")):
            with pytest.raises(InputError, match=f"^{link}: is a symbolic link; allowed: a new or"):
                refuse(link)
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()
    require_output_file(tmp_path / "here" / "nowhere-link")
    require_output_file(tmp_path / "new")


def test_links_to_folders_and_pipes_folders_and_devices_are_refused_and_kept(
    tmp_path: Path,
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for write in (make_folder, lambda folder: replace_text(folder / "x", "x")):
        with pytest.raises(InputError, match="link: is a symbolic link; allowed: a real folder"):
            write(tmp_path / "link")
    assert list((tmp_path / "folder").iterdir()) == []
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/full")):
        kind = path.lstat().st_mode
        for refuse in (require_output_file, lambda path: replace_text(path, "x")):
            with pytest.raises(InputError, match=f"^{path}: is a folder, pipe or device; allowed"):
                refuse(path)
        assert path.lstat().st_mode == kind


def test_a_failed_write_names_the_file_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as failed:
        replace_text(tmp_path / "file", "x")
    assert failed.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_that_cannot_flush_folders_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Linux answers EINVAL if a file system has no fsync() for folders (vfs_fsync_range)."""
    flush = os.fsync

    def flush_files_only(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        flush(handle)

    monkeypatch.setattr(os, "fsync", flush_files_only)
    replace_text(tmp_path / "file", "x")
    assert (tmp_path / "file").read_text() == "x"


def link_of_another(path: Path, target: str) -> Path:
    """Make a link that belongs to another user, which only root can do; return its path."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a link of another user")
    path.symlink_to(target)
    os.lchown(path, 65534, 65534)
    return path


def test_a_folder_for_runs_may_be_a_link_of_the_user_but_not_of_others(tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    (tmp_path / "own").symlink_to("scratch")
    make_named_folder(tmp_path / "own" / "results")
    make_named_folder(tmp_path / "own")
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["results"]
    theirs = link_of_another(tmp_path / "theirs", "scratch")
    for path in (theirs, theirs / "more"):
        with pytest.raises(InputError, match="theirs: is a symbolic link of another user"):
            make_named_folder(path)
    assert [path.name for path in (tmp_path / "scratch").iterdir()] == ["results"]


def test_links_of_the_user_to_an_output_are_followed_and_links_of_others_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "own").symlink_to("disk")
    assert resolved_output(tmp_path / "own") == tmp_path / "disk"
    assert resolved_output(tmp_path / "own" / "file") == tmp_path / "disk" / "file"
    assert resolved_output(Path("new")) == Path("new")
    theirs = link_of_another(tmp_path / "theirs", "disk")
    for path in (theirs, theirs / "file"):
        with pytest.raises(InputError, match="theirs: is a symbolic link of another user"):
            resolved_output(path)
    assert resolved_output(theirs / "folder" / "file") == theirs / "folder" / "file"


# Whom files belong to, and who may write them.


def test_reasons_to_distrust_a_path_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to(folder)
    os.mkfifo(folder / "fifo", 0o600)
    for name, mode, reason in (
        ("", 0o755, None),
        ("file", 0o600, None),
        ("", 0o757, "can be written by others (mode 757)"),
        ("", 0o1777, "can be written by others (mode 1777)"),
        ("link", None, "is a symbolic link"),
        ("fifo", None, "is neither a file nor a folder"),
    ):
        if mode:
            (folder / name).chmod(mode)
        assert reason_to_distrust(folder / name) == reason
    require_owned(folder / "none", "--state")  # a path that does not exist is accepted


@only_root
@pytest.mark.parametrize(
    ("gid", "group", "members", "is_private"),
    [
        (4242, "alice", [], True),  # usual in Debian and Red Hat, with umask 002
        (4242, "alice", ["alice"], True),
        (4242, "staff", [], True),
        (100, "alice", [], True),
        (100, "users", [], False),  # users with this primary group need not be listed as members
        (4242, "alice", ["alice", "bob"], False),
    ],
)
def test_a_file_that_a_group_may_write_is_trusted_if_the_group_has_no_other_member(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gid: int,
    group: str,
    members: list[str],
    is_private: bool,
) -> None:
    path = tmp_path / "file"
    path.write_text("x")
    os.chown(path, 4242, gid)
    path.chmod(0o664)
    user = pwd.struct_passwd(("alice", "x", 4242, gid, "", "/", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(pwd, "getpwuid", {4242: user}.__getitem__)
    monkeypatch.setattr(grp, "getgrgid", {gid: grp.struct_group((group, "x", gid, members))}.get)
    assert reason_to_distrust(path) == (
        None if is_private else "can be written by others (mode 664)"
    )
    path.chmod(0o666)
    assert reason_to_distrust(path) == "can be written by others (mode 666)"
    path.chmod(0o664)
    # This is what the kernel stores after `setfacl -m u:bob:rw`: a version, then tag, rights and
    # user of each entry.
    entries = [(1, 6, -1), (2, 6, 4243), (4, 6, -1), (16, 6, -1), (32, 4, -1)]
    listed = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(path, "system.posix_acl_access", listed)
    except OSError as error:
        pytest.skip(f"{tmp_path}: no lists of access: {error}")
    assert reason_to_distrust(path) == "can be written by others (mode 664)"


@only_root
def test_a_folder_that_the_primary_group_of_another_user_may_write_is_distrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of projects often have such a group, and new files in them inherit it."""
    tmp_path.chmod(0o775)
    os.chown(tmp_path, 4242, 4242)
    user = pwd.struct_passwd(("alice", "x", 4242, 100, "", "/", ""))
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("alice", "x", gid, [])))
    assert reason_to_distrust(tmp_path) == "can be written by others (mode 775)"


@pytest.mark.parametrize(
    ("uid", "name"), [(0, "root"), pytest.param(65001, "65001", marks=only_root)]
)
def test_a_file_of_another_user_is_distrusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, name: str
) -> None:
    """The file belongs to root or to user 65001. The user that reads it has number 4242."""
    path = Path("/etc/passwd")
    if uid:
        path = tmp_path / "theirs"
        path.write_text("x")
        os.chown(path, uid, uid)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert reason_to_distrust(path) == f"belongs to {name}"
    assert reason_to_distrust(path, or_root=True) == (f"belongs to {name}" if uid else None)
    with pytest.raises(InputError, match=f"^--state: {path} belongs to {name}; allowed: no link"):
        require_owned(path, "--state")


@only_root
def test_a_run_with_a_file_of_another_user_is_not_resumed(tmp_path: Path) -> None:
    run = made_run(tmp_path / "monday")
    assert [path for path, _ in own_runs(tmp_path)] == [run]
    os.chown(run / "samples" / os.listdir(run / "samples")[0], 65001, -1)
    assert list(own_runs(tmp_path)) == []
    assert "belongs to 65001" in str(reason_to_distrust_run(run))


# Locks.


def test_a_lock_has_one_holder_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that waits for the lock sleeps between its attempts.

    In this test a sleep counts as a second, and the holder may release the lock in it.
    """
    path, naps = tmp_path / "lock", list[float]()
    monkeypatch.setattr(time, "monotonic", lambda: float(len(naps)))
    path.touch(0o644)
    with private_lock(path) as one, private_lock(path) as other:
        assert path.stat().st_mode & 0o777 == 0o600
        assert one.acquire()
        monkeypatch.setattr(time, "sleep", naps.append)
        assert not other.acquire()
        assert naps == []
        assert not other.acquire(3.0)
        assert len(naps) == 3
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(one.handle, fcntl.LOCK_UN))
        assert other.acquire(60.0)
        other.write_holder("process 123")
        other.write_holder("process 4")
        assert one.holder() == "process 4"
        other.write_holder("x" * 300)
        assert one.holder() == "x" * 200
        assert not one.acquire()
    with private_lock(path) as again:
        assert again.acquire()


@pytest.mark.parametrize(
    ("within_s", "flags"), [(None, fcntl.LOCK_EX), (0.0, fcntl.LOCK_EX | fcntl.LOCK_NB)]
)
def test_the_kernel_waits_for_a_lock_only_if_there_is_no_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within_s: float | None, flags: int
) -> None:
    requests: list[int] = []
    monkeypatch.setattr(fcntl, "flock", lambda _, operation: requests.append(operation))
    with private_lock(tmp_path / "lock") as lock:
        assert lock.acquire(within_s)
    assert requests == [flags]


def test_a_path_that_cannot_be_a_lock_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in (tmp_path / "no" / "folder", tmp_path):
        with pytest.raises(MachineError, match=str(path)), private_lock(path):
            pass
    (tmp_path / "theirs").touch()
    monkeypatch.setattr(files.os, "geteuid", lambda: os.getuid() + 4242)
    with pytest.raises(InputError, match=r"^lock: .*theirs belongs to"):
        private_lock(tmp_path / "theirs").__enter__()
