"""The text of `configs/MACHINE.py`: partitions and environments, each with its source."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from string import Template

from nimc.base.text import one_line
from nimc.cluster.init.learn import ClusterFacts, SlurmPartition, access, suggested

#: Longest job that is asked for, seconds, where a partition allows more.
_LONGEST_S = 4 * 3600
_WIDTH = 98
#: Interfaces of `srun` to the application's MPI, by what begins the name of its module.
_PMI = {"openmpi": "pmix", "mpich": "pmi2", "mvapich": "pmi2"}

_FILE = Template('''\
"""ReFrame on $name, made by `nimc init`: a comment says where each value is from.

Facts of the machine are in the file of the same name in site/; docs/add-a-machine.md explains both.
"""

import sys
from pathlib import Path

from reframe_tests.logs import LOGGING

# The environment that runs this. Compute nodes must see it.
BIN = Path(sys.executable).parent

site_configuration = {
    "systems": [
        {
            "name": Path(__file__).stem,
            # The name of the host where this was made; numbers may differ.
            "hostnames": [$hostnames],
            # $modules_source
            "modules_system": $modules_system,
            "partitions": [
$partitions
            ],
        }
    ],
    "environments": [
$environments
    ],
    # The end of a job is noticed at most ten seconds late.
    "general": [{"resolve_module_conflicts": False, "remote_detect": False, "poll_rate_min": 0.1}],
    "logging": LOGGING,
}
''')

_PARTITION = Template("""\
{
    # scontrol show partition: $nodes nodes, $limit_source
    "name": $name,
    # ReFrame reads job states from sacct: $accounting
    "scheduler": "slurm",
    # $launcher_source
    "launcher": $launcher,
    # $access_source
    "access": $access,
    # A check uses the first that it can.
    "environs": $environs,
    # One case at a time, since concurrent ones would disturb each other.
    "max_jobs": 1,
    "time_limit": $time_limit,
    # An outage of accounting ends no session; `nimc` gives up after 10 min.
    "sched_options": {"use_nodes_option": True, "max_sacct_failures": 1000},
    "env_vars": [["PATH", f"{BIN}:$$PATH"]],
},""")

_ENVIRONMENT = Template("""\
{
    # $source
    "name": $name,
    "cc": $cc,
    "cxx": $cxx,
    "ftn": $ftn,
    $more"features": [$name],
    "env_vars": $env_vars,
    "target_systems": ["*"],
},""")


def config_text(name: str, found: ClusterFacts) -> str:
    """The file. It needs no edit to be valid."""
    made = environments(found)
    names = [each for each in ("spack", "modules", "wheels") if each in made]
    partitions = "\n".join(_partition(each, found, names) for each in found.partitions)
    blocks = [*made.values(), *_without_modules(found)]
    return _FILE.substitute(
        name=name,
        hostnames=_python_pattern(host_pattern(found.host)),
        modules_source="LMOD_CMD, MODULES_CMD in the environment; allowed: lmod, tmod4, nomod, ...",
        modules_system=_quoted(found.modules_system),
        partitions=textwrap.indent(partitions, " " * 16),
        environments=textwrap.indent("\n".join(blocks), " " * 8),
    )


def host_pattern(host: str) -> str:
    """A regular expression for this host and those that differ in a number only."""
    short = host.partition(".")[0]
    return re.sub(r"[0-9]+", lambda _: r"\d+", re.escape(short)) + r"\b"


def _partition(partition: SlurmPartition, found: ClusterFacts, environs: Sequence[str]) -> str:
    direct = set(_PMI.values()) & set(found.mpi)
    listed = ", ".join(found.mpi) or "nothing"
    limit_s = partition.limit_s
    return _PARTITION.substitute(
        nodes=partition.nodes,
        limit_source=f"longest job {_limit(limit_s)}" if limit_s else "jobs of any length",
        name=_quoted(partition.name),
        accounting=_comment(found.settings.get("AccountingStorageType", "unknown")),
        launcher_source=_comment(f"srun --mpi=list: {listed}"),
        launcher=_quoted("srun" if direct else "mpirun"),
        access_source=_comment(_access_source(partition, found)),
        access=_list(access(partition, found.accounts)),
        environs=_list(environs),
        time_limit=_quoted(_limit(min(limit_s or _LONGEST_S, _LONGEST_S))),
    )


def _access_source(partition: SlurmPartition, found: ClusterFacts) -> str:
    whole = "whole nodes only" if partition.whole_nodes else "no --exclusive by itself"
    if not found.accounts:
        return f"{whole}; sacctmgr shows no account: if one is required, --account=NAME"
    names = ", ".join(each.name for each in found.accounts)
    default = [each.name for each in found.accounts if each.default]
    taken = f", {default[0]} without --account" if default else ""
    return f"{whole}; accounts (sacctmgr): {names}{taken}"


def _limit(seconds: int) -> str:
    """In ReFrame's form."""
    minutes, rest_s = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{hours}h" if hours else "", f"{minutes}m" if minutes else ""]
    return "".join([*parts, f"{rest_s}s" if rest_s else ""]) or "0s"


