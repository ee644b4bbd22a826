"""What is stored of one run: its sample, the records of its writers, and its counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from analysis.counter_row import NODE, ORIGIN, PROCESSING, CounterRow
from analysis.sample import Level, NodeConditions, Sample, WriterRecord
from injection.allocation import Allocation
from injection.application import RunResult
from injection.evidence import disturbance
from injection.evidence.rates import Judgement
from injection.injectors.base import Injector, Writer
from injection.machine.node_counters import NodeCounter
from injection.plan import BlockPlan
from injection.readers import Readers
from injection.treatment import Treatment


@dataclass(frozen=True)
class Run:
    """The run to make; see `analysis.sample.Sample` for the fields."""

    treatment: Treatment
    pair: int
    position: int
    attempt: int
    warmup: bool = False

    def again(self, attempt: int) -> Run:
        """The same run, repeated."""
        return replace(self, attempt=attempt)


@dataclass(frozen=True)
class MeasuredRun:
    """A sample, and the rows (JSON) that were counted in its run."""

    sample: Sample
    counters: list[dict[str, Any]]


def writer_record(
    injector: Injector, writer: Writer, alone: float, seen: Judgement, before_b_s: float | None
) -> WriterRecord:
    """What one writer did in the window; `alone` is its rate without an application.

    `before_b_s` is its rate in the same run before the application started.
    """
    factor = 1.0 if injector.writes else 0.0
    return WriterRecord(
        injector=injector.name,
        direction=injector.direction,
        origin=writer.origin,
        target=writer.target,
        transport=injector.transport(writer),
        message_b=writer.message_b if injector.writes else 0,
        asked_b_s=writer.rate_b_s,
        limited_by=_limiter(injector, writer),
        rate_alone_b_s=factor * alone,
        rate_b_s=factor * seen.rate_b_s,
        rate_min_b_s=factor * seen.rate_min_b_s,
        bytes_b=factor * seen.bytes_b,
        buffer_node=writer.buffer_node,
        observed_share=seen.observed_share,
        unobserved_s=seen.unobserved_s,
        cpu_share=None if injector.writes else seen.rate_b_s,
        rate_before_b_s=before_b_s if injector.writes else None,
    )


def _limiter(injector: Injector, writer: Writer) -> str | None:
    if writer.rate_b_s is None:
        return None
    return "agent" if injector.paced_by == "agent" else writer.limiter


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
        yield (
            f"reserved_cores: the application's threads are not bound on {', '.join(full)}: fewer"
            " run, but on any core"
        )


class Recorder:
    """Makes the samples of one block."""

    def __init__(
        self, plan: BlockPlan, nodes: Allocation, provenance: str, readers: Readers
    ) -> None:
        self._plan = plan
        self._nodes = nodes
        self._provenance = provenance
        self._readers = readers
        note = disturbance.unjudged(plan.demand)
        self._unjudged = [note] if note else []

    def measured(
        self,
        run: Run,
        result: RunResult,
        writers: list[WriterRecord],
        counters: Sequence[dict[str, Any]],
    ) -> MeasuredRun:
        """The sample of a run, and the counts of its tool and nodes with the sample's key."""
        plan, rows = self._plan, list(counters)
        if result.outcome == "kept":
            rows += node_rows(self._nodes, result.node_counters)
        key = f"{plan.case}/{plan.block}/{run.pair}/{run.treatment.name}/{run.attempt}"
        return MeasuredRun(
            self._sample(key, run, result, writers), [{"key": key, **row} for row in rows]
        )

    def _sample(self, key: str, run: Run, result: RunResult, writers: list[WriterRecord]) -> Sample:
        plan, fom, treatment = self._plan, result.fom, run.treatment
        return Sample(
            key=key,
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
            fom_unit=(fom and fom.unit) or self._readers.unit,
            fom_better=(fom and fom.better) or self._readers.better,
            nodes=self._nodes.targets,
            origin_nodes=self._nodes.origins,
            provenance=self._provenance,
            seed=plan.seed,
            fom_extra=fom.extra if fom else {},
            writers=writers,
            timetable=result.timetable,
            notes=[
                *plan.notes,
                *treatment.notes,
                *result.notes,
                *unreserved(treatment.factors, result.conditions),
                *self._unjudged,
            ],
            role=treatment.role,
            baseline=treatment.baseline,
            factors=treatment.factors,
            lead_in_s=result.lead_in_s,
            conditions=result.conditions,
        )
