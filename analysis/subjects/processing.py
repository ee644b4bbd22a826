"""Whether the network interface or the processor does the work of receiving: offload or onload.

Measured by the processor time per byte that a node spends on traffic: interrupts, soft interrupts,
kernel threads (drivers), and the writers' own processes, user-level receiving threads such as those
of PSM included. Agents read it on targets and origins before and after each run (tools `node` and
`origin`). A node uses some of it without traffic as well, so the baseline of the pair is
subtracted, both per second of the run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import polars as pl

from analysis.report.data import RunData
from analysis.report.sections import Section, json_rows
from analysis.samples.pairs import counted
from analysis.samples.provenance import mapping
from analysis.statistics.aligned_ranks import against_zero, shifts
from analysis.statistics.interval import CONFIDENCE, FEWEST, Estimate
from nimc.records.sample import NODE, ORIGIN, PROCESSING

#: A core copies about 10 GB/s, 0.1 s/GB, and an onload interface makes it copy, and more. Above
#: half of that is onload, below a fifth offload, seconds per byte.
ONLOAD_S_B = 0.05e-9
OFFLOAD_S_B = 0.02e-9

Word = Literal["offload", "onload", "inconclusive"]
_SHARED = "origin and target share a host: no interface receives"
End = Literal["target", "origin"]
_TOOLS: dict[End, str] = {"target": NODE, "origin": ORIGIN}
_RUN = ["block", "pair"]
#: Seconds per byte are estimated in this unit, seconds per GB.
_GB = 1e9


@dataclass(frozen=True)
class Processing:
    """Processor time per byte of one treatment's traffic, at one end."""

    case: str
    treatment: str
    baseline: str
    end: End
    #: Distinct transports of the writers, joined with `+`.
    transport: str
    #: Pairs in which both runs count and have all counters of `counters`.
    pairs: int
    #: Those of `PROCESSING` that the nodes have.
    counters: list[str]
    #: Time under traffic less time without, with its interval of 95 %; None below six pairs.
    cpu_s_b: Estimate | None
    #: By the whole interval. None for origins, whose writers wait on a busy core.
    word: Word | None
    #: Why it is inconclusive, in one line; None if it is not.
    reason: str | None
    #: What the machine's file says (`nic.processing`), and whether that is what was measured; None
    #: if either is unknown.
    claim: str | None
    agrees: bool | None

    @property
    def says_nothing(self) -> bool:
        """Whether no interface receives, or no estimate exists; origins have no word."""
        return self.cpu_s_b is None or self.end == "origin" or self.reason == _SHARED


def of_run(run: RunData) -> list[Processing]:
    """Processor time of the traffic of a run, if nodes counted it."""
    claim = mapping(mapping(run.header.facts.get("site")).get("nic")).get("processing")
    return processing(run.samples, run.counters, claim if isinstance(claim, str) else None)


def processing(
    marked: pl.DataFrame, counters: pl.DataFrame, claim: str | None = None
) -> list[Processing]:
    """Every treatment that writes all the time, from `pairs.judged` and `counters.counters_of`.

    `claim` is `nic.processing` of the machine's file.
    """
    if counters.is_empty():
        return []
    found = []
    writing = marked.filter((pl.col("role") == "effect") & pl.col("timetable").is_null())
    kinds = writing.select(pl.col("case", "arm", "baseline").cast(pl.String))
    for case, treatment, baseline in kinds.unique(maintain_order=True).iter_rows():
        of_case = marked.filter(pl.col("case").cast(pl.String) == case)
        for end in _TOOLS:
            spent = _spent(counters.filter(pl.col("case").cast(pl.String) == case), end)
            if not spent.is_empty():
                found.append(_estimate(of_case, spent, (case, treatment, baseline), end, claim))
    return found


def _spent(counters: pl.DataFrame, end: End) -> pl.DataFrame:
    """Processor time of each run's nodes on traffic: arm, block, pair, `spent_s`, `events`."""
    tool, event = (pl.col(name).cast(pl.String) for name in ("tool", "event"))
    return (
        counters.filter(
            (tool == _TOOLS[end]) & event.is_in(PROCESSING) & (pl.col("status") == "counts")
        )
        .group_by(pl.col("arm").cast(pl.String), *_RUN, "key", maintain_order=True)
        .agg(spent_s=pl.col("value").sum(), events=event.unique().sort())
        .unique(["arm", *_RUN], keep="last", maintain_order=True)
    )


def _estimate(
    runs: pl.DataFrame,
    spent: pl.DataFrame,
    kind: tuple[str, str, str],
    end: End,
    claim: str | None,
) -> Processing:
    case, treatment, baseline = kind
    columns = ("elapsed_s", "writer_rate_b_s", "transport", "same_host")
    pairs = _pairs(counted(runs.lazy(), *columns), spent, treatment, baseline)
    on, off = (pl.col(f"spent_s{side}") / pl.col(f"elapsed_s{side}") for side in ("", "_off"))
    values = pairs.select((on - off) / (pl.col("writer_rate_b_s") / _GB)).to_series().to_numpy()
    found = None
    if len(values) >= FEWEST:
        low, value, high = (float(each) / _GB for each in shifts(against_zero(values)))
        found = Estimate(value, low, high, CONFIDENCE)
    names = sorted(set.intersection(*map(set, spent["events"]))) if len(spent) else []
    shared = bool(pairs["same_host"].any())
    word, reason = _word(found, names, shared=shared) if end == "target" else (None, None)
    known = word if word != "inconclusive" else None
    return Processing(
        case=case,
        treatment=treatment,
        baseline=baseline,
        end=end,
        transport="+".join(map(str, pairs["transport"].unique(maintain_order=True))),
        pairs=len(values),
        counters=names,
        cpu_s_b=found,
        word=word,
        reason=reason,
        claim=claim if end == "target" else None,
        agrees=known == claim if known and claim else None,
    )


def _pairs(runs: pl.DataFrame, spent: pl.DataFrame, treatment: str, baseline: str) -> pl.DataFrame:
    """The pairs of a treatment: its runs, with the baseline's columns under `_off`."""
    named = runs.with_columns(pl.col("arm").cast(pl.String))
    with_time = named.join(spent, on=["arm", *_RUN], maintain_order="left")
    on, off = (with_time.filter(pl.col("arm") == name) for name in (treatment, baseline))
    both = on.join(off, on=_RUN, suffix="_off", maintain_order="left")
    return both.filter(pl.col("events") == pl.col("events_off"), pl.col("writer_rate_b_s") > 0)


def _word(of: Estimate | None, names: list[str], *, shared: bool) -> tuple[Word, str | None]:
    """The word, and why it is inconclusive.

    Without one of the counters more time may have been spent: that leaves `onload` alone.
    """
    if shared:
        return "inconclusive", _SHARED
    if of is None:
        return "inconclusive", f"fewer than {FEWEST} pairs"
    if of.low > ONLOAD_S_B:
        return "onload", None
    if of.high >= OFFLOAD_S_B:
        limits = f"{OFFLOAD_S_B * _GB:g} and {ONLOAD_S_B * _GB:g} s/GB"
        return "inconclusive", f"the interval is not below or above the limits {limits}"
    if missing := [name for name in PROCESSING if name not in names]:
        return "inconclusive", f"not counted on the nodes: {', '.join(missing)}"
    return "offload", None


_FILES = json_rows("processing.json", "processing", of_run)
SECTIONS = [
    Section(
        *("run", 30, "receiving", lambda run, _: of_run(run) or None),
        title="Processor time of the traffic",
        files=_FILES,
    )
]
