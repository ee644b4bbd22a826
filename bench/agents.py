"""Short writes by an agent on a minicluster over veth: how many a second, and how soon.

Two targets, one origin, an application that only sleeps. Needs root and Slurm.
"""

from pathlib import Path
from typing import Any

from bench import BenchRow, at_least
from bench import minicluster as mini
from records.block_plan import ShortWrites
from records.errors import MachineError

#: A write is due every so often, seconds, and this many messages of 64 KiB long.
_EVERY_S = 0.125
_MESSAGES = 16
_RUN_S = 12.0


def run() -> list[BenchRow]:
    """Writes a second that one origin sustains, and how late they start."""
    if reason := mini.missing_on_host("veth"):
        return [BenchRow(f"writes of an agent: not measured: {reason}", 0)]
    with mini.minicluster("--nodes", "3", "--origins", "1") as folder:
        sample = _sample(folder)
    table = sample["timetable"]
    name = f"writes an origin makes, {1 / _EVERY_S:g} a second planned"
    after = "start of a write after its planned start"
    return [
        at_least(name, table["done"] / sample["elapsed_s"], "/s", 5),
        BenchRow(f"{after}, median", table["start_median_s"], "s"),
        BenchRow(f"{after}, largest", table["start_worst_s"], "s"),
    ]


def _sample(folder: Path) -> dict[str, Any]:
    short = ShortWrites(length_s=_EVERY_S, messages=_MESSAGES, tolerance_s=5.0, allowed_share=1.0)
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
