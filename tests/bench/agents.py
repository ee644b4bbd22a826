"""Short writes by an agent on a minicluster over veth: how many a second, and how soon.

Two targets, one origin, an application that only sleeps. Needs root and Slurm.
"""

import json
from pathlib import Path
from typing import Any

from nimc.base.errors import MachineError
from nimc.machine import slurm
from nimc.machine.site import Origins
from nimc.records.plan import BlockPlan, ShortWrites
from tests.bench import BenchRow, at_least
from tests.bench import _minicluster as mini
from tests.nimc.node.treatments import treatments

#: A write is due every so often, seconds, and this many messages of 64 KiB long.
_EVERY_S = 0.125
_MESSAGES = 16
_RUN_S = 12.0


def run() -> list[BenchRow]:
    """Writes a second that one origin sustains, their set-up, and how late they start."""
    if reason := mini.lacks("veth"):
        return [BenchRow(f"writes of an agent: not measured: {reason}", 0)]
    with mini.minicluster("--nodes", "3", "--origins", "1") as folder:
        sample = _sample(folder)
    table = sample["timetable"]
    name = f"writes an origin makes, {1 / _EVERY_S:g} a second planned"
    after = "start of a write after its planned start"
    return [
        at_least(name, table["done"] / sample["elapsed_s"], "/s", 5),
        BenchRow(
            "start of a write's program to its first byte, median", table["setup_median_s"], "s"
        ),
        BenchRow(f"{after}, median", table["start_median_s"], "s"),
        BenchRow(f"{after}, largest", table["start_worst_s"], "s"),
    ]


def _sample(folder: Path) -> dict[str, Any]:
    origins = Origins(policy="hetjob", partition="origin")
    plan = BlockPlan(
        case="agents",
        workload="lammps",
        block=0,
        seed=1,
        treatments=treatments(
            ["off", "daly"], mini.sleeper(_RUN_S), {"devices": ("eth0",)}, {"daly": 1}
        ),
        pairs=1,
        warmups=0,
        nimc_dir=str(folder / "run"),
        origin_policy="hetjob",
        interface="eth0",
        agent_launcher=slurm.agent_launcher(origins),
        short=ShortWrites(_EVERY_S, _MESSAGES, tolerance_s=5.0, allowed_share=1.0),
    )
    plan.save(folder / "plan.json")
    mini.submit(folder, "job", 2, mini.conductor(folder / "plan.json")).wait()
    samples = folder / "run" / "samples" / "agents.jsonl"
    for line in samples.read_text().splitlines() if samples.exists() else []:
        sample: dict[str, Any] = json.loads(line)
        if sample["arm"] == "daly":
            return sample
    said = " ".join((folder / "job.out").read_text().split())
    raise MachineError(f"no run under writes: {said[-300:]}")
