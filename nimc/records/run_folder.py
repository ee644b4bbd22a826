"""Folders of runs (layout: `nimc.records.run`): whose they are, how large, and what they hold."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from nimc.base.errors import InputError
from nimc.base.files import Team, distrust
from nimc.records.chain import file_digest

_MISSING = (FileNotFoundError, NotADirectoryError)


def run_folders(results: Path) -> list[Path]:
    """Folders of runs in `results`, in order of their names; links and other folders are not.

    Nor are those that others have closed to this user.

    Raises InputError if `results` is not a folder.
    """
    if not results.is_dir():
        raise InputError(f"{results}: there is no such folder of runs")
    return sorted(
        path
        for path in results.iterdir()
        if not path.is_symlink() and os.path.exists(path / "run.json")  # without an error
    )


def distrust_run(run: Path, team: Team = "owns") -> str | None:
    """Why another user may have made a part of a run; None if all of it is the user's own.

    Or all of those that the site trusts; with the team `writes` only what they may add to.
    """
    samples = run / "samples"
    parts = [
        run,
        *(run / name for name in ("run.json", "checks", "counters", "provenance", "logs")),
    ]
    with suppress(*_MISSING):
        parts += [samples, *samples.iterdir()]
    for part in parts:
        with suppress(*_MISSING):
            if reason := distrust(part, team=team):
                return reason if part == run else f"is not all your own: {part.name} {reason}"
    return None


def sha256_of(run: Path) -> str:
    """SHA-256 over the names and contents of the run's sample files."""
    whole = hashlib.sha256()
    for path in sorted((run / "samples").glob("*.jsonl")):
        whole.update(f"{file_digest(path)} {path.name}\n".encode())
    return whole.hexdigest()


def size_of(run: Path) -> int:
    """Bytes of all files in the run's folder; one that is removed in the meantime has none."""
    found = 0
    for folder, _, names in os.walk(run):
        for name in names:
            with suppress(*_MISSING):
                found += Path(folder, name).lstat().st_size
    return found
