"""The folders of a machine's Spack. They have a root for each machine; `~/.spack` is not used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from records.commands import command
from records.errors import InputError
from records.files import private_lock


def spack_setup_command(machine: str) -> str:
    """Return the command that sets up a machine's Spack."""
    return command("spack", "setup", "--machine", machine)


@dataclass(frozen=True)
class SpackLayout:
    """Paths below the root of one machine's Spack."""

    root: Path
    machine: str

    @property
    def config(self) -> Path:
        """Return the folder of Spack's user scope.

        It configures install tree, caches, mirrors, compilers and externals.
        """
        return self.root / "config"

    @property
    def host_packages_file(self) -> Path:
        """Return the file of packages that Spack found on this host, or that the user added."""
        return self.config / "packages.yaml"

    @property
    def slurm_conf(self) -> Path:
        """Return the file of a Slurm configuration.

        Slurm's programs do not print their version without a configuration.
        """
        return self.root / "slurm.conf"

    @property
    def store(self) -> Path:
        """Return the install tree that all environments share."""
        return self.root / "store"

    @property
    def settings_file(self) -> Path:
        """Return the file with the result of `setup`."""
        return self.root / "setup.json"

    def clone_folder(self, name: str, commit: str) -> Path:
        """Return the folder of a pinned clone of Spack or of its recipes."""
        return self.root / "pinned" / f"{name}-{commit[:12]}"

    def environment(self, name: str) -> Path:
        """Return the folder of an environment, with its lock and view."""
        return self.root / "environments" / name

    def built_file(self, name: str) -> Path:
        """Return the file with the record of the last build and the digest of its inputs."""
        return self.environment(name) / "built.json"

    def lock(self, name: str) -> Path:
        """Return the file that is locked while an environment, or the setup, is changed."""
        return self.root / "locks" / f"{name}.lock"

    def log(self, name: str) -> Path:
        """Return the file of Spack's output."""
        return self.root / "logs" / f"{name}.log"


def layout(machine: str, root: Path | None = None) -> SpackLayout:
    """Return the layout of a machine's Spack. Raises InputError for an invalid name or folder.

    The default of `root` is `NIMC_SPACK_DIR`, or a folder in the user's cache.
    """
    if not re.fullmatch(r"\w[\w.+-]*", machine):
        allowed = "letters, digits and ._+-, and none of .+- first"
        raise InputError(f"--machine: {machine!r} found; allowed: {allowed}")
    named_root = os.environ.get("NIMC_SPACK_DIR")
    if named_root and not os.path.isabs(named_root):  # checks run in other folders
        raise InputError(f"NIMC_SPACK_DIR: {named_root!r} found; allowed: an absolute path")
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    root = root or Path(named_root or Path(cache, "nimc/spack"))
    return SpackLayout(root.resolve() / machine, machine)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a file; a second process waits. The kernel releases the lock when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with private_lock(path) as lock:
        lock.acquire(None)
        yield
