"""The commit of a checkout, also of one that belongs to another user."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from nimc.base.checkout import commit


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    command = ["git", "-c", "safe.directory=*", *who, "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "f").write_text("1")
    git(tmp_path, "add", "f")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_a_commit_and_its_changes(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit(repository) == head
    (repository / "f").write_text("2")
    assert commit(repository) == f"{head}+"


def test_no_checkout(tmp_path: Path) -> None:
    assert commit(tmp_path) is None


def test_another_users_checkout_is_known_and_runs_nothing(repository: Path) -> None:
    """Git alone refuses it ('dubious ownership'), and a campaign recorded no commit."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    head = git(repository, "rev-parse", "HEAD")
    git(repository, "config", "core.fsmonitor", f"touch {repository}/ran; false")
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 65534, 65534)
    assert commit(repository) == head
    assert not (repository / "ran").exists()
