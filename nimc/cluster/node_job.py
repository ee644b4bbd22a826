"""A short job that looks at nodes: its script, how it is submitted, and what came back."""

from __future__ import annotations

import json
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nimc.base.checkout import python_main
from nimc.base.interrupts import Interrupts
from nimc.base.programs import ask
from nimc.base.text import duration
from nimc.machine import slurm
from nimc.machine.site import Origins

#: Begins the name of the job's folder.
PREFIX = ".nimc-look-"
#: Each node prints which of the paths it sees.
_SEEN = 'for each in {paths}; do [ -e "$each" ] && echo "seen $SLURMD_NODENAME $each"; done'
#: How long the job may run, minutes, and how often Slurm is asked, seconds.
_LIMIT_MIN = 2
_POLL_S = 0.5
#: States of a job that has not ended.
_LIVE = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED", "STAGE_OUT")
#: One node, and no origins.
_ALONE = Origins(policy="same_host")


@dataclass(frozen=True)
class NodeRequest:
    """Which nodes to look at."""

    #: Options of sbatch: `access` of a partition.
    access: Sequence[str] = ()
    origins: Origins = _ALONE
    #: Paths that nodes must see.
    paths: Sequence[str] = ()
    #: Variables of the partition.
    env_vars: Sequence[tuple[str, str]] = ()

    @property
    def tasks(self) -> int:
        """Nodes that the job has: one target, and the origins."""
        return 1 + (0 if self.origins.policy == "same_host" else self.origins.nodes)


@dataclass(frozen=True)
class JobLook:
    """What a job found."""

    #: Slurm's id; None if it refused the job.
    job: str | None
    #: Why there is nothing more, in one line; None if the job ran.
    why: str | None = None
    #: One record for each node that could write it (`node_look`), targets first.
    nodes: list[dict[str, Any]] = field(default_factory=list)
    #: Node -> paths that it sees.
    seen: dict[str, list[str]] = field(default_factory=dict)
    #: The last line of the job's output.
    said: str = ""


def script(request: NodeRequest, folder: Path | None) -> str:
    """The job script; it does nothing without `folder`, where it leaves its results."""
    same_job = request.origins.policy == "same_job"
    first = request.tasks if same_job else 1
    options = [f"--nodes={first}", f"--ntasks={first}", "--ntasks-per-node=1"]
    options += [f"--time={_LIMIT_MIN}", "--job-name=nimc-look", *request.access]
    if folder is not None:
        places = {"chdir": folder, "output": folder / "job.out"}.items()
        # sbatch splits these lines at blanks, as a shell does.
        options += [f"--{name}={shlex.quote(str(path))}" for name, path in places]
    lines = [f"#SBATCH {option}" for option in options]
    for option in slurm.job_options(request.origins):
        lines.append(option if option.startswith("#SBATCH") else f"#SBATCH {option}")
    if folder is not None:
        lines += _body(request, folder)
    return "\n".join(["#!/bin/sh", *lines, ""])


def _body(request: NodeRequest, folder: Path) -> list[str]:
    variables = {**dict(request.env_vars), **slurm.STEP_ENVIRONMENT}
    seen = _SEEN.format(paths=shlex.join(request.paths) or '""')
    look = python_main("nimc.cluster.node_look", str(folder), str(request.tasks))
    launcher = [
        word.format(n_nodes=request.tasks) for word in slurm.agent_launcher(request.origins)
    ]
    if request.origins.policy == "same_host":
        launcher = [word for word in launcher if not word.startswith("--het-group")]
    return [
        *(f'export {name}="{value}"' for name, value in variables.items()),
        shlex.join([*launcher, "sh", "-c", f"{seen}; exec {shlex.join(look)}"]),
    ]


