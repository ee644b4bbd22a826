"""Pages of made nights: what they say of the alarm that is known, of nights, and side by side."""

import json
import re
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from analysis.pages.across import MachineHistory, headroom, side_by_side, table_row
from analysis.pages.render import (
    PageNight,
    headroom_figure,
    index_page,
    machine_page,
    machine_state,
)
from analysis.pages.write import gather, write_pages
from analysis.subjects.paper import paper
from tests.analysis.drawn import plain
from tests.analysis.history.tables import made_table, write_nights
from tests.analysis.pages.made import made_history

#: Two cases, one of which loses.
CASES = 2
NIGHTS = [
    PageNight(date(2026, 1, 4), "nightly", "measured", "19 samples", "run-363"),
    PageNight(date(2026, 1, 5), "nightly", "slower", "stream off: <worse>", "run-364"),
]


@cache
def history() -> MachineHistory:
    return made_history("first", cases=CASES)


def test_a_machine_with_an_open_alarm_is_bad_whatever_its_last_night_says() -> None:
    recent = replace(
        history(), nights=history().nights.filter(pl.col("night") < date(2025, 11, 20))
    )
    assert {alarm.key[1:3] for alarm in history().alarms} == {("stream", "off"), ("stream", "on")}
    # 5 % from night 300 on: 64 nights later it is the usual level.
    assert not any(alarm.open for alarm in history().alarms)
    still = replace(recent, alarms=[replace(alarm, open=True) for alarm in history().alarms])
    state = machine_state(still, NIGHTS[:1])
    assert (state["look"], state["state"]) == ("bad", "2 open alarms")
    # Night 300 is 2025-11-02; six nights are looked at.
    assert all(
        re.search(r"5\.\d % worse since 2025-1(0-3|1-0)\d", text) for text in state["alarms"]
    )
    ended = machine_state(history(), NIGHTS[:1])
    assert (ended["look"], ended["state"], ended["nights"]) == ("good", "last night: measured", 365)
    assert machine_state(history(), NIGHTS)["look"] == "bad"
    assert machine_state(history(), ())["look"] == "plain"


@pytest.mark.usefixtures("undrawn")
def test_the_page_of_a_machine_shows_alarms_series_and_nights() -> None:
    page = machine_page(history(), NIGHTS)
    assert page.count(">ended</span>") == 2
    assert page.count("<svg") == 3 * CASES
    assert "stream off: &lt;worse&gt;" in page
    assert 'href="../../run-364/report/report.html">report of run-364' in page
    assert "is emulated" not in page
    assert "<script" not in page


@pytest.mark.usefixtures("undrawn")
def test_the_page_over_all_has_the_papers_machines_and_slowdowns_of_each() -> None:
    machines = [history(), made_history("second", emulated=True, cases=CASES)]
    tables = side_by_side(machines)
    page = index_page([machine_state(machine, ()) for machine in machines], tables)
    for text in ("Sandy Bridge-X2-onload", "Table II", "second (emulated)", "first/index.html"):
        assert text in page
    assert len(tables["slowdowns"]) == 2 * CASES
    triads = {row["machine"]: row for row in tables["triad"]}
    assert triads["Lisbon-800"]["published"]
    assert "first" not in triads  # its unit is no rate
    # The fastest of Lisbon's clocks over its six cores: 19.7 / 6 GB/s.
    (lisbon,) = (row for row in tables["rates"] if row["machine"] == "Lisbon")
    assert lisbon["memory_core_b_s"] == pytest.approx(19.7e9 / 6)
    assert lisbon["network_b_s"] == 4e9


def test_a_triad_is_the_last_night_with_both_arms() -> None:
    rows = [("off", "fom", 2e11), ("on", "fom", 1e11), ("on", "slowdown", 1.9)]
    nights = pl.DataFrame(
        {
            "case": "stream", "arm": arm, "quantity": quantity, "value": value, "verdict": None,
            "unit": "B/s" if quantity == "fom" else "1", "run": f"run-{day}", "night": day,
            "started_s": day, "low": 1.0, "high": 2.0, "campaign": "c", "machine": "box",
        }
        for day in (1, 2, 3) for arm, quantity, value in rows if day < 3 or arm == "off"
    )  # fmt: skip
    row = side_by_side([MachineHistory(machine="box", nights=nights, emulated=True)])["triad"][0]
    assert (row["machine"], row["night"], row["off_b_s"], row["on_b_s"]) == ("box", "2", 2e11, 1e11)
    assert (row["slowdown"], row["emulated"], row["published"]) == (1.9, True, False)


