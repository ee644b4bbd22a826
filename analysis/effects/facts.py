"""Facts of the machine that change what a run measures, and notes on them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.samples.counts import role_values, totals, without_tool
from analysis.samples.pairs import of_treatment
from analysis.samples.provenance import all_hosts, hosts_of
from records.arms import BASELINE
from records.notes import Note
from records.run import RunHeader, facts_of
from records.sample import Better

#: Shown for a fact that no node reports.
UNKNOWN = "unknown"


#: Fact -> its key among a host's facts. Only root can read `ddio` and `prefetchers`.
FACTS = {
    "CPU model": "cpu_model",
    "kernel": "kernel",
    "governor": "governor",
    "BIOS": "bios",
    "NIC firmware": "rdma",
    "microcode": "microcode",
    "IOMMU": "iommu",
    "transparent huge pages": "transparent_huge_pages",
    "DDIO": "ddio",
    "hardware prefetchers": "prefetchers",
    "resctrl schemata": "resctrl",
}


def reported_facts(hosts: Iterable[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Fact -> its distinct values over the nodes that report it, sorted; empty if none does."""
    nodes = list(hosts)
    return {
        name: sorted({text for node in nodes if (text := _text(key, node.get(key))) is not None})
        for name, key in FACTS.items()
    }


def _text(key: str, value: Any) -> str | None:
    if key != "rdma":
        return None if value is None else str(value)
    listed = value if isinstance(value, list) else []
    devices = [device for device in listed if isinstance(device, Mapping)]
    firmware = [f"{of.get('name')} {of['firmware']}" for of in devices if of.get("firmware")]
    return ", ".join(firmware) or None


#: Facts of the allocation, which may differ between blocks: the nodes, of which only `FACTS` are
#: compared, and their clocks.
OF_A_BLOCK = ("nodes", "clock_offsets_s")


def note_provenance_changes(
    rows: Iterable[Result], samples: pl.DataFrame, provenance: Mapping[str, Any]
) -> list[Result]:
    """The rows, with a note on each case whose accepted samples differ in provenance.

    A run may be resumed with another version of this project, of ReFrame or of the workload, or on
    nodes with another processor, kernel or firmware. Such samples still count.

    `samples` as of `analysis.samples.pairs.judged`; `provenance`: SHA-256 -> content of its file.
    """
    used = samples.lazy().filter(status="counts").select("case", "provenance").unique()
    counted = used.group_by("case").agg("provenance").collect()
    notes = {
        str(case): _note([provenance[sha] for sha in shas if sha in provenance])
        for case, shas in counted.select("case", "provenance").iter_rows()
    }
    return [
        replace(row, notes=[note, *row.notes]) if (note := notes.get(row.case)) else row
        for row in rows
    ]


def _note(records: list[dict[str, Any]]) -> str | None:
    names = sorted({name for record in records for name in record}.difference(OF_A_BLOCK))
    differ = [
        name
        for name in names
        if len({json.dumps(value, sort_keys=True) for value in _values(records, name)}) > 1
    ]
    of_blocks = [reported_facts(hosts_of(record).values()) for record in records]
    # A fact that a block does not report is unknown there, which is no difference.
    differ += [name for name in FACTS if len({tuple(b[name]) for b in of_blocks if b[name]}) > 1]
    return Note.PROVENANCE(names=", ".join(differ)) if differ else None


def _values(records: Iterable[Mapping[str, Any]], name: str) -> list[Any]:
    """What is compared: a program by its content, since each block compiles it elsewhere.

    Earlier versions recorded neither program nor modules, which is no difference.
    """
    values = [record.get(name) for record in records]
    if name not in ("program", "modules"):
        return values
    return [
        {key: part for key, part in value.items() if key != "path"}
        if isinstance(value, Mapping)
        else value
        for value in values
        if value is not None
    ]


# Whether memory was reached by the writes of an effect that is slower.

#: Roles that count what reaches memory; the share of the bytes written from which they show it.
MEMORY_ROLES = ("DRAM written", "DDIO misses")
_SHOWN_SHARE = 0.1