def refusal(request: NodeRequest) -> str | None:
    """Why Slurm would refuse such a job, in one line; None if it takes it.

    `sbatch --test-only` looks at each component of a heterogeneous job by itself, so what a site
    forbids shows only when one is submitted: it is held, and cancelled at once. Raises MachineError
    if Slurm does not answer.
    """
    held = request.origins.policy in ("hetjob", "reservation")
    how = ["--hold", "--output=/dev/null"] if held else ["--test-only"]
    with Interrupts() as interrupts, tempfile.TemporaryDirectory() as folder:
        try:
            answer = ask(["sbatch", f"--chdir={folder}", *how], stdin=script(request, None))
            interrupts.check()
        finally:
            if held:
                slurm.cancel(Path(folder))
    return None if answer.ended().ok else _error(answer.stderr)


def look(request: NodeRequest, parent: Path, wait_s: float) -> JobLook:
    """Submit the job and wait until it has ended, at most `wait_s` seconds.

    Its files are in a new folder in `parent`, which nodes should see. Whatever ends this, the job
    and the folder are gone. Raises MachineError if Slurm does not answer, Stopped after a signal.
    """
    with Interrupts() as interrupts, tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as made:
        folder = Path(made)
        try:
            answer = ask(["sbatch", "--parsable"], stdin=script(request, folder))
            interrupts.check()
            if not answer.ended().ok:
                return JobLook(None, f"Slurm refuses the job: {_error(answer.stderr)}")
            job = answer.stdout.strip().partition(";")[0]  # `ID` or `ID;CLUSTER`
            reason = _await(job, interrupts, wait_s)
        finally:
            slurm.cancel(folder)
        interrupts.check()
        return collected(folder, job, reason)


def collected(folder: Path, job: str, reason: str | None) -> JobLook:
    """What a job left in its folder."""
    files = sorted(folder.glob("[0-9]*.json"), key=lambda path: int(path.stem))
    nodes = [json.loads(path.read_text()) for path in files]
    output = folder / "job.out"
    text = output.read_text(errors="replace") if output.exists() else ""
    return JobLook(job, reason, nodes, *output_of_nodes(text))


def outcome(looked: JobLook, request: NodeRequest) -> str:
    """How the job went, in one line."""
    names = [node["node"] for node in looked.nodes]
    if len(names) == request.tasks:
        origins = ", ".join(names[1:]) or "none"
        return f"job {looked.job}: target {names[0]}, origins {origins}"
    if looked.why:
        return looked.why
    said = f"it said: {looked.said}" if looked.said else "it wrote nothing"
    return f"job {looked.job}: {len(names)} of {request.tasks} nodes answered; {said}"


def output_of_nodes(text: str) -> tuple[dict[str, list[str]], str]:
    """Node -> paths that it sees, from lines `seen NODE PATH`; and the last other line."""
    seen: dict[str, list[str]] = {}
    said = ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        node, _, path = rest.partition(" ")
        if word == "seen" and path:
            seen.setdefault(node, []).append(path)
        elif line.strip():
            said = line.strip()
    return seen, said


def _await(job: str, interrupts: Interrupts, wait_s: float) -> str | None:
    """Wait for the job's end; why it does not come, else None. Raises Stopped."""
    until_s = time.monotonic() + wait_s
    while state := _state(job):
        if time.monotonic() > until_s:
            return f"job {job} has not ended after {duration(wait_s)} ({state}); cancelled"
        interrupts.wait(_POLL_S)
        interrupts.check()
    return None


def _state(job: str) -> str:
    """State and reason of a job that has not ended; else empty."""
    answer = ask(["squeue", f"--job={job}", "--noheader", "--format=%T: %r"])
    if "nvalid job id" not in answer.stderr:
        answer.required()
    live = [line.strip() for line in answer.stdout.splitlines() if line.startswith(_LIVE)]
    return live[0] if live else ""


def _error(text: str) -> str:
    """What Slurm said, without the names of its programs."""
    lines = [line.partition("error: ")[2] or line for line in text.splitlines() if line.strip()]
    return "; ".join(line.strip() for line in lines) or "no answer"
