"""Plans, refusals and exit codes of `nimc inject`, which starts writers beside a command."""

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nimc.cli.inject import exit_code, new_record_path, summary_lines
from nimc.cluster import injection_session
from nimc.cluster.injection_session import (
    CASE,
    LOG_FILE,
    InjectionOutcome,
    Progress,
    RequestedWrites,
)
from records import injected
from records.errors import InputError, MachineError
from records.injected import InjectionSummary
from records.interrupts import Interrupts
from tests.commands import Command
from tests.messages import assert_message
from tests.records.machine.made import machine
from tests.reframe_tests.reframe_call import script

HOST = machine("same_host", injector="ucx")
CLUSTER = machine("same_job", device="mlx5_0", interface="hsn0")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("--to n1", "--from: missing; allowed: both --to and --from, or neither"),
        ("--from n1", "--to: missing; allowed: both --to and --from, or neither"),
        (
            "--to n1 --from n2",
            "--to, --from: found; allowed: neither, since origins.policy of site/localhost.yaml is"
            " same_host",
        ),
        ("--rate 0", "--rate: 0 found; allowed: full, 25%, 2GB/s, ..."),
        ("--rate fast", "--rate: fast found; allowed: "),
        ("--rate 100%", "--rate: 100% found; allowed: "),
        ("--json -- true", "--json: cannot be combined with a COMMAND, which prints; allowed: -o"),
        ("-- /no/program", "COMMAND: '/no/program' is not an executable file"),
        (
            "-o no/folder/record.json -- true",
            "--output: no/folder/record.json: allowed: a file in a",
        ),
        ("-- nosuchprogram", "COMMAND: no program 'nosuchprogram' on PATH"),
    ],
)
def test_invalid_options_are_refused_in_one_line(
    command: Command, tmp_path: Path, words: str, line: str
) -> None:
    argv = ["inject", "--machine", "localhost", "--results", tmp_path / "new", *words.split()]
    assert command.refused(*argv).startswith(line)


