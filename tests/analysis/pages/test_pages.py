"""Tests pages of made nights: the state of a machine, its page, and machines side by side."""

import json
import re
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from analysis.pages.across import MachineHistory, headroom, machine_row, side_by_side
from analysis.pages.render import (
    PageNight,
    headroom_figure,
    index_page,
    machine_page,
    machine_state,
)
from analysis.pages.write import machine_histories, write_pages
from analysis.subjects.paper import paper
from records.notes import Note
from tests.analysis.drawn import plain
from tests.analysis.history.tables import (
    DAY_S,
    made_table,
    night_tables,
    write_nights,
    write_tables,
)
from tests.analysis.pages.made import made_history

#: Number of cases. The first becomes slower.
CASES = 2
MEASURED = PageNight(date(2026, 1, 4), "nightly", "measured", "19 samples", "run-363")
SLOWER = PageNight(date(2026, 1, 5), "nightly", "slower", "stream off: <worse>", "run-364")


@cache
def history() -> MachineHistory:
    """Return a year of the machine `first`: its case `stream` is 5 % slower from night 300 on."""
    return made_history("first", cases=CASES)


def with_open_alarms() -> MachineHistory:
    """Return the nights until 18 after the change, with both alarms open."""
    recent_nights = history().nights.filter(pl.col("night") < date(2025, 11, 20))
    alarms = [replace(alarm, open=True) for alarm in history().alarms]
    return replace(history(), nights=recent_nights, alarms=alarms)


def test_alarms_end_once_the_new_level_is_the_usual_one() -> None:
    """The last night is 64 nights after the change."""
    assert {alarm.key[1:3] for alarm in history().alarms} == {("stream", "off"), ("stream", "on")}
    assert not any(alarm.open for alarm in history().alarms)


def test_a_machine_with_an_open_alarm_is_bad_although_its_last_night_was_good() -> None:
    state = machine_state(with_open_alarms(), [MEASURED])
    assert (state["look"], state["state"]) == ("bad", "2 open alarms")


def test_an_open_alarm_is_shown_with_its_size_and_when_it_began() -> None:
    """Night 300 is 2025-11-02. Six nights are compared, so the date may differ a little."""
    alarms = machine_state(with_open_alarms(), [MEASURED])["alarms"]
    assert len(alarms) == 2
    for text in alarms:
        assert re.search(r" 5\.\d % .* 2025-1(0-3|1-0)\d", text)


def test_a_machine_without_open_alarms_has_the_state_of_its_last_night() -> None:
    state = machine_state(history(), [MEASURED])
    assert (state["look"], state["state"], state["nights"]) == ("good", "last night: measured", 365)
    assert machine_state(history(), [MEASURED, SLOWER])["look"] == "bad"
    assert machine_state(history(), ())["look"] == "plain"
    # Another campaign failed in the same night.
    failed = MEASURED._replace(campaign="weekly", outcome="machine failed")
    for nights in ([MEASURED, failed], [failed, MEASURED]):
        assert machine_state(history(), nights)["state"] == "last night: machine failed"


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_machine_shows_alarms_series_and_nights() -> None:
    page = machine_page(history(), [MEASURED, SLOWER])
    assert page.count(">ended</span>") == 2
    assert page.count("<svg") == 3 * CASES
    assert "stream off: &lt;worse&gt;" in page
    assert 'href="../../run-364/report/report.html">report of run-364' in page
    assert "is emulated" not in page
    assert "<script" not in page


@pytest.mark.usefixtures("undrawn")
def test_the_page_over_all_machines_has_measured_and_published_ones() -> None:
    machines = [history(), made_history("second", emulated=True, cases=CASES)]
    tables = side_by_side(machines)
    page = index_page([machine_state(machine, ()) for machine in machines], tables)
    for text in ("Sandy Bridge-X2-onload", "Table II", "second (emulated)", "first/index.html"):
        assert text in page
    assert len(tables["slowdowns"]) == 2 * CASES


