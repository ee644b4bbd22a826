"""The published figures of Groves, Grant and Arnold (2016), from `paper.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from records.sample import Better


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


@dataclass(frozen=True)
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
    #: Change as printed in the table, per cent; None if it has no such column.
    change_percent: float | None = None

    @property
    def better(self) -> Better:
        """`lower` for the times of Table III, `higher` for the rates of Table II."""
        return "lower" if self.table == TIMES else "higher"

    @property
    def slowdown(self) -> float:
        """Run time on over off, which figure 3 shows: times on/off, rates off/on."""
        return self.on / self.off if self.better == "lower" else self.off / self.on


def triad() -> list[Published]:
    """Table II: STREAM triad, one line per machine."""
    lines = []
    for row in paper()["table_2_triad_gb_s"]:
        of = ("stream", row["machine"], _nic(row["machine"]), row["off"], row["on"], "GB/s", RATES)
        lines.append(Published(*of, row["diff_percent_paper"]))
    return lines


def normalised() -> dict[str, Published]:
    """Figure 3 (Table III and STREAM): workload -> its line, all from one machine."""
    lines = {"stream": next(line for line in triad() if line.machine == MACHINE)}
    for name, (off, on) in paper()["table_3_runtime_s"].items():
        workload = name.lower()
        lines[workload] = Published(workload, MACHINE, _nic(MACHINE), off, on, "s", TIMES)
    return lines


def _nic(machine: str) -> str:
    """Table I lists a machine once; Table II may have it at several memory clocks."""
    (nic,) = (
        str(row["nic"])
        for row in paper()["table_1_machines"]
        if machine == row["machine"] or machine.startswith(f"{row['machine']}-")
    )
    return nic
