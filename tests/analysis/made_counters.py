"""Made counts of a synthetic run, with known truth. Nothing here was measured.

Every run of `samples` with a tool gets `RANKS` ranks of the events of `perf_stat:memory` on a
Cascade Lake. Under `on`, cycles grow with the run's time, `stall_share` of the extra cycles are
stalls on memory, and misses grow to 1.1 times, those of rank `worst` to 2.2 times.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from analysis.samples.counts import counters_of, read_counts
from records.sample import Sample
from tests.analysis.synthetic import Case

TOOL = "perf_stat:memory"
RANKS = 4
#: Six workloads with times of their own and slowdowns of their own, as in the paper.
CASES = [
    Case(
        name=name,
        unit="s",
        better="lower",
        base=base,
        effects={"on": slowdown, "aa": 1.0},
        noise=0.01,
        pair_noise=0.02,
    )
    for name, base, slowdown in [
        ("cns", 9.0, 1.02),
        ("hpccg", 4.0, 1.5),
        ("lammps", 177.0, 2.1),
        ("lulesh", 23.0, 1.9),
        ("snap", 3.0, 1.9),
        ("xsbench", 73.0, 2.0),
    ]
]
#: Event -> count per second and rank without traffic.
RATES = {
    "cycles": 2.5e9,
    "instructions": 3.0e9,
    "cycle_activity.stalls_l3_miss": 0.4e9,
    "l1d.replacement": 4e7,
    "l2_lines_in.all": 2e7,
    "mem_load_retired.l3_miss": 5e6,
}
STALLS = "cycle_activity.stalls_l3_miss"
FIGURE_4 = "papi:figure4"
OPENSPEEDSHOP = "openspeedshop:figure4"
#: The same for the presets of figure 4 that a Haswell has; PAPI does not count the others there.
PRESETS = {
    "PAPI_TOT_CYC": 2.5e9,
    "PAPI_STL_ICY": 0.4e9,
    "PAPI_L1_TCM": 4e7,
    "PAPI_L2_TCM": 2e7,
    "PAPI_L3_TCM": 5e6,
}
#: Tool -> its events. Open|SpeedShop has a clock instead of cycles.
_EVENTS = {
    FIGURE_4: PRESETS,
    OPENSPEEDSHOP: {event: rate for event, rate in PRESETS.items() if event != "PAPI_TOT_CYC"},
}
#: Presets that a Haswell does not have.
_UNSUPPORTED_EVENTS = ("PAPI_L2_TCH", "PAPI_L3_TCH")


def read_counters(run: Path, samples: pl.DataFrame) -> pl.DataFrame:
    """The counts of a run folder, with its judged samples."""
    return counters_of(read_counts(run), samples)


def with_tool(samples: Sequence[Sample], tool: str = TOOL) -> list[Sample]:
    """Return the samples with the tool as a level of all treatments."""
    return [replace(sample, factors={**sample.factors, "tool": tool}) for sample in samples]


def counts(
    sample: Sample,
    base_s: float,
    *,
    stall_share: float = 0.8,
    worst: int | None = None,
    noise: float = 0.02,
    seed: int = 1,
    tool: str = TOOL,
) -> Iterator[dict]:
    """Lines of `counters/CASE.jsonl` of one run."""
    rates = _EVENTS.get(tool, RATES)
    rng = np.random.default_rng([seed, sum(map(ord, sample.key))])
    has_writers = sample.arm.startswith("on")
    extra_s = max(sample.fom - base_s, 0.0) if has_writers else 0.0
    for rank in range(RANKS):
        for event, rate in rates.items():
            value = rate * base_s
            if event in ("cycles", "PAPI_TOT_CYC"):
                value += rate * extra_s
            elif event in (STALLS, "PAPI_STL_ICY"):
                value += RATES["cycles"] * extra_s * stall_share
            elif event != "instructions" and has_writers:
                value *= 1.1 * (2.0 if rank == worst else 1.0)
            drawn = float(value * np.exp(rng.normal(0, noise)))
            yield counter_row(sample.key, event, drawn, tool=tool, rank=rank)
        if tool in _EVENTS:
            for event in _UNSUPPORTED_EVENTS:
                more = {"tool": tool, "rank": rank, "state": "not supported", "running_share": None}
                yield counter_row(sample.key, event, None, **more)


def counter_row(key: str, event: str, value: float | None, **more: object) -> dict[str, object]:
    """A line of `counters/CASE.jsonl`; unless `more` differs, a count of rank 0 by perf_stat."""
    row = {"key": key, "tool": "perf_stat", "rank": 0, "event": event, "value": value}
    return {**row, "unit": "count", "state": "counted", "running_share": 1.0, **more}


def write_rows(run: Path, case: str, rows: Iterable[Mapping[str, object]]) -> Path:
    """`counters/CASE.jsonl` of a run; returns its path."""
    path = run / "counters" / f"{case}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_counts(run: Path, case: Case, samples: Sequence[Sample], **truth) -> None:
    """The made counts of a case."""
    rows = (row for sample in samples for row in counts(sample, case.base, **truth))
    write_rows(run, case.name, rows)
