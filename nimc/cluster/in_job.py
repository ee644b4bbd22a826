"""Inspects a target node and its origin nodes in a job, for `nimc doctor --in-job` and `nimc init`.

A target runs the application, origins run only writers. ReFrame submits the job. Its ReFrame test
is `node_inspection_check`, its program on each node `node_inspection`. The job may also try writes
and reads between the nodes (trials).
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from conductor.block.agents import AGENTS_TIMEOUT_S
from conductor.block.trial import Trial
from nimc.campaign.plan import folder_options
from nimc.campaign.request import time_limit_s
from nimc.cluster import tried_writes
from nimc.cluster.node_inspection import JOB_STATE, NOT_STARTED_REASON, NodeReport
from nimc.readiness.faults import LOCKED_MEMORY
from nimc.readiness.finding import HostFinding, fault_finding, required_finding
from nimc.readiness.needs import hardware_limits, used_devices
from nimc.readiness.reframe import find_reframe
from nimc.readiness.reframe_config import (
    line_of,
    partition_environments,
    settings_of,
    target_partitions,
)
from nimc.run.runner import reported_cases, why_failed
from nimc.run.session import INSPECTION_FOLDER_PREFIX, run_session
from records import processes
from records.block_plan import BlockPlan
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import make_named_folder, private_lock
from records.groups import grouped
from records.interrupts import Interrupts
from records.kernel_text import read as read_text
from records.machine import devices, fabrics, host
from records.machine.site import Machine
from records.machine.site import load as load_machine
from records.slurm import client, options, parse
from records.slurm.outages import SlurmWatch
from records.slurm.parse import PendingJob
from records.units import plural

#: Time in which nodes are inspected, seconds.
_INSPECTION_S = 60.0
#: Time in which writes are tried, seconds. A job that ends earlier leaves the trials so far.
_TRIALS_S = 240.0
#: State of a job that has reached its time limit.
_TIMEOUT = "TIMEOUT"
_JOB_SUBJECT = "job on nodes"
#: Name of the file in the job's folder with the plan of the writes to try.
_PLAN_FILE = "trial-plan.json"
#: File of the ReFrame test.
_CHECK = Path(__file__).with_name("node_inspection_check.py")
_NODE_REPORT = TypeAdapter(NodeReport)
#: Lockable memory that suffices for the buffers of several writers and of an MPI, bytes.
_SUFFICIENT_LOCKABLE_B = 2**30
#: Least share of the memory stated in the site file that a node must report. A node reports some
#: percent less than it has, since its kernel keeps them.
_LEAST_MEMORY_SHARE = 0.9


@dataclass(frozen=True, kw_only=True)
class JobInspection:
    """The results of a job that inspected nodes."""

    #: Slurm's id of the job; None if Slurm did not accept a job.
    job: str | None
    #: Why some nodes did not answer, in one line; None if all nodes answered.
    why: str | None = None
    #: Reports of the nodes that answered. The target is the first.
    nodes: list[NodeReport] = field(default_factory=list)
    #: Outcomes of the writes that were tried between the nodes.
    trials: list[Trial] = field(default_factory=list)
    #: Why some writes were not tried; None if all were tried or none were planned.
    why_untried: str | None = None
    #: The limit or policy that prevented the start of the job; None if there was none.
    limit: str | None = None
    #: Number of threads of each core that the job could use; None if it could use all, or if the
    #: number is unknown.
    threads_per_core: int | None = None
    #: Number of cores of each node that the job left to the system although `nimc` did not request
    #: this.
    core_spec: int = 0

    @property
    def outcome(self) -> str:
        """Return in one line on which nodes the job ran, or why some nodes did not answer."""
        if self.why:
            return self.why
        target, *origins = (node.name for node in self.nodes)
        return f"job {self.job}: target {target}, origins {', '.join(origins) or 'none'}"


def inspect_nodes(
    name: str,
    results: Path,
    wait_s: float,
    tell: Callable[[str], None],
    root: Path = ROOT,
    *,
    tries_writes: bool = False,
) -> JobInspection:
    """Inspect nodes of a machine in a job. With `tries_writes`, also try writes between them.

    `tell` prints a line of progress. `wait_s` is how long the job may wait in the queue. The job's
    files are in a new folder in `results`, which must be on a file system that the nodes share. The
    job is ended and the folder removed in any case. Raises InputError for a machine without Slurm,
    MachineError if Slurm does not answer, Stopped after a signal.
    """
    machine, destination = load_machine(name, root), job_destination(name, "--in-job", root)
    processes.become_subreaper()
    make_named_folder(results)
    with (
        Interrupts() as interrupts,
        tempfile.TemporaryDirectory(
            prefix=INSPECTION_FOLDER_PREFIX, dir=results.absolute()
        ) as path,
        private_lock(Path(path, "lock")) as lock,
    ):
        folder = Path(path)
        with suppress(MachineError):  # if the file system has no locks, the nodes report this
            lock.acquire()
        plan = tried_writes.plan_of(machine, folder) if tries_writes else None
        if plan:
            plan.save(folder / _PLAN_FILE)

        def any_answered() -> bool:
            return any(folder.glob("[0-9]*.json"))

        def work_has_ended() -> bool:
            if plan:
                return tried_writes.have_ended(folder)
            answers = len(list(folder.glob("[0-9]*.json")))
            return answers == 1 + machine.origins.separate_nodes

        time_limit = destination.time_limit(_INSPECTION_S, _TRIALS_S)
        check_options = _check_options(machine, folder, wait_s, time_limit, plan)
        tell_progress = progress_teller(folder, plan, tell, any_answered)
        status, pending = run_job(
            destination,
            check_options,
            folder,
            tell,
            interrupts,
            has_begun=any_answered,
            tick=tell_progress,
            has_ended=work_has_ended,
        )
        job_inspection = read_job_inspection(folder, status)
        job_record = client.job_record(job_inspection.job) if job_inspection.job else ""
        return replace(
            job_inspection,
            limit=pending.limit_reason if pending else None,
            threads_per_core=parse.threads_per_core(job_record),
            core_spec=parse.core_spec(job_record),
        )


@dataclass(frozen=True)
class JobDestination:
    """The partition to which ReFrame submits a job on targets of a machine."""

    #: ReFrame's configuration of the machine.
    config: Path
    #: Name of the partition in this configuration.
    partition: str
    #: ReFrame's options that select the partition and one of its environments.
    options: list[str]
    #: Time limit of the partition's jobs, seconds; None if there is no limit.
    limit_s: float | None = None

    def time_limit(self, work_s: float, optional_s: float = 0.0) -> str:
        """Return the time limit of a job whose programs work for `work_s` after their start.

        Time for work that may be cut short (`optional_s`) and for a late start of the first step
        is added, but not beyond the partition's limit in the configuration. Slurm may allow more
        than this limit, so `work_s` is requested in any case.
        """
        longest_s = AGENTS_TIMEOUT_S + work_s + optional_s
        return f"{round(max(work_s, min(longest_s, self.limit_s or longest_s)))}s"


def job_destination(name: str, option: str, root: Path = ROOT) -> JobDestination:
    """Return the partition to which ReFrame submits the jobs on a machine.

    Sets the configuration's environment variables in this process. Raises InputError if Slurm does
    not start the machine's jobs, and if the partition has no environment. In the first case the
    message begins with `option`, the option that the user gave. Raises MachineError if this host
    cannot run Slurm's commands.
    """
    machine, config = load_machine(name, root), root / "configs" / f"{name}.py"
    settings = settings_of(config)
    targets = target_partitions(settings.partitions, machine.partition)
    slurm_partitions = [
        target for target in targets if target.get("scheduler") in options.SCHEDULERS
    ]
    if settings.fault or not slurm_partitions:
        no_slurm = "no Slurm partition for the targets; allowed: machines whose jobs Slurm starts"
        raise InputError(f"{option}: configs/{name}.py: {settings.fault or no_slurm}")
    partition = slurm_partitions[0]
    environments = partition_environments(settings, [partition], name)
    if not environments:  # ReFrame's schema allows this
        defined = ", ".join(str(environ["name"]) for environ in settings.environs) or "none"
        raise InputError(
            f"{config}:{line_of(config, partition['name'])}: environs: no environment of"
            f" partition {partition['name']} is defined for this partition; allowed: {defined},"
            " with target_systems that include it"
        )
    os.environ.update(settings.environment)  # for example SLURM_CONF; ReFrame sets it, too
    if fault := client.command_fault(os.environ):
        raise MachineError(fault)
    environment = f"^{environments[0].environment}$"
    selection = [f"--system={name}:{partition['name']}", "-p", environment]
    return JobDestination(config, partition["name"], selection, time_limit_s([partition]))


def run_job(
    destination: JobDestination,
    check_options: Sequence[str],
    folder: Path,
    tell: Callable[[str], None],
    interrupts: Interrupts,
    has_begun: Callable[[], bool],
    tick: Callable[[], None] = lambda: None,
    has_ended: Callable[[], bool] = lambda: False,
) -> tuple[int, PendingJob | None]:
    """Let ReFrame run a check (a ReFrame test) in a job. When this returns, the job has ended.

    `check_options` select the check. The job's files are in `folder`. `has_begun` returns whether
    the job has begun, according to these files, and `has_ended` whether its work has ended: then
    the accounting may notice the job's end late. `tick` is called every second. Returns ReFrame's
    exit status, and why the job was pending when Slurm last listed it (None if it was not). Raises
    MachineError and Stopped.
    """
    tell(f"ReFrame submits a job to {destination.partition}")
    command = [find_reframe(), "-C", str(destination.config), *destination.options, *check_options]
    pending_reasons: list[PendingJob | None] = [None]
    with closing(SlurmWatch(folder, tell)) as watch:
        poll_slurm = _slurm_tick(watch, tell, pending_reasons, has_begun, has_ended)

        def each_second() -> None:
            poll_slurm()
            tick()

        try:
            status = run_session(command, folder, folder / "reframe.log", interrupts, each_second)
        finally:
            client.cancel_jobs(folder)
    return status, pending_reasons[-1]


def _check_options(
    machine: Machine, folder: Path, wait_s: float, time_limit: str, plan: BlockPlan | None
) -> list[str]:
    """Return ReFrame's options for the check that inspects nodes.

    All files of the check are in `folder`. `time_limit` is that of its job, in ReFrame's form.
    """
    # The nodes must also see the folder in which ReFrame stages if users start it without `nimc`.
    stage = os.environ.get("RFM_STAGE_DIR") or os.environ.get("RFM_PREFIX") or "."
    variables = {
        "origins": machine.origins.model_dump_json(),
        "network": machine.agent_network,
        "device": machine.device or "",
        "interface": machine.interface or "",
        "folder": folder,
        "trial_plan": folder / _PLAN_FILE if plan else "",
        "stage": os.path.abspath(stage),
        "max_pending_time": f"{max(1, round(wait_s))}s",
        "time_limit": time_limit,
    }
    return [
        "-c",
        str(_CHECK),
        "-r",
        f"--report-file={folder / 'reframe.json'}",
        *folder_options(folder),
        *variable_options("NodeInspection", variables),
    ]


def variable_options(check: str, variables: Mapping[str, object]) -> list[str]:
    """Return ReFrame's options that set variables of a check."""
    return [word for name, value in variables.items() for word in ("-S", f"{check}.{name}={value}")]


