"""Options of Slurm for a job with origins and for its steps, and parsers of a site's options."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

from records.errors import InputError

if TYPE_CHECKING:
    from records.machine.site import Origins

#: ReFrame's names of schedulers that are Slurm: the first reads the states of jobs from the
#: accounting, the second from the queue, where it does not find heterogeneous jobs.
SACCT_SCHEDULER, SQUEUE_SCHEDULER = "slurm", "squeue"
SCHEDULERS = (SACCT_SCHEDULER, SQUEUE_SCHEDULER)
#: Why there are no heterogeneous jobs without accounting.
NO_HETJOBS = "ReFrame's scheduler 'squeue', for a cluster without accounting, does not follow it"
#: The only scheduler of Slurm that starts heterogeneous jobs.
HETJOB_SCHEDULER = "sched/backfill"
#: ReFrame's name of Slurm's launcher, and the name of its program.
SRUN = "srun"
#: The remedy if a step starts several copies of a program, each of which has one rank.
MPI_HINT = "for srun: set SLURM_MPI_TYPE, for Intel MPI also I_MPI_PMI_LIBRARY"
#: Variables that give a step the CPUs per task of the application: `srun` before 22.05 reads the
#: first, later ones the second, and from 23.11 on the third. They would confine the agents.
_TASK_CPUS = ("SLURM_CPUS_PER_TASK", "SRUN_CPUS_PER_TASK", "SLURM_TRES_PER_TASK")
_UNSET_CPUS = [
    f"--unset={name}{component}" for name in _TASK_CPUS for component in ("", "_HET_GROUP_0")
]
#: Variable that gives steps the job script's environment, even if jobs are submitted with
#: `--export=NONE`.
STEP_ENVIRONMENT = {"SLURM_EXPORT_ENV": "ALL"}


def job_options(origins: Origins, core_spec: int = 0, nodelist: str = "") -> list[str]:
    """Options in the job script: no requeue, and the component of the origins if there is one.

    `core_spec` leaves cores of the targets to the system, and `nodelist` pins the targets. Both are
    options of the first component, which has the targets.

    Slurm copies account, QOS and time limit of the first component to the second, but not
    `--exclusive`.
    """
    options = ["--no-requeue"]
    if core_spec:
        options.append(f"--core-spec={core_spec}")
    if nodelist:
        options.append(f"--nodelist={nodelist}")
    if origins.policy in ("hetjob", "reservation"):
        count = origins.nodes
        component = [f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1"]
        component += ["--no-requeue", "--exclusive"]
        if origins.partition:
            component.append(f"--partition={origins.partition}")
        if origins.reservation:
            component.append(f"--reservation={origins.reservation}")
        component += origins.access
        options += ["#SBATCH hetjob", f"#SBATCH {' '.join(component)}"]
    return options


def cpus_per_task(cores: int | None, threads_per_core: int) -> int | None:
    """Return the CPUs of a task that has `cores`. Slurm counts hardware threads as CPUs.

    If `cores` is None, the task has one core. If this core has one CPU, the result is None, too.
    """
    return cores if threads_per_core == 1 else (cores or 1) * threads_per_core


def agent_launcher(origins: Origins, network: str = "") -> list[str]:
    """Return the line that starts the agents: a step with one task per node of the job.

    The step shares cores with the application. It ends as soon as an agent fails, even if the
    conductor has not heard of that agent yet. `network` is the network of this step, and of the
    steps of writers that an agent starts.
    """
    network_settings = [f"SLURM_NETWORK={network}"] if network else []
    step = ["env", *_UNSET_CPUS, *network_settings, SRUN, "--overlap", "--ntasks-per-node=1"]
    step += ["--cpu-bind=none", "--mpi=none", "--mem=0", "--kill-on-bad-exit=1"]
    if origins.policy == "same_job":
        return [*step, "--ntasks={n_nodes}", "--nodes={n_nodes}"]
    return [*step, "--het-group=0,1"]


def with_network(launcher: list[str], network: str | None) -> list[str]:
    """Return the launch line of an application, with `network` unless the line names a network.

    The line of another launcher than `srun` is unchanged.
    """
    names_network = any(word.startswith("--network") for word in launcher)
    if launcher[:1] != [SRUN] or network is None or names_network:
        return launcher
    return [*launcher, f"--network={network}"]


def with_overlap(launcher: list[str]) -> list[str]:
    """The launch line of an application that shares CPUs with the step of the agents."""
    if launcher[:1] != [SRUN] or "--overlap" in launcher:
        return launcher
    return [*launcher, "--overlap"]


def limited_to_targets(launcher: list[str], origins: Origins, tasks: int) -> list[str]:
    """Return the launch line of an application that leaves the last nodes of its job to origins.

    In a heterogeneous job, the application's component has only targets, so the line is unchanged.
    """
    if origins.policy != "same_job" or not launcher:
        return launcher
    if launcher[0] == SRUN:
        return [*launcher, "--nodes={n_targets}", f"--ntasks={tasks}", "--nodelist={targets}"]
    return [*launcher, "--host", "{slots}"]


def bound_to_cores(launcher: list[str]) -> list[str]:
    """The launch line of an application whose tasks each keep to their own cores.

    By default Slurm binds tasks only if there are as many tasks as cores. Without this option,
    levels of `reserved_cores` would differ in the binding too.
    """
    if launcher[:1] != [SRUN] or any(word.startswith("--cpu-bind") for word in launcher):
        return launcher
    return [*launcher, "--cpu-bind=cores"]


def with_task_sizes(
    launcher: list[str], tasks: int, per_node: int | None, cpus: int | None
) -> list[str]:
    """Return the launch line of an application with the number and the size of its tasks.

    They may differ from those of the job. `per_node` is the number of tasks per node, `cpus` the
    CPUs of a task. Before Slurm 22.05, ReFrame leaves out the CPUs of a task, and the step would
    take the job's.
    """
    if launcher[:1] != [SRUN]:
        return launcher
    sizes = {"--ntasks=": tasks, "--ntasks-per-node=": per_node, "--cpus-per-task=": cpus}
    missing = {
        option: size
        for option, size in sizes.items()
        if size and not any(word.startswith(option) for word in launcher)
    }
    return [*launcher, *(f"{option}{size}" for option, size in missing.items())]


def srun_launcher(mpi: str) -> str:
    """Return the line that starts ranks. `mpi` is Slurm's type of the MPI, such as `pmix`."""
    return f"{SRUN} --mpi={mpi}"


