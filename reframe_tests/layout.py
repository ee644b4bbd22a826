"""The mixin that lays out an application at each combination of its factors' levels."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import reframe as rfm
from reframe.core.builtins import variable

from conductor.judge import length
from records.errors import InputError
from records.files import replace_text
from records.groups import grouped
from records.notes import Note
from records.sample import Level
from records.slurm import options
from records.treatment import Start, Treatment
from records.units import plural
from reframe_tests import rails, third_party, tools
from reframe_tests.crossing import application_levels, read_cells, read_factors
from reframe_tests.factors import (
    AUTO,
    DEFAULT_RESERVED_CORES,
    FACTORS,
    app_cores,
    changes_within_jobs,
    most_points,
    size_of,
    variable_fault,
    why_unsupported,
)
from reframe_tests.planning import DEFAULT_WRITES, CaseRequest, level_faults, planning_variables
from reframe_tests.submission import needs_overlap

#: Attributes of a check that a level may change; they are restored before the next level.
_RESTORED_ATTRIBUTES = (
    "executable",
    "executable_opts",
    "env_vars",
    "num_tasks",
    "num_tasks_per_node",
    "num_cpus_per_task",
    "notes",
    "app_cpus",
    "app_cores",
    "sized_cores",
    "working_set_b",
)
#: Environment variables that bind threads. Each of them binds threads without the others.
_OPENMP_BINDING = {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"}
#: Added to a cube root before it is truncated, since the root of a cube may be rounded down.
_ROUNDING = 1e-9


class WorkingSetMixin(rfm.RegressionTestPlugin):
    """The size of a workload as the memory that each rank works in."""

    #: Memory that each rank works in (each thread of STREAM and membench), such as `4MiB`, or
    #: `llc/2` of the last-level caches. `auto` takes the check's own sizes. The memory is rounded
    #: down to whole elements, and recorded as `working_set_b`.
    working_set = variable(str, value=AUTO)

    def chosen_working_set_b(self, element_b: float = 1.0) -> float | None:
        """Return the chosen working set in bytes; None for `auto`.

        Raises InputError if it is no size, or below one element.
        """
        size_b = size_of(self.working_set, self.machine, f"{self.name}.working_set")
        if size_b is not None and size_b < element_b:
            raise variable_fault(self, "working_set", f"allowed: from {element_b:.0f} B")
        return size_b

    def working_set_edge(self, default_edge: int, element_b: float) -> int:
        """Return the edge of each rank's cube of elements, and record its working set.

        If no working set is chosen, the edge is `default_edge`.
        """
        size_b = self.chosen_working_set_b(element_b)
        edge = default_edge
        if size_b is not None:
            edge = int((size_b / element_b) ** (1 / 3) + _ROUNDING)
        self.working_set_b = edge**3 * element_b
        return edge

    def require_countable(self, points: float, ranks: int) -> None:
        """Raise InputError if a program's numbers would exceed an int, with `points` a rank."""
        max_points = most_points(ranks)
        if points > max_points:
            chosen = [
                name for name in ("working_set", "edge") if getattr(self, name) not in (AUTO, 0)
            ]
            limit = f"{max_points} points a rank, since the program counts in 32 bits"
            raise variable_fault(
                self,
                [*chosen, "memory_share"][0],
                f"{points:.0f} points on each of {plural(ranks, 'rank')}; allowed: at most {limit}",
            )


