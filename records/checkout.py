"""The checkout of this project: its folder, its commit, and how its Python is started.

Nothing is imported from the current folder, which may be another user's. With `-c` and `-m` Python
looks there first, and for an empty entry of PYTHONPATH: a `json.py` would run as whoever calls
nimc.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from records.programs import ProgramAnswer, ask

#: Folder of the checkout.
ROOT = Path(__file__).resolve().parents[1]
#: Python 3.13 imports a module before the code of `-c` can set the path; 3.10 lacks this option.
_SAFE_PATH = ["-P"] if sys.version_info >= (3, 11) else []
_SET_PATH = f"import sys; sys.path[:] = [{str(ROOT)!r}, *filter(None, sys.path)]"
_CALL_MAIN = "from importlib import import_module; sys.exit(import_module(sys.argv.pop(1)).main())"


def commit(root: Path = ROOT) -> str | None:
    """The checkout's commit, with `+` if files were changed since; None if git does not say it.

    As of a checkout of another user. Files are compared by their hashes: `git status` would run
    filters and hooks of the checkout's configuration.
    """
    head = _git(root, "rev-parse", "HEAD")
    listed = _git(root, "ls-tree", "-r", "-z", "HEAD")
    if not (head.ok and listed.ok):
        return None
    rows = [row.partition("\t") for row in listed.stdout.split("\0") if row]
    paths = "".join(f"{path}\n" for _, _, path in rows)
    hashes = _git(root, "hash-object", "--no-filters", "--stdin-paths", stdin=paths)
    unchanged = hashes.ok and hashes.stdout.split() == [row.split()[2] for row, _, _ in rows]
    return head.stdout.strip() + ("" if unchanged else "+")


def _git(root: Path, *words: str, stdin: str | None = None) -> ProgramAnswer:
    """Return what git says of the checkout; it fetches nothing that is missing."""
    alone = {**os.environ, "GIT_ALLOW_PROTOCOL": ""}
    return ask(["git", "-C", str(root), *words], alone, stdin=stdin)


def python_code(code: str, *words: str) -> list[str]:
    """Command that runs `code`, which may use `sys`, with the arguments `words`."""
    return [sys.executable, *_SAFE_PATH, "-c", f"{_SET_PATH}; {code}", *words]


def python_main(module: str, *words: str) -> list[str]:
    """Command that calls `main` of a module of this checkout."""
    return python_code(_CALL_MAIN, module, *words)


def python_path(*first: Path) -> str:
    """PYTHONPATH of a child: folders, then this process's without those relative to a folder."""
    entries = [*map(str, first), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.pathsep.join(filter(os.path.isabs, entries))


def callers_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment without what this project adds for its own programs, for those of others.

    This checkout leaves PYTHONPATH. The folder of this Python, which a configuration of ReFrame
    puts before all others on PATH, comes last: another `python3` or `mpiexec` is found first.
    """
    own, kept = str(Path(sys.executable).parent), dict(environment)
    added = kept.pop("PYTHONPATH", "").split(os.pathsep)
    if left := [entry for entry in added if entry not in ("", str(ROOT))]:
        kept["PYTHONPATH"] = os.pathsep.join(left)
    first, *others = kept.get("PATH", os.defpath).split(os.pathsep)
    kept["PATH"] = os.pathsep.join([*others, first] if first == own else [first, *others])
    return kept