def _slurm_tick(
    watch: SlurmWatch,
    tell: Callable[[str], None],
    pending_reasons: list[PendingJob | None],
    has_begun: Callable[[], bool],
    has_ended: Callable[[], bool],
) -> Callable[[], None]:
    """Return a function that is to be called once a second.

    It checks whether Slurm answers and why the job waits in the queue. A reason that differs from
    the last one is appended to `pending_reasons`. It is also printed if it was not printed before.
    """

    def tick() -> None:
        # If Slurm has no accounting, ReFrame may wait for ever for a job that has ended. The watch
        # detects this.
        watch.check(time.monotonic(), begun=has_begun(), finished=False, reading=has_ended())
        pending = watch.pending
        if watch.jobs and pending != pending_reasons[-1]:
            if pending and pending not in pending_reasons:
                tell(pending.line)
            pending_reasons.append(pending)

    return tick


def progress_teller(
    folder: Path, plan: BlockPlan | None, tell: Callable[[str], None], has_begun: Callable[[], bool]
) -> Callable[[], None]:
    """Return a function that is to be called once a second.

    It prints a line when the job has started, and when each trial of writes has started. `plan` is
    the plan of the trials; None if no writes are tried.
    """
    printed_count = 0

    def tick() -> None:
        nonlocal printed_count
        if not has_begun():
            return
        lines = [
            "the job has started",
            *(tried_writes.progress_lines(plan, folder) if plan else []),
        ]
        for line in lines[printed_count:]:
            tell(line)
            printed_count += 1

    return tick


