"""The published figures of Groves, Grant and Arnold (2016), from `paper.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """Tables and headline figures; keys name each list and its unit."""
    record: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text())
    return record


#: The machine of Table III and figure 3, also in Table II.
MACHINE = "Sandy Bridge-X2-onload"
#: The tables of rates and of run times.
RATES, TIMES = "Table II", "Table III"
#: Workload -> its name in the paper.
NAMES = {"stream": "STREAM"} | {name.lower(): name for name in paper()["table_3_runtime_s"]}


@dataclass(frozen=True, kw_only=True)
class Published:
    """One published line; none has an interval."""

    workload: str
    machine: str
    #: `onload` or `offload` (Table I).
    nic: str
    #: Figures of merit without and with writes, as published, in `unit`.
    off: float
    on: float
    unit: str
    table: str

    @property
    def slowdown(self) -> float:
        """Run time on over off, which figure 3 shows."""
        return self.on / self.off if self.table == TIMES else self.off / self.on


def triad() -> list[Published]:
    """Table II: STREAM triad, one line per machine."""
    rows = ((row["machine"], row["off"], row["on"]) for row in paper()["table_2_triad_gb_s"])
    return [
        Published(
            workload="stream",
            machine=machine,
            nic=machine_of(machine)["nic"],
            off=off,
            on=on,
            unit="GB/s",
            table=RATES,
        )
        for machine, off, on in rows
    ]


def normalised() -> dict[str, Published]:
    """Figure 3 (Table III and STREAM): workload -> its line, all from one machine."""
    lines = {"stream": next(line for line in triad() if line.machine == MACHINE)}
    nic = machine_of(MACHINE)["nic"]
    for name, (off, on) in paper()["table_3_runtime_s"].items():
        workload = name.lower()
        lines[workload] = Published(
            workload=workload, machine=MACHINE, nic=nic, off=off, on=on, unit="s", table=TIMES
        )
    return lines


def machine_of(name: str) -> dict[str, Any]:
    """The line of Table I of a machine of Table II, which has some at several memory clocks."""
    (row,) = (
        row
        for row in paper()["table_1_machines"]
        if name == row["machine"] or name.startswith(f"{row['machine']}-")
    )
    return dict(row)
