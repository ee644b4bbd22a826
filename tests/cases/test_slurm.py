"""Tests how nimc reads what Slurm prints, and options of Slurm.

Each row of the table is a case. Its right result is worked out by hand. A row without a text reads
the file of its name in `../shared/cases`, beside the checkout.
"""

import re
from datetime import datetime
from pathlib import Path

import pytest
from reframe.core.exceptions import SpawnedProcessError

from nimc.cluster import learn
from nimc.cluster.new_machine import site_text
from nimc.readiness import reservation
from records.errors import InputError
from records.slurm import options, parse, parse_nodes
from records.slurm.options import named_partition
from tests.cases.shared_hosts import Case, read
from tests.nimc.cluster import made

# Functions that read a case. Each gets the text of the case, and a folder.


def shape_for_jobs(text: str, _: Path) -> tuple[int, int, int | None]:
    """Return the cores, threads of a core, and memory (MiB) that jobs get on a node."""
    nodes = [line for line in text.splitlines() if line.startswith("NodeName=")]
    partition = (parse_nodes.partitions(text, nodes_output=text) or [BATCH])[0]
    (shape,) = {*parse_nodes.shapes("\n".join(nodes), partition).values()}
    return shape.cores, shape.threads_per_core, shape.memory_mib


#: Names of users, groups and accounts in the cases. A minus sign before a name excludes it.
_HOLDER = re.compile(r"-?\b(?:ada|bob|ops|staff|proj9)\b")


def names_in_refusals(text: str, _: Path) -> list[tuple[list[str], list[str]]]:
    """Return the names in nimc's messages about each reservation to user `ada` of group `staff`.

    The first list has the names in reasons why `ada` cannot use the reservation. The second has
    names of accounts on which it may depend whether she can.
    """
    names = []
    for line in text.replace(" StartTime", " State=ACTIVE StartTime").splitlines():
        record = parse.parse_reservation(line)
        shortcomings = reservation.shortcomings(
            record, 1, 0, "ada", ["staff"], datetime(2026, 12, 1)
        )
        assert all(message.startswith(f"reservation {record.name} ") for message in shortcomings)
        doubt = reservation.account_doubt(record) or ""
        names.append((_HOLDER.findall("; ".join(shortcomings)), _HOLDER.findall(doubt)))
    return names


def usable_nodes(text: str, _: Path) -> list[str]:
    """Return the nodes on which jobs can run now or later."""
    return [row.name for row in parse_nodes.nodes_in(text) if row.is_usable]


def usable_default_nodes(text: str, _: Path) -> list[str]:
    """Return the nodes of the default partition on which jobs can run now or later."""
    return [row.name for row in parse_nodes.nodes_in(text, default_only=True) if row.is_usable]


def hetjob_refusal(text: str, _: Path) -> str | None:
    """Return why nimc tries no heterogeneous job; the text is from `scontrol show config`."""
    return learn.hetjob_refusal(parse.settings(text))


def threads_and_kept_cores(text: str, _: Path) -> tuple[int | None, int]:
    """Return how many threads of each core a job gets, and the cores it leaves to the system."""
    return parse.threads_per_core(text), parse.core_spec(text)


def outcome_name(text: str, _: Path) -> str:
    """Return nimc's name for the outcome of a job with this state."""
    return parse.job_outcome(text, 1, None).name


def limit_of_job_7(text: str, folder: Path) -> str | None:
    """Return the limit because of which job 7 waits; `FOLDER` stands for its working folder."""
    job = parse.jobs_in_folder(folder, text.replace("FOLDER", str(folder)))["7"]
    assert job
    return job.limit_reason


def advice_to_job_7(text: str, folder: Path) -> str:
    """Return the advice to a user whose job waits for the reason in the text."""
    return parse.jobs_in_folder(folder, f"7|PD|N/A|{text}|{folder}")["7"].line.partition("): ")[2]


def refusal(text: str, _: Path) -> str | None:
    """Return why a job was refused.

    The text has standard output and, after a line `|`, standard error.
    """
    output, _, errors = text.partition("|\n")
    failed = SpawnedProcessError("sbatch rfm_job.sh", output, errors, 1)
    return parse.refusal(f"spawned process error: {failed}")


