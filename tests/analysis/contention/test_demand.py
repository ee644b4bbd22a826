"""Demand by counters: bytes per second worked out by hand from what the tools printed."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from analysis.contention.slowdown import MemoryDemand, demands
from analysis.report.data import load_run
from nimc.records.counter_row import CounterRow
from nimc.records.sample import Sample
from reframe_tests.tools import TOOLS
from tests.analysis.made_counters import write_rows
from tests.analysis.synthetic import Case, samples, write_run
from tests.fuzz.target import CAPTURES

LIKWID, PERF = "likwid:MEM", "perf_stat:dram"
#: likwid/memory/rank-4.csv: 13.44 GB read and 5.76 GB written; the lines' own counts, of 64 B each,
#: say the same: (100 + 110) million read, (40 + 50) million written.
VOLUME_B = 19.2e9
assert VOLUME_B == (210e6 + 90e6) * 64

#: One line as perf prints it (tests/captures/perf_stat), and a node's uncore events in it, which no
#: machine at hand counts: 2 MiB and 1 MiB.
UNCORE = "".join(
    json.dumps(
        {
            "counter-value": value,
            "unit": "MiB",
            "event": f"unc_m_cas_count.{way}",
            "event-runtime": 291540863,
            "pcnt-running": 100.0,
        }
    )
    + "\n"
    for way, value in (("rd", "2.000000"), ("wr", "1.000000"))
)


def captured(tool: str, folder: Path) -> list[CounterRow]:
    """What the tool's own parser finds."""
    if tool == LIKWID:
        return TOOLS[tool].parse(CAPTURES / "likwid" / "memory", 8)
    shutil.copy(CAPTURES / "perf_stat" / "hardware" / "rank-0.json", folder)
    clock = (folder / "rank-0.json").read_text().splitlines()
    kept = [line for line in clock if "task-clock" in line]
    (folder / "rank-0.json").write_text("\n".join(kept) + "\n" + UNCORE)
    (folder / "rank-0.events").write_text("unc_m_cas_count.rd,unc_m_cas_count.wr \n")
    return TOOLS[tool].parse(folder, 1)


def runs(tool: str, pairs: int) -> list[Sample]:
    """Runs of an application, each baseline again with the tool, in 2.0 to 2.0 + 0.1 pairs s."""
    off = f"off@tool={tool}"
    made = Case(
        "melt",
        "s",
        "lower",
        2.0,
        {"on": 1.1, "aa": 1.0, off: 1.0, f"on@tool={tool}": 1.1},
        factors={
            arm: {
                "tool": tool if "tool" in arm else "none",
                "rate": "full" if "on" in arm[:2] else 0,
            }
            for arm in ("off", "on", "aa", off, f"on@tool={tool}")
        },
        baselines={f"on@tool={tool}": off},
    )
    return [
        replace(each, role="baseline", baseline=None, elapsed_s=2.0 + 0.1 * each.pair)
        if each.arm == off
        else each
        for each in samples(made, pairs=pairs)
    ]


def found(
    folder: Path, tool: str, rows: Sequence[CounterRow], alone_b_s: float, pairs: int = 7
) -> MemoryDemand | str:
    """The demand of runs in which the tool counted `rows` each, and twice as much in `on`."""
    made = runs(tool, pairs)
    run = write_run(folder / "run", made)
    lines = [
        {"key": each.key, "tool": tool, **asdict(row)}
        | ({"value": 2 * row.value} if each.arm.startswith("on") and row.value else {})
        for each in made
        if f"tool={tool}" in each.arm
        for row in rows
    ]
    write_rows(run, "melt", lines)
    return demands(load_run(run), alone_b_s)["melt"]


@pytest.mark.parametrize(("tool", "volume_b"), [(LIKWID, VOLUME_B), (PERF, 3 * 2**20)])
def test_traffic_is_what_was_read_and_written_over_the_time_of_the_run(
    tmp_path: Path, tool: str, volume_b: float
) -> None:
    """Seven runs of 2.0 to 2.6 s: the median is that of 2.3 s; the interval is that of all runs.

    Membench takes four times as much alone, in 2.3 s: the share is a quarter.
    """
    alone_b_s = 4 * volume_b / 2.3
    demand = found(tmp_path, tool, captured(tool, tmp_path), alone_b_s)
    assert isinstance(demand, MemoryDemand)
    assert demand.source == "counters"
    rate = demand.rate_b_s
    assert (rate.value, rate.low, rate.high) == pytest.approx(
        (volume_b / 2.3, volume_b / 2.6, volume_b / 2.0)
    )
    share = demand.share
    assert (share.value, share.low, share.high) == pytest.approx(
        (0.25, 0.25 * 2.3 / 2.6, 0.25 * 2.3 / 2.0)
    )
    assert share.confidence == rate.confidence


def test_five_runs_have_no_interval_and_no_demand(tmp_path: Path) -> None:
    demand = found(tmp_path, LIKWID, captured(LIKWID, tmp_path), 1e10, pairs=5)
    assert demand == "neither counters of memory traffic nor six pairs beside membench"


@pytest.mark.parametrize("state", ["not counted", "multiplexed"])
def test_half_of_the_traffic_is_no_demand(tmp_path: Path, state: str) -> None:
    """What was written was not counted, or only part of the time: what was read is not all."""
    rows = [
        replace(row, value=None if state == "not counted" else row.value, state=state)
        if row.event == "Memory write data volume"
        else row
        for row in captured(LIKWID, tmp_path)
    ]
    assert isinstance(found(tmp_path / "r", LIKWID, rows, 1e10), str)


def test_each_node_counts_for_itself(tmp_path: Path) -> None:
    """Two nodes with 19.2 GB each in the same time: a node's traffic is not their sum."""
    one = captured(LIKWID, tmp_path)
    two = [*one, *(replace(row, rank=row.rank + 8) for row in one)]
    demand = found(tmp_path / "r", LIKWID, two, 1e10)
    assert isinstance(demand, MemoryDemand)
    assert demand.rate_b_s.value == pytest.approx(VOLUME_B / 2.3)
