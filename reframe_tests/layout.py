"""The mixin that lays out an application, once for each combination of its factors' levels."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import reframe as rfm
import reframe.utility.typecheck as typ
from reframe.core.builtins import variable

from conductor import length
from conductor.injectors import get, writing_rate_b_s
from conductor.injectors.base import Injector
from records import units
from records.arms import ARMS
from records.chain import file_digest
from records.errors import InputError
from records.files import replace_text
from records.groups import grouped
from records.machine import slurm
from records.notes import Note
from records.plan import Window
from records.sample import Level
from records.treatment import Burst, Replay, Start, Treatment, Writes
from reframe_tests import foreign, rails, tools
from reframe_tests.crossing import cross, is_nothing, read_cells, read_factors
from reframe_tests.factors import (
    FACTORS,
    NO_BURST,
    NO_VARIABLE,
    burst_of,
    changes_within_jobs,
    check_level,
    environment_of,
    fault,
    lacking,
    share_of,
)

#: By how much a rate may differ from a burst's share of the time, as a share of it, to be full rate
#: within the bursts.
_SAME_RATE = 0.01
#: What a level may change in a check, and what is as before for the next one.
_RESTORED = (
    *("executable", "executable_opts", "env_vars", "num_tasks", "num_tasks_per_node"),
    *("num_cpus_per_task", "notes", "buffer_node", "app_cpus", "app_cores", "sized_cores"),
)


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

    #: Variable added to the application's environment, such as `UCX_TLS:tcp`, or `none`.
    environment = variable(str, value=NO_VARIABLE)

    #: Tool that wraps each rank and counts (`reframe_tests/tools/`).
    tool = variable(str, value=tools.NONE)

    #: Injector of arms that write; `auto` takes the machine's.
    injector = variable(str, value="auto")

    #: What writers do: `write` to the target's memory, `read` from it, or `both` at once.
    direction = variable(str, value="write")

    #: Size of one write, such as `64KiB`; `dram` exceeds the last-level cache, which matters if the
    #: writes go over shared memory; `auto` is `dram` on a shared host, else 64 KiB.
    message = variable(str, value="auto")

    #: Rate of each writer: `full`, a share of that such as `25%`, or a rate such as `500MB/s`.
    rate = variable(str, value="full")

    #: What limits a rate below full, if the injector can choose: `software`, `hardware`.
    limiter = variable(str, value="software")

    #: Bursts and pauses, such as `10ms/90ms`, of which `rate` is the mean (`full`: that of full
    #: rate within bursts); `none` spaces messages evenly.
    burst = variable(str, value=NO_BURST)

    #: A trace of the site's own traffic (docs/traffic.md) that writers follow, a path; how many of
    #: its seconds are one of a run; the share of its rates that is written; and its nodes whose
    #: bytes go to the targets, in their order (empty: the busiest).
    traffic = variable(str, value="")
    traffic_speed = variable(int, value=1)
    traffic_rate = variable(str, value="100%")
    traffic_nodes = variable(typ.List[str], value=[])

    #: NUMA node that the writers' buffers are bound to, on both ends; -1 does not bind them.
    comm_node = variable(int, value=-1)

    #: Rails that the writers use, and the application's MPI between nodes (`rails.py`).
    writer_rail = variable(str, value=rails.DEFAULT)
    mpi_rail = variable(str, value=rails.DEFAULT)

    #: The check's own variables that may change from one run to the next.
    within_block: tuple[str, ...] = ()

    #: The check's own variable, a number, with which the length of its runs grows in proportion;
    #: empty if there is none, or a result is only known to be correct at one length.
    lengthened_by = ""

    #: Whether figures of merit can be compared between numbers of cores.
    comparable_across_cores = False

    #: Rows that every writer reports before the application starts: from the third on, the rate
    #: before the run is the mean of two seconds and more.
    ready_rows = 1

    #: Arm -> writers at a time, for arms of short writes; set by checks that have such arms.
    scheduled: Mapping[str, int] = {}

    def lay_out(self) -> None:
        """Set ranks, threads, options and environment for the current levels."""

    def added_environment(self) -> dict[str, str]:
        """What factors add to the application's environment."""
        rail = rails.environment(self.machine, self.mpi_rail)
        return {**environment_of(self.environment), **rail}

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
        """Split the cores between application and origin, as `reserved_cores` says.

        On other hosts than the origins', Slurm takes `core_spec` of them first.
        """
        reserved = None if self.reserved_cores < 0 else self.reserved_cores
        self.app_cpus, self.origin_cpus = self.machine.split_cpus(reserved)
        had = len(self.app_cpus) or self.node_facts.cores - self.core_spec - (reserved or 0)
        usable = len(self.machine.usable_cpus()) or self.node_facts.cores
        #: Cores per node that the application is laid out on, and that its problem is sized for.
        self.app_cores = self.layout_cores or had
        self.sized_cores = self.layout_cores or (
            had if reserved is None and not self.core_spec else usable
        )
        if self.app_cores > had:
            self.notes = [*self.notes, Note.LAID_OUT(cores=self.app_cores, had=had)]
        if shared := set(self.app_cpus) & set(self.origin_cpus):
            self.notes = [*self.notes, Note.SHARED_CORES(cores=len(shared))]
        self.app_cpus = self.app_cpus[: self.app_cores]

    def make_treatments(self) -> list[Treatment]:
        """The treatments of a pair. Raises InputError for levels that are not allowed."""
        crossed = cross(
            self.arms,
            self._possible(read_factors(self.factors)),
            read_cells(self.exclude, "exclude"),
            read_cells(self.only, "only"),
        )
        groups = grouped((tuple(each.application.values()), each) for each in crossed)
        found = []
        sizes = []
        for group in groups.values():
            with self._at(group[0].application):
                longer = self._longer()
                known = len(self.notes)
                start = self._start()
                sizes.append((self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task))
                notes = self.notes[known:]
                for each in group:
                    with self._at(each.writes):
                        writes = self._writes(each.arm)
                        replay = writes and writes.replay
                        found.append(
                            Treatment(
                                name=each.name,
                                start=start,
                                longer=longer,
                                writes=writes,
                                role=each.role,
                                baseline=each.baseline,
                                factors=each.factors,
                                notes=[*notes, Note.TRAFFIC(speed=replay.speed, share=replay.share)]
                                if replay
                                else notes,
                            )
                        )
        #: What the job needs: the most of all treatments.
        self.num_tasks, self.num_tasks_per_node, self.num_cpus_per_task = (
            max((size for size in each if size is not None), default=None)
            for each in zip(*sizes, strict=True)
        )
        return found

    def _possible(self, factors: dict[str, list[Level]]) -> dict[str, list[Level]]:
        """The factors without the levels that the machine does not support. Raises InputError."""
        for name, levels in factors.items():
            within = changes_within_jobs(name) or name in self.within_block
            if not hasattr(self, name) or not within:
                known = (*filter(changes_within_jobs, FACTORS), *self.within_block)
                allowed = ", ".join(each for each in known if hasattr(self, each))
                raise InputError(f"{self.name}.factors: {name}; allowed: {allowed}")
            if name == "reserved_cores" and not self.comparable_across_cores:
                raise InputError(
                    f"{self.name}.factors: {name}: figures of merit of different numbers of cores"
                    " cannot be compared; allowed: checks with comparable_across_cores"
                )
            for level in levels:
                check_level(name, level)
        possible = {
            name: [level for level in levels if not lacking(self.machine, name, level)]
            for name, levels in factors.items()
        }
        for name, levels in possible.items():
            if not levels:
                reason = lacking(self.machine, name, factors[name][0])
                raise InputError(f"{self.name}.factors: {name}: no level is left: {reason}")
        return possible

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
        """How runs of 2, 4, ... times their length are started; empty if they cannot be."""
        found = []
        for times in length.TIMES if self.lengthened_by else ():
            with self._at({self.lengthened_by: times * getattr(self, self.lengthened_by)}):
                found.append(self._start())
        return found

    def _start(self) -> Start:
        """How the application is started at the current levels."""
        self.place_application()
        self.env_vars = {}
        self.lay_out()
        added = {name: str(value) for name, value in self.env_vars.items()}
        added |= self.added_environment()
        threads = self.num_cpus_per_task or 1
        if self.workload:  # checks of others count CPUs as Slurm does
            self.num_cpus_per_task = slurm.cpus_per_task(
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
            devices=rails.named(self.machine, self.mpi_rail),
            tool=tool.name if tool else None,
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
        launcher = slurm.on_targets(launcher, self.machine.origins, self.num_tasks)
        factors = read_factors(self.factors)
        if not factors:
            return launcher
        if "reserved_cores" in factors:
            launcher = slurm.bound(launcher)
        return slurm.sized(launcher, self.num_tasks, self.num_tasks_per_node)

    def _writes(self, arm: str) -> Writes | None:
        """The writes of an arm at the current levels; None if it has no writers."""
        row, site = ARMS[arm], self.machine
        if row.control:
            return Writes(row.control, 0)
        if row.silent:
            return None
        if row.writing == "scheduled" and arm not in self.scheduled:
            raise InputError(f"{self.name}.arms: {arm} found; allowed: only in lammps_scaling")
        injector = get(site.injector if self.injector == "auto" else self.injector, self.direction)
        if injector.on_own_host and site.origins.policy != "same_host":
            raise InputError(
                f"{self.name}.injector: {injector.name} found; it writes memory of its own host;"
                f" allowed: with 'origins: {{policy: same_host}}' in site/{site.name}.yaml"
            )
        share = share_of(self.rate)
        if is_nothing(self.rate):
            raise fault(self, "rate", "allowed: above 0, or 0 as a level of factors")
        if (burst := self._burst(injector, share)) and self.rate == "full":
            share = burst.duty
        if row.writing == "scheduled":
            if not injector.writes_short:
                raise InputError(
                    f"{self.name}.injector: {injector.name} found; it makes no short writes (arm"
                    f" {arm}); allowed: perftest, ucx"
                )
            if self.burst != NO_BURST:
                raise fault(self, "burst", f"arm {arm} has a timetable; allowed: {NO_BURST}")
            if self.rate != "full" and injector.paced_by == "agent":
                why = f"{injector.name} cannot limit the rate of short writes (arm {arm})"
                raise fault(self, "rate", f"{why}; allowed: full, or injector perftest")
        check_level("limiter", self.limiter)
        if self.limiter == "hardware" and self.limiter not in injector.limiters:
            why = f"{injector.name} has no such limiter; allowed: software, or injector perftest"
            raise fault(self, "limiter", why)
        buffer_node = site.numa_node(self.comm_node, f"{self.name}.comm_node")
        if buffer_node is None:
            buffer_node = self.buffer_node
        if buffer_node is None and self.writer_rail == rails.LOCAL:
            buffer_node = site.nic_node()
        return Writes(
            injector=injector.name,
            message_b=site.message_b(self.message),
            direction=injector.direction,
            rate_b_s=None if share is not None else writing_rate_b_s(injector, self.rate),
            rate_share=share,
            limiter=self.limiter,
            burst=burst,
            devices=rails.of_writers(site, self.writer_rail, buffer_node),
            buffer_node=buffer_node,
            scheduled=self.scheduled.get(arm) if row.writing == "scheduled" else None,
            replay=self._replay(injector, arm) if self.traffic else None,
        )

    def _replay(self, injector: Injector, arm: str) -> Replay:
        """The traffic that writers follow, which sets their rate. Raises InputError."""
        for name, found, allowed in (
            ("injector", injector.name, "ucx"),
            ("rate", self.rate, "full"),
            ("burst", self.burst, NO_BURST),
            ("arms", arm, "on"),
        ):
            if found != allowed:
                raise InputError(
                    f"{self.name}.{name}: {found} found; it cannot be combined with traffic;"
                    f" allowed: {allowed}"
                )
        share = units.share(self.traffic_rate, f"{self.name}.traffic_rate")
        digest, nodes = file_digest(Path(self.traffic)), tuple(self.traffic_nodes)
        return Replay(digest, self.traffic_speed, share, nodes)

    def _windows(self, treatments: list[Treatment], names: list[str]) -> list[Window]:
        """One for each name, if the treatments replay traffic. Raises InputError."""
        replays = [each.writes.replay for each in treatments if each.writes and each.writes.replay]
        if not replays:
            return []
        from records.traffic import trace

        loaded = trace.load(Path(self.traffic))
        return trace.draw_windows(loaded, replays[0], int(getattr(self, "nodes", 1)), names)

    def _burst(self, injector: Injector, share: float | None) -> Burst | None:
        """Bursts whose rate is at most the full one, which most programs write at within them."""
        check_level("burst", self.burst)
        burst = burst_of(self.burst)
        if burst is None:
            return None
        if self.limiter == "hardware":
            why = f"it cannot be combined with burst {self.burst}; allowed: software"
            raise fault(self, "limiter", why)
        same = share is not None and abs(share / burst.duty - 1) <= _SAME_RATE
        lower = injector.spaces_bursts and (share is None or share < burst.duty)
        if not (self.rate == "full" or same or lower):
            below = "or less, " if injector.spaces_bursts else ""
            why = (
                f"it cannot be combined with burst {self.burst} of {injector.name}; allowed: full,"
            )
            share_text = f"{100 * burst.duty:.4g}%, {below}which is full rate within the bursts"
            raise fault(self, "rate", f"{why} or {share_text}")
        return burst

    def starts(self, treatments: list[Treatment]) -> list[dict[str, Any]]:
        """How applications are started, for provenance: each distinct start with its treatments."""
        kept = ("command", "environment", "cpus")
        found = grouped(
            (json.dumps({name: getattr(each.start, name) for name in kept}), each.name)
            for each in treatments
        )
        return [{"treatments": names, **json.loads(start)} for start, names in found.items()]