def test_table_ii_has_only_rates_of_triad() -> None:
    """The made machine is left out, since its figure is a time."""
    triads = {row["machine"]: row for row in side_by_side([history()])["triad"]}
    assert triads["Lisbon-800"]["published"]
    assert "first" not in triads


def test_figure_1_has_the_fastest_triad_of_a_machine_over_its_cores() -> None:
    """Lisbon has six cores. With its fastest memory clock, it has 19.7 / 6 GB/s for each core."""
    (lisbon,) = (row for row in side_by_side([])["rates"] if row["machine"] == "Lisbon")
    assert lisbon["memory_core_b_s"] == pytest.approx(19.7e9 / 6)
    assert lisbon["network_b_s"] == 4e9


def triad_row(day: int, arm: str, quantity: str, value: float) -> dict[str, object]:
    """Return a row of STREAM in the night of this day."""
    return {
        "case": "stream",
        "arm": arm,
        "quantity": quantity,
        "value": value,
        "verdict": None,
        "unit": "B/s" if quantity == "fom" else "1",
        "run": f"run-{day}",
        "night": day,
        "started_s": day,
        "low": 1.0,
        "high": 2.0,
        "campaign": "c",
        "machine": "box",
    }


def test_a_triad_is_the_last_night_with_both_arms() -> None:
    """The third night has no runs with writers."""
    rows = [triad_row(3, "off", "fom", 2e11)]
    for day in (1, 2):
        rows += [
            triad_row(day, "off", "fom", 2e11),
            triad_row(day, "on", "fom", 1e11),
            triad_row(day, "on", "slowdown", 1.9),
        ]
    nights = pl.DataFrame(rows)
    box = MachineHistory(machine="box", nights=nights, emulated_runs=frozenset({"run-2"}))
    row = side_by_side([box])["triad"][0]
    assert (row["machine"], row["night"], row["off_b_s"], row["on_b_s"]) == ("box", "2", 2e11, 1e11)
    assert (row["slowdown"], row["emulated"], row["published"]) == (1.9, True, False)


def stream_night(run: str, day: int, off_b_s: float, note: str) -> pl.DataFrame:
    """Return the table of a run whose triad reaches `off_b_s`, two thirds of it under writes."""
    table = next(night_tables(made_table(), [1.0])).filter(pl.col("arm").is_in(["off", "on"]))
    fom = pl.when(pl.col("arm") == "off").then(off_b_s).otherwise(off_b_s / 1.5)
    starts = [pl.col(name) + day * DAY_S for name in ("started_s", "finished_s")]
    return table.with_columns(
        *starts,
        case=pl.lit("stream"),
        run=pl.lit(run),
        campaign=pl.lit(run),
        unit=pl.lit("B/s"),
        better=pl.lit("higher"),
        fom=fom,
        notes=pl.lit([note]),
    )


@pytest.mark.parametrize(
    "note",
    [
        Note.STREAM_IN_CACHE(arrays=3, array_mib=128.0, llc_mib=512.0),
        Note.STREAM_SMALL(array_mib=128.0, llc_mib=512.0),
    ],
)
def test_a_triad_in_cache_is_no_triad_of_the_memory(tmp_path: Path, note: str) -> None:
    """`quick` ran a night later than `single_node`, with arrays that fit into the cache."""
    nights = [
        stream_night("single_node", 0, 300e9, "a note of the site"),
        stream_night("quick", 1, 1200e9, note),
    ]
    write_tables(tmp_path / "results", nights)
    (box,), _ = machine_histories([tmp_path / "results"], tmp_path / "out")
    row = side_by_side([box])["triad"][0]
    assert (row["off_b_s"], row["on_b_s"], row["published"]) == (300e9, 200e9, False)
    assert row["night"] == str(box.nights.filter(run="single_node")["night"][0])