def whole_node_request(feature: str) -> str:
    """Return the line with which a user requests whole nodes with a feature."""
    return f"sbatch --exclusive --constraint={feature}"


# Both ranks of a writer, which its agent starts in a step of its own beside the application.


#: Before Slurm 22.05, a step without `--mem=0` takes memory from the application's step. By default
#: each of the two steps needs all memory of the job, so the application's step would never start.
_BESIDE_APPLICATION = "--overlap --mem=0 --cpu-bind=none"
#: Both ranks on one host.
RANKS_ON_ONE = f"{_BESIDE_APPLICATION} --nodes=1 --ntasks=2"
#: One rank on each of two hosts.
RANKS_ON_TWO = f"{_BESIDE_APPLICATION} --nodes=2 --ntasks=2 --nodelist={{target}},{{origin}}"
_RANK = f"{_BESIDE_APPLICATION} --nodes=1 --ntasks=1 --het-group"
#: In a heterogeneous job, targets are in the first component and origins in the second, and each
#: has a command of its own.
RANKS_ON_COMPONENTS = f"{_RANK}=0 --nodelist={{target}} : {_RANK}=1 --nodelist={{origin}}"


# Options that a site or a user gives, as `sbatch` reads them.


#: The variable of `sbatch` for the partition. ReFrame submits jobs without such variables, which
#: would override options of a job script.
PARTITION_VARIABLE = "SBATCH_PARTITION"
#: Variables for what a site may require of every job -> the option of each.
REQUIREMENTS = {
    "SBATCH_ACCOUNT": "account",
    "SBATCH_QOS": "qos",
    "SBATCH_CONSTRAINT": "constraint",
    "SBATCH_GRES": "gres",
    "SBATCH_GPUS_PER_NODE": "gpus-per-node",
    "SBATCH_WCKEY": "wckey",
    "SBATCH_RESERVATION": "reservation",
}
#: A variable that every job has.
JOB_VARIABLE = "SLURM_JOB_ID"
#: Chooses one of several clusters with a common accounting. All commands but `sacct` read it.
CLUSTER_VARIABLE = "SLURM_CLUSTERS"
#: Names Slurm's configuration file.
CONFIGURATION_VARIABLE = "SLURM_CONF"
#: Variables of Slurm that are settings of a site.
SITE_VARIABLES = (CONFIGURATION_VARIABLE, CLUSTER_VARIABLE)
#: A variable that `sbatch` reads, and that ReFrame leaves. Its value `nomultithread` would leave
#: tasks one thread per core, while the script's number of CPUs per task counts all threads.
_HINT_VARIABLE = "SLURM_HINT"
#: Beginnings of the names of variables in which a user chooses what Slurm's commands list or
#: cancel, and in which form (manuals of squeue, sinfo and scancel).
_FILTERS = ("SQUEUE_", "SINFO_", "SCANCEL_")
#: A value that needs no quotes in a job script.
_WORD = re.compile(r"[^\s\"'\\#]+")
#: Options of the targets that the component of the origins has, too: `job_options` gives it two of
#: them, and Slurm copies the others.
_SHARED_OPTIONS = ("partition", "exclusive", "account", "qos", "wckey")