def advice_on_refusal(text: str, folder: Path) -> str:
    """Return the advice to a user about a refusal, which `sbatch` prints to standard error.

    A `^` in the text stands for the beginning of an error line.
    """
    reason = refusal("|\n" + text.replace("^", "sbatch: error: "), folder)
    return parse.refusal_remedy(f"Slurm refuses the job: {reason}")


def partition_option(text: str, _: Path) -> str | None:
    return named_partition(text.rstrip("\n").split("\n"))


def jobs_of_target(text: str, _: Path) -> tuple[str, list[str], int, list[str]]:
    """Return the target's partition, options of jobs, nodes of a job, and more options of origins.

    The first line of the text has settings of Slurm and, after `|`, the user's variables. The user
    has the account `proj`.
    """
    first, _, shown = text.partition("\n")
    settings, variables = (
        dict(word.split("=", 1) for word in part.split()) for part in first.split("|")
    )
    partitions = parse_nodes.partitions(shown, settings, nodes_output=shown)
    requirements = options.requirements(variables)
    target, reason = learn.target_of(
        partitions, variables.get("SBATCH_PARTITION"), ["proj"], requirements
    )
    facts = made.cluster_facts(
        partitions=[target],
        target_reason=reason,
        requirements=requirements,
        hetjob_refusal="refused" if "REFUSED" in variables else None,
    )
    assert reason in " ".join(site_text(facts).replace("\n#", "").split())
    access = learn.access(target, facts.requirements)
    return target.name, access, facts.job_nodes[0], facts.origins.access


def without_overriding(text: str, _: Path) -> list[str]:
    """Return which of a user's variables a job keeps."""
    environment = dict.fromkeys(text.split(), "x")
    overriding = options.overriding_variables(environment)
    return [name for name in environment if name not in overriding]


BATCH = parse_nodes.SlurmPartition(
    name="batch", is_default=True, limit_s=None, gives_whole_nodes=False, node_count=1
)


def node_line(fields: str, cpus: int = 64, name: str = "n") -> str:
    """Return the line of a node with 32 cores, for which Slurm counts `cpus` CPUs.

    It has no CPUEfctv, as before Slurm 21.08, unless `fields` has it.
    """
    return (
        f"NodeName={name} Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 CPUTot={cpus}"
        f" Partitions=batch {fields}"
    )


def node_with_limit(limit: str, *nodes_mib: int) -> str:
    """Return the lines of a partition with a limit, and of its nodes with their memory.

    By default there is one node, which has 256000 MiB.
    """
    partition = f"PartitionName=batch State=UP TotalNodes=1 Max{limit}"
    return "\n".join([partition, *nodes_with_memory(*(nodes_mib or [256000]))])


def nodes_with_memory(*nodes_mib: int) -> list[str]:
    """Return the line of a node for each of these sizes of memory, MiB."""
    return [
        node_line(f"RealMemory={mib}", name=f"n{number}") for number, mib in enumerate(nodes_mib)
    ]


RESERVATION = (
    "ReservationName=r StartTime=2026-11-01T00:00:00 EndTime=2036-11-01T00:00:00 Nodes=n NodeCnt=1"
)

#: Partitions like those that the documentation of LUMI describes. None is the default. Only one
#: gives jobs whole nodes.
NO_DEFAULT = """\
PartitionName=debug Default=NO MaxNodes=4 State=UP OverSubscribe=NO TotalNodes=8
PartitionName=q_other Default=NO AllowAccounts=other State=UP TotalNodes=9000
PartitionName=maint Default=NO ReqResv=YES State=UP TotalNodes=9000
PartitionName=admin Default=NO RootOnly=YES State=UP TotalNodes=9000
PartitionName=small Default=NO MaxNodes=1 State=UP TotalNodes=302 DefMemPerCPU=1750
PartitionName=standard Default=NO MaxNodes=512 State=UP OverSubscribe=EXCLUSIVE TotalNodes=1496
"""
#: Settings of slurm.conf that hold for all partitions.
MEMORY = "SelectTypeParameters=CR_CORE_MEMORY DefMemPerCPU=2000"
#: Settings without a default for a job's memory.
NO_MEMORY = "SelectTypeParameters=CR_CORE_MEMORY"

