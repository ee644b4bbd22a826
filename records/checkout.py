"""The checkout of this project: its folder, its commit, and how its Python is started.

Nothing is imported from the current folder, which may be another user's. With `-c` and `-m` Python
looks there first, and for an empty entry of PYTHONPATH: a `json.py` would run as whoever calls
nimc.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from records.programs import ProgramAnswer, ask

#: Folder of the checkout.
ROOT = Path(__file__).resolve().parents[1]
#: Python 3.13 imports a module before the code of `-c` can set the path; 3.10 lacks this option.
_SAFE = ["-P"] if sys.version_info >= (3, 11) else []
_OWN_PATH = f"import sys; sys.path[:] = [{str(ROOT)!r}, *filter(None, sys.path)]"
_MAIN = "from importlib import import_module; sys.exit(import_module(sys.argv.pop(1)).main())"


def commit(root: Path = ROOT) -> str | None:
    """The checkout's commit, with `+` if files were changed since; None if it is unknown."""
    head = git("rev-parse", "HEAD", root=root)
    changes = git("status", "--porcelain", "-uno", root=root)
    if not (head.ok and changes.ok):
        return None
    return head.stdout.strip() + ("+" if changes.stdout.strip() else "")


def git(*words: str, root: Path = ROOT) -> ProgramAnswer:
    """What git says of the checkout.

    Git refuses a checkout of another user, unless its configuration names it as safe: its code
    runs already. No program that the checkout's configuration names is started.
    """
    safe = ("-c", f"safe.directory={root}", "-c", "core.fsmonitor=false")
    return ask(["git", *safe, "-C", str(root), *words])


def python_code(code: str, *words: str) -> list[str]:
    """Command that runs `code`, which may use `sys`, with the arguments `words`."""
    return [sys.executable, *_SAFE, "-c", f"{_OWN_PATH}; {code}", *words]


def python_main(module: str, *words: str) -> list[str]:
    """Command that calls `main` of a module of this checkout."""
    return python_code(_MAIN, module, *words)


def python_path(*first: Path) -> str:
    """PYTHONPATH of a child: folders, then this process's without those relative to a folder."""
    entries = [*map(str, first), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return os.pathsep.join(filter(os.path.isabs, entries))
