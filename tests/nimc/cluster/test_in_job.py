"""What a job brings back becomes findings; one node sees another's lock."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.cluster import in_job
from nimc.cluster.in_job import JobLook, NodeRequest
from nimc.machine.site import Machine, Origins
from tests.nimc.cluster.made import FAST, node
from tests.nimc.conftest import Command

REQUEST = NodeRequest(
    ["--partition=batch"], Origins(policy="hetjob", partition="io"), ["/c", "/py"], [("A", "1")]
)
SEEN = {"n1": ["/c", "/py"], "n2": ["/c", "/py"]}


def machine_of(**changes: Any) -> Machine:
    record = {"name": "box", "description": "a box", "origins": {"policy": "hetjob"}}
    record |= {"injector": "perftest", "device": "mlx5_0", "interface": "hsn0"}
    return Machine.model_validate(record | changes)


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
