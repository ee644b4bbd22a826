"""RDMA and NUMA (seed 002): the throughput of both sides in every cell, and the seed's findings.

A cell is a direction (write, read), a place of the buffer (`nic`: the network interface's NUMA
node, `other`: another one), and what workers on this machine do to the memory of that same node,
and from where. Rates of communications are what the target's device counted, where it counts:
received for writes, sent for reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal, NamedTuple

import polars as pl

from analysis.estimate import Result
from analysis.statistics.interval import Estimate, median_interval
from analysis.statistics.two_samples import ratio_between

PLACES = ("nic", "other")
IDLE = "idle"
LOADS = ("read", "write", "nt_write")
#: `free`: left to the system.
WORKERS = ("nic", "other", "free")


class Key(NamedTuple):
    """Which cell."""

    direction: str
    buffer: str
    load: str
    #: Where workers run; empty where there are none.
    workers: str


@dataclass(frozen=True)
class Cell:
    """One cell, rates in bytes per second; an estimate is None below six runs."""

    key: Key
    #: Every run that counts: communications' rate, and which end told it.
    rates_b_s: list[float]
    told_by: Literal["target", "origin"]
    communications: Estimate | None
    #: Against the idle cell of the same direction and buffer.
    of_idle: Estimate | None
    #: Workers' rate alone and beside communications: medians.
    workers_alone_b_s: float | None
    workers_b_s: float | None
    #: Share that workers keep beside communications, and beside the control; from pairs.
    kept: Estimate | None
    kept_control: Estimate | None
    #: Least share of the target's buffer on its node; None: unverified.
    on_node_share: float | None
    #: Least memory of the target's process that cannot be moved, bytes; None: not told.
    pinned_b: float | None
    message_b: int

    @property
    def median_b_s(self) -> float | None:
        """Median of the communications' rates; None without a run that counts."""
        return median(self.rates_b_s) if self.rates_b_s else None


def cells(
    samples: pl.DataFrame, results: Sequence[Result], provenance: Mapping[str, Any]
) -> list[Cell]:
    """The cells of a run in the order of tables, from its judged samples; none for other runs."""
    if not any("numa" in each for each in provenance.values()):
        return []  # without a look at its samples, which may be a million
    of_cell: dict[Key, list[str]] = {}
    made = samples.select(pl.col("case", "provenance").cast(pl.String)).unique(maintain_order=True)
    for case, sha in made.iter_rows():
        if facts := provenance.get(sha, {}).get("numa"):
            key = Key(facts["direction"], facts["buffer"], facts["load"], facts["workers"] or "")
            if case not in (known := of_cell.setdefault(key, [])):
                known.append(case)
    found = {
        key: _cell(key, samples.filter(pl.col("case").cast(pl.String).is_in(names)), results)
        for key, names in of_cell.items()
    }
    ordered = sorted(found, key=_position)
    idle = {(key.direction, key.buffer): found[key] for key in found if key.load == IDLE}
    return [_against(found[key], idle.get((key.direction, key.buffer))) for key in ordered]


def _position(key: Key) -> tuple[int, ...]:
    workers = (*WORKERS, "")
    return (
        ("write", "read").index(key.direction),
        PLACES.index(key.buffer),
        (IDLE, *LOADS).index(key.load),
        workers.index(key.workers),
    )


def _cell(key: Key, samples: pl.DataFrame, results: Sequence[Result]) -> Cell:
    counted = samples.filter(status="counts")
    on = counted.filter(pl.col("arm") == "on")
    by_target = on.height > 0 and on["counted_b_s"].null_count() == 0
    rates = on["counted_b_s" if by_target else "writer_rate_b_s"].drop_nulls().to_list()
    of = {row.arm: row for row in results if row.case in set(samples["case"].cast(pl.String))}
    effect, control = of.get("on"), of.get("spin")
    works = key.load != IDLE
    return Cell(
        key=key,
        rates_b_s=rates,
        told_by="target" if by_target else "origin",
        communications=median_interval(rates),
        of_idle=None,
        workers_alone_b_s=effect.off_median if effect and works else None,
        workers_b_s=effect.on_median if effect and works else None,
        kept=_kept(effect) if works else None,
        kept_control=_kept(control) if works else None,
        on_node_share=_least(on["target_on_node_share"]),
        pinned_b=_least(on["target_pinned_b"]),
        message_b=int(on["message_b"][0]) if on.height else 0,
    )


def _least(values: pl.Series) -> float | None:
    """The least of what every run told; None where one did not tell."""
    least = values.min()
    return float(least) if isinstance(least, int | float) and not values.null_count() else None


def _kept(row: Result | None) -> Estimate | None:
    """Share of the rate that is left: the inverse of the slowdown, ends changed over."""
    if row is None or row.slowdown is None:
        return None
    assert row.slowdown_low is not None
    assert row.slowdown_high is not None
    return Estimate(1 / row.slowdown, 1 / row.slowdown_high, 1 / row.slowdown_low, 0.95)