@pytest.mark.parametrize(
    ("verdict", "shares"),
    [
        ("memory contention", [0.5]),
        ("no effect", [0.5]),
        ("baseline unstable", []),
        ("too few pairs", []),
    ],
)
def test_a_slowdown_without_a_statement_has_no_headroom(verdict: str, shares: list[float]) -> None:
    """The triad uses half of 16 channels of 25.6 GB/s."""
    nights = [
        triad_row(1, "off", "fom", 204.8e9),
        triad_row(1, "on", "fom", 1e11),
        {**triad_row(1, "on", "slowdown", 1.9), "verdict": verdict},
    ]
    memory = {"channels": 16, "channel_rate_b_s": 25.6e9}
    box = MachineHistory(
        machine="box",
        nights=pl.DataFrame(nights, infer_schema_length=None),
        facts={"site": {"memory": memory}},
    )
    points = side_by_side([box])["headroom"]
    assert [point["share"] for point in points if not point["published"]] == shares


def published_headroom() -> dict[str, dict[str, Any]]:
    """Return the headroom of each published machine."""
    return {row["machine"]: row for row in side_by_side([])["headroom"]}


def used_percent() -> dict[str, int]:
    """Return published machine -> share of its memory bandwidth that triad uses, percent."""
    return {name: round(100 * point["share"]) for name, point in published_headroom().items()}


def test_headroom_of_the_published_machines_by_hand() -> None:
    """Rate of triad and bandwidth of the channels are 16.8 and 17.1 GB/s on Westmere.

    On Lisbon at 1333 MHz, they are 19.7 and 21.3 GB/s.
    """
    percent = used_percent()
    assert (percent["Westmere-1066"], percent["Lisbon-1333"]) == (98, 92)
    assert (percent["Lisbon-800"], percent["Xeon-Phi"], percent["Haswell-X2"]) == (109, 53, 86)
    points = published_headroom()
    assert points["Westmere-1066"]["slowdown"] == pytest.approx(16.8 / 12.8)
    assert len(points) == 11
    assert all(point["published"] for point in points.values())


def test_published_machines_that_lose_have_an_onload_card_or_use_92_percent_of_their_memory() -> (
    None
):
    percent, points = used_percent(), published_headroom()
    onload = {name for name, point in points.items() if point["processing"] == "onload"}
    assert onload == {"Piledriver-1600", "Piledriver-1866", "Sandy Bridge-X2-onload"}
    losing = {name for name, point in points.items() if point["slowdown"] > 1.1} - onload
    assert min(percent[name] for name in losing) == 92
    assert max(percent[name] for name in points.keys() - onload - losing) == 91


def test_the_slides_preliminary_test_agrees_with_tables_i_and_ii() -> None:
    """12.7 of 29.9 GB/s are 42 %, and 17.2 GB/s remain."""
    slides = paper()["slides_preliminary_test"]
    assert (slides["off_gb_s"], slides["memory_gb_s"]) == (12.7, 29.9)
    assert (slides["share_percent"], slides["unused_gb_s"]) == (42, 17.2)
    point = published_headroom()[slides["machine"]]
    assert round(100 * point["share"]) == 42
    assert point["slowdown"] == pytest.approx(slides["off_gb_s"] / slides["on_gb_s"])


def test_the_slides_figures_are_shown_beside_headroom() -> None:
    text = plain(index_page([], side_by_side([])))
    assert "42 % of 29.9 GB/s" in text
    assert "17.2 GB/s" in text
    assert "6 of 8 systems" in text
    assert "4 to 56 %" in text


@pytest.mark.usefixtures("undrawn")
def test_headroom_of_a_measured_machine_is_from_its_file() -> None:
    """16 channels of 25.6 GB/s carry 409.6 GB/s. A triad of 204.8 GB/s uses half of this."""
    memory = {"channels": 16, "channel_rate_b_s": 25.6e9, "ganged": False, "page_policy": "open"}
    machine = MachineHistory(
        machine="box",
        nights=history().nights,
        facts={"site": {"memory": memory, "nic": {"processing": "offload"}}},
    )
    facts = machine_row(machine)
    assert (facts["channels"], facts["dram_b_s"]) == (16, 409.6e9)
    assert "16 not ganged pages open" in plain(index_page([], side_by_side([machine])))
    triad = {
        "machine": "box",
        "published": False,
        "emulated": False,
        "slowdown": 1.4,
        "verdict": "memory contention",
        "off_b_s": 204.8e9,
        "on_b_s": 150e9,
    }
    (point,) = headroom([facts], [triad])
    assert (point["machine"], point["published"], point["emulated"]) == ("box", False, False)
    assert (point["share"], point["slowdown"], point["processing"]) == (0.5, 1.4, "offload")
    assert "box 1.40 at 50 %" in headroom_figure([point])


