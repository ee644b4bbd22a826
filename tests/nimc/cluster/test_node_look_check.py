"""The ReFrame check that looks at nodes: the script of its job, and when it fails.

Slurm is not needed: a dry run writes the script, and a stand-in for `srun` starts one of two tasks.
`tests/nimc/minicluster/test_in_job.py` tests that Slurm starts all tasks.
"""

import json
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from records.checkout import ROOT
from tests.reframe_tests.reframe_call import reframe, script, succeeded

CHECK = ROOT / "nimc/cluster/node_look_check.py"
#: The second component of a job for `HETJOB`: two nodes, each with one task.
COMPONENT = (
    "#SBATCH --nodes=2 --ntasks=2 --ntasks-per-node=1 --no-requeue --exclusive --partition=io"
)
HETJOB = {"policy": "hetjob", "nodes": 2, "partition": "io"}
SAME_JOB = {"policy": "same_job", "nodes": 2}
SAME_HOST = {"policy": "same_host"}


def looked(
    folder: Path,
    config: str,
    origins: dict[str, object],
    *words: str,
    network: str = "",
    trial: str = "",
    **variables: str,
) -> CompletedProcess[str]:
    """Run the check with ReFrame; the tasks on nodes write their reports to `folder`."""
    settings = {"origins": json.dumps(origins), "network": network, "device": "mlx5_0"}
    settings |= {"interface": "hsn0", "folder": folder, "stage": "/stage", "trial_plan": trial}
    return reframe(folder, config, CHECK, *words, name="NodeLook", settings=settings, **variables)


def script_of(folder: Path) -> list[str]:
    """Return the lines of the job's script."""
    (path,) = folder.glob("stage/**/rfm_job.sh")
    return path.read_text().splitlines()


@pytest.mark.parametrize(
    ("origins", "network", "trial", "tasks", "components", "step"),
    [
        # In a heterogeneous job, the second component has the tasks of the origins.
        (HETJOB, "job_vni", "/run/plan.json", 1, [COMPONENT], "--het-group=0,1"),
        (SAME_JOB, "", "", 3, [], "--ntasks=3 --nodes=3"),
    ],
)
def test_a_step_of_slurm_looks_at_each_node_and_then_writes_are_tried(
    tmp_path: Path,
    origins: dict[str, object],
    network: str,
    trial: str,
    tasks: int,
    components: list[str],
    step: str,
) -> None:
    words = ("--system=example_slurm", "-p", "spack", "--dry-run")
    succeeded(looked(tmp_path, "example_slurm", origins, *words, network=network, trial=trial))
    lines = script_of(tmp_path)
    for option in (f"--ntasks={tasks}", "--ntasks-per-node=1", "--no-requeue"):
        assert f"#SBATCH {option}" in lines
    second = lines.index("#SBATCH hetjob") + 1 if components else len(lines)
    assert [line for line in lines[second:] if line.startswith("#SBATCH")] == components
    assert "export SLURM_EXPORT_ENV=ALL" in lines
    # The step is a line of its own in the script. No launcher of ReFrame starts it.
    (line,) = (line for line in lines if "nimc.cluster.node_look" in line)
    assert line.startswith("env --unset=")
    assert f" {step} " in line
    assert (" SLURM_NETWORK=job_vni srun " in line) == bool(network)
    assert line.endswith(f" nimc.cluster.node_look {tmp_path} mlx5_0 hsn0 /stage")
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
    done = looked(tmp_path, "localhost", origins, "-p", "wheels", "-r", PATH=path)
    assert (done.returncode == 0) == (not fault)
    assert fault in done.stdout
    assert (tmp_path / "job-state").read_text() == "SUCCESS"
    (node,) = tmp_path.glob("[0-9]*.json")
    assert json.loads(node.read_text())["unseen"] == ["/stage"]
