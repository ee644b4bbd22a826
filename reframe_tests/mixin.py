"""The mixin that runs any workload under treatments, which are conditions such as RDMA writes.

A check defines its application as usual in ReFrame: sources, `executable`, `executable_opts`, tasks
and threads. The mixin starts the conductor instead, passes the application's launch line to it, and
reports the results of the samples.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import reframe as rfm
import reframe.utility.sanity as sn
import reframe.utility.typecheck as typ
from reframe.core.backends import getlauncher
from reframe.core.builtins import run_after, run_before, variable
from reframe.core.environments import Environment
from reframe.core.exceptions import ReframeError, SanityError
from reframe.core.fields import make_convertible
from reframe.core.logging import getlogger
from reframe.core.meta import make_test
from reframe.core.runtime import runtime, valid_sysenv_comb

from records import checkout
from records.acceptance import DISTURBANCE_LIMITS, AcceptanceLimits
from records.arms import ARMS, BASELINE, standard_arms
from records.block_plan import SKIPPED_FILE, BlockPlan
from records.checkout import python_main
from records.errors import InputError
from records.files import read_written, refresh, replace_text
from records.machine import program
from records.machine.site import load as load_machine
from records.notes import Note
from records.slurm import options, parse
from records.treatment import Treatment
from reframe_tests import internals, planning, third_party
from reframe_tests.factors import variable_fault, why_too_many_nodes, why_unsupported
from reframe_tests.layout import LayoutMixin
from reframe_tests.submission import submit_as_written
from reframe_tests.workload import load_workload

if TYPE_CHECKING:
    import polars as pl


#: Module systems that load nothing, or that do not list the loaded modules.
_SYSTEMS_WITHOUT_LIST = ("nomod", "spack")
#: Variables of the mixin that are fields of a block's plan.
_PLAN_FIELDS = ("case", "block", "nimc_dir", "nodelist")
#: Variables of the mixin that are numbers -> their least values.
_LEAST_VALUES = {"pairs": 1, "warmups": 0, "retries": 0, "rest_s": 0, "run_timeout_s": 1}
#: Variables of the mixin that are limits of a run's acceptance.
_LIMIT_FIELDS = (*DISTURBANCE_LIMITS, "min_share", "retries", "ready_rows", "run_timeout_s")


def requested_modules(check: rfm.RegressionTest) -> list[str]:
    """Return the modules of the partition, of the environment and of the check, in this order.

    ReFrame's mappings are applied to the names. Collections are left out, since no loaded module
    has the name of a collection.
    """
    system = runtime().modules_system
    if system.name in _SYSTEMS_WITHOUT_LIST:
        return []
    sources = (check.current_partition.local_env, check.current_environ)
    requested = [module for source in sources for module in source.modules_detailed]
    modules: list[str] = []
    for module in [*requested, *check.modules]:
        if not isinstance(module, Mapping):
            modules += system.resolve_module(str(module))
        elif not module.get("collection"):
            modules += system.resolve_module(str(module["name"]))
    return modules


def skip_with_record(check: rfm.RegressionTest, msg: str | None = None) -> None:
    """Skip a check. If a campaign runs it, store the reason next to the block's plan."""
    if check.block_file:
        path = Path(check.block_file).with_name(SKIPPED_FILE)
        reasons = json.loads(path.read_text()) if path.is_file() else []
        replace_text(path, json.dumps([*reasons, msg or "no reason given"], indent=1))
    rfm.RegressionTest.skip(check, msg)