def requirements(environment: Mapping[str, str]) -> list[str]:
    """Options for what a site requires of every job, from a user's variables of `sbatch`."""
    return [
        f"--{option}={environment[variable]}"
        for variable, option in REQUIREMENTS.items()
        if _WORD.fullmatch(environment.get(variable, ""))
    ]


def clusters(environment: Mapping[str, str]) -> list[str]:
    """The cluster that a user has chosen for all commands of Slurm; empty: the host's cluster.

    Raises InputError if several are chosen, since one may lack what another has.
    """
    names = environment.get(CLUSTER_VARIABLE, "").replace(",", " ").split()
    if len(names) > 1 or names == ["all"]:
        raise InputError(f"{CLUSTER_VARIABLE}: {', '.join(names)} found; allowed: one cluster")
    return names


def origins_access(access: Sequence[str]) -> list[str]:
    """The options of jobs that the component of the origins still lacks."""
    shared = {f"--{option}" for option in _SHARED_OPTIONS}
    return [option for option in access if option.partition("=")[0] not in shared]


def overriding_variables(environment: Mapping[str, str]) -> list[str]:
    """Variables of an environment that would override what job scripts say.

    If this process is itself in a job, the variables of that job are among them, such as
    `SLURM_MEM_PER_CPU`: new jobs inherit them, and `srun` in these jobs would obey them. ReFrame
    removes the variables of `sbatch`.
    """
    prefixes = ("SLURM_", "SLURMD_") if JOB_VARIABLE in environment else (_HINT_VARIABLE,)
    return [
        name for name in environment if name.startswith(prefixes) and name not in SITE_VARIABLES
    ]


def filtering_variables(environment: Mapping[str, str]) -> list[str]:
    """Return the variables of an environment that would hide jobs or nodes from Slurm's lists."""
    return [name for name in environment if name.startswith(_FILTERS)]


@contextmanager
def environment_without(names: Sequence[str]) -> Iterator[None]:
    """Within this context, this process's environment lacks these variables."""
    values = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ |= values


#: Length from which a shortened option is unambiguous here: `--part`.
_MIN_OPTION_LENGTH = 6


def named_partition(access: Sequence[str]) -> str | None:
    """The partition that job options name (`access` of ReFrame's configuration)."""
    values = option_values(access, "partition", "p")
    return values[-1] if values else None


def option_values(access: Sequence[str], name: str, letter: str = "") -> list[str]:
    """The values of an option of `sbatch`, in order; an option without a value gives an empty one.

    A line is read as `sbatch` reads it: `--name=VALUE`, `--name VALUE`, `-l VALUE`, `-lVALUE`,
    shortened names, and several options in a line.
    """
    values = []
    for line in access:
        for word, following in pairwise([*words_of(line), ""]):
            option, equals, value = word.partition("=")
            is_shortened = f"--{name}".startswith(option) and len(option) >= _MIN_OPTION_LENGTH
            if option == f"--{name}" or is_shortened:
                value_follows = not equals and not following.startswith("-")
                values.append(following if value_follows else value)
            elif letter and word.startswith(f"-{letter}"):
                values.append(word.removeprefix(f"-{letter}") or following)
    return values


def words_of(line: str) -> list[str]:
    """The words of a line of options as a shell reads them; with an open quote, split at blanks."""
    try:
        return shlex.split(line)
    except ValueError:  # a quote without its end
        return line.split()
