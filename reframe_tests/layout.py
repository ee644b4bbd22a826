"""The mixin that lays out an application, once for each combination of its factors' levels."""

from __future__ import annotations

import json
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
from reframe_tests import foreign, rails, tools
from reframe_tests.crossing import application_levels, read_cells, read_factors
from reframe_tests.factors import (
    AUTO,
    FACTORS,
    app_cores,
    changes_within_jobs,
    fault,
    missing_level,
    size_of,
)
from reframe_tests.planning import WRITES, CaseRequest, level_faults, planned

#: Attributes that a level may change in a check, and that are as before for the next one.
_RESTORED = (
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


#: So much below a whole number is one, in the cube root of its cube.
_ROUNDING = 1e-9


class WorkingSetMixin(rfm.RegressionTestPlugin):
    """The size of a workload as the memory that each rank works in."""

    #: Memory that each rank (of STREAM and membench each thread) works in, such as `4MiB`, or
    #: `llc/2` of the last-level caches, instead of the check's own sizes, which `auto` takes. What
    #: whole elements give is recorded as `working_set_b`.
    working_set = variable(str, value=AUTO)

    def chosen_b(self, element_b: float = 1.0) -> float | None:
        """The chosen working set, bytes; None for `auto`. Raises InputError below one element."""
        size_b = size_of(self.working_set, self.machine)
        if size_b is not None and size_b < element_b:
            raise fault(self, "working_set", f"allowed: from {element_b:.0f} B")
        return size_b

    def edge_of(self, edge: int, element_b: float) -> int:
        """Edge of each rank's cube of elements: the chosen working set's, or `edge`; records it."""
        size_b = self.chosen_b(element_b)
        edge = edge if size_b is None else int((size_b / element_b) ** (1 / 3) + _ROUNDING)
        self.working_set_b = edge**3 * element_b
        return edge


class LayoutMixin(rfm.RegressionTestPlugin):
    """Makes the treatments of a block from a check's arms and factors."""

    #: Factors and their levels, as in a campaign's file: `{rate: [0, 25%, full]}`. Levels change
    #: from one run to the next.
    factors = variable(str, value="{}")

    #: Treatments to leave out, and the only ones to keep: `[{load: idle, workers: other}]`.
    exclude = variable(str, value="[]")
    only = variable(str, value="[]")

    #: Cores per node that ranks and threads are laid out on; 0 takes all cores of the application.
    #: With more than that, ranks share cores, which is noted in the samples.
    layout_cores = variable(int, value=0)

    #: Cores per node that the application leaves free; -1 leaves those of the origin if both share
    #: a host, else none.
    reserved_cores = variable(int, value=-1)

    #: Cores per node that Slurm takes away from the job for the system (`--core-spec`).
    core_spec = variable(int, value=0)

    #: Tool that wraps each rank and counts (`reframe_tests/tools/`).
    tool = variable(str, value=tools.NONE)

    #: Injector of arms that write; `auto` takes the machine's.
    injector = variable(str, value=WRITES["injector"])

    #: The direction of writers: `write` to the target's memory, `read` from it, or `both` at once;
    #: or send messages that the target's CPU has to `receive`.
    direction = variable(str, value=WRITES["direction"])

    #: Writers to each target, taken from the origins in turn; 0: as many writers as there are
    #: targets or origins, whichever is more.
    clients = variable(int, value=WRITES["clients"])

    #: Size of one write, such as `64KiB`; `dram` exceeds the last-level cache, which matters if the
    #: writes go over shared memory; `auto` is `dram` on a shared host, else 64 KiB.
    message = variable(str, value=WRITES["message"])

    #: Memory that a writer's messages pass through, such as `2MiB`, or `llc/2` of the last-level
    #: caches; `auto` leaves it to the injector.
    footprint = variable(str, value=WRITES["footprint"])

    #: Queue pairs of each writer: a number, or `auto`, as many as raise its rate.
    queue_pairs = variable(str, value=WRITES["queue_pairs"])

    #: Rate of each writer: `full`, a share of that such as `25%`, or a rate such as `500MB/s`.
    rate = variable(str, value=WRITES["rate"])

    #: NUMA node that the writers' buffers are bound to, on both ends; -1 does not bind them.
    comm_node = variable(int, value=WRITES["comm_node"])

    #: Rails that the writers use, and the application's MPI between nodes (`rails.py`).
    writer_rail = variable(str, value=WRITES["writer_rail"])
    mpi_rail = variable(str, value=rails.DEFAULT)

    #: The check's own variables that may change from one run to the next.
    within_block: tuple[str, ...] = ()

    #: The check's own variable, a number, with which the length of its runs grows in proportion;
    #: empty if there is none, or a result is only known to be correct at one length.
    lengthened_by = ""

    #: Names of variables that are sizes with their units, such as 64MiB: a plan checks them.
    sizes = ()

    #: True if figures of merit can be compared between numbers of cores.
    comparable_across_cores = False

    #: Memory that each rank works in at the current levels, bytes; a check with sizes sets it.
    working_set_b: float | None = None

    #: Rows that every writer reports before the application starts: from the third on, the rate
    #: before the run is the mean of two seconds and more.
    ready_rows = 1

    def lay_out(self) -> None:
        """Set ranks, threads, options and environment for the current levels."""

    def added_environment(self) -> dict[str, str]:
        """Return what factors add to the application's environment."""
        return rails.environment_for_mpi(self.machine, self.mpi_rail)

    def ranks(self, count: int, threads: int = 1) -> None:
        """`count` ranks per node, with `threads` threads each."""
        self.num_tasks = self.num_tasks_per_node = count
        self.num_cpus_per_task = threads
        self.env_vars["OMP_NUM_THREADS"] = threads

    def rank_a_core(self) -> None:
        """One rank of one thread per core."""
        self.num_tasks = self.num_tasks_per_node = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = 1

    def thread_a_core(self) -> None:
        """One bound thread per core, so that first touch places the pages."""
        self.num_cpus_per_task = self.app_cores
        self.env_vars["OMP_NUM_THREADS"] = self.app_cores
        self.env_vars["OMP_PROC_BIND"] = "true"
        self.env_vars["OMP_PLACES"] = "cores"

    def input_file(self, name: str, text: str) -> str:
        """Write an input to the stage folder; returns its file name, unique for each text."""
        path = Path(self.stagedir, name)
        number = 1
        while path.exists() and path.read_text() != text:
            number += 1
            path = path.with_name(f"{Path(name).stem}-{number}{Path(name).suffix}")
        replace_text(path, text)
        return path.name

    def place_application(self) -> None:
        """Split the cores between application and origin, as `reserved_cores` says."""
        reserved = None if self.reserved_cores < 0 else self.reserved_cores
        self.app_cpus, self.origin_cpus = self.machine.split_cpus(reserved)
        had = app_cores(self.machine, self.reserved_cores, self.core_spec)
        usable = len(self.machine.usable_cpus()) or self.node_facts.cores
        #: Cores per node that the application is laid out on, and that its problem is sized for.
        self.app_cores = self.layout_cores or had
        self.sized_cores = self.layout_cores or (
            had if reserved is None and not self.core_spec else usable
        )
        if self.app_cores > had:
            self.notes = [*self.notes, Note.LAYOUT_CORES(cores=self.app_cores, had=had)]
        if shared := set(self.app_cpus) & set(self.origin_cpus):
            self.notes = [*self.notes, Note.SHARED_CORES(cores=len(shared))]
        self.app_cpus = self.app_cpus[: self.app_cores]

    def requested(self) -> CaseRequest:
        """Return what the check's own variables ask for, without the levels that the machine lacks.

        Raises InputError for levels that are not allowed.
        """
        factors = read_factors(self.factors)
        for name in factors:
            within = changes_within_jobs(name) or name in self.within_block
            if not hasattr(self, name) or not within:
                varying = (*filter(changes_within_jobs, FACTORS), *self.within_block)
                allowed = ", ".join(factor for factor in varying if hasattr(self, factor))
                raise InputError(f"factors: {name}; allowed: {allowed}")
        variables = planned(set(type(self).var_space), self.within_block)
        levels = {name: getattr(self, name) for name in variables if hasattr(self, name)}
        across = self.comparable_across_cores
        for name, _, text in level_faults(levels, factors, comparable_across_cores=across):
            raise InputError(f"{name}: {text}")
        possible = {
            name: [level for level in levels if not missing_level(self.machine, name, level)]
            for name, levels in factors.items()
        }
        for name, remaining in possible.items():
            if not remaining:
                reason = missing_level(self.machine, name, factors[name][0])
                raise InputError(f"factors: {name}: no level is left: {reason}")
        return CaseRequest(
            arms=self.arms,
            levels=levels,
            factors=possible,
            exclude=read_cells(self.exclude, "exclude"),
            only=read_cells(self.only, "only"),
        )

    def laid_out(self, treatments: list[Treatment]) -> list[Treatment]:
        """The treatments with the start of the application at each of their levels."""
        self._varied = {name for treatment in treatments for name in treatment.factors}
        levels_of = (
            (json.dumps(application_levels(treatment.factors)), treatment)
            for treatment in treatments
        )
        complete = []
        sizes = []
        for group in grouped(levels_of).values():
            with self._at(application_levels(group[0].factors)):
                longer = self._longer()
                before = len(self.notes)
                start = self._start()
                sizes.append((self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task))
                notes = self.notes[before:]
                complete += [
                    replace(treatment, start=start, longer=longer, notes=[*notes, *treatment.notes])
                    for treatment in group
                ]
        #: The needs of the job: the most of all treatments.
        self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task = (
            max((size for size in treatment_sizes if size is not None), default=None)
            for treatment_sizes in zip(*sizes, strict=True)
        )
        return complete

    @contextmanager
    def _at(self, levels: Mapping[str, Level]) -> Iterator[None]:
        """Set the check's variables to levels, and restore them afterwards."""
        names = dict.fromkeys([*_RESTORED, *levels])
        before = {name: getattr(self, name) for name in names if hasattr(self, name)}
        for name, level in levels.items():
            # Of the type of the variable's value.
            kind = type(before[name])
            setattr(self, name, level if kind is bool else kind(level))
        try:
            yield
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def _longer(self) -> list[Start]:
        """Return how runs of 2, 4, ... times their length are started; empty if they cannot be."""
        starts = []
        for times in length.MULTIPLES if self.lengthened_by else ():
            with self._at({self.lengthened_by: times * getattr(self, self.lengthened_by)}):
                starts.append(self._start())
        return starts

    def _start(self) -> Start:
        """Return how the application is started at the current levels."""
        self.place_application()
        self.env_vars = {}
        self.lay_out()
        added = {name: str(value) for name, value in self.env_vars.items()}
        added |= self.added_environment()
        threads = self.num_cpus_per_task or 1
        if self.workload:  # checks of others count CPUs as Slurm does
            self.num_cpus_per_task = options.cpus_per_task(
                self.num_cpus_per_task, self.node_facts.threads_per_core
            )
        launcher = self._launcher()
        launched = bool(launcher)
        launcher += rails.wrapper(self.machine, self.mpi_rail)
        wrapped, tool = self._command(launcher), None
        if self.tool != tools.NONE:
            tool = tools.TOOLS[self.tool]
            wrapped = tool.wrap(launcher, self._command([]))
            added |= tool.environment()
        return Start(
            command=wrapped,
            environment=added,
            cpus=self.app_cpus,
            ranks=self.num_tasks if self.mpi or (launched and not self.workload) else None,
            ranks_per_node=self.num_tasks_per_node or self.num_tasks,
            threads=threads,
            devices=rails.devices_for_mpi(self.machine, self.mpi_rail),
            tool=tool.name if tool else None,
            working_set_b=self.working_set_b,
        )

    def _command(self, launcher: list[str]) -> list[str]:
        """The launch line's words; that of a check of others is a line of shell."""
        words = [self.executable, *self.executable_opts]
        return [*launcher, *words] if self.workload else foreign.command(launcher, " ".join(words))

    def _launcher(self) -> list[str]:
        """The words of the launch line for the current tasks; third-party checks always have it."""
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
        if not self._varied:
            return launcher
        if "reserved_cores" in self._varied:
            launcher = options.bound_to_cores(launcher)
        return options.with_task_count(launcher, self.num_tasks, self.num_tasks_per_node)

    def starts(self, treatments: list[Treatment]) -> list[dict[str, Any]]:
        """Return each distinct start of applications with its treatments, for provenance."""
        fields = ("command", "environment", "cpus")
        groups = grouped(
            (json.dumps({name: getattr(treatment.start, name) for name in fields}), treatment.name)
            for treatment in treatments
        )
        return [{"treatments": names, **json.loads(start)} for start, names in groups.items()]
