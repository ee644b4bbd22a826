"""The published figures of Groves, Grant and Arnold (2016), from `paper.json`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any


@cache
def paper() -> dict[str, Any]:
    """The paper's tables and headline figures. The name of a key has the unit of its values."""
    record: dict[str, Any] = json.loads(Path(__file__).with_name("paper.json").read_text())
    return record


#: The machine of Table III and figure 3. Table II also has a row for it.
FIGURE_3_MACHINE = "Sandy Bridge-X2-onload"
#: Name of the table of rates, and name of the table of run times.
RATES_TABLE, TIMES_TABLE = "Table II", "Table III"
#: Workload -> its name in the paper.
PAPER_NAMES = {"stream": "STREAM"} | {name.lower(): name for name in paper()["table_3_runtime_s"]}


@dataclass(frozen=True, kw_only=True)
class PublishedRow:
    """A published pair of figures, without and with writes. It has no interval."""

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
        """Run time with writes / without, as figure 3 shows it."""
        return self.on / self.off if self.table == TIMES_TABLE else self.off / self.on


def table_2_rows() -> list[PublishedRow]:
    """Table II: STREAM triad, one row per machine and memory clock."""
    return [
        PublishedRow(
            workload="stream",
            machine=row["machine"],
            nic=table_1_row(row["machine"])["nic"],
            off=row["off"],
            on=row["on"],
            unit="GB/s",
            table=RATES_TABLE,
        )
        for row in paper()["table_2_triad_gb_s"]
    ]


def table_3_rows() -> dict[str, PublishedRow]:
    """Table III: workload -> its row, all from one machine."""
    nic = table_1_row(FIGURE_3_MACHINE)["nic"]
    rows = {}
    for name, (off, on) in paper()["table_3_runtime_s"].items():
        workload = name.lower()
        rows[workload] = PublishedRow(
            workload=workload,
            machine=FIGURE_3_MACHINE,
            nic=nic,
            off=off,
            on=on,
            unit="s",
            table=TIMES_TABLE,
        )
    return rows


def figure_3_rows() -> dict[str, PublishedRow]:
    """The figures behind figure 3: workload -> its row, all from one machine.

    Figure 3 shows STREAM and the workloads of Table III.
    """
    stream = next(row for row in table_2_rows() if row.machine == FIGURE_3_MACHINE)
    return {"stream": stream, **table_3_rows()}


def table_1_row(machine: str) -> dict[str, Any]:
    """The row of Table I for a machine of Table II.

    If a machine was measured at several memory clocks, its names in Table II end with `-` and the
    clock.
    """
    (row,) = (
        row
        for row in paper()["table_1_machines"]
        if machine == row["machine"] or machine.startswith(f"{row['machine']}-")
    )
    return dict(row)
