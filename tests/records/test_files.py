"""Files that are read and written, and locks that only their owner holds."""

import fcntl
import os
import time
import tracemalloc
from pathlib import Path

import pytest

from records import files
from records.errors import InputError, MachineError
from records.files import make_folder, private_lock, read_regular, replace, require_output


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
    """1 TiB of nothing: less than a MiB of memory, not 64."""
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


def test_folders_for_outputs(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b" / "file"
    with pytest.raises(FileNotFoundError, match=str(file.parent)):
        replace(file, b"x")
    require_output(file.parent, folder=True)
    make_folder(file.parent)
    make_folder(file.parent)
    replace(file, b"x")
    require_output(file.parent, folder=True)
    for refuse in (make_folder, lambda path: require_output(path, folder=True)):
        with pytest.raises(InputError, match=f"^{file}: is not a folder; allowed: a real folder"):
            refuse(file)
    with pytest.raises(InputError, match="is a folder, pipe or device"):
        require_output(file.parent)


def test_one_holds_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits tries again after each nap, in which the holder may let go."""
    path, naps = tmp_path / "lock", list[float]()
    path.touch(0o644)
    with private_lock(path) as one, private_lock(path) as other:
        assert path.stat().st_mode & 0o777 == 0o600
        assert one.take()
        monkeypatch.setattr(time, "sleep", naps.append)
        assert not other.take()
        assert naps == []
        assert not other.take(0.001)
        assert naps
        monkeypatch.setattr(time, "sleep", lambda _: fcntl.flock(one.handle, fcntl.LOCK_UN))
        assert other.take(60.0)
        other.sign("process 123")
        other.sign("process 4")
        assert one.holder() == "process 4"
        other.sign("x" * 300)
        assert one.holder() == "x" * 200
        assert not one.take()
    with private_lock(path) as again:
        assert again.take()


@pytest.mark.parametrize(
    ("within_s", "flags"), [(None, fcntl.LOCK_EX), (0.0, fcntl.LOCK_EX | fcntl.LOCK_NB)]
)
def test_only_without_a_limit_the_kernel_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, within_s: float | None, flags: int
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(fcntl, "flock", lambda _, how: asked.append(how))
    with private_lock(tmp_path / "lock") as lock:
        assert lock.take(within_s)
    assert asked == [flags]


def test_what_is_no_lock_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in (tmp_path / "no" / "folder", tmp_path):
        with pytest.raises(MachineError, match=str(at)), private_lock(at):
            pass
    (tmp_path / "theirs").touch()
    monkeypatch.setattr(files.os, "geteuid", lambda: os.getuid() + 4242)
    with pytest.raises(InputError, match=r"^lock: .*theirs belongs to"):
        private_lock(tmp_path / "theirs").__enter__()
