"""Looks at a target and its origins in a job, for `nimc doctor --in-job` and `nimc init`.

ReFrame submits the job (`node_look_check`).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import TypeAdapter

from conductor.block.trial import Trial
from nimc.campaign.plan import folder_options
from nimc.cluster import tried_writes
from nimc.cluster.faults import LOCKED_MEMORY
from nimc.cluster.node_look import JOB_STATE, NOT_STARTED, NodeReport
from nimc.readiness.finding import HostFinding, gap, required_finding
from nimc.readiness.needs import peculiarities, used_devices
from nimc.readiness.reframe import find_reframe
from nimc.readiness.reframe_config import (
    line_of,
    partition_environments,
    settings_of,
    target_partitions,
)
from nimc.run.runner import reported_cases, why_failed
from nimc.run.session import LOOK_PREFIX, run_session
from records import processes
from records.block_plan import BlockPlan
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.files import make_named_folder, private_lock
from records.groups import grouped
from records.interrupts import Interrupts
from records.kernel_text import read as read_text
from records.machine import devices, fabrics
from records.machine.site import Machine
from records.machine.site import load as load_machine
from records.slurm import client, options, parse
from records.slurm.outages import SlurmWatch
from records.slurm.parse import PendingJob

_JOB = "job on nodes"
#: The plan of the trial, in the job's folder.
_PLAN = "trial-plan.json"
_CHECK = Path(__file__).with_name("node_look_check.py")
_NODE_REPORT = TypeAdapter(NodeReport)
#: Memory that suffices for the buffers of several writers and of an MPI, bytes.
_ENOUGH_LOCKABLE_B = 2**30


@dataclass(frozen=True, kw_only=True)
class JobLook:
    """The findings of a job that looked at nodes."""

    #: Slurm's id; None if it took no job.
    job: str | None
    #: Why not all nodes answered, in one line; None if they did.
    why: str | None = None
    #: The nodes that answered, targets first.
    nodes: list[NodeReport] = field(default_factory=list)
    #: The outcome of writes between them.
    trials: list[Trial] = field(default_factory=list)
    #: Why not all writes were tried; None: they were.
    untried: str | None = None
    #: The limit or policy that kept the job from starting.
    limit: str | None = None

    @property
    def outcome(self) -> str:
        """Return how the job went, in one line."""
        if self.why:
            return self.why
        target, *origins = (node.name for node in self.nodes)
        return f"job {self.job}: target {target}, origins {', '.join(origins) or 'none'}"


def look_at_nodes(
    name: str,
    results: Path,
    wait_s: float,
    tell: Callable[[str], None],
    root: Path = ROOT,
    *,
    writes: bool = False,
) -> JobLook:
    """Look at the nodes of a machine in a job, and try `writes` there; `tell` prints progress.

    The job's files are in a new folder in `results`, which nodes should see. Job and folder are
    always removed. Raises InputError for a machine without Slurm, MachineError if Slurm
    does not answer, Stopped after a signal.
    """
    machine, destination = load_machine(name, root), job_destination(name, "--in-job", root)
    processes.become_subreaper()
    make_named_folder(results)
    with (
        Interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix=LOOK_PREFIX, dir=results.absolute()) as path,
        private_lock(Path(path, "lock")) as lock,
    ):
        folder = Path(path)
        with suppress(MachineError):  # the nodes report that there are no locks
            lock.acquire()
        plan = tried_writes.plan_of(machine, folder) if writes else None
        if plan:
            plan.save(folder / _PLAN)

        def answered() -> bool:
            return any(folder.glob("[0-9]*.json"))

        check_options = _check_options(machine, folder, wait_s, plan)
        tell_progress = progress_teller(folder, plan, tell, answered)
        status, pending = run_job(
            destination, check_options, folder, tell, interrupts, answered, tell_progress
        )
        return replace(read_job_look(folder, status), limit=pending.limit if pending else None)


@dataclass(frozen=True)
class JobDestination:
    """Where ReFrame submits a job for targets of a machine."""

    config: Path
    partition: str
    #: ReFrame's options that select it.
    options: list[str]


def job_destination(name: str, option: str, root: Path = ROOT) -> JobDestination:
    """Return where ReFrame submits the jobs of a machine.

    Raises InputError, which names `option`, if Slurm starts no jobs there.
    """
    machine, config = load_machine(name, root), root / "configs" / f"{name}.py"
    settings = settings_of(config)
    targets = target_partitions(settings.partitions, machine.partition)
    slurm_partitions = [
        partition for partition in targets if partition.get("scheduler") in options.SCHEDULERS
    ]
    if not slurm_partitions:
        none = "no partition of Slurm for the targets; allowed: machines whose jobs Slurm starts"
        raise InputError(f"{option}: configs/{name}.py: {settings.fault or none}")
    part = slurm_partitions[0]
    environments = partition_environments(settings, [part], name)
    if not environments:  # ReFrame's schema allows a partition without environments
        defined = ", ".join(str(environ["name"]) for environ in settings.environs) or "none"
        raise InputError(
            f"{config}:{line_of(config, part['name'])}: environs: none of partition {part['name']}"
            f" is defined; allowed: names of the file's environments: {defined}"
        )
    os.environ.update(settings.environment)  # ReFrame sets it, too, such as SLURM_CONF
    environment = f"^{environments[0].environment}$"
    selection = [f"--system={name}:{part['name']}", "-p", environment]
    return JobDestination(config, part["name"], selection)


def run_job(
    destination: JobDestination,
    check_options: Sequence[str],
    folder: Path,
    tell: Callable[[str], None],
    interrupts: Interrupts,
    has_begun: Callable[[], bool],
    tick: Callable[[], None] = lambda: None,
) -> tuple[int, PendingJob | None]:
    """Let ReFrame run a check in a job, which has ended or is cancelled when this returns.

    `has_begun` tells by the job's files whether the job has begun; `tick` is called once a second.
    Returns ReFrame's exit status, and why the job was pending last. Raises MachineError, Stopped.
    """
    tell(f"ReFrame submits a job to {destination.partition}")
    command = [find_reframe(), "-C", str(destination.config), *destination.options, *check_options]
    pending_reasons: list[PendingJob | None] = [None]
    with closing(SlurmWatch(folder, tell)) as watch:
        look_at_slurm = _slurm_tick(watch, tell, pending_reasons, has_begun)

        def each_second() -> None:
            look_at_slurm()
            tick()

        try:
            status = run_session(command, folder, folder / "reframe.log", interrupts, each_second)
        finally:
            client.cancel_jobs(folder)
    return status, pending_reasons[-1]


def _check_options(
    machine: Machine, folder: Path, wait_s: float, plan: BlockPlan | None
) -> list[str]:
    """Return ReFrame's options for the check; all of its files are in `folder`."""
    # `nimc run` stages in the results; ReFrame alone in its prefix, or in the current folder.
    prefix = os.environ.get("RFM_STAGE_DIR") or os.environ.get("RFM_PREFIX") or "."
    values = {
        "origins": machine.origins.model_dump_json(),
        "network": machine.network or "",
        "device": machine.device or "",
        "interface": machine.interface or "",
        "folder": folder,
        "trial": folder / _PLAN if plan else "",
        "stage": os.path.abspath(prefix),
        "max_pending_time": f"{max(1, round(wait_s))}s",
    }
    return [
        "-c",
        str(_CHECK),
        "-r",
        f"--report-file={folder / 'reframe.json'}",
        *folder_options(folder),
        *(word for name, value in values.items() for word in ("-S", f"NodeLook.{name}={value}")),
    ]


