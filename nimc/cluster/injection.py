"""Writers beside an application that somebody else starts: `nimc inject`.

On one host and in an allocation of Slurm, the conductor runs here, and starts the command in this
terminal. Elsewhere a job has both (`injection_check`).
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from conductor import injection, trial
from conductor.injection import Request
from nimc.cluster.trial import findings
from records import checkout, injected, processes
from records.checkout import python_main
from records.errors import InputError, MachineError
from records.files import make_named_folder
from records.injected import Head
from records.interrupts import Interrupts
from records.last_words import quoted
from records.machine.site import Machine
from records.plan import BlockPlan, OriginPolicy
from records.slurm.client import hostnames
from records.slurm.options import agent_launcher
from records.treatment import Treatment
from reframe_tests import planning
from reframe_tests.crossing import is_nothing
from reframe_tests.factors import check_level

#: Case of the plan.
CASE = "inject"
#: Begins the name of the folder of an injection; what its conductor prints is in it.
_FOLDER, LOG = ".nimc-inject-", "conductor.log"
#: How often progress is looked for, seconds.
_TICK_S = 0.2
#: What disturbs a run is no concern of the writers.
_DEMAND = dict.fromkeys(("foreign_cpus", "steal_share", "frequency_drop", "foreign_share"))
#: An uncontended rate that was measured beside an application may be far below a later one.
_MAX_SHARE = 1e6
_HEAD = TypeAdapter(Head)
#: Set in an allocation, and in one of two components.
_JOB, _HETEROGENEOUS = "SLURM_JOB_ID", "SLURM_JOB_NODELIST_HET_GROUP_0"


@dataclass(frozen=True)
class Wish:
    """What a user wants to have written."""

    rate: str = "full"
    #: None: that of the machine.
    injector: str | None = None
    #: Nodes as Slurm lists them; None: as the machine's file says.
    targets: str | None = None
    origins: str | None = None
    command: Sequence[str] = ()
    length_s: float | None = None


@dataclass(frozen=True)
class Injected:
    """What came of it."""

    head: Head
    #: A signal that ended it; None: it came to its end.
    signum: int | None = None


def inject(
    site: Machine, wish: Wish, results: Path, output: Path, tell: Callable[[str], None]
) -> Injected:
    """Write as wished; `tell` says how it goes. The record is in `output`.

    The logs are in a new folder in `results`, which nodes should see. Whatever ends this, nothing
    that it has started is left. Raises InputError, and MachineError if writers cannot start.
    """
    processes.become_subreaper()
    make_named_folder(results)
    with (
        Interrupts() as interrupts,
        tempfile.TemporaryDirectory(prefix=_FOLDER, dir=results.absolute()) as path,
    ):
        request = _request(site, wish, Path(path), output)
        progress = Progress(Path(path), site, output, tell)
        _run(request, Path(path), interrupts, progress)
        return progress.outcome(interrupts)


def _request(site: Machine, wish: Wish, folder: Path, output: Path) -> Request:
    """What the conductor is to do on this host. Raises InputError."""
    plan, targets, origins = _planned(site, wish, folder)
    return Request(
        block=plan,
        head=Head(
            machine=site.name,
            commit=checkout.commit(),
            rate=wish.rate,
            link_rate_b_s=plan.link_rate_b_s,
            command=[*wish.command],
        ),
        targets=targets,
        origins=origins,
        output=str(output.absolute()),
        folder=os.getcwd(),
        length_s=wish.length_s,
        group=os.getpgrp() if _in_foreground() else None,
        owner=os.getpid(),
    )


def _run(request: Request, folder: Path, interrupts: Interrupts, progress: Progress) -> None:
    """Run the conductor here until it ends; nothing that it has started is left then."""
    argv = python_main("conductor.injection", str(folder / "request.json"))
    ends_with_this = processes.end_with(os.getpid())

    def prepare() -> None:
        ends_with_this()
        os.setpgid(0, 0)  # the keys of the terminal are for this process, and for the command

    with ExitStack() as files:
        streams = [os.dup(number) for number in (1, 2)]
        for stream in streams:
            files.callback(os.close, stream)
        replace(request, streams=streams).save(folder / "request.json")
        log = files.enter_context((folder / LOG).open("ab"))
        interrupts.check()
        progress.begin(request.block)
        child = subprocess.Popen(
            argv, stdout=log, stderr=log, cwd=folder, pass_fds=streams, preexec_fn=prepare
        )
    try:
        while child.poll() is None:
            interrupts.wait(_TICK_S)
            progress.look()
            _heed(child, interrupts, progress)
    finally:
        if child.poll() is None:
            child.kill()
        processes.end_descendants()
        child.wait()


def _heed(child: subprocess.Popen[bytes], interrupts: Interrupts, progress: Progress) -> None:
    """Do what a signal asks for.

    Ctrl-C ends the writes as `--for` does. Beside a command it is the command's, which has it
    already from the terminal.
    """
    if interrupts.last is None:
        return
    keys = progress.writes and interrupts.last in (signal.SIGINT, signal.SIGQUIT)
    if keys and progress.command and _in_foreground():
        return
    if keys and interrupts.count == 1:
        (progress.logs / injection.STOP).touch()
    else:
        child.terminate()


def _in_foreground() -> bool:
    """Whether the keys of a terminal reach this process and the command."""
    with suppress(OSError), open("/dev/tty", "rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False


class Progress:
    """What the conductor has left in its folder by now, told once."""

    def __init__(
        self, folder: Path, site: Machine, output: Path, tell: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._site = site
        self._output = output
        self._tell = tell
        self._told_trial = self._told_begin = self._told_reason = False
        self.logs = folder / "logs" / CASE / "0"
        self.head: Head | None = None

    @property
    def writes(self) -> bool:
        """Whether the writes have begun."""
        return self.head is not None and self.head.start_s is not None

    @property
    def command(self) -> bool:
        """Whether there is a command."""
        return self.head is not None and bool(self.head.command)

    def begin(self, plan: BlockPlan) -> None:
        """Tell what begins, and where on a shared host."""
        cpus = ", ".join(map(str, plan.origin_cpus))
        cores = f" on processor {cpus} of this host: leave it to them" if cpus else ""
        self._tell(f"starts the writers{cores}; first, they are measured alone")

    def look(self) -> None:
        """Tell what is new."""
        with suppress(OSError, ValueError):
            self.head = _HEAD.validate_json((self.logs / injected.HEAD).read_bytes())
        head = self.head
        if head is None:
            return
        if not self._told_trial and (self.logs / trial.FILE).exists():
            self._told_trial = True
            for row in findings(trial.read(self.logs), [], self._site):
                self._tell(f"{row.what}: {row.detail}{row.remedy and f' -> {row.remedy}'}")
            for note in head.notes:
                self._tell(note)
        if self.writes and not self._told_begin:
            self._told_begin = True
            self._tell(f"writes from {', '.join(head.origins)} to {', '.join(head.targets)}")
        if self.writes and head.reason and not self._told_reason:
            self._told_reason = True
            self._tell(f"not proven: {head.reason}")

    def outcome(self, interrupts: Interrupts) -> Injected:
        """What came of it. Raises Stopped or MachineError if nothing was written."""
        self.look()
        head = self.head
        if head is None or head.start_s is None:
            interrupts.check()
            raise MachineError(self._why())
        if head.ended_by is None:
            reason = head.reason or "the conductor was killed"
            head = replace(head, ended_by="failure", proven=False, reason=reason)
            injected.save_head(self.logs, head)
            injected.save(self.logs, self._output)
        keys = interrupts.last in (signal.SIGINT, signal.SIGQUIT)
        return Injected(head, None if keys else interrupts.last)

    def _why(self) -> str:
        """Why the conductor ended, if it says so, else what it printed last."""
        if self.head and self.head.reason:
            return self.head.reason
        log = self._folder / LOG
        return quoted(log.read_text(errors="replace")) if log.exists() else "no word"


def _planned(site: Machine, wish: Wish, folder: Path) -> tuple[BlockPlan, list[str], list[str]]:
    """The plan of the writers, and the nodes that were named. Raises InputError."""
    targets, origins = _named(site, wish)
    with_nodes = site.with_origins(len(origins)) if origins else site
    plan = plan_of(with_nodes, wish, folder)
    if site.origins.policy == "same_host":
        return plan, [], []
    if _JOB not in os.environ:
        where = f"site/{site.name}.yaml: origins.policy: {site.origins.policy}"
        raise InputError(f"{where}: found outside an allocation; allowed: inside one")
    policy: OriginPolicy = "hetjob" if _HETEROGENEOUS in os.environ else "same_job"
    component = site.origins.model_copy(update={"policy": policy})
    launcher = agent_launcher(component, site.network)
    if policy == "same_job" and targets:
        launcher.append(f"--nodelist={','.join([*targets, *origins])}")
    launcher.append("--export=ALL")  # a job may be submitted with --export=NONE
    return replace(plan, origin_policy=policy, agent_launcher=launcher), targets, origins


def _named(site: Machine, wish: Wish) -> tuple[list[str], list[str]]:
    """The target and origin nodes that were named, if any. Raises InputError."""
    if (wish.targets is None) != (wish.origins is None):
        missing = "--from" if wish.origins is None else "--to"
        raise InputError(f"{missing}: missing; allowed: both --to and --from, or neither")
    if wish.targets is None or wish.origins is None:
        return [], []
    if site.origins.policy == "same_host":
        policy = f"site/{site.name}.yaml: origins.policy: same_host"
        raise InputError(f"--to, --from: found; allowed with {policy}: neither, since it is a host")
    targets, origins = hostnames(wish.targets), hostnames(wish.origins)
    components = [name for name in os.environ if name.startswith("SLURM_JOB_NODELIST")]
    there = [node for name in components for node in hostnames(os.environ[name])]
    for option, nodes in (("--to", targets), ("--from", origins)):
        absent = [node for node in nodes if node not in there]
        if absent or not nodes:
            allowed = f"allowed: nodes of the job: {', '.join(dict.fromkeys(there))}"
            raise InputError(f"{option}: {', '.join(absent) or 'no node'} found; {allowed}")
    if twice := sorted(set(targets) & set(origins)):
        raise InputError(f"--to, --from: both have {', '.join(twice)}; allowed: different nodes")
    return targets, origins


def plan_of(site: Machine, wish: Wish, folder: Path) -> BlockPlan:
    """The block of the writers. Raises InputError, in terms of the options."""
    levels = {"rate": wish.rate, "injector": wish.injector or "auto"}
    try:
        if is_nothing(wish.rate):
            raise InputError(f"rate: {wish.rate} found; allowed: full, 25%, 2GB/s, ...")
        check_level("rate", wish.rate)
        request = planning.CaseRequest(arms=["off", "on"], levels=levels)
        writes = planning.treatments(request, site)[-1].writes
    except InputError as error:
        option = str(error).startswith(("rate: ", "injector: "))
        raise InputError(f"{'--' if option else ''}{error}") from None
    assert writes, "the arm has writers"
    treatment = Treatment(writes.injector, writes=writes, role="effect", baseline="off")
    fixed = {"case": CASE, "workload": "", "block": 0, "seed": 0, "pairs": 0, "warmups": 0}
    plan = planning.block(request, [treatment], site, _DEMAND, nimc_dir=str(folder), **fixed)
    return replace(plan, demand=replace(plan.demand, max_share=_MAX_SHARE))
