"""Captured answers of Slurm 26.05.3 and of Debian's 22.05.8 are both understood.

The answers of 26.05.3 are from a minicluster of two nodes, those of 22.05.8 from one of three.
"""

import re
from pathlib import Path

import pytest

from records.errors import MachineError
from records.slurm import parse, parse_nodes
from tests.captures import CAPTURES


def answer(name: str) -> str:
    return (CAPTURES / "slurm" / name).read_text()


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        # In 22.05.8, batch has OverSubscribe=EXCLUSIVE, and debug has OverSubscribe=NO.
        ("partitions.txt", {"batch": True, "debug": False}),
        # In 26.05.3, the partitions have Exclusive=NODE and OverSubscribe=NO.
        ("partitions-26.05.txt", {"compute": True, "origin": True, "all": True}),
    ],
)
def test_partitions_that_give_whole_nodes(name: str, whole: dict[str, bool]) -> None:
    partitions = {
        partition.name: partition.gives_whole_nodes
        for partition in parse_nodes.partitions(answer(name))
    }
    assert partitions == whole
    default = next(iter(whole))
    named = {name for name, is_whole in whole.items() if is_whole}
    assert parse_nodes.whole_node_partitions(answer(name)) == named | {None}
    shared = answer(name).replace("EXCLUSIVE", "NO").replace("Exclusive=NODE", "Exclusive=USER")
    assert parse_nodes.whole_node_partitions(shared) == set()
    assert (
        next(row.name for row in parse_nodes.partitions(answer(name)) if row.is_default) == default
    )


def test_nodes_and_settings_of_the_newer_version() -> None:
    assert [
        (node.name, node.is_usable) for node in parse_nodes.nodes_in(answer("sinfo-26.05.txt"))
    ] == [
        ("node1", True),
        ("node2", True),
    ]
    (compute, *_) = parse_nodes.partitions(answer("partitions-26.05.txt"))
    shape = parse_nodes.NodeShape(sockets=2, cores=2, threads_per_core=1, memory_mib=8035)
    assert parse_nodes.shapes(answer("nodes-26.05.txt"), compute) == {"node1": shape}
    assert parse.mpi_types(answer("mpi_list-26.05.txt")) == ["none", "pmix", "cray_shasta", "pmi2"]
    settings = parse.settings(answer("config-26.05.txt"))
    assert settings["SLURM_VERSION"] == "26.05.3"
    assert settings["MpiDefault"] == "(null)"  # 22.05.8 prints `none` instead


def test_settings_are_lines_with_an_equals_sign_and_their_values_may_have_more() -> None:
    lines = ["Configuration data as of 2026-11-29", "SlurmctldParameters     = a=b,c", "X = (null)"]
    assert parse.settings("\n".join(lines)) == {"SlurmctldParameters": "a=b,c", "X": "(null)"}


@pytest.mark.parametrize(
    ("storage", "stores"),
    [("accounting_storage/slurmdbd", True), ("accounting_storage/none", False), ("(null)", False)],
)
def test_the_type_of_storage_tells_whether_ended_jobs_are_stored(
    storage: str, stores: bool
) -> None:
    """`(null)` stands for a setting without a value."""
    assert parse.has_accounting({"AccountingStorageType": storage}) == stores


def test_the_first_value_of_a_repeated_field_counts() -> None:
    assert parse.fields_of("JobId=7 Name=a JobId=8") == {"JobId": "7", "Name": "a"}


def test_the_remedy_of_a_limit_is_shown_if_no_start_is_expected() -> None:
    expected = parse.PendingJob("QOSGrpCpuLimit", "2026-11-29 21:49:19")
    assert expected.line == (
        "waits in the queue (QOSGrpCpuLimit), expected to start 2026-11-29 21:49:19"
    )
    assert "wait until others end" in parse.PendingJob("QOSGrpCpuLimit").line


def test_only_a_failed_sbatch_refuses_a_job() -> None:
    outputs = "--- stdout ---\n--- stdout ---\n--- stderr ---\nno space left\n--- stderr ---"
    failed = "failed with exit code 1:\n"
    assert parse.refusal(f"command 'sbatch rfm_job.sh' {failed}{outputs}") == "no space left"
    assert parse.refusal(f"command 'make -j 2' {failed}{outputs}") is None


