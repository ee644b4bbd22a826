"""Changes the verdict or the notes of an effect, from facts about the machine and its counters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import polars as pl

from analysis.display.figures import quantity
from analysis.effects.result import Result, Verdict
from analysis.effects.verdict import emulation_caveats
from analysis.samples.counts import RISE_SHARE, role_pairs, without_tool
from analysis.samples.pairs import treatment_rows
from analysis.samples.provenance import differing_names, hosts_of
from analysis.statistics.interval import CONFIDENCE, holm
from analysis.statistics.location import p_above_zero
from records.arms import BASELINE, arm_of
from records.notes import Note
from records.run import RunHeader, facts_of
from records.sample import FULL_LINK_SHARE, Better


def note_provenance_changes(
    rows: Iterable[Result], samples: pl.DataFrame, provenance: Mapping[str, Any]
) -> list[Result]:
    """The rows, with a note on each case whose accepted samples differ in provenance.

    A run may be resumed with another version of this project, of ReFrame or of the workload, or on
    nodes with another processor, kernel or firmware. Such samples still count.

    `samples` is what `pairs.judge_samples` returns. `provenance`: SHA-256 -> content of its file.
    """
    distinct = samples.lazy().filter(status="counts").select("case", "provenance").unique()
    notes = {}
    for case, hashes in distinct.group_by("case").agg("provenance").collect().iter_rows():
        records = [provenance[sha256] for sha256 in hashes if sha256 in provenance]
        if changed := differing_names(records):
            notes[case] = [Note.PROVENANCE(names=", ".join(changed))]
    return [replace(row, notes=[*notes.get(row.case, []), *row.notes]) for row in rows]


#: Roles of counters (quantities that they measure) that show which bytes reach memory.
MEMORY_ROLES = ("DRAM written", "DDIO misses")
#: Counts show that writes reached memory if they rise by more than this share of the bytes written.
_MIN_MEMORY_SHARE = 0.1


def name_contention(
    rows: Sequence[Result],
    samples: pl.DataFrame,
    counters: pl.DataFrame,
    provenance: Mapping[str, Any],
) -> list[Result]:
    """The rows, with the verdict 'memory contention' if the writes of slower runs reached memory.

    Only rows with the verdict 'slower under RDMA writes' change. In all runs, the writes must be
    proven by a device or by marks in memory. They reached memory if the counters of memory are
    shown to rise by more than a tenth of the bytes written, or if each writer's message or
    footprint is larger than the last-level caches of all targets.

    `samples` and `counters` are what `pairs.judge_samples` and `counts.counters_of` return.
    `provenance`: as in `note_provenance_changes`.
    """
    slower = [row for row in rows if row.verdict is Verdict.SLOWER]
    if not slower:
        return list(rows)
    cache_b_of_host = {
        name: facts.get("llc_total_b")
        for record in provenance.values()
        for name, facts in hosts_of(record).items()
    }
    with_memory_rise = _with_memory_rise(slower, samples, counters)
    contention_rows = {}
    for row in slower:
        runs = treatment_rows(samples.filter(status="counts"), row.case, row.arm)
        footprints_b = runs.select(pl.max_horizontal("writer_message_b", "footprint_b")).to_series()
        targets = set(",".join(runs["nodes"].cast(pl.String).unique()).split(","))
        caches_b = [cache_b_of_host.get(name) for name in targets]
        known_b = [size_b for size_b in caches_b if isinstance(size_b, int)]
        largest_cache_b = max(known_b) if len(known_b) == len(caches_b) else math.inf
        exceed_caches = bool((footprints_b.fill_null(0) > largest_cache_b).all())
        # The column `proof` has the proofs of a run's writers, joined by "+".
        proofs = set("+".join(runs["proof"].cast(pl.String).fill_null("none")).split("+"))
        counters_rose = (row.case, without_tool(row.arm)) in with_memory_rise
        reached_memory = exceed_caches or counters_rose
        if proofs <= {"device", "memory"} and reached_memory:
            contention_rows[row.case, row.arm] = replace(row, verdict=Verdict.CONTENTION)
    return [contention_rows.get((row.case, row.arm), row) for row in rows]


def _with_memory_rise(
    rows: Sequence[Result], samples: pl.DataFrame, counters: pl.DataFrame
) -> set[tuple[str, str]]:
    """Case and treatment (without its tool) of the rows whose counters of memory are shown to rise.

    An application may move far more bytes than the writers, and more in one run than in another. So
    rises within pairs are tested, by Holm's method over all rows, tools and roles.
    """
    treatments = {(row.case, without_tool(row.arm)) for row in rows}
    pairs = role_pairs(counters, samples, *MEMORY_ROLES).with_columns(share=RISE_SHARE)
    p_values = {
        (case, treatment, tool, role): p_above_zero(group["share"].to_numpy() - _MIN_MEMORY_SHARE)
        for (case, treatment, tool, role), group in pairs.group_by(
            "case", "treatment", "tool", "role", maintain_order=True
        )
        if (case, treatment) in treatments
    }
    adjusted = zip(p_values, holm(list(p_values.values())), strict=True)
    return {(case, treatment) for (case, treatment, _, _), p in adjusted if p <= 1 - CONFIDENCE}


def note_link_share(
    rows: Iterable[Result], samples: pl.DataFrame, header: RunHeader
) -> list[Result]:
    """The rows, with notes on the share of the link that writers reach without an application.

    Only writers at full rate get a note. Emulated and short writes get none. `samples` is what
    `pairs.judge_samples` returns.
    """
    nic = facts_of(header).site.nic
    link_b_s = nic.link_rate_b_s if nic else None
    rows_with_notes = []
    for row in rows:
        runs = treatment_rows(samples, row.case, row.arm).filter(
            pl.col("status") == "counts", pl.col("message_b") > 0, pl.col("asked_b_s").is_null()
        )
        are_scheduled = arm_of(row.arm).scheduled
        if not runs.is_empty() and not are_scheduled and not emulation_caveats(runs["transport"]):
            rate_per_link = pl.col("writer_rate_alone_b_s") / pl.col("writer_links")
            rate_alone_b_s = runs.select(rate_per_link.median()).item()
            row = replace(row, notes=[*row.notes, _link_note(rate_alone_b_s, link_b_s)])
        rows_with_notes.append(row)
    return rows_with_notes


def _link_note(rate_alone_b_s: float, link_b_s: float | None) -> str:
    """The note on the writers' uncontended rate per link, with the link's rate if it is known."""
    if link_b_s is None:
        return Note.LINK_UNKNOWN()
    share = rate_alone_b_s / link_b_s
    note = Note.LINK_SHARE if share >= FULL_LINK_SHARE else Note.BELOW_LINK
    return note(share=share, link=quantity(link_b_s, "B/s"))


def compare_with_references(rows: Iterable[Result], header: RunHeader) -> list[Result]:
    """The rows, with a flag and a note if the baseline is worse than the machine's reference.

    `references` of the site file has the figure of merit, in SI units, that each case should reach
    without writers at the first level of each of its factors. `reference_tolerance` is the share by
    which the baseline may be worse.
    """
    site = facts_of(header).site
    references, tolerance = site.references or {}, site.reference_tolerance or 0.0
    compared_rows = []
    for row in rows:
        off, reference = row.off_median, references.get(row.case)
        if row.baseline == BASELINE and off is not None and reference is not None:
            if row.better == "lower":
                is_worse = off > reference * (1 + tolerance)
            else:
                is_worse = off < reference * (1 - tolerance)
            if is_worse:
                note = Note.REFERENCE(
                    off=off, unit=row.unit, reference=reference, tolerance=tolerance
                )
                row = replace(row, slower_than_reference=True, notes=[note, *row.notes])
        compared_rows.append(row)
    return compared_rows


def reference_bounds(better: Better, tolerance: float) -> tuple[float | None, float | None]:
    """The bounds around a reference in ReFrame's form: shares below and above the reference.

    None means no bound. A figure may be better than its reference by any share, but worse only by
    the tolerance.
    """
    return (None, tolerance) if better == "lower" else (-tolerance, None)
