"""What Groves, Grant and Arnold (2016) published of single nodes: Tables II and III."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.paper import paper
from analysis.sample import Better

#: The machine of Table III and figure 3; it has a line in Table II as well.
MACHINE = "Sandy Bridge-X2-onload"
#: The table of rates, and that of run times.
RATES, TIMES = "Table II", "Table III"
#: Workload -> its name in the paper.
NAMES = {"stream": "STREAM"} | {name.lower(): name for name in paper()["table_3_runtime_s"]}


@dataclass(frozen=True)
class Published:
    """One published line; no interval was published with any of them."""

    workload: str
    machine: str
    #: `onload` or `offload` (Table I).
    nic: str
    #: Figures of merit without and with writes, as published, in `unit`.
    off: float
    on: float
    unit: str
    table: str
    #: Change as the table prints it, per cent; None where it has no such column.
    change_percent: float | None = None

    @property
    def better(self) -> Better:
        """Table III has times, Table II rates."""
        return "lower" if self.table == TIMES else "higher"

    @property
    def slowdown(self) -> float:
        """Run time on over off, which figure 3 shows: times on/off, rates off/on."""
        return self.on / self.off if self.better == "lower" else self.off / self.on


def triad() -> list[Published]:
    """Table II: STREAM triad, one line a machine."""
    return [
        Published(
            workload="stream",
            machine=row["machine"],
            nic=_nic(row["machine"]),
            off=row["off"],
            on=row["on"],
            unit="GB/s",
            table=RATES,
            change_percent=row["diff_percent_paper"],
        )
        for row in paper()["table_2_triad_gb_s"]
    ]


def normalised() -> dict[str, Published]:
    """Figure 3, which Table III is but for STREAM: workload -> its line, all of one machine."""
    lines = {"stream": next(line for line in triad() if line.machine == MACHINE)}
    for name, (off, on) in paper()["table_3_runtime_s"].items():
        workload = name.lower()
        lines[workload] = Published(workload, MACHINE, _nic(MACHINE), off, on, "s", TIMES)
    return lines


def _nic(machine: str) -> str:
    """Table I names a machine once that Table II has at several memory clocks."""
    (nic,) = (
        str(row["nic"])
        for row in paper()["table_1_machines"]
        if machine == row["machine"] or machine.startswith(f"{row['machine']}-")
    )
    return nic
