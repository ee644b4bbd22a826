"""Published figures that a workload's result can stand beside."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.paper import paper


@dataclass(frozen=True)
class Published:
    """One published line; no interval was published with any of them."""

    machine: str
    #: Figures of merit without and with writes, as published, in `unit`.
    off: float
    on: float
    unit: str
    #: off/on for rates, on/off for times.
    slowdown: float
    table: str


def published(workload: str) -> list[Published]:
    """What seed 000 (Groves, Grant, Arnold) published of `workload`; empty where nothing."""
    if workload == "stream":
        return [
            Published(
                row["machine"], row["off"], row["on"], "GB/s", row["off"] / row["on"], "Table II"
            )
            for row in paper()["table_2_triad_gb_s"]
        ]
    for name, (off, on) in paper()["table_3_runtime_s"].items():
        if name.lower() == workload.lower():
            return [Published("Sandy Bridge-X2-onload", off, on, "s", on / off, "Table III")]
    return []
