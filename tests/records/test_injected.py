"""The record of an injection (writers beside a command of the user) is made from its files."""

import json
from pathlib import Path

from records import injected
from records.injected import InjectionSummary, Reading, WrittenRow

SUMMARY = InjectionSummary(machine="box", commit=None, rate="25%", link_rate_b_s=25e9)


def test_a_record_has_all_whole_readings(tmp_path: Path) -> None:
    injected.begin(tmp_path)
    injected.save_summary(tmp_path, SUMMARY)
    rows = [WrittenRow(0, 1.0, 2.0, 5e9), WrittenRow(0, 2.0, 3.0, 6e9)]
    injected.add_reading(
        tmp_path, Reading(start_s=1.0, end_s=3.0, proven=True, reason=None, rows=rows)
    )
    injected.add_reading(
        tmp_path, Reading(start_s=3.0, end_s=4.0, proven=False, reason="writer 0 ended")
    )
    with (tmp_path / injected.READINGS_FILE).open("a") as file:
        file.write('{"start_s": 4.0, "en')  # the process that wrote this line was killed
    injected.save_record(tmp_path, tmp_path / "record.json")
    record = json.loads((tmp_path / "record.json").read_bytes())
    assert (record["schema"], record["machine"], record["rate"]) == (1, "box", "25%")
    assert [reading["proven"] for reading in record["readings"]] == [True, False]
    written = {"writer": 0, "start_s": 2.0, "end_s": 3.0, "bytes_b": 6e9}
    assert record["readings"][0]["rows"][1] == written


def test_a_record_without_readings(tmp_path: Path) -> None:
    injected.begin(tmp_path)
    injected.save_summary(tmp_path, SUMMARY)
    injected.save_record(tmp_path, tmp_path / "record.json")
    assert json.loads((tmp_path / "record.json").read_bytes())["readings"] == []
