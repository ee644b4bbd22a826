"""What Slurm prints, and its options: a row a case, with the right result worked out by hand.

A row without a text is of the file of its name in `../shared/cases`, beside the checkout.
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

# Readers: each is called with the text of a case and a folder.


def shape_for_jobs(text: str, _: Path) -> tuple[int, int, int | None]:
    """Return the cores, threads of a core, and memory (MiB) that jobs get on a node."""
    nodes = [line for line in text.splitlines() if line.startswith("NodeName=")]
    partition = (parse_nodes.partitions(text, nodes_output=text) or [BATCH])[0]
    ((shape, _count),) = parse_nodes.shapes("\n".join(nodes), partition)
    return shape.cores, shape.threads_per_core, shape.memory_mib


#: Users, groups and accounts of the cases; a minus sign excludes one.
_HOLDER = re.compile(r"-?\b(?:ada|bob|ops|staff|proj9)\b")


def names_in_refusals(text: str, _: Path) -> list[tuple[list[str], list[str]]]:
    """Return which names refuse each reservation to `ada` of the group `staff`, as shown to her.

    After them, those on which it may depend.
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
    """Return the nodes that take jobs now or later."""
    return [row.name for row in parse_nodes.nodes_in(text) if row.is_usable]


def usable_default_nodes(text: str, _: Path) -> list[str]:
    """Return those of the default partition."""
    return [row.name for row in parse_nodes.nodes_in(text, default_only=True) if row.is_usable]


def hetjob_refusal(text: str, _: Path) -> str | None:
    """Return why heterogeneous jobs are not tried, by `scontrol show config`."""
    return learn.hetjob_refusal(parse.settings(text))


def threads_and_kept_cores(text: str, _: Path) -> tuple[int | None, int]:
    """Return how many threads of each core a job gets, and the cores it leaves to the system."""
    return parse.threads_per_core(text), parse.core_spec(text)


def outcome_name(text: str, _: Path) -> str:
    """Return what a job's state is called."""
    return parse.job_outcome(text, 1, None).name


def limit_of_job_7(text: str, folder: Path) -> str | None:
    """Return the limit for which a job waits; `FOLDER` is its working folder."""
    job = parse.jobs_in_folder(folder, text.replace("FOLDER", str(folder)))["7"]
    assert job
    return job.limit_reason


def advice_to_job_7(text: str, folder: Path) -> str:
    """Return what a user reads of a job that waits for this reason."""
    return parse.jobs_in_folder(folder, f"7|PD|N/A|{text}|{folder}")["7"].line.partition("): ")[2]


def refusal(text: str, _: Path) -> str | None:
    """Return why a job was refused, from standard output and, after a line `|`, standard error."""
    output, _, errors = text.partition("|\n")
    failed = SpawnedProcessError("sbatch rfm_job.sh", output, errors, 1)
    return parse.refusal(f"spawned process error: {failed}")


def advice_on_refusal(text: str, folder: Path) -> str:
    """Return what a user is told to do about a refusal that `sbatch` prints as errors."""
    reason = refusal("|\n" + text.replace("^", "sbatch: error: "), folder)
    return parse.refusal_remedy(f"Slurm refuses the job: {reason}")


def partition_option(text: str, _: Path) -> str | None:
    return named_partition(text.rstrip("\n").split("\n"))


def jobs_of_target(text: str, _: Path) -> tuple[str, list[str], int, list[str]]:
    """Return the target's partition, its jobs' options and nodes, and other options of origins.

    The user has the account `proj`, and the variables of the text's first line.
    """
    first, _, shown = text.partition("\n")
    settings, variables = (
        dict(word.split("=", 1) for word in part.split()) for part in first.split("|")
    )
    partitions = parse_nodes.partitions(shown, settings, nodes_output=shown)
    target, reason = learn.target_of(partitions, variables.get("SBATCH_PARTITION"), ["proj"])
    facts = made.cluster_facts(
        partitions=[target],
        target_reason=reason,
        requirements=options.requirements(variables),
        hetjob_refusal="refused" if "REFUSED" in variables else None,
    )
    assert reason in " ".join(site_text(facts).replace("\n#", "").split())
    access = learn.access(target, facts.requirements)
    return target.name, access, facts.job_nodes, facts.origins.access


def without_overriding(text: str, _: Path) -> list[str]:
    """Return which of a user's variables are left to a job."""
    environment = dict.fromkeys(text.split(), "x")
    overriding = options.overriding_variables(environment)
    return [name for name in environment if name not in overriding]


BATCH = parse_nodes.SlurmPartition(
    name="batch", is_default=True, limit_s=None, gives_whole_nodes=False, node_count=1
)


def node_line(fields: str, cpus: int = 64) -> str:
    """Return a node of 32 cores, which Slurm counts as so many CPUs.

    Before Slurm 21.08 there is no CPUEfctv.
    """
    return (
        f"NodeName=n Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 CPUTot={cpus} Partitions=batch"
        f" {fields}"
    )


