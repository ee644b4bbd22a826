"""Finds or builds a check's program: site file, Spack, PATH (modules, wheels), compiler.

A program that the site file names in `programs` is used in every environment. Otherwise, in an
environment with the feature `spack`, Spack builds the check's stack on first use. If the build
fails, the check fails. In other environments, the program must be on this host's PATH, as changed
by the environment's `env_vars`. If it is not there, or if Spack is not set up, the check is skipped
with a message. Programs from modules are not searched for
on this host, since only the job loads the modules. Checks that compile their sources use the
environment's compiler or, with the feature `spack`, Spack's compiler.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from math import isqrt
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.environments import Environment
from reframe.core.exceptions import ReframeError

from records.commands import command
from records.errors import InputError, NimcError
from records.machine.program import search_path
from records.machine.site import load as load_machine
from records.programs import mpi_of_wheels
from reframe_tests.factors import layout_of, variable_fault, why_layout_too_large
from reframe_tests.mixin import NimcMixin
from reframe_tests.spack import build, externals, folders
from reframe_tests.spack.build import BuiltEnvironment
from reframe_tests.spack.settings import load_settings

#: Search path for programs: the folder of this Python comes first, as in `configs/`.
_PATH = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"


class SpackMixin(rfm.RegressionTestPlugin):
    """Provides a check's program: Spack builds it on first use, or a subclass finds it."""

    #: Environment of `spack_envs/` that has the program, and the program's Spack package. Both are
    #: None if Spack has no recipe for the program.
    stack = variable(str, type(None), value=None)
    package = variable(str, type(None), value=None)

    def installed_program(self, environ: Environment) -> str:
        """Return the program, or the compiler for it, if Spack does not build the program.

        Raises InputError if the environment has none.
        """
        raise NotImplementedError

    def uses_spack(self, environ: Environment) -> bool:
        """Return whether Spack builds the program of an environment."""
        return "spack" in environ.features and bool(self.stack)

    def spack_environment(self) -> str:
        """Return the name of the environment that Spack builds."""
        return str(self.stack)

    def runs_in(self, environ: Environment) -> bool:
        """Return whether an environment has the program, or a Spack that is set up to build it.

        Whether the build succeeds does not matter: if it fails, no other environment runs the case
        with a program of its own.
        """
        try:
            self._require_program(environ)
        except InputError:
            return False
        return True

    def _require_program(self, environ: Environment) -> None:
        """Raise InputError if an environment has neither the program nor a Spack to build it."""
        if self.uses_spack(environ):
            load_settings(self._spack_layout())
        else:
            self.installed_program(environ)

    @run_after("setup")
    def find_program(self) -> None:
        """Build or find the program; skip the check if there is none."""
        if self.is_dry_run():
            return
        try:
            self._require_program(self.current_environ)
        except InputError as error:
            self.skip(str(error))
        if self.uses_spack(self.current_environ):
            try:
                self._use_build(self._built_environment())
            except NimcError as error:
                raise ReframeError(str(error)) from None

    def _spack_layout(self) -> folders.SpackLayout:
        return folders.layout(self.current_system.name, None)

    def _built_environment(self) -> BuiltEnvironment:
        """Return the check's environment; build it if it is not built. Raises NimcError."""
        layout = self._spack_layout()
        jobs = len(os.sched_getaffinity(0))
        return build.build(
            layout, load_settings(layout), self.spack_environment(), jobs, self.logger.debug
        )

    def _use_build(self, built: BuiltEnvironment) -> None:
        path = [f"{built.view}/bin"]
        if built.mpi:
            path.append(f"{built.mpi}/bin")
        self.env_vars["PATH"] = ":".join([*path, "$PATH"])
        (spec,) = (spec for spec in built.specs if spec["name"] == self.package)
        self.provenance = {**self.provenance, "spack": spec, "spack_inputs": built.digest}
        self.spack_lock = built.lock

    @run_before("run")
    def keep_lock(self) -> None:
        """Keep the Spack lock file of the program with the results."""
        if hasattr(self, "spack_lock"):
            shutil.copy(self.spack_lock, Path(self.stagedir) / "spack.lock")
            self.keep_files = [*self.keep_files, "spack.lock"]