def job_failure(status: int, folder: Path) -> str | None:
    """Return why a job of ReFrame failed, in one line; None if it did not fail.

    `status` is the exit status of ReFrame, and `folder` has the job's files.
    """
    why = why_failed(status, folder)
    # The check gives its reason as a sanity error. ReFrame puts these words before the reason.
    return why and why.removeprefix("ReFrame failed in 'sanity': sanity error: ")


def read_job_inspection(folder: Path, status: int) -> JobInspection:
    """Return the results of a job that inspected nodes, from the files in its folder.

    `status` is the exit status of ReFrame.
    """
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    job = next((case.get("jobid") for case in reported_cases(folder)), None)
    why = job_failure(status, folder)
    nodes = [_NODE_REPORT.validate_json(path.read_bytes()) for path in files]
    state = read_text(folder / JOB_STATE)
    why_untried = (
        tried_writes.why_untried(folder, state) if (folder / _PLAN_FILE).exists() else None
    )
    return JobInspection(
        job=job,
        why=why,
        nodes=nodes,
        trials=tried_writes.read_trials(folder),
        why_untried=why_untried,
    )


# The findings of a job. Each is printed as one line.


def job_findings(job_inspection: JobInspection, machine: Machine) -> Iterator[HostFinding]:
    """Yield the findings about the job, about its nodes and about the writes that it tried.

    The first finding says whether the job ran on all of its nodes.
    """
    # If Python is a link that leads nowhere on a node, the node's shell reports that the link does
    # not exist. The remedy names the file to which the link leads here.
    python = os.path.realpath(sys.executable)
    remedy = f"nodes must see the results folder, and {python} must start there"
    if job_inspection.limit:
        remedy = f"its limit is {job_inspection.limit}: {parse.limit_remedy(job_inspection.limit)}"
    elif not job_inspection.job:
        remedy = parse.refusal_remedy(job_inspection.why or "") or (
            "add what jobs need (--account=, --qos=) to access in configs/; if Slurm refuses"
            " heterogeneous jobs, set origins.policy: same_job in site/"
        )
    elif NOT_STARTED_REASON in (job_inspection.why or ""):
        remedy = "try later, or with a longer --wait"
    yield required_finding(_JOB_SUBJECT, job_inspection.why, job_inspection.outcome, remedy)
    yield from _findings_of_cores(job_inspection, machine)
    by_subject = grouped(
        (finding.what, (node.name, finding))
        for node in job_inspection.nodes
        for finding in _node_findings(node, machine)
    )
    for node_findings in by_subject.values():
        yield _merged(node_findings)
    if job_inspection.why_untried:
        needed_s = round(_INSPECTION_S + _TRIALS_S)
        remedy = f"set time_limit in configs/{machine.name}.py to {needed_s}s or more"
        yield fault_finding(
            "writes between nodes",
            job_inspection.why_untried,
            remedy if job_inspection.why_untried.endswith(_TIMEOUT) else "",
            needed=True,
        )
    yield from tried_writes.trial_findings(job_inspection.trials, job_inspection.nodes, machine)


