"""What other users made is never taken for one's own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from analysis.errors import InputError
from analysis.trust import distrust, require_own


def test_ones_own_folder_and_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, mode in ((tmp_path, 0o755), (tmp_path / "file", 0o600)):
        path.chmod(mode)
        assert distrust(path) is None


@pytest.mark.parametrize("mode", [0o775, 0o757, 0o1777])
def test_a_folder_that_others_write_to(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    assert distrust(tmp_path) == f"can be written by others (mode {mode:o})"


def test_a_link_even_to_ones_own_folder(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "link").symlink_to("own")
    assert distrust(tmp_path / "link") == "is a symbolic link"


def test_what_blocks_a_reader_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo", 0o600)
    assert distrust(tmp_path / "fifo") == "is neither a file nor a folder"


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
    with pytest.raises(InputError, match=f"^--state: {path} belongs to {name}; allowed: a real"):
        require_own(path, "--state")


def test_what_does_not_exist_is_nobodys(tmp_path: Path) -> None:
    require_own(tmp_path / "none", "--state")