def _slurm_tick(
    watch: SlurmWatch,
    tell: Callable[[str], None],
    pending_reasons: list[PendingJob | None],
    has_begun: Callable[[], bool],
) -> Callable[[], None]:
    """Return what to do once a second: see whether Slurm answers, and tell why the job waits.

    The reason is added to `pending_reasons`.
    """

    def tick() -> None:
        # Without accounting, ReFrame may wait for a job that has ended.
        watch.check(time.monotonic(), begun=has_begun(), finished=False)
        pending = watch.pending
        if watch.jobs and pending != pending_reasons[-1]:
            if pending and pending not in pending_reasons:
                tell(pending.line)
            pending_reasons.append(pending)

    return tick


def progress_teller(
    folder: Path, plan: BlockPlan | None, tell: Callable[[str], None], answered: Callable[[], bool]
) -> Callable[[], None]:
    """Return what to do once a second: tell that the job has started, and each trial's start."""
    told_lines: list[str] = []

    def tick() -> None:
        if not answered():
            return
        lines = [
            "the job has started",
            *(tried_writes.progress_lines(plan, folder) if plan else []),
        ]
        for line in lines[len(told_lines) :]:
            tell(line)
            told_lines.append(line)

    return tick


def why_no_job(status: int, folder: Path) -> str | None:
    """Return why a job of ReFrame failed, in one line; None if it did not."""
    why = why_failed(status, folder)
    if why and (refusal := parse.refusal(why)):
        return f"Slurm refuses the job: {refusal}"
    # The check gives its reason as a sanity error.
    return why and why.removeprefix("ReFrame failed in 'sanity': sanity error: ")