class BinariesMixin(SpackMixin):
    """Finds a program that the site, Spack, modules or wheels provide."""

    #: Environments of a check that does not set `valid_prog_environs`.
    default_environs = ("+spack", "+modules", "+wheels")

    #: Name of the program on PATH.
    program = variable(str)

    @run_after("init")
    def choose_program(self) -> None:
        """Choose the program that the site file names, if it names one.

        The check runs the program, unless the check's executable wraps it.
        """
        wrapped = self.executable not in (None, "", self.program)
        self._site_program = None
        with suppress(InputError):  # a file that cannot be read is reported later
            self._site_program = load_machine(self.current_system.name).programs.get(self.program)
        self.program = self._site_program or self.program
        if not wrapped:
            self.executable = self.program

    def uses_spack(self, environ: Environment) -> bool:
        """Return whether Spack builds the program. It does not if the site file names one."""
        return super().uses_spack(environ) and not self._site_program

    def installed_program(self, environ: Environment) -> str:
        """Return the program. In an environment with modules, only the job searches for it.

        Raises InputError if it is not found.
        """
        partition_variables = self.current_partition.local_env.env_vars.items()
        variables = [*partition_variables, *environ.env_vars.items()]
        path = search_path(_PATH, os.environ, variables)
        if "modules" in environ.features or shutil.which(self.program, path=path):
            return self.program
        site_file = f"site/{self.current_system.name}.yaml"
        reason = f"{self.program} is not on PATH"
        if self._site_program:
            raise InputError(f"{site_file}: programs: {self.program} is no program on this host")
        if self.stack:
            advice = command("spack", "build", self.stack, "--machine", self.current_system.name)
            raise InputError(f"{reason}; `{advice}` builds it (docs/workloads.md#spack)")
        raise InputError(f"{reason}; name it in 'programs' of {site_file} (docs/workloads.md)")


class CompiledMixin(SpackMixin):
    """Compiles the check's sources with the environment's C compiler.

    In environments with the feature `spack`, Spack builds the program if the check has a `stack`.
    Otherwise, Spack's C compiler compiles the sources there.
    """

    @run_before("compile")
    def choose_compiler(self) -> None:
        """Choose the compiler. If Spack builds the program, compile nothing."""
        if self.uses_spack(self.current_environ):
            self.sourcesdir = None
            self.build_system = "CustomBuild"
            self.build_system.commands = []
        elif not self.is_dry_run():
            self.build_system.cc = self.installed_program(self.current_environ)

    def installed_program(self, environ: Environment) -> str:
        """Return the C compiler."""
        if "spack" in environ.features:
            layout = folders.layout(self.current_system.name, None)
            return externals.c_compiler(layout, load_settings(layout))
        if not environ.cc:
            raise InputError(f"environment {environ.name} has no C compiler: 'cc' is empty")
        return str(environ.cc)


class ProgramTest(rfm.RunOnlyRegressionTest, BinariesMixin, NimcMixin):
    """A check of an MPI program that the check does not compile itself."""

    mpi = True
    sourcesdir = None
    tags = {"single_node"}

    def added_environment(self) -> dict[str, str]:
        """Return the variables of factors and, for a program of the wheels, that of their MPI."""
        added = super().added_environment()
        is_of_wheels = (
            not self._site_program and (Path(sys.executable).parent / self.program).is_file()
        )
        if "wheels" in self.current_environ.features and is_of_wheels:
            added |= mpi_of_wheels(os.environ)
        return added