def test_headroom_of_the_published_machines_by_hand() -> None:
    """Triad / channels: 16.8 / 17.1, 19.7 / 21.3; those that lose nothing 77.8 / 85.3 and more."""
    points = {row["machine"]: row for row in side_by_side([])["headroom"]}
    shares = {name: round(100 * point["share"]) for name, point in points.items()}
    assert shares["Westmere-1066"] == 98
    assert (shares["Lisbon-800"], shares["Lisbon-1333"]) == (109, 92)
    assert (shares["Xeon-Phi"], shares["Haswell-X2"]) == (53, 86)
    assert points["Westmere-1066"]["slowdown"] == pytest.approx(16.8 / 12.8)
    # Those that lose most have an onload card; of the others, those lose that use 92 % or more.
    onload = {name for name, point in points.items() if point["processing"] == "onload"}
    assert onload == {"Piledriver-1600", "Piledriver-1866", "Sandy Bridge-X2-onload"}
    lost = {name for name, point in points.items() if point["slowdown"] > 1.1} - onload
    assert min(shares[name] for name in lost) == 92
    assert max(shares[name] for name in shares.keys() - onload - lost) == 91
    assert len(points) == 11
    assert all(point["published"] for point in points.values())


def test_the_preliminary_test_stands_beside_headroom_as_published() -> None:
    """The slides' own figures, which Tables I and II repeat: 12.7 of 29.9 GB/s are 42 %."""
    published = paper()["slides_preliminary_test"]
    assert (
        round(100 * published["off_gb_s"] / published["memory_gb_s"]) == published["share_percent"]
    )
    assert published["memory_gb_s"] - published["off_gb_s"] == pytest.approx(
        published["unused_gb_s"]
    )
    point = {row["machine"]: row for row in side_by_side([])["headroom"]}[published["machine"]]
    assert round(100 * point["share"]) == published["share_percent"]
    assert point["slowdown"] == pytest.approx(published["off_gb_s"] / published["on_gb_s"])
    text = plain(index_page([], side_by_side([])))
    assert "whose triad used 42 % of 29.9 GB/s. 17.2 GB/s remained for at most 4 GB/s" in text
    assert "6 of 8 systems lose, 4 to 56 % of triad" in text


@pytest.mark.usefixtures("undrawn")
def test_headroom_of_a_measured_machine_is_from_its_file() -> None:
    """16 channels of 25.6 GB/s carry 409.6 GB/s; a triad of 204.8 is half of them."""
    memory = {"channels": 16, "channel_rate_b_s": 25.6e9, "ganged": False, "page_policy": "open"}
    machine = MachineHistory(
        machine="box",
        nights=history().nights,
        facts={"site": {"memory": memory, "nic": {"processing": "offload"}}},
    )
    facts = table_row(machine)
    assert (facts["channels"], facts["dram_b_s"]) == (16, 409.6e9)
    assert "16 not ganged pages open" in plain(index_page([], side_by_side([machine])))
    same = {"machine": "box", "published": False, "emulated": False, "slowdown": 1.4}
    triad = {**same, "off_b_s": 204.8e9, "on_b_s": 150e9}
    assert headroom([facts], [triad]) == [{**same, "share": 0.5, "processing": "offload"}]
    assert headroom([{**facts, "dram_b_s": None}], [triad]) == []
    assert "box 1.40 at 50%" in headroom_figure(headroom([facts], [triad]))


@pytest.mark.usefixtures("undrawn")
def test_they_are_written_with_their_data_from_the_tables_of_runs(tmp_path: Path) -> None:
    results, out = tmp_path / "results", tmp_path / "out"
    write_nights(results, made_table(), [1.0, 1.01])
    (results / "night-1" / "report" / "report.html").write_text("report")
    histories, left_out = gather([results], out)
    assert left_out == []
    page = write_pages(out, histories, {"m": NIGHTS})
    assert page == out / "index.html"
    machine_path = out / "m" / "index.html"
    assert "report of night-1" not in machine_path.read_text()  # no night of that run was judged
    assert 'href="../../results/night-1/report/report.html"' in machine_path.read_text()
    table = pl.read_parquet(out / "m" / "nights.parquet")
    off = table.filter(arm="off", quantity="fom")["value"].to_list()
    assert off == [12.5, 12.5 * 1.01]
    document = json.loads((out / "index.json").read_text())
    assert [state["machine"] for state in document["states"]] == ["m"]
    assert {machine["machine"] for machine in document["machines"] if machine["published"]} >= {
        "Lisbon"
    }


def test_a_machine_named_as_a_file_of_the_pages_is_left_out(tmp_path: Path) -> None:
    table = made_table().with_columns(machine=pl.lit("index.html"))
    write_nights(tmp_path / "results", table, [1.0])
    histories, left_out = gather([tmp_path / "results"], tmp_path / "out")
    assert (histories, len(left_out)) == ([], 1)
    assert left_out[0].startswith("machine index.html: left out")
