"""Asks Slurm, the modules system and a short job about a new machine."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from nimc.base.checkout import ROOT
from nimc.base.errors import MachineError
from nimc.base.files import user_name
from nimc.base.programs import ask
from nimc.cluster import node_job
from nimc.cluster.init import slurm_text
from nimc.cluster.init.facts import ClusterFacts, access
from nimc.cluster.node_job import NodeRequest
from nimc.machine import host

# What `module avail` prints, and the modules that an environment of ReFrame may load.


_MODULE = re.compile(r"([A-Za-z][\w.+-]*(?:/[\w.+-]+)*/[\w.+-]+)(?:\(([\w:]+)\))?", re.ASCII)
#: Kind of module -> names, the usual choice first.
_KINDS = {
    "compiler": ("gcc", "GCC", "gnu"),
    "mpi": ("openmpi", "OpenMPI", "mpich", "MPICH", "mvapich2"),
    "workload": ("lammps", "LAMMPS"),
}


def modules_in(text: str) -> list[str]:
    """`NAME/VERSION` from `module --terse --default avail` of Lmod or environment-modules."""
    found = (_MODULE.fullmatch(line.strip()) for line in text.splitlines())
    return list(dict.fromkeys(match[1] for match in found if match))


def suggested(modules: Sequence[str]) -> dict[str, str]:
    """Kind -> the module of that kind that is to be loaded; only kinds that there are."""
    found: dict[str, str] = {}
    for kind, names in _KINDS.items():
        for name in names:
            if matching := [each for each in modules if each.rpartition("/")[0] == name]:
                found[kind] = max(matching, key=version)
                break
    return found


def version(module: str) -> list[tuple[int, str]]:
    """Sort key of `NAME/VERSION`: numbers by value."""
    words = re.findall(r"[0-9]{1,18}|[A-Za-z]+", module.rpartition("/")[2])
    return [(int(word), "") if word.isdigit() else (-1, word) for word in words]


_SCONTROL = ("scontrol", "--oneliner", "show")


def learn(wait_s: float | None, tell: Callable[[str], None]) -> ClusterFacts:
    """All that can be known. The job waits and runs `wait_s` at most; None submits nothing.

    Raises MachineError without a Slurm that answers, Stopped after a signal.
    """
    facts = _slurm()
    if wait_s is None:
        return facts
    target = access(facts.target, facts.accounts)
    if facts.target.nodes > 1:
        tell(f"asks Slurm for a heterogeneous job in {facts.target.name}")
        reason = node_job.refusal(NodeRequest(target, facts.origins))
        # What is refused to any job, such as the account, says nothing of heterogeneous ones.
        if reason is None or node_job.refusal(NodeRequest(target)) is None:
            facts = replace(facts, hetjob_refused=reason, hetjob_asked=True)
    request = NodeRequest(target, facts.origins)
    tell(f"submits a job of {request.tasks} nodes to {facts.target.name}")
    looked = node_job.look(request, ROOT, wait_s)
    tell(node_job.outcome(looked, request))
    return replace(facts, looked=looked)


def _slurm() -> ClusterFacts:
    """What needs no job."""
    partitions = slurm_text.chosen(slurm_text.partitions(_required([*_SCONTROL, "partition"])))
    if not partitions:
        raise MachineError("scontrol show partition: no partition that is up and has nodes")
    nodes = _required([*_SCONTROL, "node"])
    user = user_name(os.geteuid())
    assoc = ["sacctmgr", "--noheader", "--parsable2", "show"]
    default = ask([*assoc, "user", user, "format=defaultaccount"])
    accounts = ask([*assoc, "assoc", f"user={user}", "format=account"])
    system, modules = _modules(os.environ)
    here = host.detect()
    return ClusterFacts(
        host=socket.gethostname(),
        processor=here.processor,
        partitions=partitions,
        shapes={each.name: slurm_text.shapes(nodes, each.name) for each in partitions},
        settings=slurm_text.settings(_required(["scontrol", "show", "config"])),
        mpi=slurm_text.mpi_types(ask(["srun", "--mpi=list"]).text),
        accounts=slurm_text.accounts(accounts.text, default.text) if accounts.ok else [],
        modules_system=system,
        modules=modules,
    )


def _modules(environment: Mapping[str, str]) -> tuple[str, Sequence[str]]:
    """ReFrame's name of the modules system, and the default module of each name."""
    for variable, name in (("LMOD_CMD", "lmod"), ("MODULES_CMD", "tmod4")):
        if program := environment.get(variable):
            interpreter = [] if os.access(program, os.X_OK) else ["tclsh"]
            answer = ask([*interpreter, program, "bash", "--terse", "--default", "avail"])
            return name, modules_in(answer.text)
    return "nomod", []


def _required(command: Sequence[str]) -> str:
    answer = ask(command)
    if not answer.ok:
        raise MachineError(
            f"{' '.join(command)}: {answer.last}; without Slurm, copy configs/localhost.py and"
            " site/localhost.yaml"
        )
    return answer.text
