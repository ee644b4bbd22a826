"""What is written of one run: its sample, and the rows of what nodes counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from conductor.allocation import Allocation
from conductor.application import RunResult
from conductor.readers import Readers
from records.acceptance import LIMITS, AcceptanceLimits
from records.machine.node_counters import NodeCounter
from records.notes import Note
from records.plan import BlockPlan
from records.sample import (
    NODE,
    ORIGIN,
    PROCESSING,
    CounterRow,
    Level,
    NodeConditions,
    Sample,
    WriterRecord,
)
from records.treatment import Treatment


@dataclass(frozen=True)
class Run:
    """The run to make; see `records.sample.Sample` for the fields."""

    treatment: Treatment
    pair: int
    position: int
    attempt: int
    warmup: bool = False


def sample_of(
    plan: BlockPlan,
    nodes: Allocation,
    run: Run,
    result: RunResult,
    writers: list[WriterRecord],
    readers: Readers,
    provenance: str,
) -> Sample:
    """The sample of a run."""
    treatment, fom = run.treatment, result.fom
    return Sample(
        key=f"{plan.case}/{plan.block}/{run.pair}/{treatment.name}/{run.attempt}",
        case=plan.case,
        workload=plan.workload,
        arm=treatment.name,
        block=plan.block,
        pair=run.pair,
        position=run.position,
        attempt=run.attempt,
        warmup=run.warmup,
        outcome=result.outcome,
        reason=result.reason,
        start_s=result.start_s,
        elapsed_s=result.elapsed_s,
        fom=fom.value if fom else None,
        fom_unit=(fom and fom.unit) or readers.unit,
        fom_better=(fom and fom.better) or readers.better,
        nodes=nodes.targets,
        origin_nodes=nodes.origins,
        provenance=provenance,
        seed=plan.seed,
        fom_extra=fom.extra if fom else {},
        writers=writers,
        timetable=result.timetable,
        notes=[
            *plan.notes,
            *treatment.notes,
            *result.notes,
            *unreserved(treatment.factors, result.conditions),
            *unjudged(plan.demand),
        ],
        role=treatment.role,
        baseline=treatment.baseline,
        factors=treatment.factors,
        lead_in_s=result.lead_in_s,
        working_set_b=treatment.start.working_set_b,
        conditions=result.conditions,
    )


def node_rows(
    nodes: Allocation, counters: Mapping[str, Mapping[str, NodeCounter]]
) -> list[dict[str, Any]]:
    """The counts of nodes as JSON, one row per node and counter; `rank` is the node's index.

    Of origins that are not targets, only the processor time that writing may take.
    """
    return [
        {"tool": tool, **asdict(CounterRow(index, name, counter.value, counter.unit))}
        for tool, names in ((NODE, nodes.targets), (ORIGIN, nodes.origins))
        for index, node in enumerate(names)
        if tool == NODE or node not in nodes.targets
        for name, counter in counters.get(node, {}).items()
        if tool == NODE or name in PROCESSING
    ]


def unreserved(factors: Mapping[str, Level], conditions: Sequence[NodeConditions]) -> Iterator[str]:
    """A note if cores were to be left free, and the application may run on all CPUs all the same.

    Launchers of other hosts than this one bind as they are configured.
    """
    full = [each.node for each in conditions if each.free_cpus == ""]
    if factors.get("reserved_cores") and full:
        yield Note.UNBOUND(nodes=", ".join(full))


def unjudged(limits: AcceptanceLimits) -> Iterator[str]:
    """A note on the conditions that are recorded but not judged, if there are any."""
    if names := [name for name in LIMITS if getattr(limits, name) is None]:
        yield Note.NOT_JUDGED(limits=", ".join(names))