def node_with_limit(limit: str, *nodes_mib: int) -> str:
    """Return such nodes, one with 256000 MiB unless given, in a partition that has a limit."""
    partition = f"PartitionName=batch State=UP TotalNodes=1 Max{limit}"
    nodes = [node_line(f"RealMemory={mib}") for mib in nodes_mib or [256000]]
    return "\n".join([partition, *nodes])


RESERVATION = (
    "ReservationName=r StartTime=2026-11-01T00:00:00 EndTime=2036-11-01T00:00:00 Nodes=n NodeCnt=1"
)

#: Partitions as on LUMI, by its documentation: none is the default, and nodes are whole in one.
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
#: Those without a default of memory.
NO_MEMORY = "SelectTypeParameters=CR_CORE_MEMORY"

#: What to do about limits of a job's memory, and of what all running jobs have.
LESS_MEMORY = "ask for less memory: --mem or --mem-per-cpu in access of configs/"
OTHERS_END = (
    "it counts all running jobs of the account, QOS or user: wait until others end; a job that"
    " exceeds it alone never starts"
)
OTHER_SIZE = (
    "a job has too few or too many nodes or CPUs for the partition or the QOS: name another in"
    " access of configs/, or take another case"
)
NOTHING_FITS = "no node has what the job asks for: see access in configs/, and facts in site/"
WHAT_IS_REQUIRED = (
    "see access in configs/ for account, QOS and partition, and what they require (--gres)"
)
#: What a site prints before `sbatch` does anything, longer than a reason that is shown.
WELCOME = "\n".join(["-" * 70, "Welcome to the Example Supercomputer".center(70)] * 5) + "\n"