def test_a_reservation_names_the_accounts_that_it_admits() -> None:
    line = answer("reservation-26.05.txt").replace("Accounts=(null)", "Accounts=a1,a2")
    reservation = parse.first_reservation(line)
    assert reservation.accounts == ["a1", "a2"]
    assert reservation.groups == []


def test_only_lines_of_jobs_name_jobs() -> None:
    """Jobs that are named are cancelled. Only the first of these lines is a job of the folder."""
    lines = [
        "7+0|R|N/A|None|/run/stage/a",
        "8|R|N/A|None|/run/other",
        "9|R|N/A|None|",
        "slurm_load_jobs error: timed out|/run/stage",
        "10|R|N/A|None|/run/stage/\0",
    ]
    assert parse.jobs_in_folder(Path("/run/stage"), "\n".join(lines)) == {"7": None}


def test_a_job_whose_nodes_boot_waits_for_them() -> None:
    """The line is of Slurm 22.05.8, while nodes in the state CLOUD were powered up."""
    line = "502|CF|2026-12-02T01:39:41|None|/run/stage"
    pending = parse.jobs_in_folder(Path("/run/stage"), line)["502"]
    assert pending
    assert pending.limit_reason is None
    assert "waits for its nodes" in pending.line
    assert "2026" not in pending.line  # the time at which the nodes were allocated


@pytest.mark.parametrize(
    ("text", "other"),
    [("StartTime=2026", "StartTime=x"), ("NodeCnt=1", "NodeCnt=x"), ("State", "")],
)
def test_an_unreadable_reservation_is_reported_as_an_error_of_the_machine(
    text: str, other: str
) -> None:
    changed = answer("reservation-26.05.txt").replace(text, other)
    with pytest.raises(MachineError, match="its reservation cannot be read"):
        parse.first_reservation(changed)


def test_a_queue_and_a_reservation_of_the_newer_version() -> None:
    jobs = parse.jobs_in_folder(Path("/run/stage"), answer("squeue-26.05.txt"))
    begin = parse.PendingJob("BeginTime", "2026-11-29 21:49:19")
    assert jobs == {"3": begin, "4": parse.PendingJob(), "5": parse.PendingJob("JobHeldUser")}
    assert [pending.line for pending in jobs.values()] == [
        "waits in the queue (BeginTime), expected to start 2026-11-29 21:49:19",
        "waits in the queue",
        "waits in the queue (JobHeldUser)",
    ]
    reservation = parse.first_reservation(answer("reservation-26.05.txt"))
    assert (reservation.name, reservation.nodes, reservation.node_count) == ("nimc_x", "node2", 1)
    assert (reservation.users, reservation.state, reservation.flags) == (
        ["root"],
        "ACTIVE",
        ["SPEC_NODES"],
    )


@pytest.mark.parametrize(
    ("host", "pid", "steps"),
    [
        ("node1", 37, ["1.0", "2.0"]),
        ("node1.cluster", 37, ["1.0", "2.0"]),
        ("node1.example.org", 37, ["1.0", "2.0"]),
        ("node2", 37, []),
        ("node1", 38, []),  # the step of this process is pending
        ("node1", 0, []),
    ],
)
def test_steps_of_one_srun_over_both_components_of_a_job(
    host: str, pid: int, steps: list[str]
) -> None:
    shown = answer("steps-26.05.txt")
    assert parse.steps_started_by(shown, host, [pid]) == steps
    full_names = shown.replace("SrunHost:Pid=node1:", "SrunHost:Pid=node1.cluster:")
    assert full_names != shown
    assert parse.steps_started_by(full_names, host, [pid]) == steps


@pytest.mark.parametrize(
    "field", ["TresPerNode=gres/gpu:4", "Container=x ContainerID=(null)", "StdIn=/dev/null"]
)
def test_steps_of_jobs_with_gpus_or_containers(field: str) -> None:
    """Slurm shows such fields after the `srun`; from its sources, 20.11 to 25.11."""
    shown = re.sub(r"(SrunHost:Pid=\S+)", rf"\1 {field}", answer("steps-26.05.txt"))
    assert parse.steps_started_by(shown, "node1", [37]) == ["1.0", "2.0"]
    assert parse.steps_started_by(shown, "node1", [3]) == []


@pytest.mark.parametrize(("pid", "steps"), [(24, ["1.1"]), (25, ["2.0"])])
def test_steps_of_two_sruns_of_the_older_version(pid: int, steps: list[str]) -> None:
    assert parse.steps_started_by(answer("steps.txt"), "node1", [pid]) == steps