# Advice to users whose jobs wait or are refused.
LESS_MEMORY = "ask for less memory: --mem or --mem-per-cpu under access in configs/"
OTHERS_END = (
    "it counts all running jobs of the account, QOS or user: wait until others end; a job that"
    " by itself exceeds it never starts"
)
ONE_JOB = "set policy: same_job in site/, so that a block is one job, not two"
OTHER_SIZE = (
    "a job has too few or too many nodes or CPUs for the partition or the QOS: name another"
    " under access in configs/, or take another case"
)
NOTHING_FITS = "no node has what the job asks for: see access in configs/, and facts in site/"
WHAT_IS_REQUIRED = (
    "see access in configs/ for account, QOS and partition, and what they require (--gres)"
)
#: What a site prints before `sbatch` does anything. It is longer than nimc shows a reason.
WELCOME = "\n".join(["-" * 70, "Welcome to the Example Supercomputer".center(70)] * 5) + "\n"

CASES = [
    # The partition of the targets, with options of jobs, nodes of a job, and options of origins.
    Case(
        "no default partition: the largest that admits the user",
        jobs_of_target,
        ("standard", ["--partition=standard"], 513, []),
        f"|\n{NO_DEFAULT}",
    ),
    # By the documentation of Mahti, the same nodes are in two partitions, one for large jobs.
    Case(
        "no default partition; of two equally large ones, one is for large jobs only",
        jobs_of_target,
        ("medium", ["--partition=medium", "--exclusive"], 21, []),
        "|\nPartitionName=large MinNodes=20 MaxNodes=200 State=UP TotalNodes=1404\n"
        "PartitionName=medium MinNodes=0 MaxNodes=20 State=UP TotalNodes=1404\n"
        "PartitionName=test MinNodes=1 MaxNodes=2 State=UP TotalNodes=12",
    ),
    Case(
        "the user names a QOS that the default partition, and a larger one, do not accept",
        jobs_of_target,
        ("bench", ["--partition=bench", "--qos=bench", "--exclusive"], 30, []),
        "|SBATCH_QOS=bench\n"
        "PartitionName=general Default=YES AllowQos=normal,long State=UP TotalNodes=600\n"
        "PartitionName=large AllowQos=ALL DenyQos=bench State=UP TotalNodes=600\n"
        "PartitionName=bench AllowQos=bench,debug State=UP TotalNodes=30",
    ),
    Case(
        "the user names an account that the default partition, for another account, does not admit",
        jobs_of_target,
        ("bench", ["--partition=bench", "--account=Bench", "--exclusive"], 30, []),
        "|SBATCH_ACCOUNT=Bench\n"
        "PartitionName=general Default=YES AllowAccounts=proj,ops State=UP TotalNodes=600\n"
        "PartitionName=large DenyAccounts=bench,ops State=UP TotalNodes=600\n"
        "PartitionName=bench AllowAccounts=BENCH State=UP TotalNodes=30",
    ),
    Case(
        "the default partition needs a reservation, and the user's jobs have one",
        jobs_of_target,
        (
            "course",
            ["--partition=course", "--reservation=hpc26", "--exclusive"],
            8,
            ["--reservation=hpc26"],
        ),
        "|SBATCH_RESERVATION=hpc26\n"
        "PartitionName=course Default=YES ReqResv=YES State=UP TotalNodes=8\n"
        "PartitionName=work State=UP TotalNodes=600",
    ),
    # Since Slurm 23.02, accounts below an allowed one are admitted too (part_policy_valid_acct() of
    # partition_mgr.c).
    Case(
        "no partition lists the user's account, which may be below one that is listed",
        jobs_of_target,
        ("work", ["--partition=work", "--exclusive"], 600, []),
        "|\nPartitionName=maint ReqResv=YES AllowAccounts=national State=UP TotalNodes=9000\n"
        "PartitionName=debug AllowAccounts=national State=UP TotalNodes=30\n"
        "PartitionName=work AllowAccounts=national State=UP TotalNodes=600",
    ),
    Case(
        "a partition that lists the user's account comes before one that may admit it",
        jobs_of_target,
        ("own", ["--partition=own", "--exclusive"], 30, []),
        "|\nPartitionName=work Default=YES AllowAccounts=national State=UP TotalNodes=600\n"
        "PartitionName=own AllowAccounts=proj State=UP TotalNodes=30",
    ),
    Case(
        "the default partition is for large jobs",
        jobs_of_target,
        ("general", ["--partition=general", "--exclusive"], 769, []),
        "|\nPartitionName=general Default=YES MinNodes=17 MaxNodes=768 State=UP TotalNodes=6336\n"
        "PartitionName=micro MinNodes=1 MaxNodes=16 State=UP TotalNodes=6336",
    ),
    Case(
        "the user names a partition whose jobs get only the memory that they request",
        jobs_of_target,
        ("small", ["--partition=small", "--exclusive", "--mem=0"], 2, ["--mem=0"]),
        f"|SBATCH_PARTITION=small\n{NO_DEFAULT}",
    ),
    Case(
        "no heterogeneous jobs: origins are among the nodes of MaxNodes",
        jobs_of_target,
        ("debug", ["--partition=debug", "--exclusive"], 4, []),
        f"|SBATCH_PARTITION=debug REFUSED=1\n{NO_DEFAULT}",
    ),
    Case(
        "options that a site requires, of which Slurm copies account and QOS to the origins",
        jobs_of_target,
        (
            "gpp",
            [
                *("--partition=gpp", "--account=proj", "--qos=gp_debug", "--constraint=a&b"),
                *("--gres=gpu:4", "--exclusive"),
            ],
            6192,
            ["--constraint=a&b", "--gres=gpu:4"],
        ),
        "|SBATCH_ACCOUNT=proj SBATCH_QOS=gp_debug SBATCH_CONSTRAINT=a&b SBATCH_GRES=gpu:4"
        " SBATCH_RESERVATION=\nPartitionName=gpp Default=YES State=UP TotalNodes=6192",
    ),
    # By slurm_opt.c, each component of a job has its own `--gpus-per-node` (reset_each_pass).
    Case(
        "GPUs and a key of workload characterization that a site requires",
        jobs_of_target,
        (
            "gpu",
            ["--partition=gpu", "--gpus-per-node=4", "--wckey=p1:lammps", "--exclusive"],
            64,
            ["--gpus-per-node=4"],
        ),
        "|SBATCH_GPUS_PER_NODE=4 SBATCH_WCKEY=p1:lammps\n"
        "PartitionName=gpu Default=YES State=UP TotalNodes=64",
    ),
    *(
        Case(
            f"memory by {settings}, {fields}",
            jobs_of_target,
            ("a", ["--partition=a", "--exclusive", *memory], 2, memory),
            f"{settings}|\nPartitionName=a Default=YES State=UP TotalNodes=2 {fields}",
        )
        for settings, fields, memory in (
            (MEMORY, "DefMemPerNode=UNLIMITED MaxMemPerNode=UNLIMITED", ["--mem=0"]),
            # If users may not see nodes (PrivateData=nodes), only the limit is known.
            (MEMORY, "DefMemPerCPU=2150 MaxMemPerCPU=2150", ["--mem-per-cpu=2150M"]),
            (MEMORY, "DefMemPerCPU=2150 MaxMemPerNode=137600", ["--mem=137600M"]),
            ("SelectTypeParameters=CR_CORE DefMemPerCPU=2000", "", []),
            (NO_MEMORY, "", []),
        )
    ),
    # Limits are compared as by _valid_pn_min_mem() of job_mgr.c. With a limit per node, `--mem=0`
    # counts as the memory of a node; so does a job that has neither `--mem` nor a default. If a job
    # has memory per node and there is a limit per CPU, Slurm raises the CPUs of each task. For
    # example, 137600 MiB and a limit of 2150 make 64 CPUs; for 48 tasks, these are ceil(64/48) = 2
    # for each task, so 96. Memory per CPU is compared only with a limit per CPU. A whole node must
    # have this memory for all of its 64 CPUs (_can_job_run_on_node() of cons_tres).
    *(
        Case(
            f"memory of nodes with {nodes_mib} MiB by {limits}, {settings}",
            jobs_of_target,
            ("batch", ["--partition=batch", "--exclusive", *memory], 2, memory),
            f"{settings}|\nPartitionName=batch Default=YES State=UP TotalNodes=2 {limits}\n"
            + "\n".join(nodes_with_memory(*nodes_mib)),
        )
        for settings, limits, nodes_mib, memory in (
            (MEMORY, "MaxMemPerNode=137600", [256000], ["--mem=137600M"]),
            (MEMORY, "MaxMemPerNode=137600", [256000, 100000], ["--mem=100000M"]),
            (MEMORY, "MaxMemPerNode=600000", [512000, 1024000], ["--mem=512000M"]),
            (MEMORY, "MaxMemPerNode=256000", [256000], ["--mem=0"]),
            (MEMORY, "MaxMemPerCPU=2150", [256000], ["--mem-per-cpu=2150M"]),
            (MEMORY, "MaxMemPerCPU=8000", [256000], ["--mem-per-cpu=4000M"]),  # 256000 / 64
            (MEMORY, "MaxMemPerNode=137600", [1], ["--mem=0"]),
            (MEMORY, "MaxMemPerCPU=2150", [1], ["--mem=0"]),
            (NO_MEMORY, "MaxMemPerNode=137600", [256000], ["--mem=137600M"]),
            (NO_MEMORY, "MaxMemPerNode=256000", [256000], []),
            (NO_MEMORY, "MaxMemPerCPU=2150", [256000], ["--mem-per-cpu=2150M"]),
        )
    ),
    Case(
        "several partitions that the user names",
        jobs_of_target,
        ("debug", ["--partition=debug", "--exclusive"], 5, []),
        f"|SBATCH_PARTITION=debug,small\n{NO_DEFAULT}",
    ),
    # Variables that override options of a job script. ReFrame itself removes those of sbatch.
    Case(
        "a shell in an interactive job",
        without_overriding,
        ["SLURM_CONF", "SLURM_CLUSTERS", "PATH"],
        "SLURM_JOB_ID SLURM_MEM_PER_CPU SLURM_CPU_BIND SLURMD_NODENAME SLURM_HINT SLURM_CONF"
        " SLURM_CLUSTERS PATH",
    ),
    Case(
        "a shell with variables that set options of srun",
        without_overriding,
        ["SLURM_MPI_TYPE", "SLURM_CPU_BIND"],
        "SLURM_MPI_TYPE SLURM_CPU_BIND SLURM_HINT",
    ),
    # Cores and memory of a node, without those that are kept for the system.
    Case("slurm_core_spec", shape_for_jobs, (56, 2, 512000)),
    Case(
        "cores and memory of the system",
        shape_for_jobs,
        (28, 2, 240000),
        node_line("RealMemory=256000 CoreSpecCount=4 MemSpecLimit=16000"),
    ),
    Case(
        "processors in effect",
        shape_for_jobs,
        (31, 2, 256000),
        node_line("RealMemory=256000 CPUEfctv=62"),
    ),
    Case(
        "Slurm counts cores, not threads",
        shape_for_jobs,
        (30, 1, None),
        node_line("RealMemory=1 CPUEfctv=30 CoreSpecCount=2", cpus=32),
    ),
    # A partition allows jobs only a part of a node, for example 36 of 64 CPUs.
    Case("partition_max_cpus_per_node", shape_for_jobs, (36, 1, 137600)),
    Case(
        "36 CPUs are 18 cores", shape_for_jobs, (18, 2, 256000), node_with_limit("CPUsPerNode=36")
    ),
    Case(
        "5 CPUs of each socket", shape_for_jobs, (4, 2, 256000), node_with_limit("CPUsPerSocket=5")
    ),
    Case(
        "2150 MiB for each of 64 CPUs",
        shape_for_jobs,
        (32, 2, 137600),
        node_with_limit("MemPerCPU=2150"),
    ),
    # The memory that a job requests is also that of the node's facts. It is a multiple of the CPUs:
    # of 257000 MiB, 64 x 4015. Of several nodes, the least memory is used.
    Case(
        "8000 MiB for each of 64 CPUs",
        shape_for_jobs,
        (32, 2, 256960),
        node_with_limit("MemPerCPU=8000", 257000),
    ),
    Case(
        "nodes with more and with less than a limit",
        shape_for_jobs,
        (32, 2, 64000),
        node_with_limit("MemPerNode=137600", 256000, 256000, 256000, 64000),
    ),
    Case(
        "a limit larger than the node",
        shape_for_jobs,
        (32, 2, 256000),
        node_with_limit("CPUsPerNode=128"),
    ),
    Case(
        "a limit of UNLIMITED",
        shape_for_jobs,
        (32, 2, 256000),
        node_with_limit("CPUsPerNode=UNLIMITED"),
    ),
    Case(
        "text of an operator after the fields",
        shape_for_jobs,
        (32, 2, 256000),
        node_line(
            "RealMemory=256000 Reason=was CoreSpecCount=16 RealMemory=1 [root@now] Comment=x"
        ),
    ),
    Case(
        "text of an operator in two fields",
        shape_for_jobs,
        (32, 2, 256000),
        node_line("RealMemory=256000 Comment=CoreSpecCount=16 Extra=MemSpecLimit=9"),
    ),
    # Who may use a reservation.
    Case(
        "reservation_groups_accounts",
        names_in_refusals,
        [(["ops", "ada", "staff"], []), ([], ["proj9"])],
    ),
    *(
        Case(
            f"reservation for {holders}",
            names_in_refusals,
            [(names, [])],
            f"{RESERVATION} {holders}",
        )
        for holders, names in {
            "Users=(null) Groups=ops,staff": [],
            "Users=-bob": [],
            "Users=-ada": ["-ada", "ada"],
            "Users=bob Groups=staff": ["bob", "ada"],
            "Groups=-staff": ["-staff", "ada", "staff"],
            "Users=ada Comment=Users=bob Accounts=x": [],
        }.items()
    ),
    # States of nodes and jobs.
    Case("sinfo_planned", usable_nodes, ["nid001", "nid003", "nid004", "nid005", "nid006"]),
    Case(
        "states of nodes with a sign at the end",
        usable_nodes,
        [*"abcdefg"],
        "a idle~\nb idle#\nc mixed-\nd idle@\ne mixed@\nf completing\ng allocated+",
    ),
    Case(
        "power and restarts",
        usable_nodes,
        [*"abcdefh"],
        "a powering_up#\nb powering_down%\nc powered_down~\nd power_down!\ne down^\n"
        "f reboot@\ng reboot*\nh planned",
    ),
    Case(
        "nodes that wait for an operator",
        usable_nodes,
        [],
        "a down\nb drained@\nc draining\nd idle*\ne fail\nf inval\ng maint\nh future\ni down~",
    ),
    Case(
        "jobs that name no partition get nodes of the default one",
        usable_default_nodes,
        ["a", "c"],
        "a idle batch*\na idle gpu\nb drained batch*\nb drained gpu\nc mixed batch*\nd idle gpu",
    ),
    Case(
        "no default partition, and a line of welcome",
        usable_default_nodes,
        ["a", "d"],
        "Have fun\na idle cpu\nb down cpu\nd idle gpu",
    ),
    Case("a line of welcome", usable_nodes, ["a"], "Welcome to LUMI\na idle"),
    Case("LAUNCH_FAILED", outcome_name, "node_failed", "LAUNCH_FAILED"),
    # On some clusters, heterogeneous jobs would wait for ever (heterogeneous_jobs.html), or are
    # lost.
    *(
        Case(f"heterogeneous jobs: {line}", hetjob_refusal, refusal, f"{line}\n")
        for line, refusal in {
            "SchedulerType           = sched/backfill": None,
            "SchedulerType           = sched/builtin": (
                "only sched/backfill starts one, and SchedulerType is sched/builtin"
            ),
            "AccountingStorageType   = accounting_storage/none": options.NO_HETJOBS,
        }.items()
    ),
    # The format is from slurm_sprint_job_info(). The number of threads is 1 with the option
    # `--hint=nomultithread`, or if a site's plugin sets this. CoreSpec is 8 if a site makes all
    # jobs request `-S 8`.
    *(
        Case(
            f"threads of a core, and cores for the system: {right}",
            threads_and_kept_cores,
            right,
            f"JobId=38 HetJobId=38 HetJobOffset=0 NumNodes=1 NumCPUs=256 NumTasks=1 CPUs/Task=1"
            f" ReqB:S:C:T={numbers} ReqTRES=cpu=256 Socks/Node=* NtasksPerN:B:S:C=1:0:*:1"
            f" {spec}\n",
        )
        for numbers, spec, right in (
            ("0:0:*:1", "CoreSpec=*", (1, 0)),
            ("*:*:*:2", "CoreSpec=8", (2, 8)),
            ("0:0:*:*", "ThreadSpec=2", (None, 0)),
        )
    ),
    Case("a job that Slurm has forgotten", threads_and_kept_cores, (None, 0), ""),
    # Jobs that wait because of a limit, or for something that ends by itself.
    *(
        Case(f"a job that waits for {reason}", limit_of_job_7, limit, f"7+0|PD|N/A|{reason}|FOLDER")
        for reason, limit in {
            "QOSMaxJobsPerUserLimit": "QOSMaxJobsPerUserLimit",
            "AssocGrpNodeLimit": "AssocGrpNodeLimit",
            "PartitionNodeLimit": "PartitionNodeLimit",
            "PartitionDown": None,
            "BadConstraints": "BadConstraints",
            "InvalidQOS": "InvalidQOS",
            "MaxPoweredUpNodes": None,
            "Licenses": None,
            "Priority": None,
            "Resources": None,
            "ReqNodeNotAvail, UnavailableNodes:n1": None,
            "None": None,
        }.items()
    ),
    *(
        Case(f"what to do about {reason}", advice_to_job_7, advice, reason)
        for reason, advice in {
            "AssocGrpBillingMinutes": "the account or the QOS has no time left; name another under"
            " access in configs/",
            "QOSMaxWallDurationPerJobLimit": "lower time_limit in configs/",
            "PartitionTimeLimit": "lower time_limit in configs/",
            "QOSMaxCpuMinutesPerJobLimit": "lower time_limit in configs/",
            "QOSGrpCPURunMinutesLimit": "lower time_limit in configs/",
            "AssocGrpWallLimit": "the account or the QOS has no time left; name another under"
            " access in configs/",
            "QOSMaxSubmitJobPerUserLimit": ONE_JOB,
            "MaxMemPerLimit": LESS_MEMORY,
            "QOSMaxMemoryPerNode": LESS_MEMORY,
            "AssocMaxMemPerJob": LESS_MEMORY,
            # These limits are for the sum over running jobs: GrpTRES, and MaxTRES per user
            # (resource limits of Slurm).
            "AssocGrpMemLimit": OTHERS_END,
            "QOSGrpCpuLimit": OTHERS_END,
            "QOSMaxMemoryPerUser": OTHERS_END,
            "MaxMemoryPerAccount": OTHERS_END,
            "MaxMemoryRunMinsPerUser": "lower time_limit in configs/",
            "AssocGrpJobsLimit": ONE_JOB,
            # These are limits of a partition (MinNodes, MaxNodes) or a QOS (MinTRES, MaxTRES), by
            # job_state_reason.c.
            **dict.fromkeys(
                [
                    *("PartitionNodeLimit", "PartitionConfig", "QOSMinNode", "QOSMaxCpuPerNode"),
                    *("QOSMinCpuNotSatisfied", "AssocMaxNodePerJobLimit", "QOSMaxCpuPerJobLimit"),
                ],
                OTHER_SIZE,
            ),
            "QOSGrpNodeLimit": OTHERS_END,
            "QOSMaxNodePerUserLimit": OTHERS_END,
            "AssocMaxNodeMinutesPerJob": "lower time_limit in configs/",
            "BadConstraints": NOTHING_FITS,
            "QOSMaxGRESPerJob": WHAT_IS_REQUIRED,
            "QOSMinGRES": WHAT_IS_REQUIRED,
            "Priority": "",
        }.items()
    ),
    # Reasons why a job is refused: by Slurm, by a site's plugin that prints more lines, and by a
    # site's script.
    *(
        Case(f"refused: {reason}", refusal, reason, text)
        for reason, text in {
            "You must name a project; Batch job submission failed: Unspecified error": "|\n"
            "sbatch: error: *****\nsbatch: error:  You must name a project \nsbatch: error: *****\n"
            "sbatch: error: Batch job submission failed: Unspecified error\n",
            "Invalid qos specification": f"{WELCOME}|\nsbatch: lua: job of x\n"
            "sbatch: error: Invalid qos specification\n",
            "cannot load plugin": "|\nsbatch: fatal: cannot load plugin\n",
            "--> Checking available allocation (ABC123)...FAILED": f"{WELCOME}"
            "--> Verifying valid submit host (login4)...OK\n"
            "--> Checking available allocation (ABC123)...FAILED\n\n|\n",
            None: "|\n",
        }.items()
    ),
    # Refusals in the format of sbatch.c, with the reason of acct_policy_validate() and texts of
    # slurm_errno.c.
    *(
        Case(f"advice on {text}", advice_on_refusal, advice, text)
        for text, advice in {
            "^QOSMaxWallDurationPerJobLimit\n^Batch job submission failed: Job violates"
            " accounting/QOS policy (job submit limit, user's size and/or time limits)\n": (
                "lower time_limit in configs/"
            ),
            "^AssocMaxSubmitJobLimit\n^Batch job submission failed: Job violates accounting/QOS"
            " policy (job submit limit, user's size and/or time limits)\n": (ONE_JOB),
            "^Batch job submission failed: Requested time limit is invalid (missing or exceeds some"
            " limit)\n": "lower time_limit in configs/",
            "^Batch job submission failed: Time limit specification required, but not"
            " provided\n": "",
            "^Batch job submission failed: Node count specification invalid\n": OTHER_SIZE,
            "^Batch job submission failed: Requested node configuration is not available\n": (
                NOTHING_FITS
            ),
            "^Memory specification can not be satisfied\n^Batch job submission failed: Requested"
            " node configuration is not available\n": NOTHING_FITS,
            "^Batch job submission failed: Invalid account or account/partition combination"
            " specified\n": WHAT_IS_REQUIRED,
            "^Batch job submission failed: Invalid qos specification\n": WHAT_IS_REQUIRED,
            "^Batch job submission failed: Invalid node name specified\n": (
                "correct the names of nodes: --nodelist, or access in configs/"
            ),
            "^You must name a project\n^Batch job submission failed: Unspecified error\n": "",
        }.items()
    ),
    # Options are read as sbatch reads them.
    Case("partition_option_with_blank", partition_option, "cpu"),
    *(
        Case(options, partition_option, partition, options)
        for options, partition in {
            "-pcpu": "cpu",
            "--partition=cpu": "cpu",
            "-A P1\n-C 8xT4\n--partition   cpu": "cpu",
            '--partition="cpu"': "cpu",
            "--part=cpu": "cpu",
            "--partition=a\n-p cpu,gpu": "cpu,gpu",
            "--account=p\n-Cp\n--exclusive": None,
            "--comment='partition of ours": None,
        }.items()
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_slurm_prints_is_read_right(case: Case, tmp_path: Path) -> None:
    assert read(case, tmp_path) == case.right


def test_a_partition_that_the_user_names_must_exist() -> None:
    with pytest.raises(InputError, match="SBATCH_PARTITION: 'a' found; allowed: batch"):
        learn.target_of([BATCH], "a,batch", [])
