"""A core that the application leaves free: is the fabric the cause of the loss, or the core?

With a free core, Groves, Grant and Arnold (2016, figure 6c) found no loss, although as many writes
crossed the fabric. So the fabric was not the cause. In the paper, the driver of the network device
was bound to the free core. So it is also shown whether the free core served the network device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from analysis.effects.result import Verdict
from analysis.questions.estimators import stored_estimate
from analysis.questions.presentation import section
from analysis.questions.question import INCONCLUSIVE, Limit, Question, columns_of, shared
from analysis.report.data import RunData
from analysis.samples.columns import read_nested
from analysis.samples.pairs import factor_level
from analysis.samples.provenance import hosts_of, mapping_or_empty
from records.arms import arm_of, without_factor
from records.kernel_text import cpu_list
from records.machine.node_counters import ON_FREE_CPUS
from records.sample import KERNEL_THREADS_TIME, NODE_TOOL
from records.units import percentage

#: The factor that leaves cores free within a job.
_CORES_FACTOR = "reserved_cores"
_LOSS_VERDICTS = [verdict.value for verdict in Verdict if verdict.is_loss]


def _short_writes(run: RunData) -> pl.DataFrame:
    """A row per effect of short writes with a free core.

    `free` is its slowdown. `full` is the slowdown under the same writes if all cores are used.
    """
    effects = [row for row in run.results if row.role == "effect" and arm_of(row.arm).scheduled]
    rows_with_all_cores = {
        (row.case, without_factor(row.arm, _CORES_FACTOR)): row
        for row in effects
        if row.factors.get(_CORES_FACTOR) == 0
    }
    rows = []
    for row in effects:
        free_cores = row.factors.get(_CORES_FACTOR)
        name = without_factor(row.arm, _CORES_FACTOR)
        all_cores_row = rows_with_all_cores.get((row.case, name))
        if not free_cores or all_cores_row is None:
            continue
        rows.append(
            {
                "case": row.case,
                "arm": name,
                "cores": f"{_CORES_FACTOR}={free_cores}",
                "n": row.pairs,
                "verdict": row.verdict.value,
                "lost": all_cores_row.verdict.is_loss,
                "margin": run.header.margin,
                **columns_of("free", row.slowdown),
                **columns_of("full", all_cores_row.slowdown),
            }
        )
    return pl.DataFrame(rows, infer_schema_length=None)


NOT_THE_FABRIC = "not the fabric"
NO_LOSS = "no loss with all cores"
PART_REMAINS = "a part remains"

_SENTENCE_START = "{case}: with {cores}, {arm} "
_EQUALS_OFF = pl.col("verdict") == Verdict.NO_EFFECT.value
FABRIC = Question(
    name="fabric",
    title="The fabric's part",
    text="Time under short writes divided by the time of off, both with the same core left free;"
    " beside it the same ratio with all cores (figure 6c of Groves, Grant and Arnold 2016). Runs"
    " with short writes equal off if an equivalence test has the verdict 'no effect'.",
    rows=_short_writes,
    by=("case", "arm", "cores"),
    estimates={"free": stored_estimate("free"), "full": stored_estimate("full")},
    facts=shared("n", "verdict", "lost", "margin"),
    limits=(
        Limit(word=NOT_THE_FABRIC, condition=_EQUALS_OFF & pl.col("lost")),
        Limit(word=NO_LOSS, condition=_EQUALS_OFF),
        Limit(word=PART_REMAINS, condition=pl.col("verdict").is_in(_LOSS_VERDICTS)),
        Limit(word=INCONCLUSIVE, why="neither equal to off nor slower, see the verdicts"),
    ),
    sentences={
        NOT_THE_FABRIC: _SENTENCE_START
        + "equals off to within {margin:.3g%}. As many writes crossed the"
        " fabric as with all cores, where it takes {full:.3g} times as long: the fabric is not the"
        " cause.",
        PART_REMAINS: _SENTENCE_START
        + "takes {free:.3g} ({free_low:.3g} to {free_high:.3g}) times as long as"
        " off. That part is not the core's: fabric or memory may cause it.",
        NO_LOSS: _SENTENCE_START
        + "equals off to within {margin:.3g%}, but no loss was shown with all cores"
        " either.",
    },
    columns=("full", "n", "verdict", "word"),
    headings={
        "cores": "cores left free",
        "free": "time / time off, with them free",
        "full": "with all cores",
        "word": "says",
    },
    picture_keys=("case",),
)


def _interrupts(run: RunData) -> pl.DataFrame:
    """A row for each run with free cores, each of its target nodes, and each network device.

    Columns on the device's interrupts and on kernel threads:

    - `all`: number of the device's interrupt numbers (IRQs)
    - `bound`: number of these IRQs that are bound to free CPUs only
    - `came`: number of times that the device interrupted a CPU during the run
    - `came_free`: number of these interrupts that free CPUs served
    - `threads`: processor time of all kernel threads during the run
    - `threads_free`: the part of this time that was spent on free CPUs

    The last four are None if they were not counted.
    """
    treatments = run.samples["factors"].unique()
    if not any(f'"{_CORES_FACTOR}"' in levels for levels in treatments):
        return pl.DataFrame()
    device_names, counts = _site_devices(run), _interrupt_counts(run)
    rows = []
    for record in _records_with_free_cpus(run).iter_rows(named=True):
        hosts = hosts_of(run.provenance.get(str(record["provenance"])))
        if not (record["free_cpus"] and record["node"] in hosts):
            continue
        free_cpus = set(cpu_list(record["free_cpus"]))
        interrupts = mapping_or_empty(hosts[record["node"]].get("interrupts"))
        for device, counts_by_cpus in interrupts.items():
            if device_names and device not in device_names:
                continue
            row: dict[str, Any] = {
                "case": str(record["case"]),
                "node": str(record["node"]),
                "device": device,
                "free_cpus": record["free_cpus"],
                "bound": sum(
                    count
                    for cpus, count in counts_by_cpus.items()
                    if free_cpus.issuperset(cpu_list(cpus))
                ),
                "all": sum(counts_by_cpus.values()),
            }
            for name, counter in (
                ("came", f"{device}:interrupts"),
                ("threads", KERNEL_THREADS_TIME),
            ):
                key, rank = record["key"], record["rank"]
                row[name] = counts.get((key, rank, counter))
                row[f"{name}_free"] = counts.get((key, rank, f"{counter}{ON_FREE_CPUS}"))
            rows.append(row)
    return pl.DataFrame(rows, infer_schema_length=None)


def _records_with_free_cpus(run: RunData) -> pl.DataFrame:
    """A row for each run with free cores and each of its target nodes, with the node's free CPUs.

    Only runs that count are included. `rank` is the index of the node in its run. Counts of nodes
    have the same index.
    """
    nested = read_nested(run.path)
    run_rows = nested.frame.with_row_index("row").select("row", "key", "provenance")
    node_conditions = nested.conditions.select(
        "row", "node", "free_cpus", rank=pl.int_range(pl.len()).over("row")
    )
    counted_runs = run.samples.filter(
        pl.col("status") == "counts", factor_level(_CORES_FACTOR) != "0"
    ).select("key", "case")
    return node_conditions.join(run_rows, on="row").join(
        counted_runs, on="key", maintain_order="left"
    )


def _interrupt_counts(run: RunData) -> dict[tuple[str, int, str], float]:
    """Key of the run, index of the node, counter -> value, for interrupts and kernel threads."""
    event = pl.col("event").cast(pl.String)
    rows = run.counters.filter(
        pl.col("tool").cast(pl.String) == NODE_TOOL,
        event.str.ends_with(":interrupts")
        | event.str.ends_with(ON_FREE_CPUS)
        | (event == KERNEL_THREADS_TIME),
    )
    counts = rows.select("key", "rank", "event", "value").iter_rows()
    return {(str(key), rank, str(event)): value for key, rank, event, value in counts}


def _site_devices(run: RunData) -> set[str]:
    """The devices that the site file names, without their ports; empty if it names no device."""
    site = mapping_or_empty(run.header.facts.get("site"))
    rails = [mapping_or_empty(rail).get("device") for rail in site.get("rails") or []]
    return {str(name).split(":")[0] for name in [site.get("device"), *rails] if name}


def _interrupt_sentences(table: pl.DataFrame) -> Sequence[str]:
    """A sentence on each device of a node: which share of its interrupts is on free cores."""
    sentences = []
    for row in table.to_dicts():
        clauses = [
            f"{row['case']}: {percentage(row['share'])} of the interrupts of {row['device']} on"
            f" {row['node']} were bound to the free cores ({row['cpus']})"
        ]
        if row["came"] is not None:
            clauses.append(f"{percentage(row['came'])} of those that came were served there")
        if row["threads"] is not None:
            clauses.append(
                f"{percentage(row['threads'])} of the time of kernel threads was spent there"
            )
        sentences.append(f"{'; '.join(clauses)}.")
    return sentences


def _positive_total(column: str) -> pl.Expr:
    """The sum of a column. It is null if the sum is 0, since then nothing was counted."""
    total = pl.col(column).sum()
    return pl.when(total > 0).then(total)


INTERRUPTS = Question(
    name="served",
    title="Interrupts on the free core",
    text="Share of the network device's interrupts that were bound to free CPUs only, as recorded"
    " for each block. Beside it: the share of the interrupts during the runs that was served there,"
    " and the share of the time of all kernel threads that was spent there; a thread's time"
    " counts for the CPU on which it ran last. Binding interrupts needs root.",
    rows=_interrupts,
    by=("case", "node", "device"),
    facts={
        "share": pl.col("bound").sum() / pl.col("all").sum(),
        "came": pl.col("came_free").sum() / _positive_total("came"),
        "threads": pl.col("threads_free").sum() / _positive_total("threads"),
        "unit": pl.lit("1"),
        "interrupts": pl.col("all").first(),
        "cpus": pl.col("free_cpus").unique(maintain_order=True).str.join(" | "),
    },
    limits=(
        Limit(word="on the free core", condition=pl.col("share") == 1),
        Limit(word="elsewhere", condition=pl.col("share") == 0),
        Limit(word="in part", condition=pl.col("share") > 0),
    ),
    sentences=_interrupt_sentences,
    columns=("came", "threads", "interrupts", "cpus", "n", "word"),
    headings={
        "share": "bound to free CPUs",
        "came": "served there",
        "threads": "kernel threads there",
        "cpus": "free CPUs",
        "n": "runs",
        "word": "served",
    },
    units=dict.fromkeys(("share", "came", "threads"), "unit"),
    plot=None,
)
SECTIONS = [section(FABRIC, "after_cases", 92), section(INTERRUPTS, "after_cases", 93)]
