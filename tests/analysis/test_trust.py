"""What other users made is never taken for one's own.

What is written replaces a file in its folder, and nothing else, whatever stands there.
"""

import os
from pathlib import Path

import pytest

from records.errors import InputError
from records.files import (
    distrust,
    make_folder,
    named_output,
    replace,
    replace_text,
    require_output,
    require_own,
)
from records.run import own_runs
from records.run_folder import distrust_run
from tests.analysis.history.made import made_run


def test_whom_a_path_belongs_to_and_what_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "file").write_text("x")
    (folder / "link").symlink_to(folder)
    os.mkfifo(folder / "fifo", 0o600)
    for name, mode, reason in (
        ("", 0o755, None),
        ("file", 0o600, None),
        ("", 0o775, "can be written by others (mode 775)"),
        ("", 0o757, "can be written by others (mode 757)"),
        ("", 0o1777, "can be written by others (mode 1777)"),
        ("link", None, "is a symbolic link"),
        ("fifo", None, "is neither a file nor a folder"),
    ):
        if mode:
            (folder / name).chmod(mode)
        assert distrust(folder / name) == reason
    require_own(folder / "none", "--state")  # what does not exist is nobody's


@pytest.mark.parametrize(("uid", "name"), [(0, "root"), (65001, "65001")])
def test_somebody_elses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uid: int, name: str
) -> None:
    """Another user's file, seen by a user of another number."""
    path = Path("/etc/passwd")
    if uid:
        if os.geteuid() != 0:
            pytest.skip("only root can give a file away")
        path = tmp_path / "theirs"
        path.write_text("x")
        os.chown(path, uid, uid)
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert distrust(path) == f"belongs to {name}"
    assert distrust(path, or_root=True) == (f"belongs to {name}" if uid else None)
    with pytest.raises(InputError, match=f"^--state: {path} belongs to {name}; allowed: no link"):
        require_own(path, "--state")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_run_with_a_part_of_somebody_else_is_not_resumed(tmp_path: Path) -> None:
    run = made_run(tmp_path / "monday")
    assert [path for path, _ in own_runs(tmp_path)] == [run]
    os.chown(run / "samples" / os.listdir(run / "samples")[0], 65001, -1)
    assert list(own_runs(tmp_path)) == []
    assert "belongs to 65001" in str(distrust_run(run))


def test_a_file_is_new_or_replaced_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for text in ("first, longer", "second"):
        with path.open("w") if path.exists() else Path("/dev/null").open("w") as before:
            replace_text(path, text)
            before.write("of a writer that had opened the old one")
        assert path.read_text() == text
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_permissions(tmp_path: Path) -> None:
    replace(tmp_path / "secret", b"x", 0o600)
    replace(tmp_path / "shown", b"x", 0o644)
    before = os.umask(0o027)
    replace(tmp_path / "usual", b"x")
    os.umask(before)
    modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    assert modes == {"secret": 0o600, "shown": 0o644, "usual": 0o640}


@pytest.mark.parametrize("target", ["victim", "nowhere"])
def test_a_link_is_not_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "link").symlink_to(target)
    with pytest.raises(InputError, match="link: is a symbolic link; allowed: a new or a regular"):
        replace_text(tmp_path / "link", "x")
    assert (tmp_path / "victim").read_text() == "mine"
    assert not (tmp_path / "nowhere").exists()


def test_a_link_in_the_working_folder_is_looked_at_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "link").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(InputError, match="link: is a symbolic link"):
        require_output(tmp_path / "link")
    require_output(tmp_path / "here" / "link")
    require_output(tmp_path / "new")


def test_links_to_folders_pipes_and_devices_are_refused_and_stay(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    for write in (make_folder, lambda folder: replace_text(folder / "x", "x")):
        with pytest.raises(InputError, match="link: is a symbolic link; allowed: a real folder"):
            write(tmp_path / "link")
    assert list((tmp_path / "folder").iterdir()) == []
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path / "folder", Path("/dev/full")):
        kind = path.lstat().st_mode
        with pytest.raises(InputError, match=f"^{path}: is a folder, pipe or device; allowed: "):
            replace_text(path, "x")
        assert path.lstat().st_mode == kind


def test_a_failure_names_the_file_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as failed:
        replace_text(tmp_path / "file", "x")
    assert failed.value.filename == str(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


def test_ones_own_links_to_an_output_are_followed_and_others_are_not(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "own").symlink_to("disk")
    assert named_output(tmp_path / "own") == tmp_path / "disk"
    assert named_output(tmp_path / "own" / "file") == tmp_path / "disk" / "file"
    assert named_output(Path("new")) == Path("new")
    if os.geteuid() != 0:
        pytest.skip("only root can make a link of another user")
    (tmp_path / "theirs").symlink_to("disk")
    os.lchown(tmp_path / "theirs", 65534, 65534)
    for path in (tmp_path / "theirs", tmp_path / "theirs" / "file"):
        with pytest.raises(InputError, match="theirs: is a symbolic link of another user"):
            named_output(path)
