"""Folders of one machine's Spack; nothing is in `~/.spack`."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from analysis.errors import InputError


@dataclass(frozen=True)
class SpackLayout:
    """The folders under `root`, one root for each machine."""

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


def default_root() -> Path:
    """`NIMC_SPACK_DIR`, else a folder in the user's cache."""
    if os.environ.get("NIMC_SPACK_DIR"):
        return Path(os.environ["NIMC_SPACK_DIR"])
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError:
        raise InputError(
            "NIMC_SPACK_DIR: not set, and this user has no home; allowed: a folder for Spack"
        ) from None
    return Path(cache) / "nimc" / "spack"


def layout(machine: str, root: Path | None = None) -> SpackLayout:
    """The layout of a machine's Spack. Raises InputError for a name that is a path."""
    if not re.fullmatch(r"\w[\w.+-]*", machine):
        raise InputError(f"--machine: {machine!r} found; allowed: letters, digits and ._+-")
    return SpackLayout((root or default_root()).resolve() / machine, machine)
