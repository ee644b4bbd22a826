"""Sections on the runs of a case: conditions, control, writers, and rejected runs."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from analysis.effects.result import Result
from analysis.report import words
from analysis.report.data import CaseData
from analysis.report.plots import View
from analysis.report.sections import Section
from analysis.samples.pairs import rejection_kinds
from records.text import first_names
from records.units import percentage, plural

#: Outcome of a run that does not count -> its meaning.
OUTCOMES = {
    "rejected": "The application ran, but not under the required conditions.",
    "injector_never_ready": "The writers did not reach their rate.",
    "injector_died": "A writer ended while the application ran.",
    "application_failed": "The application ended with an error.",
    "application_hung": "The application did not end in time.",
    "no_fom": "The application's output has no figure of merit.",
    "accepted": "Recorded as accepted, but the reason shows that it cannot count.",
}
#: Maximum number of rejected runs that are listed one by one. The file samples.parquet has all.
_MAX_LISTED_RUNS = 200
#: Maximum number of reasons of rejected runs that are listed.
_MAX_REASONS = 50
#: Maximum number of names in each of these lists: target nodes, origin nodes, seeds.
_MAX_NAMES = 12


def control_text(rows: Sequence[Result], *, same_host: bool, cpu_shares: Sequence[float]) -> str:
    """The control that the effects of one case were compared with, or why there is none.

    `cpu_shares` are the shares of a core that the control used in its runs.
    """
    controls = [row for row in rows if row.role == "control"]
    if not controls:
        if same_host:
            return "Control: none was run, although origin and target share a host."
        return "Control: none; writers on other hosts take no core from the application."
    controls_text = "; ".join(
        f"{row.arm}, a busy process instead of the writers, in {plural(row.pairs, 'pair')}"
        for row in controls
    )
    usage_text = ""
    if cpu_shares:
        ends = [percentage(share) for share in (min(cpu_shares), max(cpu_shares))]
        usage_text = f", using {' to '.join(dict.fromkeys(ends))} of a core"
    comparisons = [
        f"{row.arm} took {row.over_control.value:.3f} times as long as the control"
        f" ({row.over_control.low:.3f} to {row.over_control.high:.3f})"
        for row in rows
        if row.over_control is not None
    ]
    comparisons_text = "; ".join(comparisons) or "too few to compare"
    return f"Control: {controls_text}{usage_text}. In the same pairs: {comparisons_text}."


def conditions_text(samples: pl.DataFrame) -> str:
    """The disturbances during the runs that count; empty if none were recorded."""
    counted_runs = samples.filter(status="counts")
    foreign_cpus = counted_runs["foreign_cpus"].drop_nulls().to_list()
    steal_shares = counted_runs["steal_share"].drop_nulls().to_list()
    disturbances = []
    if foreign_cpus:
        threads = f"{min(foreign_cpus):.2f} to {max(foreign_cpus):.2f}"
        disturbances.append(f"foreign processes kept {threads} hardware threads busy")
    if steal_shares:
        largest_share = percentage(max(steal_shares), ".1f")
        disturbances.append(f"the hypervisor took up to {largest_share} of the processor time")
    return f"During the runs that count, {' and '.join(disturbances)}." if disturbances else ""


def _writers_lines(counted_runs: pl.LazyFrame) -> list[str]:
    """A line for each treatment and kind of writers, with the smallest `writer_share` of the runs.

    `writer_share` is the lowest rate of a writer as a share of its uncontended rate, or of the
    requested rate if that is lower.
    """
    columns = (
        "arm",
        "writers",
        "injector",
        "transport",
        "message_b",
        "footprint_b",
        "queue_pairs",
        "direction",
    )
    writing_runs = counted_runs.filter(pl.col("message_b") > 0)
    rows = writing_runs.group_by(*columns, maintain_order=True).agg(
        pl.col("writer_share").min(), is_limited=pl.col("asked_b_s").is_not_null().any()
    )
    return [_writers_line(**row) for row in rows.collect().iter_rows(named=True)]


def _writers_line(
    *,
    arm: str,
    writers: int,
    injector: str,
    transport: str,
    message_b: int,
    footprint_b: int | None,
    queue_pairs: int | None,
    direction: str,
    writer_share: float | None,
    is_limited: bool,
) -> str:
    queue_pairs_text = f" over {queue_pairs} queue pairs each" if (queue_pairs or 1) > 1 else ""
    rate_text = (
        "requested rate, or of the rate alone if that is lower" if is_limited else "rate alone"
    )
    return (
        f"{arm}: {plural(writers, 'writer')}, {injector} over {transport},"
        f" {words.traffic_words(direction).noun} of {words.size_text(message_b)}"
        f"{_footprint_text(footprint_b)}{queue_pairs_text};"
        f" never below {percentage(writer_share or 0)} of the {rate_text}"
    )


def _footprint_text(footprint_b: int | None) -> str:
    """The memory that each writer's messages pass through, if it is recorded."""
    return "" if footprint_b is None else f" through {words.size_text(footprint_b)} each"


def _conditions_view(case: CaseData) -> View:
    """A line on the control, a line on disturbances, and the notes of the case's rows."""
    samples = case.samples.select("status", "same_host", "foreign_cpus", "steal_share").collect()
    cpu_shares = _runs_that_count(case).select("cpu_share").drop_nulls().collect()["cpu_share"]
    # A case without effects shows the notes of its controls and repeated baselines.
    notes = words.notes_of(case.effects or case.rows)
    reword = case.run.reword
    lines = [
        control_text(
            case.rows, same_host=bool(samples["same_host"].any()), cpu_shares=cpu_shares.to_list()
        ),
        conditions_text(samples),
        *(words.with_remedy(note, reword) for note in notes if note not in case.emulation_caveats),
    ]
    return View(lines=list(filter(None, lines)))


def _runs_that_count(case: CaseData) -> pl.LazyFrame:
    return case.samples.filter(pl.col("status") == "counts")


def _rejected_runs_view(case: CaseData) -> View | None:
    """The rejected runs, counted by reason and listed; None if no run was rejected."""
    status = case.samples.select("status").collect()["status"]
    columns = ("key", "start_s", "outcome", pl.col("reason").fill_null(""))
    runs = case.samples.filter(pl.col("status") == "rejected").select(columns).collect()
    if runs.is_empty():
        return None
    return View(
        kinds=rejection_kinds(runs.select("outcome", "reason").iter_rows())[:_MAX_REASONS],
        rejected_count=runs.height,
        warmup_count=status.eq("warm-up").sum(),
        # Key, time, outcome and reason of the first rejected runs.
        listed_runs=[
            (key, words.utc_text(start_s), outcome, reason)
            for key, start_s, outcome, reason in runs.head(_MAX_LISTED_RUNS).iter_rows()
        ],
        outcomes=OUTCOMES,
    )


def _nodes_view(case: CaseData) -> View:
    """The nodes, origins, seeds and writers of the case."""
    samples = case.samples.select("seed", "nodes", "origin_nodes").collect()
    nodes, origins, seeds = (
        first_names(samples[name].unique(maintain_order=True), _MAX_NAMES)
        for name in ("nodes", "origin_nodes", "seed")
    )
    writers_lines = _writers_lines(_runs_that_count(case))
    return View(nodes=nodes, origins=origins, seeds=seeds, writers_lines=writers_lines)


SECTIONS = [
    Section(part="case", position=20, name="conditions", make_view=_conditions_view),
    Section(part="case", position=60, name="rejected_runs", make_view=_rejected_runs_view),
    Section(part="case", position=70, name="nodes", make_view=_nodes_view),
]
