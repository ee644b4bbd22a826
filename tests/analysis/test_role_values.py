import polars as pl
import pytest

from analysis.counts.counters import read_counters, role_values, without_tool
from tests.analysis.test_counters import count, samples, written

KEY = "stream/0/0/on@tool=perf_stat:memory/0"


def values(folder, *rows: dict, **status) -> dict:
    """(rank, role) -> (value, state) of one run."""
    frame = read_counters(written(folder, *rows), samples(KEY, **status))
    found = role_values(frame)
    return {(r["rank"], r["role"]): (r["value"], r["state"]) for r in found.to_dicts()}


@pytest.mark.parametrize(
    ("name", "without"),
    [
        ("off", "off"),
        ("off@tool=tau", "off"),
        ("on@rate=25%,tool=perf_stat:memory", "on@rate=25%"),
        ("on@tool=tau,workers=nic", "on@workers=nic"),
    ],
)
def test_runs_with_and_without_a_tool_are_the_same_treatment(name, without):
    assert without_tool(name) == without


def test_events_become_roles(tmp_path):
    found = values(
        tmp_path,
        count(KEY, 7e9, tool="perf_stat:memory"),
        count(KEY, 2e9, event="cycle_activity.stalls_l3_miss:u", tool="perf_stat:memory"),
        count(KEY, 3e6, rank=1, event="mem_load_retired.l3_miss", tool="perf_stat:memory"),
        count(KEY, 5.0, event="page-faults", tool="perf_stat:memory"),
    )
    assert found == {
        (0, "cycles"): (7e9, "counted"),
        (0, "memory stalls"): (2e9, "counted"),
        (1, "L3 misses"): (3e6, "counted"),
    }


def test_traffic_is_counted_in_lines_unless_the_tool_says_bytes(tmp_path):
    rows = [
        count(KEY, 10.0, event="unc_m_cas_count.rd", tool="perf_stat:dram"),
        count(KEY, 640.0, event="unc_m_cas_count.wr", tool="perf_stat:dram", unit="B"),
    ]
    found = values(tmp_path, *rows)
    # 10 lines of 64 B; 640 B as they are.
    assert found == {(0, "DRAM read"): (640.0, "counted"), (0, "DRAM written"): (640.0, "counted")}


def test_a_role_of_several_events_needs_all_of_them(tmp_path):
    itom = count(KEY, 10.0, event="unc_cha_tor_inserts.io_itom", tool="perf_stat:devices")
    near = count(KEY, 2.0, event="unc_cha_tor_inserts.io_itomcachenear", tool="perf_stat:devices")
    assert values(tmp_path, itom) == {}
    assert values(tmp_path, itom, near) == {(0, "device writes"): (12 * 64.0, "counted")}


def test_a_role_is_no_value_if_one_of_its_events_took_turns(tmp_path):
    itom = count(KEY, 10.0, event="unc_cha_tor_inserts.io_itom", tool="perf_stat:devices")
    near = itom | {"event": "unc_cha_tor_inserts.io_itomcachenear"}
    near |= {"state": "multiplexed", "running_share": 0.5}
    assert values(tmp_path, itom, near) == {(0, "device writes"): (None, "multiplexed")}


def test_a_count_that_took_turns_is_no_value(tmp_path):
    shared = count(KEY, 7e9, state="multiplexed", running_share=0.5)
    assert values(tmp_path, shared) == {(0, "cycles"): (None, "multiplexed")}


def test_runs_that_do_not_count_have_no_roles(tmp_path):
    assert values(tmp_path, count(KEY, 7e9), pair0="rejected") == {}


def test_the_same_name_of_another_tool_is_another_event(tmp_path):
    assert values(tmp_path, count(KEY, 7e9, tool="rusage")) == {}
    found = values(tmp_path, count(KEY, 7e9, event="PAPI_TOT_CYC", tool="papi:stalls"))
    assert found == {(0, "cycles"): (7e9, "counted")}
    found = values(tmp_path, count(KEY, 6e9, event="PAPI_TOT_CYC", tool="openspeedshop"))
    assert found == {(0, "cycles"): (6e9, "counted")}


def test_no_counters_have_no_roles(tmp_path):
    assert isinstance(role_values(read_counters(tmp_path, samples(KEY))), pl.DataFrame)
