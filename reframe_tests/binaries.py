"""Where a check's program comes from: built by Spack, or found on PATH (modules, wheels).

An environment of a machine's settings that has the feature `spack` gets its programs from the
check's stack, built on first use. One with the feature `wheels` must have the program on PATH here,
or the check is skipped and says so. What modules bring is known in the job only.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.environments import Environment
from reframe.core.exceptions import ReframeError

from analysis.errors import InputError, NimcError
from spack_envs.builder import build as builder
from spack_envs.builder import setup
from spack_envs.builder.build import Built
from spack_envs.builder.layout import layout

#: Where programs are looked for: beside this Python first, as the settings of a host do.
_PATH = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"


class BinariesMixin(rfm.RegressionTestPlugin):
    """Finds the program, and says how it was made."""

    #: Environments that may have the program.
    wanted_environs = ("+spack", "+modules", "+wheels")

    #: Environment of `spack_envs/` that builds the program, and its package there.
    stack = variable(str)
    package = variable(str)

    #: The program, as PATH knows it.
    program = variable(str)

    @run_after("init")
    def run_program(self) -> None:
        """The program is what runs, unless the check wraps it."""
        if not self.executable:
            self.executable = self.program

    @run_after("setup")
    def find_program(self) -> None:
        """Build it, find it, or skip."""
        if self.is_dry_run():
            return
        if "spack" in self.current_environ.features:
            self._build()
        elif not self._on_path(self.current_environ):
            self.skip(f"{self.program} is not on PATH; 'nimc spack' builds it (docs/spack.md)")

    def runs_in(self, environ: Environment) -> bool:
        """Whether an environment has the program."""
        if "spack" in environ.features:
            with suppress(NimcError):
                return bool(self._built())
            return False
        return self._on_path(environ)

    def _on_path(self, environ: Environment) -> bool:
        """What modules bring is known in the job only."""
        return "modules" in environ.features or shutil.which(self.program, path=_PATH) is not None

    def _built(self) -> Built:
        """The check's stack, built once; a lock is held meanwhile. Raises NimcError."""
        place = layout(self.current_system.name, None)
        jobs = len(os.sched_getaffinity(0))
        return builder.build(place, setup.load(place), self.stack, jobs, self.logger.debug)

    def _build(self) -> None:
        try:
            self._use(self._built())
        except InputError as error:  # no Spack is set up
            self.skip(str(error))
        except NimcError as error:
            raise ReframeError(str(error)) from None

    def _use(self, built: Built) -> None:
        folders = [f"{built.view}/bin", *([f"{built.mpi}/bin"] if built.mpi else [])]
        self.env_vars["PATH"] = ":".join([*folders, "$PATH"])
        (spec,) = (spec for spec in built.specs if spec["name"] == self.package)
        self.provenance = {**self.provenance, "spack": spec, "spack_inputs": built.digest}
        self.spack_lock = built.lock

    @run_before("run")
    def keep_lock(self) -> None:
        """The lock that made the program stays with its results."""
        if hasattr(self, "spack_lock"):
            shutil.copy(self.spack_lock, Path(self.stagedir) / "spack.lock")
            self.keep_files = [*self.keep_files, "spack.lock"]