CASES = [
    # The partition of the targets, its jobs' options and nodes, and those of the origins.
    Case(
        "no default partition: the largest that admits the user",
        jobs_of_target,
        ("standard", ["--partition=standard"], 513, []),
        f"|\n{NO_DEFAULT}",
    ),
    # As on Mahti, by its documentation: the same nodes are in two partitions, one for large jobs.
    Case(
        "no default partition, and one as large for large jobs only",
        jobs_of_target,
        ("medium", ["--partition=medium", "--exclusive"], 21, []),
        "|\nPartitionName=large MinNodes=20 MaxNodes=200 State=UP TotalNodes=1404\n"
        "PartitionName=medium MinNodes=0 MaxNodes=20 State=UP TotalNodes=1404\n"
        "PartitionName=test MinNodes=1 MaxNodes=2 State=UP TotalNodes=12",
    ),
    Case(
        "the default partition is for large jobs",
        jobs_of_target,
        ("general", ["--partition=general", "--exclusive"], 769, []),
        "|\nPartitionName=general Default=YES MinNodes=17 MaxNodes=768 State=UP TotalNodes=6336\n"
        "PartitionName=micro MinNodes=1 MaxNodes=16 State=UP TotalNodes=6336",
    ),
    Case(
        "one that the user names, whose jobs get no more memory than they ask for",
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
    # By slurm_opt.c, each component has its own `--gpus-per-node` (reset_each_pass).
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
            # Users may not see nodes (PrivateData=nodes): the limit is what is known.
            (MEMORY, "DefMemPerCPU=2150 MaxMemPerCPU=2150", ["--mem-per-cpu=2150M"]),
            (MEMORY, "DefMemPerCPU=2150 MaxMemPerNode=137600", ["--mem=137600M"]),
            ("SelectTypeParameters=CR_CORE DefMemPerCPU=2000", "", []),
            (NO_MEMORY, "", []),
        )
    ),
    # By _valid_pn_min_mem() of job_mgr.c. It compares `--mem=0`, and a job without `--mem` and a
    # default, as the memory of a node with a limit per node. Of memory per node and a limit per CPU
    # it makes CPUs a task: of 137600 MiB by 2150 it makes 64 CPUs, for 48 tasks ceil(64/48) = 2
    # each, which are 96. Memory per CPU is compared with a limit per CPU alone; a whole node must
    # have it for all of its 64 CPUs (_can_job_run_on_node() of cons_tres).
    *(
        Case(
            f"memory of nodes with {nodes_mib} MiB by {limits}, {settings}",
            jobs_of_target,
            ("batch", ["--partition=batch", "--exclusive", *memory], 2, memory),
            f"{settings}|\nPartitionName=batch Default=YES State=UP TotalNodes=2 {limits}\n"
            + "\n".join(node_line(f"RealMemory={mib}") for mib in nodes_mib),
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
    # Variables that override what a job script says; ReFrame removes those of sbatch.
    Case(
        "a shell in an interactive job",
        without_overriding,
        ["SLURM_CONF", "SLURM_CLUSTERS", "PATH"],
        "SLURM_JOB_ID SLURM_MEM_PER_CPU SLURM_CPU_BIND SLURMD_NODENAME SLURM_HINT SLURM_CONF"
        " SLURM_CLUSTERS PATH",
    ),
    Case(
        "a shell that sets what srun is to do",
        without_overriding,
        ["SLURM_MPI_TYPE", "SLURM_CPU_BIND"],
        "SLURM_MPI_TYPE SLURM_CPU_BIND SLURM_HINT",
    ),
    # Nodes: without the cores and the memory of the system, which are no job's.
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
    # What the partition allows of it: 36 of 64 CPUs.
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
    # A job's memory and that of facts are the same: 64 x 4015 of 257000; the least of four nodes.
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
        "limits beyond the node",
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
        "an operator's words after the fields",
        shape_for_jobs,
        (32, 2, 256000),
        node_line(
            "RealMemory=256000 Reason=was CoreSpecCount=16 RealMemory=1 [root@now] Comment=x"
        ),
    ),
    Case(
        "an operator's words, then more",
        shape_for_jobs,
        (32, 2, 256000),
        node_line("RealMemory=256000 Comment=CoreSpecCount=16 Extra=MemSpecLimit=9"),
    ),
    # Reservations: for whom.
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
        "states with signs",
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
        "no default partition, and a word of welcome",
        usable_default_nodes,
        ["a", "d"],
        "Have fun\na idle cpu\nb down cpu\nd idle gpu",
    ),
    Case("words of welcome", usable_nodes, ["a"], "Welcome to LUMI\na idle"),
    Case("LAUNCH_FAILED", outcome_name, "node_failed", "LAUNCH_FAILED"),
    # Clusters whose heterogeneous jobs would wait for ever (heterogeneous_jobs.html), or are lost.
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
    # By slurm_sprint_job_info(). The number of threads is 1 after `--hint=nomultithread`, or if a
    # site's plugin chooses that; CoreSpec is 8 where a site lets all jobs ask for `-S 8`.
    *(
        Case(
            f"threads, and cores for the system: {right}",
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
    Case("a job that is forgotten", threads_and_kept_cores, (None, 0), ""),
    # Jobs that wait: for a limit, or for something that ends by itself.
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
            "AssocGrpBillingMinutes": "the account or the QOS has no time left; name another in"
            " access of configs/",
            "QOSMaxWallDurationPerJobLimit": "lower time_limit in configs/",
            "PartitionTimeLimit": "lower time_limit in configs/",
            "QOSMaxCpuMinutesPerJobLimit": "lower time_limit in configs/",
            "QOSGrpCPURunMinutesLimit": "lower time_limit in configs/",
            "AssocGrpWallLimit": "the account or the QOS has no time left; name another in access"
            " of configs/",
            "QOSMaxSubmitJobPerUserLimit": "with same_job in site/ it is one job, not two",
            "MaxMemPerLimit": LESS_MEMORY,
            "QOSMaxMemoryPerNode": LESS_MEMORY,
            "AssocMaxMemPerJob": LESS_MEMORY,
            # Sums over running jobs (resource limits of Slurm): GrpTRES, and MaxTRES per user.
            "AssocGrpMemLimit": OTHERS_END,
            "QOSGrpCpuLimit": OTHERS_END,
            "QOSMaxMemoryPerUser": OTHERS_END,
            "MaxMemoryPerAccount": OTHERS_END,
            "MaxMemoryRunMinsPerUser": "lower time_limit in configs/",
            "AssocGrpJobsLimit": "with same_job in site/ it is one job, not two",
            # MinNodes, MaxNodes of the partition; MinTRES, MaxTRES of a QOS (job_state_reason.c).
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
    # Why a job is refused: by Slurm, by a site's plugin with lines of its own, by a site's script.
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
    # As sbatch.c prints them: the reason of acct_policy_validate(), and texts of slurm_errno.c.
    *(
        Case(f"advice on {text}", advice_on_refusal, advice, text)
        for text, advice in {
            "^QOSMaxWallDurationPerJobLimit\n^Batch job submission failed: Job violates"
            " accounting/QOS policy (job submit limit, user's size and/or time limits)\n": (
                "lower time_limit in configs/"
            ),
            "^AssocMaxSubmitJobLimit\n^Batch job submission failed: Job violates accounting/QOS"
            " policy (job submit limit, user's size and/or time limits)\n": (
                "with same_job in site/ it is one job, not two"
            ),
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
            "^You must name a project\n^Batch job submission failed: Unspecified error\n": "",
        }.items()
    ),
    # Options as sbatch reads them.
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


def test_a_partition_that_the_user_names_must_be_one_of_slurm() -> None:
    with pytest.raises(InputError, match="SBATCH_PARTITION: 'a' found; allowed: batch"):
        learn.target_of([BATCH], "a,batch", [])
