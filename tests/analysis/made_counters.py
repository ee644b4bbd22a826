"""Makes counts of events for synthetic runs, with known true values. Nothing here was measured.

Every run with a tool gets counts of `RANKS` ranks. By default, the events are those of
`perf_stat:memory` on a Cascade Lake. In runs of `on`, cycles grow with the run's time; a share
`stall_share` of the extra cycles are stalls on memory. Misses grow to 1.1 times, those of the rank
`most_hit_rank` to 2.2 times.
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
#: Six workloads with different times and slowdowns, as in the paper.
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
#: Event -> count of each rank per second, without traffic.
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
#: PAPI's event -> count of each rank per second, without traffic. These are the events of figure 4
#: that PAPI counts on a Haswell.
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
#: Events of figure 4 that PAPI does not count on a Haswell.
_UNSUPPORTED_EVENTS = ("PAPI_L2_TCH", "PAPI_L3_TCH")


def read_counters(run: Path, samples: pl.DataFrame) -> pl.DataFrame:
    """Return the counts in a run's folder, beside their samples."""
    return counters_of(read_counts(run), samples)


def with_tool(samples: Sequence[Sample], tool: str = TOOL) -> list[Sample]:
    """Return the samples with the tool as a level of the factor `tool` in all treatments."""
    return [replace(sample, factors={**sample.factors, "tool": tool}) for sample in samples]


def counts(
    sample: Sample,
    base_s: float,
    *,
    stall_share: float = 0.8,
    most_hit_rank: int | None = None,
    noise: float = 0.02,
    seed: int = 1,
    tool: str = TOOL,
) -> Iterator[dict]:
    """Yield the lines of one run in `counters/CASE.jsonl`."""
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
                value *= 1.1 * (2.0 if rank == most_hit_rank else 1.0)
            drawn = float(value * np.exp(rng.normal(0, noise)))
            yield counter_row(sample.key, event, drawn, tool=tool, rank=rank)
        if tool in _EVENTS:
            for event in _UNSUPPORTED_EVENTS:
                more = {"tool": tool, "rank": rank, "state": "not supported", "running_share": None}
                yield counter_row(sample.key, event, None, **more)


def counter_row(key: str, event: str, value: float | None, **more: object) -> dict[str, object]:
    """Return a line of `counters/CASE.jsonl`.

    It is a count of rank 0 by perf_stat, unless `more` has other values.
    """
    row = {"key": key, "tool": "perf_stat", "rank": 0, "event": event, "value": value}
    return {**row, "unit": "count", "state": "counted", "running_share": 1.0, **more}


def write_rows(run: Path, case: str, rows: Iterable[Mapping[str, object]]) -> Path:
    """Write `counters/CASE.jsonl` of a run; return its path."""
    path = run / "counters" / f"{case}.jsonl"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_counts(run: Path, case: Case, samples: Sequence[Sample], **truth) -> None:
    """Write made counts of a case; `truth` are arguments of `counts`."""
    rows = (row for sample in samples for row in counts(sample, case.base, **truth))
    write_rows(run, case.name, rows)
