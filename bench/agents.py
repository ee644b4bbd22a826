"""Short writes by an agent on a minicluster over veth: how many a second, and how late.

There are two targets, one origin, and an application that only sleeps. Needs root and Slurm.
"""

from pathlib import Path
from typing import Any

from bench import BenchRow, row_with_lower_limit
from bench import minicluster as mini
from records.block_plan import ShortWrites
from records.errors import MachineError

#: Planned length of a write, after which the next one is due.
_INTERVAL_S = 0.125
#: Messages of 64 KiB in a write.
_MESSAGES = 16
_RUN_S = 12.0
#: Aim: writes that an origin makes in a second.
_LEAST_WRITES_PER_S = 5


def run() -> list[BenchRow]:
    """Measure how many writes a second one origin sustains, and how late they start."""
    if reason := mini.why_no_minicluster("veth"):
        print(f"writes of an agent: not measured: {reason}")
        return []
    with mini.minicluster("--nodes", "3", "--origins", "1") as folder:
        sample = _sample_under_writes(folder)
    timetable = sample["timetable"]
    name = f"writes an origin makes, {1 / _INTERVAL_S:g} a second planned"
    delay = "start of a write after its planned start"
    return [
        row_with_lower_limit(
            name, timetable["done"] / sample["elapsed_s"], "/s", _LEAST_WRITES_PER_S
        ),
        BenchRow(f"{delay}, median", timetable["start_median_s"], "s"),
        BenchRow(f"{delay}, largest", timetable["start_worst_s"], "s"),
    ]


def _sample_under_writes(folder: Path) -> dict[str, Any]:
    """Run a block with short writes; return the sample of its run under writes."""
    short = ShortWrites(
        length_s=_INTERVAL_S, messages=_MESSAGES, tolerance_s=5.0, allowed_share=1.0
    )
    writes = {"devices": ("eth0",)}
    plan = mini.plan(
        folder, ["off", "daly"], mini.sleeper(_RUN_S), writes, {"daly": 1}, short=short
    )
    mini.submit(folder, "job", 2, mini.conductor(plan)).wait()
    for sample in mini.samples(folder):
        if sample["arm"] == "daly":
            return sample
    output = " ".join((folder / "job.out").read_text().split())
    raise MachineError(f"no run under writes: {output[-300:]}")