def name_contention(
    rows: Iterable[Result],
    samples: pl.DataFrame,
    counters: pl.DataFrame,
    records: Mapping[str, Any],
) -> list[Result]:
    """The rows; 'slower' is memory contention where the writes are proven and reached memory.

    Proven: by a device, or by marks in memory, in all runs. Reached: the counters of memory rise by
    a tenth of what was written or more, or each writer's messages pass through more memory than the
    last-level caches have. A footprint that an older sample lacks is a message at least.
    `samples` and `counters` as of `pairs.judged` and `counts.counters_of`.
    """
    caches_b = [host.get("llc_total_b") for host in all_hosts(records.values())]
    largest_b = max((size for size in caches_b if isinstance(size, int)), default=None)
    reached: set[tuple[str, str]] | None = None
    named = []
    for row in rows:
        if row.verdict is Verdict.SLOWER:
            runs = of_treatment(samples.filter(status="counts"), row.case, row.arm)
            if reached is None:
                reached = _counted(counters, samples)
            through_b = pl.max_horizontal("writer_message_b", "footprint_b").fill_null(0)
            least_b = runs.select(through_b).to_series().min()
            beyond = largest_b is not None and isinstance(least_b, int) and least_b > largest_b
            proofs = set("+".join(runs["proof"].cast(pl.String).fill_null("none")).split("+"))
            if proofs <= {"device", "memory"} and (beyond or (row.case, row.arm) in reached):
                row = replace(row, verdict=Verdict.CONTENTION)
        named.append(row)
    return named


def _counted(counters: pl.DataFrame, samples: pl.DataFrame) -> set[tuple[str, str]]:
    """Case and treatment of the effects under which the counters of memory rise."""
    both = beside_baselines(counters, samples, *MEMORY_ROLES)
    shown = both.filter(pl.col("value") - pl.col("off") >= _SHOWN_SHARE * pl.col("written_b"))
    return set(shown.select("case", "treatment").iter_rows())


def beside_baselines(counters: pl.DataFrame, samples: pl.DataFrame, *roles: str) -> pl.DataFrame:
    """Medians of roles by treatment, in runs of which its tool is no part.

    Columns: case, treatment, role, `value`, `off` (of its baseline), `written_b` (bytes written).
    """
    values = role_values(counters).filter(pl.col("role").is_in(roles))
    sums = totals(values, "key", "case", "treatment", "role")
    baseline = pl.col("baseline").cast(pl.String)
    runs = samples.select(
        "key",
        written_b=pl.col("writer_rate_b_s") * pl.col("elapsed_s"),
        # As that of the counts, of which the level of the tool is no part.
        baseline=baseline.map_elements(without_tool, return_dtype=pl.String),
    )
    medians = (
        sums.join(runs, on="key", how="inner")
        .group_by("case", "treatment", "role")
        .agg(pl.col("value", "written_b").median(), pl.col("baseline").first())
    )
    off = medians.select("case", "role", baseline="treatment", off="value")
    return medians.join(off, on=["case", "role", "baseline"], how="inner")


# Whether the machine is slower than it should be: `off` against the references of its site file.
#
# `references` holds the figure of merit, in SI units, that each case should reach without writers;
# `reference_tolerance` is the share by which it may fall short.


def compare_with_references(rows: Iterable[Result], header: RunHeader) -> list[Result]:
    """The rows; those whose baseline falls short of the machine's reference have a flag and a note.

    A reference applies to the case at its first levels; other baselines have none.
    """
    site = facts_of(header).site
    references, tolerance = site.references or {}, site.reference_tolerance or 0.0
    compared = []
    for row in rows:
        off, reference = row.off_median, references.get(row.case)
        if row.baseline == BASELINE and off is not None and reference is not None:
            least, most = reference * (1 - tolerance), reference * (1 + tolerance)
            if off > most if row.better == "lower" else off < least:
                note = Note.REFERENCE(
                    off=off, unit=row.unit, reference=reference, tolerance=tolerance
                )
                row = replace(row, slower_than_reference=True, notes=[note, *row.notes])
        compared.append(row)
    return compared


def bounds(better: Better, tolerance: float) -> tuple[float | None, float | None]:
    """Lower and upper bound of a reference as ReFrame takes them, in shares of it.

    A figure may be better than its reference by any share, and worse by the tolerance only.
    """
    return (None, tolerance) if better == "lower" else (-tolerance, None)