class LayoutMixin(rfm.RegressionTestPlugin):
    """Makes the treatments (conditions of runs) of a block from a check's arms and factors."""

    #: Factors and their levels, as in a campaign file: `{rate: [0, 25%, full]}`. Levels change from
    #: one run to the next.
    factors = variable(str, value="{}")

    #: Treatments to leave out, and treatments to keep, such as `[{load: idle, workers: other}]`. If
    #: `only` is set, all other treatments are left out.
    exclude = variable(str, value="[]")
    only = variable(str, value="[]")

    #: Cores per node on which ranks and threads are laid out; 0 takes all cores of the application.
    #: If this is more than the application's cores, ranks share cores, and the samples have a note.
    layout_cores = variable(int, value=0)

    #: Cores per node that the application leaves free. The default, -1, leaves the writers' cores
    #: free if origin and target share a host, and leaves none free on other machines.
    reserved_cores = variable(int, value=DEFAULT_RESERVED_CORES)

    #: Cores per node that Slurm takes away from the job for the system (`--core-spec`).
    core_spec = variable(int, value=0)

    #: Tool that wraps each rank and counts its events (`reframe_tests/tools/`).
    tool = variable(str, value=tools.NONE)

    #: Injector (the program that writes) of the arms with writers; `auto` takes the machine's.
    injector = variable(str, value=DEFAULT_WRITES["injector"])

    #: Direction of the writers: `write` to the target's memory, `read` from it, `both` at once, or
    #: `receive`: the target's CPU has to receive messages.
    direction = variable(str, value=DEFAULT_WRITES["direction"])

    #: Number of writers to each target. The origins take turns in providing them. With the default,
    #: 0, there are as many writers as there are targets or origins, whichever is more.
    clients = variable(int, value=DEFAULT_WRITES["clients"])

    #: Size of one write, such as `64KiB`. `dram` exceeds the last-level caches, so that writes over
    #: shared memory reach DRAM. `auto` is `dram` on a shared host, else 64 KiB.
    message = variable(str, value=DEFAULT_WRITES["message"])

    #: Memory that a writer's messages pass through, such as `2MiB`, or `llc/2` of the last-level
    #: caches; `auto` leaves it to the injector.
    footprint = variable(str, value=DEFAULT_WRITES["footprint"])

    #: Number of queue pairs of each writer. `auto` adds queue pairs while they raise its rate.
    queue_pairs = variable(str, value=DEFAULT_WRITES["queue_pairs"])

    #: Rate of each writer: `full`, a share of the uncontended rate such as `25%`, or a rate such as
    #: `500MB/s`.
    rate = variable(str, value=DEFAULT_WRITES["rate"])

    #: NUMA node to which the writers' buffers are bound, at both ends; -1 does not bind them.
    comm_node = variable(int, value=DEFAULT_WRITES["comm_node"])

    #: Rails (network devices) that the writers use, and rails that the application's MPI uses
    #: between nodes (`rails.py`).
    writer_rail = variable(str, value=DEFAULT_WRITES["writer_rail"])
    mpi_rail = variable(str, value=rails.DEFAULT)

    #: The check's own variables that may change from one run to the next.
    within_block: tuple[str, ...] = ()

    #: Name of the check's own variable, a number, to which the length of its runs is proportional.
    #: The name is empty if there is no such variable, or if results can be verified for one length
    #: only.
    lengthened_by = ""

    #: Names of variables whose values are sizes with units, such as 64MiB. A plan checks them.
    size_variables = ()

    #: True if figures of merit can be compared between numbers of cores.
    comparable_across_cores = False

    #: Memory that each rank works in at the current levels, bytes. A check that knows it sets it.
    working_set_b: float | None = None

    #: Number of rows (reports of its rate) that every writer makes before the application starts.
    #: With three or more, the rate before the run is a mean over at least two seconds.
    ready_rows = 1

    def lay_out(self) -> None:
        """Set ranks, threads, options and environment for the current levels."""

    def added_environment(self) -> dict[str, str]:
        """Return the variables that factors add to the application's environment."""
        return rails.environment_for_mpi(self.machine, self.mpi_rail)

    def set_ranks(self, count: int, threads: int = 1) -> None:
        """Set `count` ranks per node, with `threads` threads each."""
        self.num_tasks = self.num_tasks_per_node = count
        self.num_cpus_per_task = threads
        self._set_threads_of_ranks(threads)

    def rank_per_core(self) -> None:
        """Set one rank of one thread per core."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self._set_threads_of_ranks(1)

    def _set_threads_of_ranks(self, threads: int) -> None:
        """Set the threads of each rank. Turn off binding that only the user's shell requests.

        With such binding, a launcher that does not bind ranks, such as the wheels' mpiexec, would
        leave the threads of all ranks on the first cores.
        """
        self.env_vars["OMP_NUM_THREADS"] = threads
        settings = (self.current_partition.local_env, self.current_environ)
        configured = {name for setting in settings for name in setting.env_vars}
        if _OPENMP_BINDING & os.environ.keys() - configured:
            self.env_vars["OMP_PROC_BIND"] = "false"

    def thread_per_core(self) -> None:
        """Set one bound thread per core, so that first touch places the pages."""
        self.num_cpus_per_task = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = self.app_cores
        self.env_vars["OMP_PROC_BIND"] = "true"
        self.env_vars["OMP_PLACES"] = "cores"

    def leave_binding_to_program(self) -> None:
        """Set one task with all cores, whose program binds its threads itself.

        OpenMP of GCC would bind even the first thread before the program starts, if the user's
        shell requests it, and the program would find one usable core.
        """
        self.num_cpus_per_task = self.app_cores
        self.env_vars["OMP_PROC_BIND"] = "false"

    def input_file(self, name: str, text: str) -> str:
        """Write an input file to the stage folder; return its name, unique for each text."""
        path = Path(self.stagedir, name)
        number = 1
        while path.exists() and path.read_text() != text:
            number += 1
            path = path.with_name(f"{Path(name).stem}-{number}{Path(name).suffix}")
        replace_text(path, text)
        return path.name

    def split_cores(self) -> None:
        """Split the cores between application and origin, as `reserved_cores` says."""
        reserved = None if self.reserved_cores < 0 else self.reserved_cores
        self.app_cpus, self.origin_cpus = self.machine.split_cores(reserved)
        available = app_cores(self.machine, self.reserved_cores, self.core_spec)
        usable = len(self.machine.usable_cores()) or self.node_facts.cores
        #: Cores per node on which the application is laid out.
        self.app_cores = self.layout_cores or available
        #: Cores per node for which the problem is sized: reserved cores do not change it.
        self.sized_cores = self.layout_cores or usable
        if reserved is None and not self.core_spec:
            self.sized_cores = self.app_cores
        if self.app_cores > available:
            self.notes = [*self.notes, Note.LAYOUT_CORES(cores=self.app_cores, had=available)]
        if shared := set(self.app_cpus) & set(self.origin_cpus):
            self.notes = [*self.notes, Note.SHARED_CORES(cores=len(shared))]
        self.app_cpus = self.app_cpus[: self.app_cores]

    def case_request(self) -> CaseRequest:
        """Return what the check's variables request, without levels that the machine lacks.

        Raises InputError for levels that are not allowed.
        """
        factors = read_factors(self.factors)
        allowed = [*filter(changes_within_jobs, FACTORS), *self.within_block]
        allowed = [name for name in allowed if hasattr(self, name)]
        for name in factors:
            if name not in allowed:
                raise InputError(f"factors: {name}; allowed: {', '.join(allowed)}")
        variables = planning_variables(set(type(self).var_space), self.within_block)
        levels = {name: getattr(self, name) for name in variables if hasattr(self, name)}
        faults = level_faults(levels, factors, comparable_across_cores=self.comparable_across_cores)
        for name, _, why in faults:
            raise InputError(f"{name}: {why}")
        supported_factors = {
            name: [
                level for level in factor_levels if not why_unsupported(self.machine, name, level)
            ]
            for name, factor_levels in factors.items()
        }
        for name, supported_levels in supported_factors.items():
            if not supported_levels:
                reason = why_unsupported(self.machine, name, factors[name][0])
                raise InputError(f"factors: {name}: no level is left: {reason}")
        return CaseRequest(
            arms=self.arms,
            levels=levels,
            factors=supported_factors,
            exclude=read_cells(self.exclude, "exclude"),
            only=read_cells(self.only, "only"),
        )

    def with_starts(self, treatments: list[Treatment]) -> list[Treatment]:
        """Return the treatments, each with how the application is started at its levels."""
        self._varied_factors = {name for treatment in treatments for name in treatment.factors}
        treatments_by_levels = grouped(
            (json.dumps(application_levels(treatment.factors)), treatment)
            for treatment in treatments
        )
        complete = []
        job_sizes = []
        for group in treatments_by_levels.values():
            with self._at_levels(application_levels(group[0].factors)):
                longer = self._lengthened_starts()
                notes_before = len(self.notes)
                start = self._start()
                job_sizes.append((self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task))
                notes = self.notes[notes_before:]
                complete += [
                    replace(treatment, start=start, longer=longer, notes=[*notes, *treatment.notes])
                    for treatment in group
                ]
        # The job gets whole nodes, so CPUs for the layout with the most tasks are enough for all.
        self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task = max(
            job_sizes, key=lambda sizes: [size or 0 for size in sizes]
        )
        return complete

    @contextmanager
    def _at_levels(self, levels: Mapping[str, Level]) -> Iterator[None]:
        """Set the check's variables to levels, and restore them afterwards.

        Raises InputError for a fraction as a level of a whole number.
        """
        names = dict.fromkeys([*_RESTORED_ATTRIBUTES, *levels])
        values_before = {name: getattr(self, name) for name in names if hasattr(self, name)}
        for name, level in levels.items():
            # A level gets the type of the variable's value.
            variable_type = type(values_before[name])
            if variable_type is int and isinstance(level, float) and not level.is_integer():
                raise InputError(f"{name}: {level} found; allowed: a whole number")
            is_kept = variable_type in (bool, type(None))
            setattr(self, name, level if is_kept else variable_type(level))
        try:
            yield
        finally:
            for name, value in values_before.items():
                setattr(self, name, value)

    def _lengthened_starts(self) -> list[Start]:
        """Return how runs of 2, 4, ... times the length are started.

        The list is empty without `lengthened_by`.
        """
        if not self.lengthened_by:
            return []
        starts = []
        for multiple in length.MULTIPLES:
            lengthened = multiple * getattr(self, self.lengthened_by)
            with self._at_levels({self.lengthened_by: lengthened}):
                starts.append(self._start())
        return starts

    def _start(self) -> Start:
        """Return how the application is started at the current levels."""
        self.split_cores()
        self.env_vars = {}
        self.lay_out()
        environment = {name: str(value) for name, value in self.env_vars.items()}
        environment |= self.added_environment()
        threads = self.num_cpus_per_task or 1
        if self.workload:  # third-party checks count CPUs as Slurm does
            self.num_cpus_per_task = options.cpus_per_task(
                self.num_cpus_per_task, self.node_facts.threads_per_core
            )
        launcher = self._launcher()
        has_ranks = self.mpi or (bool(launcher) and not self.workload)
        launcher += rails.local_rail_wrapper(self.machine, self.mpi_rail)
        command = self._launch_command(launcher)
        tool = None
        if self.tool != tools.NONE:
            tool = tools.TOOLS[self.tool]
            command = tool.wrap(launcher, self._launch_command([]))
            environment |= tool.environment()
        return Start(
            command=command,
            environment=environment,
            cpus=self.app_cpus,
            ranks=self.num_tasks if has_ranks else None,
            ranks_per_node=self.num_tasks_per_node or self.num_tasks,
            threads=threads,
            devices=rails.devices_for_mpi(self.machine, self.mpi_rail),
            tool=tool.name if tool else None,
            working_set_b=self.working_set_b,
        )

    def _launch_command(self, launcher: list[str]) -> list[str]:
        """Return the words of the launch line; a third-party check's line may need a shell."""
        words = [self.executable, *self.executable_opts]
        if self.workload:
            return [*launcher, *words]
        return third_party.launch_words(launcher, " ".join(words))

    def _launcher(self) -> list[str]:
        """Return the words of the launcher for the current tasks.

        A workload without MPI has none. A third-party check always has the partition's launcher.
        """
        if self.workload and not self.mpi:
            return []
        # ReFrame passes the layout to the job only after the check's hooks.
        self.job.num_tasks = self.num_tasks
        self.job.num_tasks_per_node = self.num_tasks_per_node
        self.job.num_cpus_per_task = self.num_cpus_per_task
        launcher = shlex.split(self.job.launcher.run_command(self.job))
        if self.job.scheduler.registered_name == "local":
            return launcher
        launcher = options.limited_to_targets(launcher, self.machine.origins, self.num_tasks)
        launcher = options.with_network(launcher, self.machine.network)
        if needs_overlap(self.job.launcher):
            launcher = options.with_overlap(launcher)
        if not self._varied_factors:
            return launcher
        if "reserved_cores" in self._varied_factors:
            launcher = options.bound_to_cores(launcher)
        return options.with_task_sizes(
            launcher, self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task
        )

    def distinct_starts(self, treatments: list[Treatment]) -> list[dict[str, Any]]:
        """Return the distinct ways to start the application, each with its treatments.

        The provenance of the samples has them.
        """
        fields = ("command", "environment", "cpus")
        groups = grouped(
            (json.dumps({name: getattr(treatment.start, name) for name in fields}), treatment.name)
            for treatment in treatments
        )
        return [{"treatments": names, **json.loads(start)} for start, names in groups.items()]