def test_modules_of_a_job_may_provide_its_command(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    argv = ["inject", "--machine", "example_slurm", "--results", tmp_path / "new", "--to", "n1"]
    command(*argv, "--", "nosuchprogram", code=2)
    note, line = command.err.splitlines()
    assert note.startswith("nimc: no program 'nosuchprogram' on PATH here; ")
    assert line.startswith("nimc: --from: missing")
    line = command.refused(*argv, "--", "nosuchprogram -n 2")
    assert line.endswith(" -- nosuchprogram -n 2`")
    line = command.refused(*argv, "--", "/no/program")
    assert line == "COMMAND: '/no/program' is not an executable file"


def test_an_existing_file_is_not_replaced_by_a_record(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    file.write_text("{}")
    line = command.refused("inject", "--machine", "localhost", "-o", file, "--", "true")
    assert_message(line, "--output", f"{file}", allowed="a new file")
    assert file.read_text() == "{}"


def test_injections_that_start_together_have_different_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job script may start one on each of its nodes, with results that the nodes share."""
    monkeypatch.setattr("time.gmtime", lambda: time.struct_time((2026, 1, 2, 3, 4, 5, 4, 2, 0)))
    paths = set()
    for host, pid in (("n1", 7), ("n2", 7), ("n1", 8)):
        monkeypatch.setattr("socket.gethostname", lambda host=host: host)
        monkeypatch.setattr("os.getpid", lambda pid=pid: pid)
        paths.add(new_record_path(tmp_path))
    assert len(paths) == 3


def test_only_the_writes_are_judged(tmp_path: Path) -> None:
    plan = injection_session.plan_of(CLUSTER, RequestedWrites(rate="25%"), tmp_path)
    (treatment,) = plan.treatments
    assert treatment.writes
    assert (treatment.writes.rate_share, treatment.writes.devices) == (0.25, ("mlx5_0",))
    limits = plan.limits
    assert [limits.foreign_cpus, limits.steal_share, limits.frequency_drop] == [None] * 3
    assert limits.foreign_share is None
    assert limits.min_share == 0.5


@pytest.fixture
def allocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Sets up an allocation of n1 to n3. A stand-in for scontrol expands lists of nodes."""
    branches = "".join(f"{name}) echo {out};;" for name, out in EXPANDED.items())
    script(tmp_path / "scontrol", f'case "$3" in {branches} *) echo bad >&2; exit 1;; esac')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    for name in ("SLURM_JOB_ID", "SLURM_JOB_NODELIST"):
        monkeypatch.setenv(name, {"SLURM_JOB_ID": "7"}.get(name, "n[1-3]"))
    monkeypatch.delenv("SLURM_JOB_NODELIST_HET_GROUP_0", raising=False)
    monkeypatch.setenv("SLURMD_NODENAME", "n1")
    return monkeypatch


#: List of nodes -> output of `scontrol show hostnames`. Both are quoted for a shell.
EXPANDED = {
    "n1": "n1", "n2": "n2", "n9": "n9", "n[2-3]": '"n2\nn3"',
    "'n[1-3]'": '"n1\nn2\nn3"', "'n[2-3]'": '"n2\nn3"',
}  # fmt: skip


def request(folder: Path, **writes: Any) -> injection_session.InjectionRequest:
    return injection_session.injection_request(
        CLUSTER, RequestedWrites(**writes), folder, folder / "record.json"
    )


@pytest.mark.usefixtures("allocation")
def test_agents_start_on_the_nodes_that_are_named_and_no_others(tmp_path: Path) -> None:
    injection_request = request(
        tmp_path, targets="n1", origins="n[2-3]", command=["true"], length_s=60.0
    )
    assert (injection_request.targets, injection_request.origins) == (["n1"], ["n2", "n3"])
    assert injection_request.block.n_origins == 2
    assert "--nodelist=n1,n2,n3" in injection_request.block.agent_launcher
    assert injection_request.summary.command == ["true"]


@pytest.mark.usefixtures("allocation")
def test_without_named_nodes_targets_and_origins_are_left_to_the_conductor(tmp_path: Path) -> None:
    injection_request = request(tmp_path)
    assert (
        injection_request.targets,
        injection_request.origins,
        injection_request.block.origin_policy,
    ) == (
        [],
        [],
        "same_job",
    )
    assert not any(word.startswith("--nodelist") for word in injection_request.block.agent_launcher)


def test_agents_start_in_both_components_of_a_heterogeneous_job(
    tmp_path: Path, allocation: pytest.MonkeyPatch
) -> None:
    allocation.setenv("SLURM_JOB_NODELIST_HET_GROUP_0", "n1")
    allocation.setenv("SLURM_JOB_NODELIST_HET_GROUP_1", "n[2-3]")
    injection_request = request(tmp_path, targets="n1", origins="n2")
    assert injection_request.block.origin_policy == "hetjob"
    assert "--het-group=0,1" in injection_request.block.agent_launcher
    assert not any(word.startswith("--nodelist") for word in injection_request.block.agent_launcher)


@pytest.mark.usefixtures("allocation")
@pytest.mark.parametrize(
    ("targets", "origins", "line"),
    [
        ("n9", "n1", "--to: n9 found; allowed: nodes of the job: n1, n2, n3"),
        ("n1", "n[2-3]", None),
        ("n2", "n[2-3]", "--to, --from: both name n2; allowed: different nodes"),
        # Variables of a shell that are not set.
        ("", "n1", "--to: no node found; allowed: nodes as a list in Slurm's form"),
        ("n1", "", "--from: no node found; allowed: nodes as a list in Slurm's form"),
        ("", "", "--to: no node found; allowed: nodes as a list in Slurm's form"),
    ],
)
def test_named_nodes_must_be_in_the_job_and_differ(
    tmp_path: Path, targets: str, origins: str, line: str | None
) -> None:
    if line is None:
        request(tmp_path, targets=targets, origins=origins)
        return
    with pytest.raises(InputError) as error:
        request(tmp_path, targets=targets, origins=origins)
    assert str(error.value) == line


def test_a_host_outside_the_job_is_refused(tmp_path: Path, allocation: pytest.MonkeyPatch) -> None:
    """Agents could not connect to a host outside the job, such as the login node."""
    allocation.setenv("SLURMD_NODENAME", "login1")
    with pytest.raises(InputError) as error:
        request(tmp_path)
    line = "this command runs on login1; allowed: on a node of the job: n1, n2, n3"
    assert str(error.value) == line


def test_outside_an_allocation_a_job_runs_the_conductor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    injection_request = request(tmp_path, length_s=60.0)
    assert (
        injection_request.owner_pid,
        injection_request.foreground_group,
        injection_request.streams,
    ) == (
        None,
        None,
        [],
    )
    assert injection_request.block.origin_policy == "same_job"
    assert (
        injection_session.injection_request(
            HOST, RequestedWrites(), tmp_path, tmp_path / "r"
        ).owner_pid
        == os.getpid()
    )


@pytest.mark.parametrize(
    ("proven", "start_s", "status", "signum", "code"),
    [
        (True, 5.0, 0, None, 0),
        (True, 5.0, 7, None, 7),
        (True, None, None, None, 0),  # without a command
        # Slurm killed the command and the conductor after the writes, at the job's time limit.
        (True, 5.0, None, None, 1),
        (False, 5.0, 0, None, 1),
        (False, 5.0, 7, None, 1),
        (True, 5.0, None, 15, 143),
    ],
)
def test_the_exit_code(
    proven: bool, start_s: float | None, status: int | None, signum: int | None, code: int
) -> None:
    summary = InjectionSummary(
        machine="box",
        commit=None,
        rate="full",
        link_rate_b_s=None,
        proven=proven,
        ended_by="time",
        command_start_s=start_s,
        exit_status=status,
    )
    assert exit_code(InjectionOutcome(summary, signum)) == code


def test_the_share_of_the_link_is_that_of_all_devices_of_the_targets() -> None:
    """Two origins write 22 and 18 GB/s to the two devices of a target, which carry 25 each."""
    summary = InjectionSummary(
        machine="box", commit=None, rate="full", link_rate_b_s=25e9, targets=["n1"],
        origins=["n2", "n3"], start_s=0.0, end_s=10.0, bytes_b=400e9, proven=True, proven_s=10.0,
    )  # fmt: skip
    first, *_ = summary_lines(InjectionOutcome(summary, link_count=2))
    assert first == "wrote 400.0 GB in 10.0 s: 40.00 GB/s, 80 % of the link"


@pytest.mark.parametrize("command", [(), ("./solver",)])
def test_only_a_job_without_a_command_ends_soon_after_the_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """If the time is over first, the command goes on (docs/your-application.md)."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    submitted: list[str] = []

    def run_job(_: object, check_options: list[str], *_others: object) -> None:
        submitted.extend(check_options)
        raise MachineError("not submitted")

    destination = SimpleNamespace(time_limit="{:.0f}s".format)
    monkeypatch.setattr(injection_session, "job_destination", lambda *_: destination)
    monkeypatch.setattr(injection_session, "run_job", run_job)
    writes = RequestedWrites(length_s=600.0, command=command)
    with pytest.raises(MachineError, match="not submitted"):
        injection_session.inject(CLUSTER, writes, tmp_path, tmp_path / "record.json", print)
    assert any("time_limit" in option for option in submitted) is (not command)


@pytest.mark.parametrize(
    ("log", "reason"), [("", "the conductor ended"), ("ValueError: no such plan\n", "no such plan")]
)
def test_a_conductor_that_died_at_its_start_gives_a_reason(
    tmp_path: Path, log: str, reason: str
) -> None:
    """The log is empty if the conductor was killed before it printed anything."""
    injection_request = injection_session.injection_request(
        HOST, RequestedWrites(), tmp_path, tmp_path
    )
    (tmp_path / LOG_FILE).write_text(log)
    progress = Progress(tmp_path, HOST, injection_request, print)
    with Interrupts() as interrupts, pytest.raises(MachineError, match=reason):
        progress.outcome(interrupts)


def test_the_writes_before_slurm_lost_the_job_keep_their_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    record_file, lines = tmp_path / "record.json", list[str]()

    def run_job(_: object, __: object, folder: Path, *___: object) -> None:
        logs = folder / "logs" / CASE / "0"
        logs.mkdir(parents=True)
        injected.begin(logs)
        summary = InjectionSummary(
            machine="m", commit=None, rate="full", link_rate_b_s=None, start_s=1.0, end_s=11.0
        )
        injected.save_summary(logs, summary)
        raise MachineError("Slurm has not answered for 600 s")

    monkeypatch.setattr(injection_session, "run_job", run_job)
    monkeypatch.setattr(injection_session, "job_destination", lambda *_: None)
    with pytest.raises(MachineError, match="not answered"):
        injection_session.inject(CLUSTER, RequestedWrites(), tmp_path, record_file, lines.append)
    record = json.loads(record_file.read_text())
    assert (record["end_s"], record["ended_by"], record["proven"]) == (11.0, "failure", False)
    assert record["reason"] == "Slurm has not answered for 600 s"
    assert str(record_file) in lines[-1]


def test_a_job_that_wrote_its_record_on_a_file_system_of_its_own_leaves_it_here_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    record_file = tmp_path / "record.json"
    progress = Progress(tmp_path, CLUSTER, request(tmp_path), print)
    progress.logs.mkdir(parents=True)
    injected.begin(progress.logs)
    summary = InjectionSummary(
        machine="m", commit=None, rate="full", link_rate_b_s=None, start_s=1.0, end_s=11.0,
        ended_by="time", proven=True,
    )  # fmt: skip
    injected.save_summary(progress.logs, summary)
    with Interrupts() as interrupts:
        assert progress.outcome(interrupts).summary.proven
    assert json.loads(record_file.read_text())["end_s"] == 11.0


def test_a_login_node_of_a_cluster_whose_jobs_share_a_host_is_refused(
    tmp_path: Path, allocation: pytest.MonkeyPatch
) -> None:
    (tmp_path / "configs").mkdir()
    partition = "{'name': 'p', 'scheduler': 'slurm', 'launcher': 'srun', 'environs': ['e']}"
    (tmp_path / "configs" / f"{HOST.name}.py").write_text(
        f"site_configuration = {{'systems': [{{'name': '{HOST.name}', 'hostnames': ['.*'],"
        f" 'partitions': [{partition}]}}], 'environments': [{{'name': 'e'}}]}}\n"
    )
    script(tmp_path / "sinfo", "true")
    allocation.setattr(injection_session.checkout, "ROOT", tmp_path)

    def refusal() -> str:
        with pytest.raises(InputError) as error:
            injection_session.injection_request(HOST, RequestedWrites(), tmp_path, tmp_path / "r")
        return str(error.value)

    allocation.setenv("SLURMD_NODENAME", "login1")
    assert refusal().startswith("this command runs on login1; allowed: ")
    allocation.delenv("SLURM_JOB_ID")
    assert_message(refusal(), "--machine", "Slurm", allowed="on a node of a job")