def _findings_of_cores(job_inspection: JobInspection, machine: Machine) -> Iterator[HostFinding]:
    """Yield a finding if jobs get fewer threads or cores than the site file's facts state.

    Slurm or one of its plugins may withhold them from jobs, and refuses a job that requests them.
    """
    facts, file = machine.node_facts(), f"site/{machine.name}.yaml"
    job_threads = job_inspection.threads_per_core
    if job_threads and job_threads < facts.threads_per_core:
        detail = f"jobs get {job_threads} of the {facts.threads_per_core} threads of a core"
        remedy = (
            f"threads_per_core: {job_threads} in facts of {file}, or --hint=multithread in access"
            " of configs/"
        )
        yield fault_finding("threads of jobs", detail, remedy, needed=True)
    job_cores = (
        min((node.host.cores for node in job_inspection.nodes), default=0)
        - job_inspection.core_spec
    )
    if job_inspection.core_spec and job_inspection.nodes and job_cores < facts.cores:
        detail = f"jobs leave {plural(job_inspection.core_spec, 'core')} of a node to the system"
        remedy = f"cores: {job_cores} in facts, and core_spec: false, in {file}"
        yield fault_finding("cores of jobs", detail, remedy, needed=True)


def _merged(node_findings: Sequence[tuple[str, HostFinding]]) -> HostFinding:
    """Return one finding for the findings of several nodes on the same subject.

    `node_findings` are pairs of a node's name and its finding. If some nodes have a fault, only
    these nodes are named. The state is the worst of any node.
    """
    faults = [(node, finding) for node, finding in node_findings if finding.state != "ok"]
    faults.sort(key=lambda fault: fault[1].state != "missing")
    merged_findings = faults or node_findings
    nodes_by_detail = grouped((finding.detail, node) for node, finding in merged_findings)
    details = (f"{', '.join(nodes)}: {detail}" for detail, nodes in nodes_by_detail.items())
    _, first_finding = merged_findings[0]
    return replace(first_finding, detail="; ".join(details))


