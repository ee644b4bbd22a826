"""RDMA and NUMA: throughput of communications and workers in every cell.

A cell is a direction (write, read), the NUMA node of the buffer (`nic`: that of the network
interface, `other`: another one), and what workers on this machine do to the memory of the same node
and where they run. Its runs are those of all treatments with these levels, from one case or
several. Rates of communications are the target device's counts if it has any: received for writes,
sent for reads.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.estimate import Result
from analysis.sample import Level
from analysis.statistics.interval import Estimate, median_interval
from analysis.statistics.two_samples import ratio_between

PLACES = ("nic", "other")
IDLE = "idle"
LOADS = ("read", "write", "nt_write")
#: `free`: placed by the system.
WORKERS = ("nic", "other", "free")
_DIRECTIONS = ("write", "read")


class Key(NamedTuple):
    """Identifies a cell."""

    direction: str
    buffer: str
    load: str
    #: Where workers run; empty without workers.
    workers: str


@dataclass(frozen=True)
class Cell:
    """One cell, rates in bytes per second; an estimate is None below six runs."""

    key: Key
    #: Rate of communications in every run that counts, and which end reported it.
    rates_b_s: list[float]
    reported_by: Literal["target", "origin"]
    communications: Estimate | None
    #: Ratio to the idle cell with the same direction and buffer.
    of_idle: Estimate | None
    #: Median rates of the workers, alone and with communications.
    workers_alone_b_s: float | None
    workers_b_s: float | None
    #: Share of their rate that workers keep with communications, and with the control; from pairs.
    kept: Estimate | None
    kept_control: Estimate | None
    #: Least share of the target's buffer on its NUMA node; None: unverified.
    on_node_share: float | None
    #: Least memory that the target's process has pinned, bytes; None: unknown.
    pinned_b: float | None
    message_b: int

    @property
    def median_b_s(self) -> float | None:
        """Median rate of communications; None if no run counts."""
        return median(self.rates_b_s) if self.rates_b_s else None


def cells(
    samples: pl.DataFrame, results: Sequence[Result], provenance: Mapping[str, Any]
) -> list[Cell]:
    """The cells of a run in table order, from its judged samples; empty for other runs."""
    if not any("numa" in each for each in provenance.values()):
        return []  # without reading its samples, which may be a million
    rows = {(row.case, row.arm): row for row in results}
    of_cell: dict[Key, dict[str, _Treatment]] = {}
    named = samples.lazy().select(
        *(pl.col(name).cast(pl.String) for name in ("case", "arm", "role", "factors"))
    )
    for case, arm, role, factors in named.unique(maintain_order=True).collect().iter_rows():
        row = rows.get((case, arm))
        if role == "effect" and (key := key_of(json.loads(factors or "{}"), row)):
            of_case = of_cell.setdefault(key, {})
            # Names omit first levels, so the shortest has the first level of every other factor.
            if case not in of_case or len(arm) < len(of_case[case].arm):
                of_case[case] = _Treatment(case, arm, row, _control(row, results))
    found = {key: _cell(key, list(each.values()), samples) for key, each in of_cell.items()}
    ordered = sorted(found, key=_position)
    idle = {(key.direction, key.buffer): found[key] for key in found if key.load == IDLE}
    return [_against(found[key], idle.get((key.direction, key.buffer))) for key in ordered]


class _Treatment(NamedTuple):
    """A treatment of a cell with its result and that of the control with the same baseline."""

    case: str
    arm: str
    row: Result | None
    control: Result | None


def key_of(factors: Mapping[str, Level], row: Result | None = None) -> Key | None:
    """The cell of a treatment with these levels; None if a level is missing or invalid.

    If direction is not a factor, it is what the writers did (`row`).
    """
    factors = {"direction": (row and row.direction) or "", **factors}
    direction, buffer, load = (str(factors.get(name)) for name in ("direction", "buffer", "load"))
    workers = "" if load == IDLE else str(factors.get("workers"))
    known = (
        direction in _DIRECTIONS
        and buffer in PLACES
        and load in (IDLE, *LOADS)
        and workers in (*WORKERS, "")
    )
    return Key(direction, buffer, load, workers) if known else None


def _control(row: Result | None, results: Sequence[Result]) -> Result | None:
    same = (
        each
        for each in results
        if row and each.role == "control" and (each.case, each.baseline) == (row.case, row.baseline)
    )
    return next(same, None)


def _position(key: Key) -> tuple[int, ...]:
    workers = (*WORKERS, "")
    return (
        _DIRECTIONS.index(key.direction),
        PLACES.index(key.buffer),
        (IDLE, *LOADS).index(key.load),
        workers.index(key.workers),
    )


def _cell(key: Key, treatments: Sequence[_Treatment], samples: pl.DataFrame) -> Cell:
    names = pl.DataFrame(
        [(each.case, each.arm) for each in treatments], schema=["case", "arm"], orient="row"
    )
    on = (
        samples.lazy()
        .filter(status="counts")
        .with_columns(pl.col("case", "arm").cast(pl.String))
        .join(names.lazy(), on=["case", "arm"], how="semi", maintain_order="left")
        .collect()
    )
    by_target = on.height > 0 and on["counted_b_s"].null_count() == 0
    rates = on["counted_b_s" if by_target else "writer_rate_b_s"].drop_nulls().to_list()
    # Rates of all cases are pooled; the share of workers comes from one treatment.
    row, control = (treatments[0].row, treatments[0].control) if key.load != IDLE else (None, None)
    return Cell(
        key=key,
        rates_b_s=rates,
        reported_by="target" if by_target else "origin",
        communications=median_interval(rates),
        of_idle=None,
        workers_alone_b_s=row.off_median if row else None,
        workers_b_s=row.on_median if row else None,
        kept=_kept(row),
        kept_control=_kept(control),
        on_node_share=_least(on["target_on_node_share"]),
        pinned_b=_least(on["target_pinned_b"]),
        message_b=int(on["message_b"][0]) if on.height else 0,
    )


def _least(values: pl.Series) -> float | None:
    """The least value of all runs; None if any run has none."""
    least = values.min()
    return float(least) if isinstance(least, int | float) and not values.null_count() else None


def _kept(row: Result | None) -> Estimate | None:
    """Remaining share of the rate: the inverse of the slowdown, with the bounds swapped."""
    if row is None or row.slowdown is None:
        return None
    assert row.slowdown_low is not None
    assert row.slowdown_high is not None
    return Estimate(1 / row.slowdown, 1 / row.slowdown_high, 1 / row.slowdown_low, 0.95)


def _against(cell: Cell, idle: Cell | None) -> Cell:
    if idle is None or idle is cell:
        return cell
    return replace(cell, of_idle=ratio_between(cell.rates_b_s, idle.rates_b_s))