def environments(found: ClusterFacts) -> dict[str, str]:
    """Name -> text. `modules` only if a module provides a workload."""
    chosen = suggested(found.modules)
    source = "Built by `nimc spack build`, once `nimc spack setup` was run."
    made = {"spack": _environment("spack", source, pmi=pmi("openmpi", found.mpi))}
    if "workload" in chosen:
        loaded = list(chosen.values())
        made["modules"] = _environment(
            "modules",
            "module --terse --default avail",
            f'"modules": {_list(loaded)},\n    ',
            pmi(chosen.get("mpi", ""), found.mpi),
        )
    march = _other_processor(found)
    note = "Wheels, MPICH included: work anywhere, but not over the fast network."
    pmi2 = "pmi2" if "pmi2" in found.mpi else ""
    if not pmi2:
        note += " srun has no pmi2 (srun --mpi=list): the MPICH of the wheels needs it."
    made["wheels"] = _environment("wheels", f"{note}{march}", "", pmi2, ftn="")
    return made


def _environment(
    name: str, source: str, more: str = "", pmi: str = "", ftn: str = "gfortran"
) -> str:
    return _ENVIRONMENT.substitute(
        source=_comment(source, "    # "),
        name=_quoted(name),
        cc=_quoted("gcc"),
        cxx=_quoted("g++"),
        ftn=_quoted(ftn),
        more=more,
        env_vars=f'[["SLURM_MPI_TYPE", {_quoted(pmi)}]]' if pmi else "[]",
    )


def pmi(module: str, offered: Sequence[str]) -> str:
    """What `srun` and the MPI of a module have in common; empty if unknown."""
    name = module.lower()
    wanted = next((kind for start, kind in _PMI.items() if name.startswith(start)), "")
    return wanted if wanted in offered else ""


def _without_modules(found: ClusterFacts) -> list[str]:
    """A comment in the place of the environment `modules`."""
    chosen = suggested(found.modules)
    if "workload" in chosen:
        return []
    listed = ", ".join(chosen.values()) or "no gcc and no MPI"
    interface = pmi(chosen.get("mpi", ""), found.mpi) or "pmix"
    return [
        "# "
        + _comment(f"Modules (module --terse --default avail): {listed}, and no workload.", "# "),
        "# Modules that others hide: module spider lammps. To use them, fill in, and add",
        '# "modules" to environs above:',
        f'# {{"name": "modules", "modules": {_list([*chosen.values(), "lammps/VERSION"])},',
        '#  "cc": "gcc", "cxx": "g++", "ftn": "gfortran", "features": ["modules"],',
        f'#  "env_vars": [["SLURM_MPI_TYPE", "{interface}"]], "target_systems": ["*"]}},',
    ]


def _other_processor(found: ClusterFacts) -> str:
    """A note if nodes have another processor than this host, where sources are compiled."""
    others = {node["host"]["processor"]: node["host"]["cpu_model"] for node in found.nodes}
    different = [model for kind, model in others.items() if kind != found.processor]
    if not different:
        return ""
    return (
        f" Nodes have {different[0]}, unlike this host, where sources are compiled: set"
        ' "cflags": ["-march=..."].'
    )


def _comment(text: str, mark: str = "    # ") -> str:
    """What others said, in lines of a comment; the first has its mark already."""
    lines = textwrap.wrap(one_line(text), _WIDTH - 20) or [""]
    return f"\n{mark}".join(lines)


def _list(words: Sequence[str]) -> str:
    return f"[{', '.join(map(_quoted, words))}]"


def _quoted(text: str) -> str:
    """A literal of Python, as the formatter would write it."""
    made = repr(text)
    return made if '"' in text or "'" in text else f'"{made[1:-1]}"'


def _python_pattern(pattern: str) -> str:
    return f'r"{pattern}"' if '"' not in pattern else repr(pattern)
