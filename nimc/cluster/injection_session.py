"""Runs writers beside an application that `nimc` does not start itself: the command `nimc inject`.

An *injection* is a session of such writers. The user may give a command, such as one that starts
the application. It runs beside the writes, and its end ends them. The conductor starts the writers
and this command. If origin and target share a host (`same_host`), or if `nimc` was started in an
allocation of Slurm, the conductor runs on this host, and the command has this terminal. Otherwise
both run in a job (`injection_check`).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TextIO

from pydantic import TypeAdapter

from conductor.agent.agent import node_name
from conductor.block import injection, trial
from conductor.block.injection import InjectionRequest
from nimc.campaign.plan import folder_options
from nimc.campaign.request import uses_slurm
from nimc.cluster.in_job import job_destination, job_failure, run_job, variable_options
from nimc.cluster.tried_writes import link_count, trial_findings
from nimc.readiness.reframe_config import settings_of, target_partitions
from nimc.run.session import INJECTION_FOLDER_PREFIX, RUN_VARIABLE
from records import checkout, injected, processes
from records.acceptance import DISTURBANCE_LIMITS
from records.block_plan import BlockPlan, OriginPolicy
from records.checkout import python_main
from records.errors import InputError, MachineError
from records.files import make_named_folder, read_written
from records.injected import EndedBy, InjectionSummary
from records.interrupts import Interrupts, Stopped
from records.last_words import cause_or_gist
from records.machine.site import Machine
from records.slurm.client import can_list_nodes, hostnames
from records.slurm.options import JOB_VARIABLE, agent_launcher
from records.treatment import Treatment
from reframe_tests import planning
from reframe_tests.crossing import is_zero_rate
from reframe_tests.factors import check_level

#: Name of the case in the plan of an injection.
CASE = "inject"
#: Name of the file in the injection's folder with the conductor's output.
LOG_FILE = "conductor.log"
#: Name of the file in the injection's folder with the request to the conductor.
_REQUEST_FILE = "request.json"
#: Interval at which progress is read, seconds.
_UPDATE_INTERVAL_S = 0.2
#: Limits of disturbance on targets, all None: writes count even if a target is disturbed.
_NO_DISTURBANCE_LIMITS = dict.fromkeys(DISTURBANCE_LIMITS)
#: Time that a job needs in addition to the time given with --for, seconds. In this time the
#: uncontended rate of the writers is measured with 1, 2, 4, ... queue pairs.
_PREPARATION_S = 600.0
#: What ended the writes -> the reason to record, if the conductor could not record the end itself.
_UNRECORDED_ENDS: dict[EndedBy, str] = {
    "failure": "the conductor was killed",
    "stop": "stopped by a signal",
}
#: File of the ReFrame test that runs in a job.
_CHECK_FILE = Path(__file__).with_name("injection_check.py")
_SUMMARY = TypeAdapter(InjectionSummary)
#: File descriptors of the standard streams.
_STDOUT, _STDERR = 1, 2
#: Environment variable that Slurm sets in a heterogeneous allocation, which has several components.
_HETEROGENEOUS_VARIABLE = "SLURM_JOB_NODELIST_HET_GROUP_0"


@dataclass(frozen=True, kw_only=True)
class RequestedWrites:
    """The writes that a user requests, and the command that runs beside them."""

    #: Rate of the writes, such as `full`, `25%` or `2GB/s`.
    rate: str = "full"
    #: Name of the injector: the program that makes the writes. None: the machine's injector.
    injector: str | None = None
    #: Target nodes, as a list in Slurm's form; None: targets and origins are nodes of the
    #: allocation, or nodes that Slurm chooses. The site file says how many of them are origins.
    targets: str | None = None
    #: Origin nodes, as a list in Slurm's form; None if `targets` is None.
    origins: str | None = None
    #: The command; empty if no command runs beside the writes.
    command: Sequence[str] = ()
    #: How long to write, seconds; None: until the command ends or the user ends the writes.
    length_s: float | None = None
    #: How long a job may wait in the queue, seconds.
    wait_s: float = 600.0


@dataclass(frozen=True)
class InjectionOutcome:
    """The outcome of an injection."""

    #: Its record, without the readings (the regular checks of the writers).
    summary: InjectionSummary
    #: Number of the signal that ended it; None if no signal ended it.
    signum: int | None = None
    #: Number of the targets' devices to which it wrote; None if unknown.
    link_count: int | None = None


def inject(
    machine: Machine,
    writes: RequestedWrites,
    results: Path,
    record_file: Path,
    tell: Callable[[str], None],
) -> InjectionOutcome:
    """Make the requested writes, and save their record in the file `record_file`.

    `tell` prints a line of progress. The logs are in a new folder in `results`, which must be on a
    file system that the nodes share. When this function ends, this folder is removed, and all
    processes that the function started have ended. Its jobs have ended too, unless Slurm does not
    answer. Raises InputError, MachineError if writers cannot start or Slurm does not answer, and
    Stopped if a signal arrives before they write.
    """
    processes.become_subreaper()
    make_named_folder(results)
    with tempfile.TemporaryDirectory(
        prefix=INJECTION_FOLDER_PREFIX, dir=results.absolute()
    ) as path:
        folder = Path(path)
        request = injection_request(machine, writes, folder, record_file)
        if request.summary.commit is None:
            fault = checkout.why_no_commit()
            tell(f"the record has no commit of this project: {fault}")
        progress = Progress(folder, machine, request, tell)
        with Interrupts(progress.handle_stop_key) as interrupts:
            if runs_here(machine):
                _run_here(request, folder, interrupts, progress)
            else:
                try:
                    _run_in_job(request, machine, writes, folder, interrupts, progress)
                except Stopped:
                    pass  # the writes before the signal still have a record
                except MachineError as error:
                    progress.keep_record(str(error))
                    raise
            return progress.outcome(interrupts)


def runs_here(machine: Machine) -> bool:
    """Return whether the conductor and the command run on this host, not in a job of their own."""
    return machine.origins.policy == "same_host" or JOB_VARIABLE in os.environ


def injection_request(
    machine: Machine, writes: RequestedWrites, folder: Path, record_file: Path
) -> InjectionRequest:
    """Return the request to the conductor.

    If the request has an `owner_pid`, the conductor must run on this host. The logs go to `folder`,
    the record to the file `record_file`. Raises InputError if the user names nodes that cannot be
    used.
    """
    if machine.origins.policy == "same_host":
        _require_node_of_job(machine)
    targets, origins = _named_nodes(machine, writes)
    on_this_host = runs_here(machine)
    plan = plan_of(machine.with_origins(len(origins)) if origins else machine, writes, folder)
    if machine.origins.policy != "same_host" and on_this_host:
        plan = _in_allocation(plan, machine, [*targets, *origins])
    return InjectionRequest(
        block=plan,
        summary=InjectionSummary(
            machine=machine.name,
            commit=checkout.commit(),
            rate=writes.rate,
            link_rate_b_s=plan.link_rate_b_s,
            command=[*writes.command],
        ),
        targets=targets,
        origins=origins,
        record_file=str(record_file.absolute()),
        command_folder=os.getcwd(),
        length_s=writes.length_s,
        foreground_group=os.getpgrp() if on_this_host and _in_foreground() else None,
        owner_pid=os.getpid() if on_this_host else None,
    )


def _run_in_job(
    request: InjectionRequest,
    machine: Machine,
    writes: RequestedWrites,
    folder: Path,
    interrupts: Interrupts,
    progress: Progress,
) -> None:
    """Run the conductor in a job. Raises InputError, MachineError and Stopped."""
    destination = job_destination(machine.name, "--machine")
    request_file = folder / _REQUEST_FILE
    targets = request.targets
    origins = request.origins
    request.save(request_file)
    site_origins = machine.with_origins(len(origins)).origins if origins else machine.origins
    first_component = [*targets, *origins]
    if origins and site_origins.policy != "same_job":
        access = [*site_origins.access, f"--nodelist={','.join(origins)}"]
        site_origins = site_origins.model_copy(update={"access": access})
        first_component = targets
    variables = {
        "origins": site_origins.model_dump_json(),
        "num_targets": len(targets) or 1,
        "nodelist": ",".join(first_component),
        "request_file": request_file,
        "end_file": progress.logs / "block.json",
        "max_pending_time": f"{max(1, round(writes.wait_s))}s",
    }
    if writes.length_s is not None and not writes.command:  # a command may outlast the writes
        variables["time_limit"] = destination.time_limit(writes.length_s + _PREPARATION_S)
    check_options = [
        "-c",
        str(_CHECK_FILE),
        "-r",
        f"--report-file={folder / 'reframe.json'}",
        *folder_options(folder),
        *variable_options("Injection", variables),
    ]

    def job_has_begun() -> bool:
        return progress.summary is not None

    def job_has_ended() -> bool:
        return progress.summary is not None and progress.summary.ended_by is not None

    status, _ = run_job(
        destination,
        check_options,
        folder,
        progress.tell,
        interrupts,
        job_has_begun,
        progress.update,
        job_has_ended,
    )
    progress.update()
    if progress.summary is None:
        raise MachineError(job_failure(status, folder) or "the job left no record")


def _run_here(
    request: InjectionRequest, folder: Path, interrupts: Interrupts, progress: Progress
) -> None:
    """Run the conductor on this host, wait until it has ended, and end what it has left behind."""
    argv = python_main("conductor.block.injection", str(folder / _REQUEST_FILE))
    end_with_parent = processes.signalled_with_parent(os.getpid())

    def prepare() -> None:
        end_with_parent()
        os.setpgid(0, 0)  # the terminal's Ctrl-C must not reach the conductor

    with ExitStack() as files:
        streams = [os.dup(descriptor) for descriptor in (_STDOUT, _STDERR)]
        for stream in streams:
            files.callback(os.close, stream)
        replace(request, streams=streams).save(folder / _REQUEST_FILE)
        log = files.enter_context((folder / LOG_FILE).open("ab"))
        interrupts.check()
        progress.tell_start(request.block)
        child = subprocess.Popen(
            argv,
            stdout=log,
            stderr=log,
            cwd=folder,
            env={**os.environ, RUN_VARIABLE: str(folder)},
            pass_fds=streams,
            preexec_fn=prepare,
        )
    try:
        while child.poll() is None:
            interrupts.wait(_UPDATE_INTERVAL_S)
            progress.update()
            if interrupts.signum is not None:
                child.terminate()
    finally:
        if child.poll() is None:
            child.kill()
        processes.end_descendants()
        child.wait()


def _in_foreground() -> bool:
    """Return whether keys of a terminal, such as Ctrl-C, reach this process and the command."""
    with suppress(OSError), open("/dev/tty", "rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


class Progress:
    """Prints the conductor's progress, which it reads from files. Each step is printed once."""

    def __init__(
        self, folder: Path, machine: Machine, request: InjectionRequest, tell: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._machine = machine
        self._record_file = Path(request.record_file)
        self._is_in_job = not runs_here(machine)
        self._in_terminal = request.foreground_group is not None
        self.tell = tell
        self._stop_requested = False
        #: Output file of a command in a job -> number of its bytes that were already copied here.
        self._shown_b = {injection.OUTPUT_FILE: 0, injection.ERROR_FILE: 0}
        #: Number of notes that were printed.
        self._printed_notes = 0
        self._printed_trial = self._printed_begin = self._printed_reason = False
        self.logs = folder / "logs" / CASE / "0"
        #: Number of the targets' devices to which is written; None before the trial.
        self._link_count: int | None = None
        #: The record so far, without its readings; None before the conductor has written it.
        self.summary: InjectionSummary | None = None

    @property
    def has_begun(self) -> bool:
        """Return whether the writes have begun."""
        return self.summary is not None and self.summary.start_s is not None

    @property
    def has_command(self) -> bool:
        """Return whether a command runs beside the writes."""
        return self.summary is not None and bool(self.summary.command)

    def handle_stop_key(self) -> bool:
        """Handle a key such as Ctrl-C, and return whether it was handled.

        A key that is not handled stops the injection, as a signal does.

        - Before the writes have begun, no key is handled.
        - Then, if a command runs in this terminal, every key is handled: the command has had the
          signal too, and its end ends the writes.
        - If a command runs in a job, the first key interrupts it, and its end ends the writes.
        - Without a command, the first key ends the writes.
        """
        self._read_summary()
        if not self.has_begun:
            return False
        if self.has_command and self._in_terminal:
            return True
        if self._stop_requested:
            return False
        self._stop_requested = True
        (self.logs / injection.STOP_FILE).touch()
        return True

    def tell_start(self, plan: BlockPlan) -> None:
        """Print that the writers start, and on which processors if they are on this host."""
        cpus = ", ".join(map(str, plan.origin_cpus))
        cores = f" on processor {cpus} of this host, which must be left to them" if cpus else ""
        self.tell(f"starts the writers{cores}; their uncontended rate is measured first")

    def update(self) -> None:
        """Print new steps, notes and findings, and copy new output of a command in a job."""
        self._show(injection.OUTPUT_FILE, sys.stdout)
        self._show(injection.ERROR_FILE, sys.stderr)
        self._read_summary()
        summary = self.summary
        if summary is None:
            return
        # The trial measures the uncontended rates before the writes, and judges them.
        if not self._printed_trial and (self.logs / trial.FILE).exists():
            self._printed_trial = True
            trials = trial.read(self.logs)
            self._link_count = link_count(trials[0].writers) or None
            for finding in trial_findings(trials, [], self._machine):
                remedy = finding.remedy and f" -> {finding.remedy}"
                self.tell(f"{finding.what}: {finding.detail}{remedy}")
        for note in summary.notes[self._printed_notes :]:
            self.tell(note)
        self._printed_notes = len(summary.notes)
        if self.has_begun and not self._printed_begin:
            self._printed_begin = True
            self.tell(f"writes from {', '.join(summary.origins)} to {', '.join(summary.targets)}")
        if self.has_begun and summary.reason and not self._printed_reason:
            self._printed_reason = True
            self.tell(f"not proven: {summary.reason}")

    def _read_summary(self) -> None:
        with suppress(OSError, ValueError):
            self.summary = _SUMMARY.validate_json(read_written(self.logs / injected.SUMMARY_FILE))

    def _show(self, name: str, stream: TextIO) -> None:
        """Copy what is new in an output file to a stream.

        The file does not exist if the command prints to this terminal itself.
        """
        with suppress(FileNotFoundError), (self.logs / name).open("rb") as file:
            file.seek(self._shown_b[name])
            new_output = file.read()
            self._shown_b[name] += len(new_output)
            stream.buffer.write(new_output)
            stream.flush()

    def outcome(self, interrupts: Interrupts) -> InjectionOutcome:
        """Return the outcome, and complete the record if the conductor was killed.

        Raises Stopped or MachineError if the writes had not begun.
        """
        self.update()
        summary = self.summary
        if summary is None or summary.start_s is None:
            interrupts.check()
            raise MachineError(self._failure())
        if summary.ended_by is None:  # the conductor was killed
            ended_by: EndedBy = "failure" if interrupts.signum is None else "stop"
            reason = f"{_UNRECORDED_ENDS[ended_by]} before the last writes were checked"
            summary = self._complete(summary, ended_by, reason)
        elif self._is_in_job:
            # The job's node may have saved the record on a file system that only it sees.
            injected.save_record(self.logs, self._record_file)
        return InjectionOutcome(summary, interrupts.signum, self._link_count)

    def keep_record(self, failure: str) -> None:
        """Save the record of the writes so far, if any, since the job may be lost."""
        self.update()
        if self.summary and self.has_begun:
            if self.summary.ended_by is None:
                self._complete(self.summary, "failure", failure)
            else:
                injected.save_record(self.logs, self._record_file)
            self.tell(f"the record of the writes so far: {self._record_file}")

    def _complete(
        self, summary: InjectionSummary, ended_by: EndedBy, reason: str
    ) -> InjectionSummary:
        """Save and return the record with an end that the conductor could not record itself."""
        reason = summary.reason or reason
        summary = replace(summary, ended_by=ended_by, proven=False, reason=reason)
        injected.save_summary(self.logs, summary)
        injected.save_record(self.logs, self._record_file)
        return summary

    def _failure(self) -> str:
        """Return why the conductor ended: the reason in its record, or else from its output."""
        if self.summary and self.summary.reason:
            return self.summary.reason
        log = self._folder / LOG_FILE
        output = log.read_text(errors="replace") if log.exists() else ""
        return cause_or_gist(output) or "the conductor ended without a message"


def _in_allocation(plan: BlockPlan, machine: Machine, nodes: Sequence[str]) -> BlockPlan:
    """Return the plan with agents on these nodes of the present allocation.

    If `nodes` is empty, agents run on all of its nodes. In a heterogeneous allocation, they run on
    all nodes of its first two components. Raises InputError if this host is not one of the
    allocation's nodes.
    """
    _nodes_of_job()  # raises InputError
    policy: OriginPolicy = "hetjob" if _HETEROGENEOUS_VARIABLE in os.environ else "same_job"
    origins = machine.origins.model_copy(update={"policy": policy})
    launcher = agent_launcher(origins, machine.agent_network)
    if policy == "same_job" and nodes:
        launcher.append(f"--nodelist={','.join(nodes)}")
    launcher.append("--export=ALL")  # a job may be submitted with --export=NONE
    return replace(plan, origin_policy=policy, agent_launcher=launcher)


def _require_node_of_job(machine: Machine) -> None:
    """Raise InputError if Slurm starts the machine's jobs, and this host has no part in a job.

    It may then be a login node, where nobody should write or measure.
    """
    config = checkout.ROOT / "configs" / f"{machine.name}.py"
    if not can_list_nodes() or not config.exists():
        return
    settings = settings_of(config)
    if not uses_slurm(target_partitions(settings.partitions, machine.partition)):
        return
    if JOB_VARIABLE not in os.environ:
        raise InputError(
            f"--machine: Slurm starts the jobs of {machine.name}, and this command runs in none of"
            " them; allowed: on a node of a job"
        )
    _nodes_of_job()


def _named_nodes(machine: Machine, writes: RequestedWrites) -> tuple[list[str], list[str]]:
    """Return the target and the origin nodes that the options --to and --from name.

    Returns empty lists if the options were not given. Raises InputError, and MachineError if
    Slurm's `scontrol` cannot read the lists.
    """
    if (writes.targets is None) != (writes.origins is None):
        missing = "--from" if writes.origins is None else "--to"
        raise InputError(f"{missing}: missing; allowed: both --to and --from, or neither")
    if writes.targets is None or writes.origins is None:
        return [], []
    if machine.origins.policy == "same_host":
        raise InputError(
            "--to, --from: found; allowed: neither, since origins.policy of"
            f" site/{machine.name}.yaml is same_host"
        )
    targets, origins = hostnames(writes.targets), hostnames(writes.origins)
    allowed_nodes = _nodes_of_job() if JOB_VARIABLE in os.environ else [*targets, *origins]
    for option, nodes in (("--to", targets), ("--from", origins)):
        if not nodes:
            raise InputError(f"{option}: no node found; allowed: nodes as a list in Slurm's form")
        if absent := [node for node in nodes if node not in allowed_nodes]:
            allowed = f"allowed: nodes of the job: {', '.join(allowed_nodes)}"
            raise InputError(f"{option}: {', '.join(absent)} found; {allowed}")
    if in_both := sorted(set(targets) & set(origins)):
        raise InputError(f"--to, --from: both name {', '.join(in_both)}; allowed: different nodes")
    return targets, origins


def _nodes_of_job() -> list[str]:
    """Return the nodes of the present allocation, of all its components.

    Raises InputError if this process runs on none of them.
    """
    nodelists = [
        nodelist for name, nodelist in os.environ.items() if name.startswith("SLURM_JOB_NODELIST")
    ]
    nodes = [*dict.fromkeys(node for nodelist in nodelists for node in hostnames(nodelist))]
    if node_name() not in nodes:
        allowed = f"allowed: on a node of the job: {', '.join(nodes)}"
        raise InputError(f"this command runs on {node_name()}; {allowed}")
    return nodes


def plan_of(machine: Machine, writes: RequestedWrites, folder: Path) -> BlockPlan:
    """Return the plan of the block of an injection: its writers and no runs.

    Raises InputError. If the user gave a wrong level, the message names its option.
    """
    levels = {"rate": writes.rate, "injector": writes.injector or "auto"}
    try:
        if is_zero_rate(writes.rate):
            raise InputError(f"rate: {writes.rate} found; allowed: full, 25%, 2GB/s, ...")
        check_level("rate", writes.rate)
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        resolved_writes = planning.treatments(request, machine)[-1].writes
    except InputError as error:
        options = ("rate: ", "injector: ") if writes.injector else ("rate: ",)
        names_option = str(error).startswith(options)
        raise InputError(f"--{error}" if names_option else str(error)) from None
    assert resolved_writes, "the arm `on` has writers"
    treatment = Treatment(
        name=resolved_writes.injector, writes=resolved_writes, role="effect", baseline="off"
    )
    return planning.plan_of_writers(
        request, [treatment], machine, _NO_DISTURBANCE_LIMITS, case=CASE, nimc_dir=str(folder)
    )
