"""The checkout of this project: its folder, its commit, and how its Python is started.

Nothing is imported from the current folder, which may be another user's. Python looks there first
with `-c` and `-m`, and for an empty entry of PYTHONPATH. A `json.py` in it would run with the
rights of the user who calls nimc.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from records.programs import ProgramAnswer, ask

#: Folder of the checkout.
ROOT = Path(__file__).resolve().parents[1]
#: Option that keeps the current folder off the path. It is needed because Python 3.13 imports a
#: module before the code of `-c` can set the path. Python 3.10 lacks it.
_SAFE_PATH = ["-P"] if sys.version_info >= (3, 11) else []
_SET_PATH = f"import sys; sys.path[:] = [{str(ROOT)!r}, *filter(None, sys.path)]"
#: Calls `main` of the module that the first argument names.
_CALL_MAIN = "from importlib import import_module; sys.exit(import_module(sys.argv.pop(1)).main())"


def commit(root: Path = ROOT) -> str | None:
    """The checkout's commit, with `+` if files were changed since; None if git fails.

    The checkout may be another user's, and `git status` would run filters and hooks of its
    configuration. So files are compared by their hashes instead.
    """
    head = _git(root, "rev-parse", "HEAD")
    listed = _git(root, "ls-tree", "-r", "-z", "HEAD")
    if not (head.ok and listed.ok):
        return None
    # Each entry is `MODE TYPE HASH`, a tab and the path.
    entries = [entry.partition("\t") for entry in listed.stdout.split("\0") if entry]
    committed_hashes = [mode_type_hash.rpartition(" ")[2] for mode_type_hash, _, _ in entries]
    paths = "".join(f"{path}\n" for _, _, path in entries)
    hashes = _git(root, "hash-object", "--no-filters", "--stdin-paths", stdin=paths)
    unchanged = hashes.ok and hashes.stdout.split() == committed_hashes
    return head.stdout.strip() + ("" if unchanged else "+")


def why_no_commit(root: Path = ROOT) -> str:
    """Why git does not show the checkout's commit, in one line.

    If the checkout belongs to another user, the line has the remedy.

    Git trusts a checkout of another user, even of root, only if it is a `safe.directory`.
    """
    answer = _git(root, "ls-tree", "-r", "HEAD")
    if "safe.directory" in answer.stderr:
        remedy = shlex.join(["git", "config", "--global", "--add", "safe.directory", str(root)])
        return f"it belongs to another user, so first: `{remedy}`"
    return answer.reason


def _git(root: Path, *words: str, stdin: str | None = None) -> ProgramAnswer:
    """Run git in the checkout; it fetches no missing object."""
    offline = {**os.environ, "GIT_ALLOW_PROTOCOL": ""}
    return ask(["git", "-C", str(root), *words], offline, stdin=stdin)


def python_code(code: str, *words: str) -> list[str]:
    """Command that runs `code`, which may use `sys`, with the arguments `words`."""
    return [sys.executable, *_SAFE_PATH, "-c", f"{_SET_PATH}; {code}", *words]


def python_main(module: str, *words: str) -> list[str]:
    """Command that calls `main` of a module of this checkout."""
    return python_code(_CALL_MAIN, module, *words)


def python_path(*first_folders: Path) -> str:
    """PYTHONPATH of a child: the first folders, then this process's absolute entries."""
    entries = [*map(str, first_folders), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.pathsep.join(filter(os.path.isabs, entries))


def environment_of_user(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment for other people's programs, without the entries added for our own programs.

    This checkout is removed from PYTHONPATH. In a check of ReFrame, PATH has the folders of loaded
    modules, then the folder of this Python, then the user's folders. The folder of this Python is
    moved to the end, so that another `python3` or `mpiexec` is found first.
    """
    cleaned = dict(environment)
    python_entries = cleaned.pop("PYTHONPATH", "").split(os.pathsep)
    if foreign_entries := [entry for entry in python_entries if entry not in ("", str(ROOT))]:
        cleaned["PYTHONPATH"] = os.pathsep.join(foreign_entries)
    path_entries = cleaned.get("PATH", os.defpath).split(os.pathsep)
    own_folder = str(Path(sys.executable).parent)
    path_entries.sort(key=lambda entry: entry == own_folder)
    cleaned["PATH"] = os.pathsep.join(path_entries)
    return cleaned