class ThreadsMixin(rfm.RegressionTestPlugin):
    """Ranks and threads of a program with MPI and OpenMP, which `layout` sets."""

    #: Ranks per node and threads per rank, such as `8x2`. The problem has the same size as with one
    #: rank per core. `auto` takes the fastest layout (`nimc run` only). The default, empty, takes
    #: the check's own layout.
    layout = variable(str, value="")

    #: Numbers of ranks, on all nodes together, with which the program can run. If this is empty,
    #: the program can run with any number.
    rank_counts: tuple[int, ...] = ()

    #: Memory of a grid point, bytes, if `memory_share` or `edge` gives the points of a node, and
    #: the program counts them in 32 bits; otherwise 0.
    point_b = 0

    def ranks_and_threads(self, ranks: int) -> tuple[int, int]:
        """Return ranks per node and threads per rank, as `layout` requests them.

        If `layout` is empty, these are `ranks`, and threads on all cores. Raises InputError for a
        layout that does not fit.
        """
        try:
            requested = layout_of(self.layout)
        except ValueError:
            why = "allowed: RANKSxTHREADS, such as 8x2 (auto: only in campaigns)"
            raise variable_fault(self, "layout", why) from None
        if requested is None:
            return ranks, max(1, self.app_cores // ranks)
        if reason := why_layout_too_large(self.layout, self.app_cores):
            raise variable_fault(self, "layout", reason)
        requested_ranks, _ = requested
        all_ranks = requested_ranks * getattr(self, "nodes", 1)
        if self.rank_counts and all_ranks not in self.rank_counts:
            allowed = ", ".join(map(str, self.rank_counts[:4]))
            raise variable_fault(self, "layout", f"{all_ranks} ranks; allowed: {allowed}, ...")
        return requested

    def edge_of_same_work(self, edge: int, default_ranks: int | None = None) -> int:
        """Return the edge of each rank's cube that gives a node the same work in any layout.

        With `default_ranks` ranks per node, the edge is `edge`. The default of `default_ranks` is
        one rank per core.
        """
        default_ranks = default_ranks or self.app_cores
        ranks, _ = self.ranks_and_threads(default_ranks)
        return max(1, round(edge * (default_ranks / ranks) ** (1 / 3)))


class NodesMixin(rfm.RegressionTestPlugin):
    """Ranks on `nodes` nodes: one per core, or one per socket with a thread per core."""

    #: Target nodes.
    nodes = variable(int, value=1)

    #: The unit that gets a rank if `layout` is empty: `core` (MPI only), or `socket` (MPI with
    #: OpenMP).
    rank_per = variable(str, value="core")

    def ranks_per_node(self) -> int:
        """Return the ranks per node. Raises InputError."""
        if self.nodes < 1:
            raise variable_fault(self, "nodes", "allowed: numbers from 1")
        threaded = isinstance(self, ThreadsMixin)
        allowed = ("core", "socket") if threaded else ("core",)
        if self.rank_per not in allowed:
            raise variable_fault(self, "rank_per", f"allowed: {', '.join(allowed)}")
        ranks = self.app_cores
        if self.rank_per == "socket":
            ranks = min(self.node_facts.sockets, self.app_cores)
        if threaded:
            ranks, _ = self.ranks_and_threads(ranks)
        return ranks

    def set_ranks_per_node(self, per_node: int) -> None:
        """Set `per_node` ranks on each node, with threads on all cores."""
        threads = max(1, self.app_cores // per_node)
        if isinstance(self, ThreadsMixin):
            _, threads = self.ranks_and_threads(per_node)
        self.set_ranks(per_node, threads)
        self.num_tasks = self.nodes * per_node


# Layouts of ranks over boxes and squares.


def near_square(count: int) -> tuple[int, int]:
    """Return two factors of `count`, as close to each other as possible, the smaller first."""
    small = max(edge for edge in range(1, isqrt(count) + 1) if count % edge == 0)
    return small, count // small


def near_cube(count: int) -> tuple[int, int, int]:
    """Return the edges of the box of `count` cubes with the least surface, the shortest first."""
    edges = range(1, round(count ** (1 / 3)) + 1)
    boxes = [(edge, *near_square(count // edge)) for edge in edges if count % edge == 0]
    return min(boxes, key=lambda box: box[0] * (box[1] + box[2]) + box[1] * box[2])


def largest_cube_edge(count: int, nodes: int = 1) -> int:
    """Return the edge of the largest cube of ranks that fits on `count` cores.

    The number of ranks must be a multiple of `nodes`. Returns 1 if there is no such cube.
    """
    edges = range(round(count ** (1 / 3)), 0, -1)
    return next((edge for edge in edges if edge**3 <= count and edge**3 % nodes == 0), 1)
