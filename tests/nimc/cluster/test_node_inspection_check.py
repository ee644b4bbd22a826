"""The ReFrame check that inspects nodes: the script of its job, and when it fails.

Slurm is not needed: a dry run writes the script, and a stand-in for `srun` starts one of two tasks.
`tests/nimc/minicluster/test_in_job.py` tests that Slurm starts all tasks.
"""

import json
from pathlib import Path

import pytest

from records.checkout import ROOT
from tests.reframe_tests.reframe_call import reframe, script, succeeded

CHECK = ROOT / "nimc/cluster/node_inspection_check.py"
#: The second component of a job for `HETJOB`: two nodes, each with one task.
COMPONENT = (
    "#SBATCH --nodes=2 --ntasks=2 --ntasks-per-node=1 --no-requeue --exclusive --partition=io"
)
HETJOB = {"policy": "hetjob", "nodes": 2, "partition": "io"}
SAME_JOB = {"policy": "same_job", "nodes": 2}
SAME_HOST = {"policy": "same_host"}


def settings(origins: dict[str, object], network: str = "", trial: str = "") -> dict[str, str]:
    """Return the variables of the check, without the folder of its reports."""
    return {
        "origins": json.dumps(origins),
        "network": network,
        "device": "mlx5_0",
        "interface": "hsn0",
        "stage": "/stage",
        "trial_plan": trial,
    }


#: Check -> its settings. One start of ReFrame makes the jobs of both checks.
JOBS = {
    "hetjob": settings(HETJOB, network="job_vni", trial="/run/plan.json"),
    "same_job": settings(SAME_JOB),
}


@pytest.fixture(scope="module")
def dry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of one dry run of a check for each row of `JOBS`."""
    folder = tmp_path_factory.mktemp("jobs")
    text = "import reframe as rfm\nfrom nimc.cluster.node_inspection_check import NodeInspection\n"
    words = ["--system=example_slurm", "-p", "spack", "--dry-run"]
    for check, values in JOBS.items():
        text += f"\n\n@rfm.simple_test\nclass {check}(NodeInspection):\n    pass\n"
        for key, value in values.items():
            words += ["-S", f"{check}.{key}={value}"]
        words += ["-S", f"{check}.folder={folder}"]
    (folder / "checks.py").write_text(text)
    succeeded(reframe(folder, "example_slurm", folder / "checks.py", *words, name=".*"))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("check", "tasks", "components", "step"),
    [
        # In a heterogeneous job, the second component has the tasks of the origins.
        ("hetjob", 1, [COMPONENT], "--het-group=0,1"),
        ("same_job", 3, [], "--ntasks=3 --nodes=3"),
    ],
)
def test_a_step_of_slurm_inspects_each_node_and_then_writes_are_tried(
    dry: Path, check: str, tasks: int, components: list[str], step: str
) -> None:
    network, trial = JOBS[check]["network"], JOBS[check]["trial_plan"]
    (path,) = dry.glob(f"stage/**/{check}/rfm_job.sh")
    lines = path.read_text().splitlines()
    for option in (f"--ntasks={tasks}", "--ntasks-per-node=1", "--no-requeue"):
        assert f"#SBATCH {option}" in lines
    second = lines.index("#SBATCH hetjob") + 1 if components else len(lines)
    assert [line for line in lines[second:] if line.startswith("#SBATCH")] == components
    assert "export SLURM_EXPORT_ENV=ALL" in lines
    # The step is a line of its own in the script. No launcher of ReFrame starts it.
    (line,) = (line for line in lines if "nimc.cluster.node_inspection" in line)
    assert line.startswith("env --unset=")
    assert f" {step} " in line
    assert (" SLURM_NETWORK=job_vni srun " in line) == bool(network)
    assert line.endswith(f" nimc.cluster.node_inspection {dry} mlx5_0 hsn0 /stage")
    trials = [line for line in lines if "conductor.block.trial" in line]
    assert trials == ([lines[-1]] if trial else [])
    assert lines[-1].endswith(f" conductor.block.trial {trial}" if trial else line)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("origins", "fault"),
    [
        (SAME_HOST, ""),  # one host needs no step
        ({"policy": "same_job", "nodes": 1}, "1 of 2 nodes answered; job "),
    ],
)
def test_every_node_must_answer(tmp_path: Path, origins: dict[str, object], fault: str) -> None:
    """The stand-in for `srun` starts the first task only."""
    first = 'while [ "${1#-}" != "$1" ]; do shift; done; SLURM_PROCID=0 exec "$@"'
    program = script(tmp_path / "bin/srun", first if fault else "exit 1")
    path = f"{program.parent}:/usr/bin:/bin"
    values = {**settings(origins), "folder": tmp_path}
    words = (tmp_path, "localhost", CHECK, "-p", "wheels", "-r")
    done = reframe(*words, name="NodeInspection", settings=values, PATH=path)
    assert (done.returncode == 0) == (not fault)
    assert fault in done.stdout
    assert (tmp_path / "job-state").read_text() == "SUCCESS"
    (node,) = tmp_path.glob("[0-9]*.json")
    assert json.loads(node.read_text())["unseen"] == ["/stage"]