def read_job_look(folder: Path, status: int) -> JobLook:
    """Read the files in a job's folder; `status` is the exit status of ReFrame."""
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    job = next((case.get("jobid") for case in reported_cases(folder)), None)
    why = why_no_job(status, folder)
    nodes = [_NODE_REPORT.validate_json(path.read_bytes()) for path in files]
    state = read_text(folder / JOB_STATE)
    untried = tried_writes.why_untried(folder, state) if (folder / _PLAN).exists() else None
    return JobLook(
        job=job, why=why, nodes=nodes, trials=tried_writes.read_trials(folder), untried=untried
    )


# The findings of a job, a line each.


def findings(job_look: JobLook, machine: Machine) -> Iterator[HostFinding]:
    """Yield whether the job ran on all of its nodes, and what the nodes lack."""
    remedy = "nodes must see the results folder, and Python there must start"
    if job_look.limit:
        remedy = f"its limit is {job_look.limit}: same_job in site/ is one job, not two"
    elif not job_look.job:
        remedy = "see access in configs/, and origins in site/: same_job needs no heterogeneous job"
    elif NOT_STARTED in (job_look.why or ""):
        remedy = "try later, or with a longer --wait"
    yield required_finding(_JOB, job_look.why, job_look.outcome, remedy)
    rows = [
        (row.what, (node.name, row))
        for node in job_look.nodes
        for row in _node_findings(node, machine)
    ]
    for node_rows in grouped(rows).values():
        yield _merged(node_rows)
    if job_look.untried:
        yield gap("writes between nodes", job_look.untried, needed=True)
    yield from tried_writes.findings(job_look.trials, job_look.nodes, machine)


def _merged(node_rows: Sequence[tuple[str, HostFinding]]) -> HostFinding:
    """Merge the rows of all nodes into one; if some nodes lack something, it names only these."""
    shown = [(node, row) for node, row in node_rows if row.state != "ok"] or node_rows
    details = grouped((row.detail, node) for node, row in shown)
    detail = "; ".join(f"{', '.join(nodes)}: {detail}" for detail, nodes in details.items())
    return replace(shown[0][1], detail=detail)


def _counter_findings(node: NodeReport, machine: Machine) -> Iterator[HostFinding]:
    """Yield which counter counts the bytes of each device of the site file, or why none does."""
    for site_name in machine.devices:
        device = devices.find(site_name, node.host.rdma)
        name = device.name if device else site_name
        subject, counter = f"counter of {site_name} on nodes", node.counters.get(name)
        if counter:
            yield HostFinding(subject, "ok", f"{counter} was read")
        elif name in node.uncounted:
            missing = f"none: {node.uncounted[name]}"
            yield gap(subject, missing, "writes are proven by nothing, or by memory (mpi_put)")


def _node_findings(node: NodeReport, machine: Machine) -> Iterator[HostFinding]:
    """Yield a finding for each thing that a node must have."""
    missing = node.unseen and f"does not see {', '.join(node.unseen)}, where ReFrame stages"
    visible = "see the checkout, Python, the results and the stage folder"
    yield required_finding(
        "shared folders", missing, visible, "keep it on a file system that all nodes mount"
    )
    lock = "the lock of this host in the results folder"
    remedy = "mount it with locks (Lustre: -o flock), or use another --results"
    yield required_finding(
        "locks", "" if node.sees_lock else f"does not see {lock}", f"see {lock}", remedy
    )
    name = machine.interface
    subject = "interface on nodes"
    file = f"site/{machine.name}.yaml"
    addressed = ", ".join(name for name, address in node.addresses.items() if address) or "none"
    if name is None:
        yield gap(
            subject, f"not set; with an IPv4 address: {addressed}", f"set interface in {file}"
        )
    else:
        address = node.addresses.get(name)
        missing = "" if address else f"no {name} with an IPv4 address, but {addressed}"
        yield required_finding(subject, missing, f"{name} {address}", f"interface in {file}")
    for row in [*used_devices(node.host, machine), *peculiarities(node.host)]:
        yield replace(row, what=f"{row.what} on nodes")
    yield from _counter_findings(node, machine)
    device = devices.find(machine.device, node.host.rdma) if machine.device else None
    if device and node.lockable_b is not None and node.lockable_b < _ENOUGH_LOCKABLE_B:
        detail = f"{node.lockable_b / 2**20:g} MiB may be locked (`ulimit -l`): writers lock theirs"
        yield gap("locked memory on nodes", detail, LOCKED_MEMORY.remedy)
    fabric = fabrics.FABRICS.get(device.transport) if device else None
    missing, _, remedy = node.without_injector(machine.injector, fabric).partition(": ")
    yield required_finding(f"{machine.injector} on nodes", missing, "ready", remedy)
