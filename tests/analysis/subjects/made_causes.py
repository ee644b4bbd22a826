"""Makes runs with counts of ranks and nodes, for sections on the causes of a loss."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from analysis.questions.question import Question
from analysis.subjects.role_changes import CHANGES
from records.sample import Sample
from tests.analysis.made_counters import (
    CASES,
    TOOL,
    counter_row,
    with_tool,
    write_counts,
    write_rows,
)
from tests.analysis.synthetic import HOST, answered, on_hosts, remedies, samples, write_run

LAMMPS = CASES[2]


def made_run(
    folder: Path,
    cases=(LAMMPS,),
    *,
    pairs: int = 8,
    seed: int = 1,
    processor: str = "",
    tool: str = TOOL,
    origin_processor: str = "",
    **truth,
) -> Path:
    runs = {case.name: with_tool(samples(case, pairs=pairs, seed=seed), tool) for case in cases}
    all_runs = [sample for own in runs.values() for sample in own]
    hosts = {HOST: {"processor": processor}}
    if origin_processor:
        hosts["origin"] = {"processor": origin_processor}
    record = {"nodes": hosts}
    run = write_run(folder / "run", all_runs, record=record)
    for case in cases:
        write_counts(run, case, runs[case.name], seed=seed, tool=tool, **truth)
    return run


def priced(folder: Path, price: float) -> Path:
    times = {"on": 2.0, "off@tool=p": price, "on@tool=p": 2.0 * price}
    runs = samples(remedies(times=times), pairs=8)
    run = write_run(folder / "run", runs)
    wrapped = [run for run in runs if run.factors["tool"] == "p"]
    write_rows(run, "melt", [counter_row(run.key, "e", 1.0, tool="p") for run in wrapped])
    return run


#: Event -> unit, and function of a sample that gives the count on the first of two nodes.
Values = Mapping[str, tuple[str, Callable[[Sample], float]]]


def is_on(sample: Sample) -> bool:
    return sample.arm.startswith("on")


def stalled(sample: Sample) -> float:
    """Return the share of stalled writes on PCIe, which depends on writers and on the tool."""
    if "tool=p" in sample.arm:
        return 0.6
    return 0.4 if is_on(sample) else 0.1


CHANGED_COUNTERS: Values = {
    "context-switches": ("count", lambda s: 300.0 if is_on(s) else 100.0),
    "enp225s0f1np1:tx_prio3_pause_duration": ("s", lambda s: 2.5 if is_on(s) else 0.5),
    "frequency": ("Hz", lambda _: 2e9),
    "eth0:rx_dropped": ("count", lambda _: 0.0),
    "eth0:outbound_pci_stalled_wr": ("1", stalled),
    "eth1:outbound_pci_stalled_wr": ("1", lambda _: 0.04),
}


def with_nodes(folder: Path, runs: list[Sample], absent: Mapping[str, str] = {}) -> Path:
    """Write a run on two nodes. The second node counts 1.5 times as much as the first."""
    record = {"nodes": {name: {"absent_counters": absent} for name in ("n1", "n2")}}
    placed = [on_hosts(run, "n1", "n2") for run in runs]
    run = write_run(folder / "run", placed, record=record)
    lines = [
        counter_row(run.key, event, factor * value(run), tool="node", rank=rank, unit=unit)
        for run in runs
        for event, (unit, value) in CHANGED_COUNTERS.items()
        for rank, factor in enumerate((1.0, 1.5))
    ]
    write_rows(run, runs[0].case, lines)
    return run


def rows(run: Path, question: Question) -> list[dict[str, Any]]:
    """Return the rows of the answer of a question."""
    return answered(question, run).to_dicts()


def change_of(run: Path, role: str) -> dict[str, Any]:
    """Return the row on the change of a role (a kind of count, such as L1 misses) under writes."""
    changes = rows(run, CHANGES)
    (change,) = (row for row in changes if row["role"] == role and row["treatment"] == "on")
    return change
