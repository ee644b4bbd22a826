"""Tests counts of tools: beside their samples, as medians, and as roles; and the table of events.

A role is a kind of count, such as L3 misses, to which each tool and processor maps its events.
"""

import json
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from analysis.samples.counts import counter_medians, role_values, without_tool
from records.errors import InputError
from records.machine.host import FAMILIES
from records.roles import COUNTS, ROLES, counts, groups, missing_roles
from tests.analysis.made_counters import counter_row, read_counters, write_rows

ON = '{"rate":"25%"}'


def samples(*keys: str, **status: str) -> pl.DataFrame:
    """Return samples with these keys (CASE/BLOCK/PAIR/ARM/ATTEMPT).

    `status` sets the status of pairs: `pair1="rejected"` sets that of pair 1.
    """
    parts = [key.split("/") for key in keys]
    return pl.DataFrame(
        {
            "key": keys,
            "case": [part[0] for part in parts],
            "arm": [part[3] for part in parts],
            "factors": [ON if part[3] == "on" else "{}" for part in parts],
            "block": [int(part[1]) for part in parts],
            "pair": [int(part[2]) for part in parts],
            "status": [status.get(f"pair{part[2]}", "counts") for part in parts],
        }
    ).with_columns(pl.col("case", "arm").cast(pl.Categorical))


def count(key: str, value: float | None, rank: int = 0, event: str = "cycles", **more) -> dict:
    return counter_row(key, event, value, rank=rank, **more)


def written(folder: Path, *rows: dict, case: str = "stream", end: str = "") -> Path:
    with write_rows(folder, case, rows).open("a") as file:
        file.write(end)
    return folder


OFF0, ON0 = "stream/0/0/off/0", "stream/0/0/on/0"
OFF1, OFF2 = "stream/0/1/off/0", "stream/0/2/off/0"


def test_a_count_is_read_with_the_fields_of_its_sample(tmp_path):
    run = written(tmp_path, count(ON0, 12.5, rank=3, event="task-clock", unit="s"))
    (row,) = read_counters(run, samples(OFF0, ON0)).to_dicts()
    assert row == {
        "key": ON0,
        "case": "stream",
        "arm": "on",
        "factors": ON,
        "block": 0,
        "pair": 0,
        "status": "counts",
        "tool": "perf_stat",
        "rank": 3,
        "event": "task-clock",
        "value": 12.5,
        "unit": "s",
        "state": "counted",
        "running_share": 1.0,
        **dict.fromkeys(("nodes", "median", "least", "least_node", "most", "most_node")),
    }


def test_the_last_counts_of_runs_that_have_a_sample_are_read(tmp_path):
    none = read_counters(tmp_path, samples(OFF0))  # a run without tools
    assert [frame.height for frame in (none, counter_medians(none), role_values(none))] == [0, 0, 0]
    twice = (count(OFF0, 5.0, rank=1), count(OFF0, 2.0))
    written(tmp_path, count(OFF0, 1.0), *twice, count(OFF1, 3.0))
    written(tmp_path, count("lulesh/0/0/off/0", 4.0), case="lulesh")
    counters = read_counters(tmp_path, samples(OFF0, "lulesh/0/0/off/0"))
    ranks = {(row["case"], row["rank"]): row["value"] for row in counters.to_dicts()}
    assert ranks == {("stream", 0): 2.0, ("stream", 1): 5.0, ("lulesh", 0): 4.0}
    # Different events and tools are not mixed.
    others = (count(OFF1, 2.0, event="cycles:u"), count(OFF1, 4.0, tool="rusage"))
    run = written(tmp_path, count(OFF1, 1.0), *others)
    assert sorted(counter_medians(read_counters(run, samples(OFF1)))["value"]) == [1.0, 2.0, 4.0]


@pytest.mark.parametrize("end", ['{"key": "stream/0/1/off/0", "to', '{"key": 1}'])
def test_a_last_line_that_was_cut_off_is_left_out(tmp_path, end):
    run = written(tmp_path, count(OFF0, 1.0), end=end)
    assert read_counters(run, samples(OFF0, OFF1)).height == 1


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (count(OFF1, 1.0, state="guessed"), r"jsonl:2: state: 'guessed' found; allowed: one of"),
        (count(OFF1, None), r"jsonl:2: value: None found"),
        (count(OFF1, 1.0, state="not supported"), r"jsonl:2: value: 1\.0 found"),
        (count(OFF1, 1.0, event=None), r"jsonl:2: event: None found"),
        ({"key": OFF1}, r"jsonl:2: tool: None found"),
        ([1], r"jsonl:2: allowed: an object"),
        ("cycles 12", r"jsonl:2: "),
    ],
)
def test_a_line_that_is_no_count_is_named(tmp_path, bad, why):
    line = bad if isinstance(bad, str) else json.dumps(bad)
    run = written(tmp_path, count(OFF0, 1.0), end=f"{line}\n{json.dumps(count(OFF2, 1.0))}\n")
    with pytest.raises(InputError, match=why):
        read_counters(run, samples(OFF0, OFF1, OFF2))