def _counter_findings(node: NodeReport, machine: Machine) -> Iterator[HostFinding]:
    """Yield a finding for each of the site file's devices on the node: the counter of its bytes.

    Without a counter, the finding says why.
    """
    for site_name in machine.devices:
        device = devices.find(site_name, node.host.rdma)
        port = devices.parse_name(site_name).port
        name = device.name if device else site_name
        if device and port > 1:
            name = f"{device.name}:{port}"
        subject, counter = f"counter of {site_name} on nodes", node.counters.get(name)
        if counter:
            yield HostFinding(subject, "ok", f"{counter} was read")
        elif name in node.uncounted:
            fault = f"none: {node.uncounted[name]}"
            yield fault_finding(
                subject,
                fault,
                "only writes of mpi_put can be proven, in the target's memory",
            )


def _node_findings(node: NodeReport, machine: Machine) -> Iterator[HostFinding]:
    """Yield the findings about one node: what it must have and what limits measurements on it."""
    yield _folders_finding(node)
    yield _locks_finding(node)
    yield _interface_finding(node, machine)
    yield from _facts_findings(node, machine)
    for finding in [*used_devices(node.host, machine), *hardware_limits(node.host)]:
        yield replace(finding, what=f"{finding.what} on nodes")
    yield from _counter_findings(node, machine)
    device = devices.find(machine.device, node.host.rdma) if machine.device else None
    if device and node.lockable_b is not None and node.lockable_b < _SUFFICIENT_LOCKABLE_B:
        lockable = f"{node.lockable_b / 2**20:g} MiB may be locked (`ulimit -l`)"
        detail = f"{lockable}: writers lock their buffers"
        yield fault_finding("locked memory on nodes", detail, LOCKED_MEMORY.remedy)
    fabric = fabrics.FABRICS.get(device.transport) if device else None
    fault, _, remedy = node.why_no_injector(machine.injector, fabric).partition(": ")
    yield required_finding(f"{machine.injector} on nodes", fault, "ready", remedy)


