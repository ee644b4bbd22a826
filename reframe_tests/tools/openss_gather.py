"""Makes views of the files that Open|SpeedShop's collectors left: `ossutil`, then `openss -batch`.

Both programs exit with 0 when there is nothing to see, so their output and files are checked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from reframe_tests.tools.base import ToolError

#: Folder of the collectors' files, within that of the run.
RAW = "raw"
#: What `ossutil` makes; it is not changed afterwards.
_DATABASE = "X.0.openss"
_COPY, _PROCESSES, _COMMANDS = "copy.openss", "processes.txt", "commands.txt"
#: A process and its rank, in the output of `expstatus`. Views by rank would include the processes
#: that have none, such as a script that starts the program.
_PROCESS = re.compile(r"^\s+(-h \S+ -p \d+)\b.*? -r (\d+)\b", re.MULTILINE)
_ATTEMPTS = 5
_TIMEOUT_S = 600


def view_path(folder: Path, rank: int, view: str) -> Path:
    """File of a rank's view: `functions` or `linkedobjects`."""
    return folder / f"rank-{rank}.{view}.csv"


def gather(folder: Path, ranks: int, views: Sequence[str]) -> None:
    """Write the views of each rank, unless they are there. Raises ToolError."""
    expected = [view_path(folder, rank, view) for rank in range(ranks) for view in views]
    if all(path.is_file() for path in expected):
        return
    database = folder / _DATABASE
    if not any((folder / RAW).glob("*")):
        raise ToolError(f"{folder / RAW}: no data: was the application started by ossrun?")
    said = _run(folder, ["ossutil", RAW])
    if not database.is_file():
        raise ToolError(f"{database}: not made by ossutil: {first_line(said)}")
    # openss may change the database that it reads.
    shutil.copyfile(database, folder / _COPY)
    processes = folder / _PROCESSES
    _ask(folder, {processes: "expstatus"}, "Experiment definition")
    text = processes.read_text(errors="replace")
    known = {int(rank): process for process, rank in _PROCESS.findall(text)}
    absent = [rank for rank in range(ranks) if rank not in known]
    if absent and (known or ranks > 1):
        raise ToolError(f"{database}: no data of rank {absent[0]}; found {len(known)} of {ranks}")
    commands = {
        view_path(folder, rank, view): f"expview {known.get(rank, '')} -v {view} -F csv"
        for rank in range(ranks)
        for view in views
    }
    _ask(folder, commands, ",")
    (folder / _COPY).unlink()


def _ask(folder: Path, commands: Mapping[Path, str], complete: str) -> None:
    """Write what each command prints to its file, which must contain `complete`.

    Raises ToolError with what is there instead. openss now and then loses a command (it reads the
    line after it freed it), so it is asked again.
    """
    for _ in range(_ATTEMPTS):
        lacking = [path for path in commands if complete not in _content(path)]
        if not lacking:
            return
        said = _openss(folder, [f"{commands[path]} > {path.name}" for path in lacking])
    if lacking := [path for path in commands if complete not in _content(path)]:
        reason = (_content(lacking[0]).strip() or said.strip() or "no output").splitlines()[-1]
        raise ToolError(f"{lacking[0]}: {reason}")


def _content(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def _openss(folder: Path, commands: Sequence[str]) -> str:
    """Output of commands on the copy. They are read from a file, since a pipe is not read whole."""
    script = folder / _COMMANDS
    script.write_text("\n".join([f"exprestore -f {_COPY}", *commands, "exit", ""]))
    with script.open() as file:
        return _run(folder, ["openss", "-batch"], file.fileno())


def _run(folder: Path, words: Sequence[str], stdin: int = subprocess.DEVNULL) -> str:
    """What a program printed, also in `PROGRAM.txt`. Raises ToolError if it does not run."""
    try:
        done = subprocess.run(
            words,
            cwd=folder,
            env={**os.environ, **_environment()},
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolError(f"{folder}: {words[0]} does not run: {error}") from None
    (folder / f"{words[0]}.txt").write_text(done.stdout)
    if done.returncode != 0:
        reason = first_line(done.stdout)
        raise ToolError(f"{folder}: {words[0]}: exit status {done.returncode}: {reason}")
    return done.stdout


def _environment() -> dict[str, str]:
    """Where `openss` finds its plugins and its Python, derived from its own place."""
    found = shutil.which("openss")
    prefix = Path(found).resolve().parent.parent if found else Path()
    plugins = next(iter(sorted(prefix.glob("lib*/openspeedshop"))), prefix)
    return {"OPENSS_PLUGIN_PATH": str(plugins), "PYTHONPATH": str(plugins)}


def first_line(text: str) -> str:
    """The first line that is not empty."""
    return next(filter(None, map(str.strip, text.splitlines())), "no message")