def _against(cell: Cell, idle: Cell | None) -> Cell:
    if idle is None or idle is cell:
        return cell
    return Cell(**{**vars(cell), "of_idle": ratio_between(cell.rates_b_s, idle.rates_b_s)})


@dataclass(frozen=True)
class Answer:
    """A comparison of two cells' communications that answers a question, or why there is none."""

    #: What is compared, in words.
    what: str
    answer: Literal["yes", "no", "cannot be told", "not measured"]
    #: Why it is that answer, where the ratio does not say it.
    why: str = ""
    ratio: Estimate | None = None
    #: Medians of the first and the second cell, bytes per second.
    first_b_s: float | None = None
    second_b_s: float | None = None


@dataclass(frozen=True)
class Question:
    """One of the seed's findings, as a question to this machine."""

    text: str
    #: What the seed found, with its figure.
    published: str
    answers: list[Answer]


def questions(found: Sequence[Cell], numa_nodes: int) -> list[Question]:
    """The seed's three findings, answered from the cells of a machine with so many NUMA nodes."""
    return [
        Question(
            "With nobody else at work, are RDMA writes faster than reads?",
            "yes, into memory of another NUMA node; no figure given",
            [
                _answer(
                    f"write against read, buffer on {_place(buffer)}",
                    found,
                    Key("write", buffer, IDLE, ""),
                    Key("read", buffer, IDLE, ""),
                    numa_nodes,
                )
                for buffer in ("other", "nic")
            ],
        ),
        Question(
            "Where workers write to the memory of another NUMA node, do RDMA reads of it stand"
            " that better than RDMA writes to it?",
            "yes, reads are up to 3.7 times as fast",
            [
                _answer(
                    f"read against write, workers {_place(workers, workers=True)}",
                    found,
                    Key("read", "other", "write", workers),
                    Key("write", "other", "write", workers),
                    numa_nodes,
                )
                for workers in WORKERS
            ],
        ),
        Question(
            "With the buffer on the interface's NUMA node, do RDMA writes gain where all workers"
            " run on that node, against workers that are left alone?",
            "yes, they are 3.6 to 5 times as fast",
            [
                _answer(
                    f"workers on the interface's node against left alone, which {load}",
                    found,
                    Key("write", "nic", load, "nic"),
                    Key("write", "nic", load, "free"),
                    numa_nodes,
                    nodes_needed=2,
                )
                for load in LOADS
                if load != "nt_write" or any(cell.key.load == load for cell in found)
            ],
        ),
        Question(
            "Are the pages of the communications' buffer locked, so that its NUMA node must be"
            " chosen beforehand?",
            "yes, RDMA-accessed pages cannot be moved",
            [_locked(found)],
        ),
    ]


def _place(word: str, *, workers: bool = False) -> str:
    if word == "free":
        return "left alone"
    node = "the interface's NUMA node" if word == "nic" else "another NUMA node"
    return f"on {node}" if workers else node


def _answer(
    what: str,
    found: Sequence[Cell],
    first: Key,
    second: Key,
    numa_nodes: int,
    nodes_needed: int = 1,
) -> Answer:
    """Whether the first cell's communications are faster than the second's."""
    known = {cell.key: cell for cell in found}
    other = any("other" in key for key in (first, second))
    one, two = known.get(first), known.get(second)
    if (other or nodes_needed > 1) and numa_nodes < 2 and not (one and two):
        return Answer(what, "not measured", "this machine has one NUMA node")
    if one is None or two is None:
        return Answer(what, "not measured", "the cells are not in this run")
    if not one.rates_b_s or not two.rates_b_s:
        return Answer(what, "not measured", "no run counts")
    ratio = ratio_between(one.rates_b_s, two.rates_b_s)
    medians = [one.median_b_s, two.median_b_s]
    if ratio is None:
        return Answer(what, "cannot be told", "fewer than 6 runs a side", None, *medians)
    if numa_nodes < nodes_needed:
        return Answer(
            what,
            "not measured",
            "this machine has one NUMA node: only pinning differs",
            ratio,
            *medians,
        )
    if ratio.low > 1:
        return Answer(what, "yes", "", ratio, *medians)
    if ratio.high < 1:
        return Answer(what, "no", "the other way round", ratio, *medians)
    return Answer(what, "cannot be told", "within noise", ratio, *medians)


def _locked(found: Sequence[Cell]) -> Answer:
    """From what the kernel says of the target's process: memory pinned for a device."""
    what = "memory of the target's process that cannot be moved (VmPin)"
    told = [cell for cell in found if cell.pinned_b is not None]
    if not told:
        return Answer(what, "not measured", "the kernel does not tell")
    pinned = [cell.pinned_b >= cell.message_b for cell in told if cell.pinned_b is not None]
    least_b = min(cell.pinned_b for cell in told if cell.pinned_b is not None)
    if all(pinned):
        return Answer(what, "yes", f"at least {least_b / 2**20:.3g} MiB in every cell")
    if not any(pinned):
        return Answer(what, "no", "none of the buffer is: these writes register no memory")
    return Answer(what, "cannot be told", "pinned in some cells only")
