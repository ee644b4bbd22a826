"""Runs Spack, isolated from the user's configuration and caches."""

from __future__ import annotations

import getpass
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nimc.base.errors import InputError, MachineError
from nimc.base.files import private_lock
from nimc.base.programs import ask

#: How long git may take to clone, seconds.
_CLONE_S = 3600.0


@dataclass(frozen=True)
class SpackLayout:
    """The folders under `root`, one root for each machine; nothing is in `~/.spack`."""

    root: Path
    machine: str

    @property
    def config(self) -> Path:
        """Spack's user scope: install tree, caches, mirrors, compilers, externals."""
        return self.root / "config"

    @property
    def store(self) -> Path:
        """The install tree that all environments share."""
        return self.root / "store"

    @property
    def settings(self) -> Path:
        """Result of `setup`."""
        return self.root / "setup.json"

    def clone(self, what: str, commit: str) -> Path:
        """A pinned clone of Spack or of its recipes."""
        return self.root / "pinned" / f"{what}-{commit[:12]}"

    def environment(self, name: str) -> Path:
        """Folder of Spack's environment, with lock and view."""
        return self.root / "environments" / name

    def stamp(self, name: str) -> Path:
        """Record of what was built, and from which inputs."""
        return self.environment(name) / "built.json"

    def lock(self, name: str) -> Path:
        """Locked while an environment, or the setup, is changed."""
        return self.root / "locks" / f"{name}.lock"

    def log(self, name: str) -> Path:
        """Output of Spack."""
        return self.root / "logs" / f"{name}.log"


def layout(machine: str, root: Path | None = None) -> SpackLayout:
    """The layout of a machine's Spack. Raises InputError for a name that is a path.

    `root`: by default `NIMC_SPACK_DIR`, else a folder in the user's cache.
    """
    if not re.fullmatch(r"\w[\w.+-]*", machine):
        raise InputError(f"--machine: {machine!r} found; allowed: letters, digits and ._+-")
    if root is None and (named := os.environ.get("NIMC_SPACK_DIR")):
        root = Path(named)
    try:
        root = root or Path(
            os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "nimc/spack"
        )
    except RuntimeError:
        raise InputError(
            "NIMC_SPACK_DIR: not set, and this user has no home; allowed: a folder for Spack"
        ) from None
    return SpackLayout(root.resolve() / machine, machine)


def isolated(layout: SpackLayout, environ: dict[str, str]) -> dict[str, str]:
    """The environment for Spack: its user scope and caches are under the layout's root.

    This Python's virtual environment is removed, since builds would find the MPI of its wheels.
    LOGNAME is set, since mpiP's build needs it and batch jobs and containers often lack it.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith("SPACK_") and name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the host has no name for it
        user = str(os.getuid())
    if sys.prefix != sys.base_prefix:
        own = Path(sys.prefix, "bin").resolve()  # PATH may have it by a link's name
        kept["PATH"] = ":".join(
            part for part in kept.get("PATH", os.defpath).split(":") if Path(part).resolve() != own
        )
    return {
        "LOGNAME": user,
        **kept,
        "SPACK_PYTHON": sys.executable,
        "SPACK_USER_CONFIG_PATH": str(layout.config),
        "SPACK_SYSTEM_CONFIG_PATH": str(layout.root / "no-system-scope"),
        "SPACK_USER_CACHE_PATH": str(layout.root / "cache"),
    }


def require_clingo() -> None:
    """Raise MachineError if this Python lacks Spack's solver."""
    if importlib.util.find_spec("clingo") is None:
        raise MachineError(
            f"{sys.executable} has no clingo, Spack's solver: 'sh scripts/setup.sh spack' installs"
            " it (make test does, too)"
        )


def spack(
    layout: SpackLayout,
    root: Path,
    *words: str,
    log: str,
    watch: Callable[[str], None] | None = None,
) -> str:
    """Output of a Spack command, logged as it runs; `watch` gets each line. Raises MachineError."""
    path = layout.log(log)
    path.parent.mkdir(parents=True, exist_ok=True)
    command = [str(root / "bin" / "spack"), "--color", "never", *words]
    if not Path(command[0]).is_file():
        raise MachineError(f"{command[0]}: no such file; 'nimc spack setup' clones Spack")
    printed: list[str] = []
    with path.open("a") as file:
        file.write(f"$ spack {' '.join(words)}\n")
        file.flush()
        begin_b = file.tell()
        environ = isolated(layout, dict(os.environ))
        with subprocess.Popen(
            command, env=environ, stdout=subprocess.PIPE, stderr=file, errors="replace"
        ) as process:
            assert process.stdout
            for line in process.stdout:
                printed.append(line)
                if watch:
                    watch(line)
                file.write(line)
                file.flush()
    if process.returncode != 0:
        raise MachineError(f"Spack failed at {log}: {_reason(path, begin_b)} (log: {path})")
    return "".join(printed)


def _reason(path: Path, begin_b: int) -> str:
    """The first error in the log after a position, with the package being installed."""
    with path.open("rb") as file:
        file.seek(begin_b)
        lines = file.read().decode(errors="replace").splitlines() or ["no message"]
    errors = [n for n, line in enumerate(lines) if line.startswith("==> Error: ")]
    if not errors:
        return lines[-1].strip()
    first = errors[0]
    said = lines[first].removeprefix("==> Error: ").strip()
    if said.endswith(":") and first + 1 < len(lines):
        said += f" {lines[first + 1].strip()}"
    begun = re.findall(r"^==> Installing (\S+)-\w{32}\b", "\n".join(lines[:first]), re.MULTILINE)
    return f"{begun[-1]}: {said}" if begun else said


def clone(git: str, tag: str, commit: str, into: Path) -> None:
    """Make a shallow clone and check that it is the pinned commit."""
    into.parent.mkdir(parents=True, exist_ok=True)
    part = into.with_name(f"{into.name}.part{os.getpid()}")
    try:
        _git("clone", "--quiet", "--depth", "1", "--branch", tag, git, str(part))
        found = _git("-C", str(part), "rev-parse", "HEAD").strip()
        if found != commit:
            raise MachineError(f"{git}: tag {tag} is {found}, not the pinned {commit}")
        part.rename(into)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _git(*words: str) -> str:
    return ask(["git", *words], timeout_s=_CLONE_S).required()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file; a second process waits. The kernel releases the lock when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with private_lock(path) as lock:
        lock.take(None)
        yield
