"""The commit of a checkout is read without running a program that its configuration names.

Programs that nimc starts import no module of the current folder.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from conductor.injectors import INJECTORS
from conductor.injectors.base import Writer
from records.checkout import (
    ROOT,
    commit,
    environment_of_user,
    python_code,
    python_main,
    python_path,
    why_no_commit,
)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=n@example.org"]
    command = ["git", "-c", "safe.directory=*", *identity, "-C", str(folder), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "f").write_text("1")
    git(tmp_path, "add", "f")
    git(tmp_path, "commit", "--quiet", "-m", "first")
    return tmp_path


def test_the_commit_of_a_checkout_has_a_plus_if_files_were_changed(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    assert commit(repository) == head
    os.utime(repository / "f", (0, 0))
    assert commit(repository) == head
    (repository / "f").write_text("2")
    assert commit(repository) == f"{head}+"
    (repository / "f").unlink()
    assert commit(repository) == f"{head}+"


def test_a_folder_that_is_no_checkout_has_no_commit(tmp_path: Path) -> None:
    assert commit(tmp_path) is None
    assert "not a git repository" in why_no_commit(tmp_path)


def test_the_commit_of_another_users_checkout_is_unknown(repository: Path) -> None:
    """Git refuses it ('dubious ownership') unless the user's own configuration trusts it."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    for path in (repository, *repository.rglob("*")):
        os.chown(path, 65534, 65534)
    assert commit(repository) is None
    assert f"`git config --global --add safe.directory {repository}`" in why_no_commit(repository)


def test_no_filter_hook_or_helper_of_a_checkout_runs(repository: Path) -> None:
    head = git(repository, "rev-parse", "HEAD")
    runs = f"touch {repository}/ran"
    git(repository, "config", "core.fsmonitor", f"{runs}; false")
    git(repository, "config", "filter.x.clean", f"{runs}; cat")
    (repository / ".git" / "info" / "attributes").write_text("* filter=x\n")
    hooks = repository / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in ("post-index-change", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\n{runs}\n")
        (hooks / name).chmod(0o755)
    os.utime(repository / "f", (0, 0))  # git status would read it again
    assert commit(repository) == head
    assert not (repository / "ran").exists()
    # In a partial clone, git starts a program to fetch a missing object.
    tree = git(repository, "rev-parse", "HEAD^{tree}")
    (repository / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
    for name, value in (
        ("core.repositoryformatversion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", f"ext::sh -c {runs.replace(' ', '% ')}"),
        ("protocol.ext.allow", "always"),
    ):
        git(repository, "config", name, value)
    assert commit(repository) is None
    assert not (repository / "ran").exists()


#: Shell code that writes modules. If one is imported, it writes its name to a file.
WRITE_MODULES = """for name; do
    printf "open('IMPORTED', 'a').write('%s ')\\nraise ImportError\\n" "$name" > "$name.py"
done"""


@pytest.fixture
def planted() -> Iterator[Path]:
    """Yields a folder of mode 1777 in which another user has put modules with all usual names."""
    names = [*sys.stdlib_module_names, "conductor", "records", "usercustomize", "sitecustomize"]
    with tempfile.TemporaryDirectory(dir="/tmp") as path:
        folder = Path(path)
        folder.chmod(0o1777)
        # A shell writes them, since Python may be in a home folder that the other user cannot read.
        command = ["sh", "-c", WRITE_MODULES, "sh", *sorted(set(names))]
        if os.geteuid() == 0:
            command = ["setpriv", "--reuid=65534", "--clear-groups", *command]
        subprocess.run(command, cwd=folder, check=True)
        yield folder


def run_in(
    folder: Path, command: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_code_and_modules_are_started_without_the_current_folder(planted: Path) -> None:
    code = "import json, shlex, runpy, conductor; print(sys.argv[1:])"
    done = run_in(planted, python_code(code, "a b", "c"))
    assert done.stdout == "['a b', 'c']\n"
    agent = run_in(planted, python_main("conductor.agent.agent"))
    assert "KeyError: 'NIMC" in agent.stderr  # the agent first reads its environment variable
    *control, program = INJECTORS["spin"].origin_command(cast(Writer, None))
    assert program == "while True: pass"
    assert run_in(planted, [*control, "pass"]).returncode == 0
    assert not (planted / "IMPORTED").exists()


def test_only_whole_paths_of_pythonpath_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", ":/a::.:lib:/b:")
    assert python_path() == "/a:/b"
    assert python_path(Path("/c")) == "/c:/a:/b"
    monkeypatch.delenv("PYTHONPATH")
    assert python_path(Path("/c")) == "/c"


@pytest.mark.parametrize(
    ("inherited", "left"),
    [
        (
            {"PYTHONPATH": f"/a:{ROOT}::/b", "PATH": "{own}:/usr/bin:/bin"},
            {"PYTHONPATH": "/a:/b", "PATH": "/usr/bin:/bin:{own}"},
        ),
        ({"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:{own}"}, {"PATH": "/usr/bin:{own}"}),
        # A module comes before the configuration's entry, and the user's shell has one of its own.
        (
            {"PATH": "/opt/gcc/bin:{own}:{own}:/usr/bin"},
            {"PATH": "/opt/gcc/bin:/usr/bin:{own}:{own}"},
        ),
    ],
)
def test_programs_of_others_find_their_own_python_first(
    inherited: dict[str, str], left: dict[str, str]
) -> None:
    own = str(Path(sys.executable).parent)
    inherited, left = (
        {name: text.format(own=own) for name, text in row.items()} for row in (inherited, left)
    )
    assert environment_of_user(inherited | {"HOME": "/h"}) == left | {"HOME": "/h"}