def _folders_finding(node: NodeReport) -> HostFinding:
    """Return the finding about the folders that the node must see.

    `nimc run` stages in the results folder. Only a ReFrame that is started without `nimc` stages in
    the current folder or where its variables say.
    """
    subject = "shared folders"
    if node.unseen:
        detail = (
            f"does not see {', '.join(node.unseen)}, where `reframe -r` would stage; campaigns"
            " do not need it"
        )
        remedy = "start `reframe -r` in a folder that all nodes mount, or name one in RFM_STAGE_DIR"
        return fault_finding(subject, detail, remedy)
    detail = "see the checkout, Python, the results and the stage folder"
    return HostFinding(subject, "ok", detail, needed=True)


def _locks_finding(node: NodeReport) -> HostFinding:
    """Return the finding about locks in the results folder.

    Only commands of `nimc` lock files there, and usually all of them run on one host.
    """
    subject, lock = "locks", "the lock of this host in the results folder"
    if node.sees_lock is None:
        remedy = "mount it with locks (Lustre: -o flock), or use another --results"
        return fault_finding(subject, "the results folder has no locks", remedy, needed=True)
    if node.sees_lock:
        return HostFinding(subject, "ok", f"see {lock}", needed=True)
    remedy = (
        "start `nimc` for one results folder on one host only; an operator can mount it with locks"
        " of all hosts (Lustre: -o flock, not localflock; NFS: without nolock; BeeGFS:"
        " tuneUseGlobalFileLocks)"
    )
    return fault_finding(subject, f"does not see {lock}", remedy)


def _facts_findings(node: NodeReport, machine: Machine) -> Iterator[HostFinding]:
    """Yield a finding if a node's hardware differs from `facts` in the site file.

    If the file has no facts, the node is compared with this host. The facts in the file may state
    fewer cores than the node has, since jobs may be given fewer cores. Memory differs only if the
    node has clearly less (`_LEAST_MEMORY_SHARE`).
    """
    facts, hardware = machine.node_facts(), node.host
    numa_nodes = host.nodes_with_cores(hardware.numa_nodes) or [0]
    caches = (_mib(hardware.llc_total_b), _mib(facts.llc_b))
    memory = (_mib(hardware.memory_b), _mib(facts.memory_b))
    fewer_cores = facts.cores < hardware.cores and machine.facts is None
    less_memory = hardware.memory_b < (facts.memory_b or 0) * _LEAST_MEMORY_SHARE
    rows = [
        ("cores", fewer_cores or facts.cores > hardware.cores, (hardware.cores, facts.cores)),
        ("sockets", facts.sockets != hardware.sockets, (hardware.sockets, facts.sockets)),
        ("NUMA nodes", facts.numa_nodes != numa_nodes, (numa_nodes, facts.numa_nodes)),
        ("last-level caches", "unknown" not in caches and len({*caches}) > 1, caches),
        ("memory", less_memory, memory),
    ]
    details = [
        f"{name}: {on_node} on the node, {stated} expected"
        for name, differs, (on_node, stated) in rows
        if differs
    ]
    if details:
        remedy = f"correct facts in site/{machine.name}.yaml"
        if not machine.facts:
            remedy = (
                f"add facts to site/{machine.name}.yaml; without them, those of this host count"
            )
        yield fault_finding("facts on nodes", ", ".join(details), remedy)


def _mib(size_b: int | None) -> str:
    return f"{size_b / 2**20:g} MiB" if size_b else "unknown"


def _interface_finding(node: NodeReport, machine: Machine) -> HostFinding:
    """Return the finding about the interface in the site file.

    The node must have this interface, with an IPv4 address.
    """
    subject, file = "interface on nodes", f"site/{machine.name}.yaml"
    names = ", ".join(name for name, address in node.addresses.items() if address) or "none"
    interface = machine.interface
    if interface is None:
        detail = f"not set; with an IPv4 address: {names}"
        return fault_finding(subject, detail, f"set interface in {file}")
    address = node.addresses.get(interface)
    fault = "" if address else f"no {interface} with an IPv4 address; interfaces with one: {names}"
    return required_finding(subject, fault, f"{interface} {address}", f"interface in {file}")
