"""What a job brings back becomes findings; one node sees another's lock."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from nimc.campaign.settings import ReframeSettings
from nimc.cluster import in_job
from nimc.cluster.in_job import JobLook, NodeRequest
from records.checkout import ROOT
from records.errors import InputError, MachineError
from records.machine.site import Machine, Origins
from records.programs import ProgramAnswer
from tests.commands import Command
from tests.nimc.cluster.made import FAST, node
from tests.records.machine.made import machine

REQUEST = NodeRequest(
    ["--partition=batch"], Origins(policy="hetjob", partition="io"), ["/c", "/py"], [("A", "1")]
)
SEEN = {"n1": ["/c", "/py"], "n2": ["/c", "/py"]}


def machine_of(**changes: Any) -> Machine:
    return machine(**{"device": "mlx5_0", "interface": "hsn0", **changes})


def states(looked: JobLook, **changes: Any) -> dict[str, str]:
    made = in_job.findings(looked, REQUEST, machine_of(**changes))
    return {found.what: found.state for found in made}


def job(*nodes: dict[str, Any], seen: dict[str, list[str]] | None = None) -> JobLook:
    return JobLook("7", None, list(nodes), SEEN if seen is None else seen)


def test_nodes_that_have_everything() -> None:
    what = ["job on nodes", "shared folders", "locks", "interface on nodes"]
    what += ["mlx5_0 on nodes", "perftest on nodes"]
    looked = job(node("n1", FAST), node("n2", FAST))
    assert states(looked) == dict.fromkeys(what, "ok")
    found = in_job.findings(looked, REQUEST, machine_of())
    assert found[0].detail == "job 7: target n1, origins n2"
    assert all(each.needed for each in found)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"lock": "unseen"}, "locks"),
        ({"lock": "late"}, "locks"),
        ({"addresses": {"hsn0": None, "eno1": "10.0.0.2"}}, "interface on nodes"),
        ({"host": {"rdma": [], "interfaces": []}}, "mlx5_0 on nodes"),
        ({"injectors": {"perftest": "ib_write_bw is missing: install"}}, "perftest on nodes"),
    ],
)
def test_what_one_node_lacks_is_missing(change: dict[str, Any], what: str) -> None:
    looked = job(node("n1", FAST), node("n2", FAST, **change))
    assert [name for name, state in states(looked).items() if state != "ok"] == [what]
    (found,) = (
        each for each in in_job.findings(looked, REQUEST, machine_of()) if each.what == what
    )
    assert found.detail.startswith("n2")
    assert found.needed
    assert found.remedy


def test_a_first_node_that_waited_in_vain_for_others_shows_no_locks() -> None:
    looked = job(node("n1", FAST, lock="late"), node("n2", FAST, lock="seen"))
    assert in_job.locks(looked).state == "missing"


def test_a_folder_that_a_node_does_not_see_is_named() -> None:
    looked = job(node("n1", FAST), node("n2", FAST), seen={"n1": ["/c", "/py"], "n2": ["/py"]})
    (found,) = in_job.sees(looked, REQUEST)
    assert (found.state, found.detail) == ("missing", "n2 does not see /c")


@pytest.mark.parametrize(
    ("looked", "said"),
    [
        (JobLook(None, "Slurm refuses the job: no"), "Slurm refuses the job: no"),
        (JobLook("7", "job 7 has not ended after 5 s"), "job 7 has not ended after 5 s"),
        (JobLook("7"), "job 7: 0 of 2 nodes answered; it wrote nothing"),
        (JobLook("7", said="srun: no"), "job 7: 0 of 2 nodes answered; it said: srun: no"),
    ],
)
def test_a_job_that_did_not_run_is_one_line(looked: JobLook, said: str) -> None:
    (found,) = in_job.findings(looked, REQUEST, machine_of())
    assert (found.state, found.detail) == ("missing", said)
    why = ("--wait" if looked.job else "access") if looked.why else "results folder"
    assert why in found.remedy


def test_one_node_alone_shows_no_lock_and_its_interfaces_are_named() -> None:
    (locks, interface) = (
        in_job.locks(job(node("n1", FAST))),
        in_job.interface(job(node("n1", FAST)), machine_of(interface=None)),
    )
    assert (locks.state, locks.needed) == ("ok", False)
    assert (interface.state, interface.needed) == ("limited", False)
    assert interface.detail.endswith("interfaces of all nodes: docker0, eno1, hsn0")
    # An interface in the place of a device, and a device without ports.
    host = node("n1", [FAST[0] | {"ports": []}])["host"]
    rates = [in_job.device_rate(host, name) for name in ("eno1", "mlx5_0", "mlx5_1")]
    assert rates == ["(up 1 Gbit/s)", "(InfiniBand)", None]


Ask = Callable[..., ProgramAnswer]


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> tuple[list[list[str]], dict[str, list[Any]]]:
    """Commands that are run, and the answers of each program, in order: status, output, errors."""
    asked: list[list[str]] = []
    answers: dict[str, list[Any]] = {}

    def ask(command: Sequence[str], *_: object, stdin: str = "") -> ProgramAnswer:
        asked.append([*command])
        status, out, err = answers[command[0]].pop(0)
        if found := re.search("--chdir=(.*)", stdin):
            Path(found[1], "job.out").write_text("seen n1 /c\n")
            for rank in (10, 9):
                Path(found[1], f"{rank}.json").write_text(json.dumps({"node": f"n{rank}"}))
        return ProgramAnswer(command[0], status, out, err)

    monkeypatch.setattr(in_job, "ask", ask)
    monkeypatch.setattr(in_job.slurm, "cancel", lambda run: asked.append(["cancel", str(run)]))
    return asked, answers


def test_a_job_is_waited_for_and_cancelled_whatever_it_left(
    tmp_path: Path, slurm: tuple[list[list[str]], dict[str, list[Any]]]
) -> None:
    asked, answers = slurm
    pending = (0, "7 is none\nPENDING: Priority\nRUNNING: None\n", "")
    answers |= {"sbatch": [(0, "7;cluster\n", "")], "squeue": [pending, (0, "", "")]}
    looked = in_job.look(REQUEST, tmp_path, 60.0)
    assert (looked.job, looked.why, looked.seen) == ("7", None, {"n1": ["/c"]})
    assert [each["node"] for each in looked.nodes] == ["n9", "n10"]
    assert [words[0] for words in asked] == ["sbatch", "squeue", "squeue", "cancel"]
    assert (asked[1][1], list(tmp_path.iterdir())) == ("--job=7", [])
    # It does not start, or is refused; one that Slurm has forgotten has ended.
    gone = (1, "", "slurm_load_jobs error: Invalid job id specified\n")
    answers |= {"sbatch": [(0, "8\n", ""), (1, "", "sbatch: error: no\nsbatch: error: way\n")]}
    answers["squeue"] = [pending]
    why = "job 8 has not ended after 0 s (PENDING: Priority); cancelled"
    assert in_job.look(REQUEST, tmp_path, 0.0).why == why
    refused = in_job.look(REQUEST, tmp_path, 60.0)
    assert (refused.job, refused.why) == (None, "Slurm refuses the job: no; way")
    answers |= {"sbatch": [(0, "9\n", ""), (0, "9\n", "")], "squeue": [gone, (1, "", "x\n")]}
    assert in_job.look(REQUEST, tmp_path, 60.0).why is None
    with pytest.raises(MachineError, match="squeue: exit status 1: x"):
        in_job.look(REQUEST, tmp_path, 60.0)
    assert asked[-1][0] == "cancel"


@pytest.mark.parametrize(("policy", "held"), [("hetjob", True), ("same_job", False)])
def test_only_a_heterogeneous_job_is_submitted_to_see_whether_slurm_takes_it(
    slurm: tuple[list[list[str]], dict[str, list[Any]]], policy: Any, held: bool
) -> None:
    asked, answers = slurm
    answers["sbatch"] = [(1, "", "sbatch: error: no hetjobs\n"), (0, "", "warning")]
    request = NodeRequest(origins=Origins(policy=policy))
    assert [in_job.refusal(request) for _ in range(2)] == ["no hetjobs", None]
    assert ("--hold" in asked[0], "--test-only" in asked[0]) == (held, not held)
    assert (["cancel"] in [words[:1] for words in asked]) == held


@pytest.mark.parametrize(
    ("policy", "refused", "states"),
    [
        ("same_host", [None, None], ["ok", "ok", "looked"]),
        ("same_job", ["no", None], ["missing", "ok", "looked"]),
        ("hetjob", [None, None, None], ["ok", "ok", "ok", "looked"]),
        ("hetjob", [None, None, "no"], ["ok", "ok", "missing"]),
        ("hetjob", MachineError("slurm is away"), ["missing"]),
    ],
)
def test_partitions_then_origins_then_nodes_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, policy: str, refused: Any, states: list[str]
) -> None:
    parts = [{"name": name, "scheduler": "slurm", "access": [f"-p {name}"]} for name in "ab"]
    parts.append({"name": "c", "scheduler": "local"})
    settings = ReframeSettings({"SLURM_CONF": "/x"}, parts)
    site = machine_of(origins={"policy": policy}, partition="b")
    requests: list[NodeRequest] = []

    def refusal(request: NodeRequest) -> str | None:
        requests.append(request)
        if isinstance(refused, Exception):
            raise refused
        reason: str | None = refused.pop(0)
        return reason

    def look(request: NodeRequest, parent: Path, _: float) -> JobLook:
        assert parent.is_dir()
        requests.append(request)
        return JobLook("7")

    monkeypatch.setenv("SLURM_CONF", "")
    monkeypatch.setenv("RFM_STAGE_DIR", "/stage")
    monkeypatch.setattr(in_job, "load_machine", lambda *_: site)
    monkeypatch.setattr(in_job, "settings_of", lambda _: settings)
    monkeypatch.setattr(in_job, "refusal", refusal)
    monkeypatch.setattr(in_job, "look", look)
    monkeypatch.setattr(in_job, "findings", lambda *_: [in_job.Finding("job", "looked", "")])  # type: ignore[arg-type]
    told: list[str] = []
    found = in_job.examine("box", tmp_path / "new" / "results", 60.0, told.append)
    assert [each.state for each in found] == states
    assert all(each.needed for each in found if each.state == "missing")
    assert os.environ["SLURM_CONF"] == "/x"
    assert not list(tmp_path.iterdir())  # the folder was made for the job alone
    assert (len(told), requests[0].access) == ("looked" in states, ["-p a"])
    if "looked" in states:
        assert requests[-1].access == ["-p b"]
        assert {str(ROOT), str(tmp_path / "new/results"), "/stage"} <= set(requests[-1].paths)


def test_rails_are_looked_for_each() -> None:
    rails = [{"device": "mlx5_0"}, {"device": "mlx5_1"}]
    only = [each for each in FAST if each["name"] == "mlx5_0"]
    found = states(job(node("n1", FAST), node("n2", only)), rails=rails)
    assert found["mlx5_0 on nodes"] == "ok"
    assert found["mlx5_1 on nodes"] == "missing"


def test_the_script_has_both_components_of_a_heterogeneous_job() -> None:
    lines = in_job.script(REQUEST, Path("/r x")).splitlines()
    assert {"#SBATCH --chdir='/r x'", "#SBATCH --output='/r x/job.out'"} <= set(lines)
    first, second = lines[: lines.index("#SBATCH hetjob")], lines[lines.index("#SBATCH hetjob") :]
    assert "#SBATCH --partition=batch" in first
    assert "--partition=io" in second[1]
    assert "--het-group=0,1" in lines[-1]
    assert re.search(r"nimc\.cluster\.node_look \W+/r x\W+ 2'$", lines[-1])
    assert 'export A="1"' in lines


def test_the_script_of_one_job_asks_for_all_nodes() -> None:
    request = NodeRequest(origins=Origins(policy="same_job", nodes=2))
    lines = in_job.script(request, Path("/r/x")).splitlines()
    assert "#SBATCH --nodes=3" in lines
    assert "#SBATCH hetjob" not in lines
    assert "--nodes=3" in lines[-1]
    alone = in_job.script(NodeRequest(), Path("/r/x")).splitlines()
    assert "#SBATCH --nodes=1" in alone
    assert "het-group" not in alone[-1]


def test_lines_of_nodes_may_come_mixed() -> None:
    text = "seen n1 /c\nslurmstepd: warning\nseen n2 /a b\nseen n1 /py\n\n"
    assert in_job.output_of_nodes(text) == (
        {"n1": ["/c", "/py"], "n2": ["/a b"]},
        "slurmstepd: warning",
    )


def test_tasks_see_the_lock_of_the_first(tmp_path: Path) -> None:
    look = [sys.executable, "-m", "nimc.cluster.node_look", str(tmp_path), "2"]
    tasks = [
        subprocess.Popen(look, env={**os.environ, "SLURM_PROCID": str(n), "PYTHONPATH": str(ROOT)})
        for n in range(2)
    ]
    assert [task.wait(timeout=60) for task in tasks] == [0, 0]
    records = [json.loads((tmp_path / f"{n}.json").read_text()) for n in range(2)]
    assert [record["lock"] for record in records] == ["held", "seen"]
    assert records[0]["host"]["cores"] >= 1
    assert records[0]["injectors"]["spin"] is None
    assert len(in_job.collected(tmp_path, "7", None).nodes) == 2


def test_a_machine_without_slurm_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--in-job: configs/localhost\.py has no partition of"):
        in_job.examine("localhost", tmp_path, 1.0, print)


@pytest.mark.parametrize("option", [("--wait", "1min"), ("--results", "elsewhere")])
def test_options_of_the_job_are_refused_without_one(
    option: tuple[str, str], command: Command
) -> None:
    command("doctor", "--machine", "localhost", *option, code=2)
    assert f"{option[0]}: has no effect without --in-job" in command.err