def test_a_treatments_value_is_the_median_over_runs_of_sums_over_ranks(tmp_path):
    # Sums are 1 + 2 = 3, 10 + 20 = 30 and 5 + 0 = 5. Their median is 5; that of all six values
    # would be 3.5.
    values = {OFF0: (1.0, 2.0), OFF1: (10.0, 20.0), OFF2: (5.0, 0.0)}
    rows = [
        count(key, value, rank) for key, two in values.items() for rank, value in enumerate(two)
    ]
    run = written(tmp_path, *rows, count(ON0, 8.0), count(ON0, 1.0, rank=1))
    table = counter_medians(read_counters(run, samples(OFF0, OFF1, OFF2, ON0)))
    assert table.select("arm", "value", "runs").rows() == [("off", 5.0, 3), ("on", 9.0, 1)]
    assert table["factors"].to_list() == ["{}", ON]
    # Runs that do not count are in no median.
    judged = samples(OFF0, OFF1, OFF2, pair1="rejected", pair2="warm-up")
    assert counter_medians(read_counters(run, judged)).select("value", "runs").rows() == [(3.0, 1)]


NOT_SUPPORTED = {"state": "not supported", "running_share": None}
SHARED = {"state": "multiplexed", "running_share": 0.5}
LESS = SHARED | {"running_share": 0.8}
#: Counts of two ranks in a run, and counts of another run in which one rank has no value.
BOTH_RANKS_COUNTED = [count(OFF0, 4.0), count(OFF0, 4.0, 1)]
ONE_RANK_COUNTED = [count(OFF1, 4.0), count(OFF1, None, 1, **NOT_SUPPORTED)]
TURNS = [count(OFF0, 4.0, **LESS), count(OFF0, 4.0, 1, **SHARED), count(OFF1, 4.0)]


@pytest.mark.parametrize(
    ("rows", "median"),
    [
        # Shares are averaged over ranks. If a rank has no value, there is no sum.
        ([count(OFF0, 0.2, unit="1"), count(OFF0, 0.4, 1, unit="1")], (0.3, 1, "counted", 1.0)),
        ([*BOTH_RANKS_COUNTED, *ONE_RANK_COUNTED], (8.0, 1, "not supported", 1.0)),
        ([count(OFF0, None, **NOT_SUPPORTED)], (None, 0, "not supported", None)),
        (TURNS, (6.0, 2, "multiplexed", 0.5)),  # the worst state of any rank, and the least share
    ],
)
def test_ranks_and_states_of_a_median(tmp_path, rows, median):
    (row,) = counter_medians(
        read_counters(written(tmp_path, *rows), samples(OFF0, OFF1))
    ).to_dicts()
    figures = [row[name] for name in ("value", "runs", "state", "running_share")]
    assert figures == pytest.approx(list(median))


KEY = "stream/0/0/on@tool=perf_stat:memory/0"


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("off", "off"),
        ("off@tool=mpip", "off"),
        ("on@rate=25%,tool=perf_stat:memory", "on@rate=25%"),
        ("on@tool=mpip,workers=nic", "on@workers=nic"),
    ],
)
def test_runs_with_and_without_a_tool_are_the_same_treatment(name, without):
    assert without_tool(name) == without


def counter(event: str, value: float, tool: str = "perf_stat:memory", **more) -> dict:
    return count(KEY, value, event=event, tool=tool, **more)


ITOM = counter("unc_cha_tor_inserts.io_itom", 10.0, "perf_stat:devices")
NEAR = counter("unc_cha_tor_inserts.io_itomcachenear", 2.0, "perf_stat:devices")
READ = counter("unc_m_cas_count.rd", 10.0, "perf_stat:dram")
WRITTEN = counter("unc_m_cas_count.wr", 640.0, "perf_stat:dram", unit="B")