class NimcMixin(LayoutMixin):
    """Runs a workload in pairs, with and without writers, and reports the slowdown."""

    #: The file of `reframe_tests/` whose `WORKLOAD` reads the output. The default, empty, reads it
    #: with the check's own sanity and performance functions (`third_party.py`).
    workload = variable(str, value="")

    #: For a check without a workload: the performance function that is its figure of merit. The
    #: default, empty, takes the first. For `command`: a regular expression (`command.which`).
    figure = variable(str, value="")
    #: Whether `lower` or `higher` figures are better. For a check without a workload: the default,
    #: empty, takes the direction from a reference of the check, or else from the unit. For
    #: `command`: the default, empty, means `lower`.
    better = variable(str, value="")

    #: Environments of a check that does not set `valid_prog_environs`.
    default_environs = ("*",)

    #: True if the application is started with the partition's MPI launcher.
    mpi = variable(bool, value=False)

    #: The file that a campaign writes with the plan of a block (the runs of one job). It replaces
    #: the variables below. With the default, empty, a plan is made from these variables.
    block_file = variable(str, value="")

    #: Folder of the run to which samples are added (`records.run`). The default, empty, stores
    #: them in the check's stage and output folders.
    nimc_dir = variable(str, value="")

    #: Name of the case. The default, empty, takes the check's name.
    case = variable(str, value="")

    #: Index of the block in the run. A resumed campaign takes the next index.
    block = variable(int, value=0)

    #: Pairs to measure; Groves, Grant and Arnold (2016) made 10 runs with and 10 without writers.
    pairs = variable(int, value=10)

    #: Arms of each pair. The default, empty, is `off`, `on`, `aa`, and the control `spin` if origin
    #: and target share a host.
    arms = variable(typ.List[str], value=[])

    #: Warm-up runs, which are not counted.
    warmups = variable(int, value=1)

    #: Random seed of the order of runs within pairs, recorded in each sample. The default, None,
    #: draws one from the operating system for each execution.
    seed = variable(int, type(None), value=None)

    #: Minimum rate of a writer during the whole run, as a share of its uncontended rate; None takes
    #: the machine's (`proof.min_share` in site/).
    min_share = variable(float, type(None), value=None)

    #: Number of times that a rejected run is repeated.
    retries = variable(int, value=AcceptanceLimits.retries)

    #: Limits of disturbances. A run of any arm with a larger disturbance is rejected. With None,
    #: the disturbance is only recorded. `foreign_cpus`: hardware threads that foreign processes
    #: keep busy. `steal_share`: share of time that the hypervisor takes. `frequency_drop`: drop of
    #: the cores' frequency below the usual one. `foreign_share`: bytes at the writers' device while
    #: nothing writes, as a share of their uncontended rate.
    foreign_cpus = variable(float, type(None), value=AcceptanceLimits.foreign_cpus)
    steal_share = variable(float, type(None), value=AcceptanceLimits.steal_share)
    frequency_drop = variable(float, type(None), value=AcceptanceLimits.frequency_drop)
    foreign_share = variable(float, type(None), value=AcceptanceLimits.foreign_share)

    #: Time limit of one run of the application, seconds.
    run_timeout_s = variable(float, value=AcceptanceLimits.run_timeout_s)
    #: Minimum time from the end of one run to the start of the next one, seconds.
    rest_s = variable(float, value=0.0)

    #: Names of the target nodes, joined with commas, for Slurm. The default, empty, allows any.
    nodelist = variable(str, value="")

    #: Caveats for the samples; checks add to them.
    notes = variable(typ.List[str], value=[])

    #: Facts about how the binary was built; checks add to them.
    provenance = variable(typ.Dict[str, object], value={})

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the subclass of a third-party check find the sources next to that check's file.

        Raises ReframeError if a method of that check would replace one of the mixin.
        """
        super().__init_subclass__(**options)
        if base := third_party.third_party_base(cls):
            if methods := third_party.shared_methods(base, NimcMixin):
                raise ReframeError(
                    f"{cls.__name__}: the method {methods[0]} of {base.__name__} would replace the"
                    " mixin's; allowed: another name"
                )
            internals.pin_prefix(cls, base)
        cls.skip = skip_with_record  # set here, since ReFrame's classes come first among the bases

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """Set the class's variables as the block's plan says, before any hook reads them."""
        if file := cls.var_space["block_file"].default_value:
            plan = BlockPlan.load(Path(file))
            plan_fields = {name: getattr(plan, name) for name in _PLAN_FIELDS}
            plan_fields["run_timeout_s"] = plan.limits.run_timeout_s
            for name, value in {**plan.settings, **plan_fields}.items():
                cls.setvar(name, make_convertible(value) if isinstance(value, str) else value)
        return super().__new__(cls, *arguments, **options)

    @run_after("init")
    def complete_variables(self) -> None:
        """Complete the variables."""
        if self.workload:
            with suppress(InputError):  # `require_valid_variables` reports it
                self.descr = self.descr or f"{load_workload(self.workload).title} under RDMA writes"
        else:
            # A check's name may have parameters: `x %threads=2`. The name of a case is a file name.
            self.case = self.case or re.sub(r"[^\w.@=+-]+", "_", self.name)
        self.valid_systems = getattr(self, "valid_systems", None) or ["*"]
        environs = getattr(self, "valid_prog_environs", None)
        self.valid_prog_environs = environs or list(self.default_environs)

    @run_after("init")
    def read_without_allocation(self) -> None:
        """Run on this host if the block only reads outputs that an earlier session left unread."""
        self._only_reads_outputs = (
            bool(self.block_file) and not BlockPlan.load(Path(self.block_file)).pairs
        )
        self.local = self.local or self._only_reads_outputs

    # After a fault in a hook of `init`, ReFrame would skip the check, and its session would pass.
    @run_after("setup")
    def require_valid_variables(self) -> None:
        """Raise ReframeError with the name of an invalid variable, or of a missing function."""
        if self.workload:
            try:
                load_workload(self.workload)
            except InputError as error:
                raise ReframeError(f"{self.name}.{error}") from None
        else:
            third_party.require_readable(self, NimcMixin)
        if self.better not in ("", "lower", "higher"):
            raise ReframeError(f"{self.name}.better: {self.better!r} found; allowed: lower, higher")
        unknown = [arm for arm in self.arms if arm not in ARMS]
        if unknown or (self.arms and BASELINE not in self.arms):
            raise ReframeError(
                f"{self.name}.arms: {','.join(self.arms)} found; allowed: 'off' and any of"
                f" {', '.join(ARMS)}"
            )
        if Path(self.case).name != self.case:
            raise ReframeError(f"{self.name}.case: {self.case!r} found; allowed: a file name")
        for name, least in _LEAST_VALUES.items():
            if (value := getattr(self, name)) < least:
                raise ReframeError(f"{self.name}.{name}: {value:g} found; allowed: from {least}")

    @run_after("setup")
    def learn_machine(self) -> None:
        """Read the site file, and split the cores between application and origin."""
        try:
            self.machine = load_machine(self.current_system.name)
            self.node_facts = self.machine.node_facts()
            self.require_nodes()
            notes = self.notes
            self.split_cores()
            # These notes are dropped, since `with_starts` calls `split_cores` again for each start.
            self.notes = notes
        except InputError as error:
            raise ReframeError(str(error)) from None
        if not self.arms:
            self.arms = standard_arms(same_host=self.machine.origins.policy == "same_host")

    def require_nodes(self) -> None:
        """Raise InputError if the machine has fewer nodes than targets and origins."""
        if reason := why_too_many_nodes(self.machine, int(getattr(self, "nodes", 1))):
            raise variable_fault(self, "nodes", f"{reason}; allowed: fewer")

    @run_after("setup")
    def start_scripts_with_blanks(self) -> None:
        """Let the folders of results and stage have any name."""
        internals.start_scripts_with_blanks()

    @run_after("setup")
    def skip_further_environments(self) -> None:
        """Skip a case on all partitions and environments but the first that can run it.

        This is done only if samples are added to a run (`nimc_dir`): a run has each case only once.
        """
        if not self.nimc_dir or self.is_dry_run():
            return
        current = (self.current_partition.name, self.current_environ.name)
        valid = valid_sysenv_comb(self.valid_systems, self.valid_prog_environs)
        for partition, environs in valid.items():
            for environ in environs:
                if (partition.name, environ.name) == current:
                    return
                if self.runs_in(environ):
                    runner = f"{partition.name}+{environ.name}"
                    self.skip(f"{runner} runs it; each case runs on one partition and environment")

    def runs_in(self, environ: Environment) -> bool:
        """Return whether a valid environment provides the program."""
        return True

    @run_before("run")
    def skip_unwritten_lines(self) -> None:
        """Skip log lines that no handler writes, since each costs ReFrame 20 ms at each poll."""
        logger = self.logger.logger
        if logger.handlers:
            logger.setLevel(min(handler.level for handler in logger.handlers))

    @run_before("run")
    def limit_wait(self) -> None:
        """Let ReFrame end after a signal even if Slurm does not answer."""
        if self.job.scheduler.registered_name != "local":
            internals.limit_wait(type(self.job.scheduler))

    @run_before("run", always_last=True)
    def start_conductor(self) -> None:
        """Let the job start the conductor, which starts the application for each run."""
        stage = Path(self.stagedir)
        case = self.case or self.name
        self.run_dir = Path(self.nimc_dir or stage / "nimc").resolve()
        self.block_logs = self.run_dir / "logs" / case / str(self.block)
        if not self.workload:
            self.output_reader = third_party.OutputReader(self, NimcMixin)
        # This judges the block. The sanity function of a third-party check judges each run.
        internals.replace_sanity(self, self.judge_block)
        if self._only_reads_outputs:
            self.executable, self.executable_opts = "true", []
            self.prerun_cmds, self.postrun_cmds = [], []
            return
        try:
            if reason := why_unsupported(self.machine, "core_spec", self.core_spec):
                raise variable_fault(self, "core_spec", f"{reason}; allowed: 0")
            if self.core_spec:
                self.notes = [*self.notes, Note.UNPAIRED(cores=self.core_spec)]
            decided_plan = self._decided_plan(case)
            origins = self.machine.origins
            if decided_plan.n_origins != origins.nodes:
                self.machine = self.machine.with_origins(decided_plan.n_origins)
                origins = self.machine.origins
                self.require_nodes()
            plan = self._completed_plan(decided_plan)
            writes = [treatment.writes for treatment in plan.treatments if treatment.writes]
            for injector in {row.injector for row in writes}:
                if reason := why_unsupported(self.machine, "injector", injector):
                    raise InputError(f"{self.name}.injector: {injector}: {reason}")
        except (InputError, ValueError) as error:
            raise ReframeError(str(error)) from None
        if self.job.scheduler.registered_name != "local":
            submit_as_written(self)
            # Options that follow `#SBATCH hetjob` hold for the origins only, so those that users
            # give with -J, which ReFrame would write last, come before it.
            given_options = self.job.cli_options[:]
            self.job.cli_options.clear()
            own_options = options.job_options(origins, self.core_spec, self.nodelist)
            self.job.options += [*given_options, *own_options]
            self.env_vars |= options.STEP_ENVIRONMENT
        else:
            # The job ends with its shell, so the shell waits until the conductor has cleaned up.
            self.prerun_cmds = ["trap : TERM", *self.prerun_cmds]
        if origins.policy == "same_job":
            # A check that does not set this has all its tasks on one node.
            self.num_tasks_per_node = self.num_tasks_per_node or self.num_tasks
            self.num_tasks += origins.nodes * self.num_tasks_per_node
        self.compared_treatments = [
            treatment.name for treatment in plan.treatments if treatment.baseline
        ]
        self.requested_pairs = plan.pairs
        plan.save(stage / "plan.json")
        self.job.launcher = getlauncher("local")()
        conduct = python_main("reframe_tests.conduct", str(stage / "plan.json"))
        self.executable, *self.executable_opts = map(shlex.quote, conduct)
        if not self.nimc_dir:
            self.keep_files = [*self.keep_files, "nimc"]

    def _decided_plan(self, case: str) -> BlockPlan:
        """Return the plan that a campaign wrote or, without one, that the check's variables make.

        Raises InputError.
        """
        if self.block_file:
            return BlockPlan.load(Path(self.block_file))
        request = self.case_request()
        seed = secrets.randbits(63) if self.seed is None else self.seed
        scale = planning.resolved_scale(request, self.machine)
        return planning.plan_of_block(
            request,
            planning.treatments(request, self.machine, scale),
            self.machine,
            {name: getattr(self, name) for name in _LIMIT_FIELDS},
            scale,
            case=case,
            workload=type(self).__name__,
            block=self.block,
            seed=seed,
            pairs=self.pairs,
            warmups=self.warmups,
            rest_s=self.rest_s,
            nimc_dir=str(self.run_dir),
        )

    def _completed_plan(self, decided_plan: BlockPlan) -> BlockPlan:
        """Return the plan with the fields that only the check knows, such as the launch lines."""
        treatments = self.with_starts(decided_plan.treatments)
        return replace(
            decided_plan,
            workload=self.workload or type(self).__name__,
            read_by_check=not self.workload,
            treatments=treatments,
            limits=replace(decided_plan.limits, run_timeout_s=self.run_timeout_s),
            notes=[*decided_plan.notes, *self.notes],
            provenance=self._provenance(treatments, decided_plan.seed),
            program=self.executable,
            lengthened_by=self.lengthened_by,
            modules=requested_modules(self),
            owner_pid=os.getpid() if self.job.scheduler.registered_name == "local" else None,
            folder="",  # the check's own folder
        )

    def _provenance(self, treatments: list[Treatment], seed: int) -> dict[str, Any]:
        third_party_check = {} if self.workload else third_party.check_provenance(type(self))
        return {
            **self.provenance,
            **third_party_check,
            "check": self.unique_name,
            "environment": self.current_environ.name,
            "partition": self.current_partition.fullname,
            "starts": self.distinct_starts(treatments),
            "compiler": self._compiler_version(),
            "seed": seed,
            "reframe": rfm.VERSION,
            "commit": checkout.commit(),
            "machine": self.machine.model_dump(),
        }

    def _compiler_version(self) -> str | None:
        """Return the compiler's version; None for a program from Spack, modules or wheels."""
        if self.build_system is None or "spack" in self.provenance:
            return None
        return program.version_of(self.build_system.cc or self.current_environ.cc)

    @sn.deferrable
    def judge_block(self) -> bool:
        """Require a slowdown for each treatment; store the job's outcome with the block's logs.

        If a finished block has too few pairs of a treatment, only this check fails. Its samples
        remain valid, and a campaign may measure the missing pairs in another block.
        """
        if self._only_reads_outputs:
            third_party.move_unread_samples(
                self.output_reader, self.run_dir, self.case, self.block_logs
            )
            return True
        block = None
        with suppress(FileNotFoundError):
            block = json.loads(read_written(self.block_logs / "block.json"))
        slurm_state = None if self.job.scheduler.registered_name == "local" else self.job.state
        outcome = parse.job_outcome(slurm_state, self.job.exitcode, block)
        job = {
            "outcome": outcome.name,
            "reason": outcome.reason,
            "job": self.job.jobid,
            "state": self.job.state,
            "exit_code": self.job.exitcode,
            "nodes": internals.node_names(self.job),
        }
        self.block_logs.mkdir(parents=True, exist_ok=True)
        replace_text(self.block_logs / "job.json", json.dumps(job, indent=1))
        if not self.workload:
            third_party.move_unread_samples(
                self.output_reader, self.run_dir, self.case, self.block_logs
            )
        if outcome.name != "done":
            raise SanityError(f"{outcome.name}: {outcome.reason}")
        # Imported here, since analysis starts slowly.
        from analysis.samples.pairs import pair_shortfalls
        from analysis.statistics.interval import MIN_VALUES

        min_pairs = MIN_VALUES if self.requested_pairs >= MIN_VALUES else 1
        shortfalls = pair_shortfalls(
            self._block_samples(), self.compared_treatments, self.requested_pairs, min_pairs
        )
        for treatment, reason in shortfalls.items():
            raise SanityError(f"no slowdown of '{treatment}': {reason}")
        return True

    @run_before("performance")
    def report_samples(self) -> None:
        """Report typical runs, slowdowns and their cost, writers' rates, and rejected runs.

        Without a campaign, verdicts and caveats are printed too, since there is no report.
        """
        if self.is_dry_run() or self._only_reads_outputs:
            return
        from analysis.effects.annotations import reference_bounds
        from analysis.effects.estimate import reported_figures, results

        rows = results(self._block_samples())
        if not self.block_file:
            verdicts = [f"{row.arm}: {row.verdict}" for row in rows if row.role == "effect"]
            for line in dict.fromkeys([*verdicts, *(note for row in rows for note in row.notes)]):
                getlogger().info(f"{self.name}: {line}")
        for row in rows:
            for name, (value, unit) in reported_figures(row).items():
                if value is not None:
                    function = sn.make_performance_function(lambda value=value: value, unit)
                    self.perf_variables.setdefault(name, function)  # baselines repeat in each row
            # The site file's reference is for the baseline at the first levels of all factors. It
            # is passed on to ReFrame.
            reference = self.machine.references.get(row.case) if row.baseline == BASELINE else None
            if reference is not None:
                low, high = reference_bounds(row.better, self.machine.reference_tolerance)
                own_reference = {f"typical_{BASELINE}": (reference, low, high, row.unit)}
                self.reference = {"*": {**self.reference.get("*", {}), **own_reference}}

    def _block_samples(self) -> pl.DataFrame:
        from analysis.samples.columns import read_samples

        path = self.run_dir / "samples" / f"{self.case or self.name}.jsonl"
        refresh(path.parent)
        return read_samples([path]).frame.filter(block=self.block)


def add_short_form(check: type, *tags: str, **values: Any) -> None:
    """Register the check `NAME_quick`, a form of a check that takes seconds and shows an effect."""
    body = {"tags": {"short", *tags}, "pairs": 6, **values}
    rfm.simple_test(make_test(f"{check.__name__}_quick", (check,), body, module=check.__module__))
