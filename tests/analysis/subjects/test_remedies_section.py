"""Tests the sections on advice and remedies: where they are, and that pictures show all runs."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.questions.question import answer
from analysis.remedies.throttling import THROTTLED_RUNS
from analysis.report.data import RunData
from analysis.report.page import render, write_data
from analysis.subjects.remedies_section import TIMES
from tests.analysis.drawn import plain, shown
from tests.analysis.remedies.made_core import CORE
from tests.analysis.remedies.sweeps import sweep, swept
from tests.analysis.synthetic import LAMMPS, loaded_run, samples

PAIRS = 8


def rows_of(page: str, heading: str) -> list[list[str]]:
    """Return the texts of the cells of the first table after the text `heading`."""
    body = page[page.index(heading) :].split("<tbody>")[1].split("</tbody>")[0]
    rows = re.findall(r"<tr.*?</tr>", body, re.DOTALL)
    cells = [re.findall(r"<t[dh].*?</t[dh]>", row, re.DOTALL) for row in rows]
    return [[plain(cell) for cell in row] for row in cells]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    folder = tmp_path_factory.mktemp("remedies")
    return loaded_run(folder / "run", swept(sweep(noise=0.005), pairs=PAIRS))


@pytest.mark.slow
@pytest.mark.usefixtures("undrawn")
def test_advice_comes_before_the_runs(run: RunData) -> None:
    text = render([run])
    assert text.index('id="advice"') < text.index('id="r0"')
    rows = rows_of(text, 'id="advice"')
    assert len(rows) == 4 + 3  # a core under four rates, and three throttled rates
    core = next(row for row in rows if row[:2] == ["stream on", "reserved_cores=1 against 0"])
    # By the made sweep, the price is 14 / 12.8, and the gain is
    # (14 - 0.1 x 7.2 - 1.2) / (14 - 0.3 x 7.2).
    assert float(core[2].split()[0]) == pytest.approx(14 / 12.8, abs=0.01)
    assert float(core[3].split()[0]) == pytest.approx(12.08 / 11.84, abs=0.01)
    assert (
        core[3].split()[0] == core[5].split()[0]
    )  # with traffic all the time, the net effect is the gain
    assert [row[7].split()[0] for row in rows if "rate" in row[1]] == ["slower"] * 3


def test_every_run_of_a_sweep_is_drawn(run: RunData) -> None:
    """There are two sweeps of four rates, each with its baseline."""
    (picture,) = shown(THROTTLED_RUNS, run).pictures
    svg = picture.svg("s")
    drawn = [len(re.findall("<use ", part)) for part in svg.split("-points-")[1:]]
    assert drawn[0] == PAIRS * 5
    assert drawn[1] >= PAIRS * 5


def test_times_are_relative_to_off_without_the_remedy(run: RunData, tmp_path: Path) -> None:
    rows = {(row["traffic"], row["with"]): row for row in answer(TIMES, run).to_dicts()}
    assert len(rows) == 4 * 3  # a core under four rates
    # The rate is 14 GB/s without writes. Writes of 7.2 GB/s cost 0.3 of their rate. With a core,
    # they cost 0.1 of it, and the core costs 1.2 GB/s.
    expected = {"traffic": 14 / 11.84, "remedy": 14 / 12.8, "both": 14 / 12.08}
    for level, time in expected.items():
        row = rows["on", level]
        assert row["time"] == pytest.approx(time, abs=0.01)
        assert row["time_low"] <= row["time"] <= row["time_high"]
        assert (row["remedy"], row["n"]) == ("reserved_cores=1", PAIRS)
    (file,) = [path for path in write_data(tmp_path, [run]) if path.name == "remedy_times.json"]
    assert len(json.loads(file.read_text())["remedy_times"]) == len(rows)


@pytest.mark.usefixtures("undrawn")
def test_emulation_is_marked_and_the_data_hold_the_advice(tmp_path: Path) -> None:
    case = replace(CORE, transport="soft-RoCE")
    run = loaded_run(tmp_path / "run", samples(case, blocks=3, pairs=4))
    (row,) = rows_of(render([run]), 'id="advice"')
    assert row[7] == "better emulated"
    (file,) = [path for path in write_data(tmp_path, [run]) if path.name == "advice.json"]
    document = json.loads(file.read_text())
    assert [remedy["recommended"] for remedy in document["remedies"]] == [False]


@pytest.mark.usefixtures("undrawn")
def test_an_unpaired_remedy_has_no_break_even(tmp_path: Path) -> None:
    """It has a price: with the core, runs without writes take 1.1 times as long."""
    cases = [
        replace(LAMMPS, name=f"lammps@core_spec={level}", base=base)
        for level, base in ((0, 10.0), (1, 11.0))
    ]
    runs = [sample for case in cases for sample in samples(case, blocks=3, pairs=4)]
    (row,) = rows_of(render([loaded_run(tmp_path / "run", runs)]), 'id="advice"')
    assert row[1].endswith("unpaired")
    assert row[2].startswith("1.10")
    assert row[6] == ""