@pytest.mark.parametrize(
    ("rows", "roles"),
    [
        ([counter("cycles", 7e9), counter("page-faults", 5.0)], {(0, "cycles"): 7e9}),
        ([counter("cycle_activity.stalls_l3_miss:u", 2e9)], {(0, "memory stalls"): 2e9}),
        ([counter("mem_load_retired.l3_miss", 3e6, rank=1)], {(1, "L3 misses"): 3e6}),
        # Traffic is in lines of 64 B unless the tool says bytes.
        ([READ, WRITTEN], {(0, "DRAM read"): 640.0, (0, "DRAM written"): 640.0}),
        # A role of several events needs all of them. A count that was multiplexed is no value.
        ([ITOM], {}),
        ([ITOM, NEAR], {(0, "device writes"): 12 * 64.0}),
        ([ITOM, NEAR | SHARED], {(0, "device writes"): None}),
        ([counter("cycles", 7e9, **SHARED)], {(0, "cycles"): None}),
        # An event of another tool with the same name is another event.
        ([counter("cycles", 7e9, "rusage")], {}),
        ([counter("PAPI_TOT_CYC", 7e9, "papi:stalls")], {(0, "cycles"): 7e9}),
        ([counter("PAPI_TOT_CYC", 6e9, "openspeedshop")], {(0, "cycles"): 6e9}),
    ],
)
def test_events_become_roles(tmp_path, rows, roles):
    run = written(tmp_path, *rows)
    table = role_values(read_counters(run, samples(KEY)))
    assert {(r["rank"], r["role"]): r["value"] for r in table.to_dicts()} == roles
    state = "multiplexed" if None in roles.values() else "counted"
    assert set(table["state"]) == ({state} if roles else set())
    assert role_values(read_counters(run, samples(KEY, pair0="rejected"))).is_empty()


@pytest.mark.parametrize(("rows", "lines"), [([ITOM], 10), ([ITOM, NEAR], 12)])
def test_the_longer_of_two_rows_that_share_an_event_is_used(tmp_path, monkeypatch, rows, lines):
    """One processor may count device writes by the first event, another by both events."""
    (longer,) = (row for row in COUNTS if row.role == "device writes" and len(row.events) == 2)
    shorter = replace(longer, families=("Made",), events=longer.events[:1])
    monkeypatch.setattr("analysis.samples.counts.COUNTS", (shorter, longer))
    table = role_values(read_counters(written(tmp_path, *rows), samples(KEY)))
    assert table.select("role", "value").rows() == [("device writes", lines * 64.0)]


def test_every_row_names_a_role_and_families_that_exist():
    for row in COUNTS:
        assert row.role in ROLES
        assert row.families or row.role == "L3 hits"  # no processor of the table counts it
        assert set(row.families) <= set(FAMILIES)
        assert row.events
        assert row.source in ("kernel", "likwid", "papi")
        # A group covers either ranks or nodes.
        assert groups(row.tool)[row.group] == ROLES[row.role].scope
    ways = [(row.tool, row.group, row.role, family) for row in COUNTS for family in row.families]
    assert len(ways) == len(set(ways))


@pytest.mark.parametrize("family", [name for name in FAMILIES if name not in ("A64FX", "Grace")])
def test_a_group_of_perf_stat_fits_the_counters_of_its_processor(family):
    # With hyperthreading, an Intel core has four general counters for each hardware thread, and
    # fixed counters for cycles and instructions. AMD's Zen cores have six general counters and no
    # fixed ones. A memory controller (Intel, AMD) and the CHA of a Xeon have four counters each.
    general = 6 if family.startswith("Zen") else 4
    for group in ("memory", "dram", "devices"):
        fixed = () if family.startswith("Zen") else ("cycles", "instructions")
        events = {e for row in counts("perf_stat", group, family) for e in row.events}
        limit = general if group == "memory" else 4
        assert len(events - set(fixed)) <= limit, group


def value_of(role: str, family: str, tool: str = "perf_stat"):
    (row,) = (r for r in COUNTS if r.tool == tool and r.role == role and family in r.families)
    return row.events, row.factor


def test_events_of_the_literature():
    # By the kernel's event lists, a CAS command moves one line of 64 B, and IIO payload counts
    # units of 4 B.
    assert value_of("DRAM read", "Cascade Lake") == (("unc_m_cas_count.rd",), 64)
    assert value_of("DRAM written", "Zen 4") == (("umc_cas_cmd.wr",), 64)
    assert value_of("device writes", "Skylake-SP")[1] == 4
    assert value_of("device writes", "Sapphire Rapids") == (
        ("unc_cha_tor_inserts.io_itom", "unc_cha_tor_inserts.io_itomcachenear"),
        64,
    )
    assert value_of("memory stalls", "Cascade Lake")[0] == ("cycle_activity.stalls_l3_miss",)


def test_roles_that_a_processor_cannot_count_are_known():
    assert "memory stalls" in missing_roles("perf_stat", "Zen 2")
    assert "memory stalls" not in missing_roles("perf_stat", "Cascade Lake")
    assert "DDIO misses" in missing_roles("perf_stat", "Cascade Lake")
    # A role that the tool counts on no processor is not missing on any.
    assert "PCIe stalls" not in missing_roles("perf_stat", "Sapphire Rapids")
    assert missing_roles("papi", "Haswell-EP") == ["L2 hits", "L3 hits"]
    assert missing_roles("papi", "Westmere-EP") == ["stalled cycles", "L3 hits"]
    assert missing_roles("mpip", "Zen 4") == []
