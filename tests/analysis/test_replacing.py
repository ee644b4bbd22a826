"""What is written replaces a file in its folder, and nothing else, whatever stands there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.base.files import make_folder, named_output, replace, replace_text


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


def test_a_folder_that_is_a_link(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    for write in (make_folder, lambda folder: replace_text(folder / "x", "x")):
        with pytest.raises(InputError, match="link: is a symbolic link; allowed: a real folder"):
            write(tmp_path / "link")
    assert list((tmp_path / "other").iterdir()) == []


def test_pipes_and_devices_are_refused_and_stay(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
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