def test_a_machine_without_facts_of_its_memory_has_no_headroom() -> None:
    triad = {"machine": "first", "published": False, "emulated": False, "slowdown": 1.4}
    facts = machine_row(history())
    assert facts["dram_b_s"] is None
    assert headroom([facts], [{**triad, "off_b_s": 204.8e9, "on_b_s": 150e9}]) == []


@pytest.mark.usefixtures("undrawn")
def test_pages_are_written_with_their_data_from_the_tables_of_runs(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    write_nights(results, made_table(), [1.0, 1.01])
    (results / "night-1" / "report" / "report.html").write_text("report")
    histories, left_out = machine_histories([results], out)
    assert left_out == []
    assert write_pages(out, histories, {"m": [MEASURED, SLOWER]}) == out / "index.html"
    machine_path = out / "m" / "index.html"
    assert "report of night-1" not in machine_path.read_text()  # no night of this run has a verdict
    assert 'href="../../results/night-1/report/report.html"' in machine_path.read_text()
    table = pl.read_parquet(out / "m" / "nights.parquet")
    off = table.filter(arm="off", quantity="fom")["value"].to_list()
    assert off == [12.5, 12.5 * 1.01]
    document = json.loads((out / "index.json").read_text())
    assert [state["machine"] for state in document["states"]] == ["m"]
    published = [row["machine"] for row in document["machines"] if row["published"]]
    assert "Lisbon" in published


@pytest.mark.usefixtures("undrawn")
def test_an_emulated_machine_without_a_complete_night_has_a_page(tmp_path: Path) -> None:
    results, out = tmp_path / "results [1]", tmp_path / "out"
    stopped = made_table().with_columns(
        finished_s=pl.lit(None, pl.Float64), emulated=pl.lit(value=True)
    )
    write_tables(results, [stopped])
    histories, left_out = machine_histories([results], out)
    assert left_out == []
    assert [(history.machine, history.emulated) for history in histories] == [("m", False)]
    assert write_pages(out, histories, {}).is_file()


def test_figures_are_marked_as_emulated_by_the_run_that_they_are_from(tmp_path: Path) -> None:
    """Triad ran only in the first run, which was emulated. Another case ran only in the second."""
    table = made_table().with_columns(unit=pl.lit("B/s"), better=pl.lit("higher"))
    old, new = (
        run.with_columns(case=pl.lit(case), emulated=pl.lit(emulated))
        for run, case, emulated in zip(
            night_tables(table, [1.0, 1.0]), ("stream", "other"), (True, False), strict=True
        )
    )
    write_tables(tmp_path / "results", [old, new])
    (history,), _ = machine_histories([tmp_path / "results"], tmp_path / "out")
    tables = side_by_side([history])
    assert machine_state(history, ())["emulated"] is False
    triads = [row["emulated"] for row in tables["triad"] if row["machine"] == "m"]
    assert triads == [True]
    slowdowns = {row["case"]: row["emulated"] for row in tables["slowdowns"]}
    assert slowdowns == {"stream": True, "other": False}


def test_a_machine_named_as_a_file_of_the_pages_is_left_out(tmp_path: Path) -> None:
    table = made_table().with_columns(machine=pl.lit("index.html"))
    write_nights(tmp_path / "results", table, [1.0])
    histories, left_out = machine_histories([tmp_path / "results"], tmp_path / "out")
    assert histories == []
    (line,) = left_out
    assert line.startswith("machine index.html: ")
