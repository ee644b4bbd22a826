"""What Slurm prints, and its options, a row a case, with the right answer worked out by hand.

A row without a text is of a file of `../shared/cases`, beside the checkout.
"""

from datetime import datetime
from pathlib import Path

import pytest

from nimc.readiness import reservation
from records.slurm import parse, parse_nodes
from records.slurm.options import named_partition
from tests.cases.shared_hosts import Case, read

# Readers: the text of a case, and a folder, to what is read of it.


def shape(text: str, _: Path) -> tuple[int, int, int | None]:
    """Cores, threads of one and memory that jobs get on a node, as Slurm says."""
    nodes = [line for line in text.splitlines() if line.startswith("NodeName=")]
    partition, *_others = parse_nodes.partitions(text) or [BATCH]
    ((node_shape, _number),) = parse_nodes.shapes("\n".join(nodes), partition)
    return node_shape.cores, node_shape.threads_per_core, node_shape.memory_mib


def refused(text: str, _: Path) -> list[tuple[list[str], str | None]]:
    """Of each reservation, why it is not for `ada` of the group `staff`, and what is not known."""
    lines = text.replace(" StartTime", " State=ACTIVE StartTime").splitlines()
    return [
        (
            reservation.shortcomings(record, 1, 0, "ada", ["staff"], datetime(2026, 12, 1)),
            reservation.account_doubt(record),
        )
        for record in map(parse.parse_reservation, lines)
    ]


def usable(text: str, _: Path) -> list[str]:
    """Nodes that take jobs now or later."""
    return [row.name for row in parse_nodes.nodes_in(text) if row.usable]


def partition(text: str, _: Path) -> str | None:
    return named_partition(text.rstrip("\n").split("\n"))


BATCH = parse_nodes.SlurmPartition(
    name="batch", default=True, limit_s=None, whole_nodes=False, nodes=1
)
#: Before 21.08 there is no CPUEfctv; memory of the system is no job's.
LIMITS = (
    "PartitionName=batch State=UP TotalNodes=1 Max{}\nNodeName=n Sockets=2 CoresPerSocket=16"
    " ThreadsPerCore=2 CPUTot=64 RealMemory=256000 Partitions=batch"
)
HELD = "ReservationName=r StartTime=2026-11-01T00:00:00 EndTime=2036-11-01T00:00:00 Nodes=n"
HELD += " NodeCnt=1"
OLD = "NodeName=n Sockets=2 CoresPerSocket=16 ThreadsPerCore=2 CPUTot=64 Partitions=batch"

CASES = [
    # Nodes.
    Case("slurm_core_spec", shape, (56, 2, 512000)),
    Case(
        "cores and memory of the system",
        shape,
        (28, 2, 240000),
        f"{OLD} RealMemory=256000 CoreSpecCount=4 MemSpecLimit=16000",
    ),
    Case("processors in effect", shape, (31, 2, 256000), f"{OLD} RealMemory=256000 CPUEfctv=62"),
    Case(
        "Slurm counts cores, not threads",
        shape,
        (30, 1, None),
        f"{OLD} RealMemory=1 CPUEfctv=30 CoreSpecCount=2".replace("=64", "=32"),
    ),
    # What the partition allows of it: 36 of 64 CPUs.
    Case("partition_max_cpus_per_node", shape, (36, 1, 137600)),
    Case("36 CPUs are 18 cores", shape, (18, 2, 256000), LIMITS.format("CPUsPerNode=36")),
    Case("5 CPUs of each socket", shape, (4, 2, 256000), LIMITS.format("CPUsPerSocket=5")),
    Case("2150 MiB for each of 64", shape, (32, 2, 137600), LIMITS.format("MemPerCPU=2150")),
    Case("limits beyond the node", shape, (32, 2, 256000), LIMITS.format("CPUsPerNode=128")),
    Case("none, in a word", shape, (32, 2, 256000), LIMITS.format("CPUsPerNode=UNLIMITED")),
    Case(
        "an operator's words after the fields",
        shape,
        (32, 2, 256000),
        f"{OLD} RealMemory=256000 Reason=was CoreSpecCount=16 RealMemory=1 [root@now] Comment=x",
    ),
    Case(
        "an operator's words, then more",
        shape,
        (32, 2, 256000),
        f"{OLD} RealMemory=256000 Comment=CoreSpecCount=16 Extra=MemSpecLimit=9",
    ),
    # Reservations: for whom.
    Case(
        "reservation_groups_accounts",
        refused,
        [
            (["reservation a is for the group ops, and ada is in staff"], None),
            ([], "it is for the account proj9: not known whether jobs are charged to it"),
        ],
    ),
    *(
        Case(
            f"reservation {lists}",
            refused,
            [([f"reservation r is for {words}"] if words else [], None)],
            f"{HELD} {lists}",
        )
        for lists, words in {
            "Users=(null) Groups=ops,staff": "",
            "Users=-bob": "",
            "Users=-ada": "-ada, not for ada",
            "Users=bob Groups=staff": "bob, not for ada",
            "Groups=-staff": "the group -staff, and ada is in staff",
            "Users=ada Comment=Users=bob Accounts=x": "",
        }.items()
    ),
    Case("sinfo_planned", usable, ["nid001", "nid003", "nid004", "nid005", "nid006"]),
    Case(
        "states with signs",
        usable,
        [*"abcdefg"],
        "a idle~\nb idle#\nc mixed-\nd idle@\ne mixed@\nf completing\ng allocated+",
    ),
    Case(
        "power and restarts",
        usable,
        [*"abcdefh"],
        "a powering_up#\nb powering_down%\nc powered_down~\nd power_down!\ne down^\n"
        "f reboot@\ng reboot*\nh planned",
    ),
    Case(
        "nodes that wait for an operator",
        usable,
        [],
        "a down\nb drained@\nc draining\nd idle*\ne fail\nf inval\ng maint\nh future\ni down~",
    ),
    Case(
        "LAUNCH_FAILED",
        lambda text, _: parse.job_outcome(text, 1, None).name,
        "node_failed",
        "LAUNCH_FAILED",
    ),
    # Jobs that wait, and options as sbatch reads them.
    *(
        Case(
            f"a job that waits for {reason}",
            lambda text, folder: parse.jobs_in_folder(folder, text.format(folder))["7"].limit,
            right,
            f"7+0|PD|N/A|{reason}|{{}}",
        )
        for reason, right in {
            "QOSMaxJobsPerUserLimit": "QOSMaxJobsPerUserLimit",
            "AssocGrpNodeLimit": "AssocGrpNodeLimit",
            "PartitionNodeLimit": "PartitionNodeLimit",
            "PartitionDown": None,
            "Priority": None,
            "Resources": None,
            "ReqNodeNotAvail, UnavailableNodes:n1": None,
            "None": None,
        }.items()
    ),
    Case("partition_option_with_blank", partition, "cpu"),
    *(
        Case(text, partition, right, text)
        for text, right in {
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
