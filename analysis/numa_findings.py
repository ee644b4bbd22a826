"""The findings of Nelson and Palmieri on RDMA in NUMA systems, as questions about a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from analysis.numa import IDLE, LOADS, WORKERS, Cell, Key
from analysis.statistics.interval import Estimate
from analysis.statistics.two_samples import ratio_between

#: Whether a finding holds here; `inconclusive`: measured, but not decided.
Finding = Literal["yes", "no", "inconclusive", "not measured"]
#: Reason for a finding other than a plain yes or no.
Why = Literal[
    "other way round",
    "within noise",
    "too few runs",
    "one NUMA node",
    "only pinning differs",
    "cells missing",
    "no run counts",
    "all pinned",
    "none pinned",
    "some pinned",
    "pinning unknown",
]


@dataclass(frozen=True)
class Answer:
    """A comparison of two cells' communications that answers a question, or why none exists."""

    #: What is compared, in words.
    what: str
    finding: Finding
    #: None if the ratio is reason enough.
    why: Why | None = None
    ratio: Estimate | None = None
    #: Medians of both cells, bytes per second.
    first_b_s: float | None = None
    second_b_s: float | None = None
    #: Least pinned memory of a target's process, bytes, if that is the question.
    pinned_b: float | None = None


@dataclass(frozen=True)
class Question:
    """A published finding, as a question about this machine."""

    text: str
    #: The published answer, with its figure.
    published: str
    answers: list[Answer]


def questions(found: Sequence[Cell], numa_nodes: int) -> list[Question]:
    """The published findings, answered from the cells of a machine with `numa_nodes` NUMA nodes."""
    return [
        Question(
            "Without workers, are RDMA writes faster than reads?",
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
            "If workers write to the memory of another NUMA node, do RDMA reads from it slow down"
            " less than RDMA writes to it?",
            "yes, reads are up to 3.7 times as fast as writes",
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
            "With the buffer on the interface's NUMA node, are RDMA writes faster if all workers"
            " run on that node, compared with workers that run anywhere?",
            "yes, 3.6 to 5 times as fast",
            [
                _answer(
                    f"workers ({load}) on the interface's node against anywhere",
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
            "Are the pages of the communication buffer locked, so that its NUMA node must be"
            " chosen beforehand?",
            "yes, RDMA-accessed pages cannot be moved",
            [_locked(found)],
        ),
    ]


def _place(word: str, *, workers: bool = False) -> str:
    if word == "free":
        return "anywhere"
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
        return Answer(what, "not measured", "one NUMA node")
    if one is None or two is None:
        return Answer(what, "not measured", "cells missing")
    if not one.rates_b_s or not two.rates_b_s:
        return Answer(what, "not measured", "no run counts")
    ratio = ratio_between(one.rates_b_s, two.rates_b_s)
    finding, why = _finding(ratio, nodes_measured=numa_nodes >= nodes_needed)
    return Answer(what, finding, why, ratio, one.median_b_s, two.median_b_s)


def _finding(ratio: Estimate | None, *, nodes_measured: bool) -> tuple[Finding, Why | None]:
    """Whether a ratio is above 1; with too few NUMA nodes it answers another question."""
    if ratio is None:
        return "inconclusive", "too few runs"
    if not nodes_measured:
        return "not measured", "only pinning differs"
    if ratio.low > 1:
        return "yes", None
    return ("no", "other way round") if ratio.high < 1 else ("inconclusive", "within noise")


def _locked(found: Sequence[Cell]) -> Answer:
    """Answer from the kernel's count of memory that the target's process has pinned."""
    what = "pinned memory of the target's process (VmPin)"
    known = [(cell.pinned_b, cell.message_b) for cell in found if cell.pinned_b is not None]
    if not known:
        return Answer(what, "not measured", "pinning unknown")
    pinned = [pinned_b >= message_b for pinned_b, message_b in known]
    if all(pinned):
        return Answer(what, "yes", "all pinned", pinned_b=min(known)[0])
    if any(pinned):
        return Answer(what, "inconclusive", "some pinned")
    return Answer(what, "no", "none pinned")
