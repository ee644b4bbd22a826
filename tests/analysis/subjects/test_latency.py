"""Latency against traffic on chosen figures: every bound follows by hand."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.questions.question import answer
from analysis.report.data import load_run
from analysis.report.page import render, write_data
from analysis.subjects.latency import LATENCY
from records.sample import Sample
from tests.analysis.synthetic import Case, at_rate, crossed, header, samples, write_run

NS, GB = 1e-9, 1e9
#: Treatment -> cores that load, latency, and their total rate. At the reference, 10 GB/s of one
#: core at 100 ns, 15.625 lines are in flight.
MADE = {
    "off": (0, 80, 0),
    "off@load_threads=1": (1, 100, 10),
    "off@load_threads=2": (2, 200, 10),
    "on": (0, 120, 0),
    "on@load_threads=1": (1, 125, 8),
    "on@load_threads=2": (2, 400, 2.5),
    "spin@load_threads=2": (2, 200, 12),
}


def made(*, pairs: int = 6, load: float = 1.0) -> list[Sample]:
    times = {name: latency / 80 for name, (_, latency, _) in MADE.items()}
    case = Case("latency", "s", "lower", 80 * NS, times, noise=0, pair_noise=0)
    case = crossed(case, {"load_threads": 0}, {"rate": "full"})
    found = []
    for each in samples(case, pairs=pairs):
        extra = {"load_b_s": load * MADE[each.arm][2] * GB, "least_s": 0.9 * (each.fom or 0)}
        # Loading cores slow the writers as well.
        rate_b_s = (5 - MADE[each.arm][0]) * GB
        kept = replace(each, fom_extra=extra)
        found.append(at_rate(kept, rate_b_s) if each.arm.startswith("on") else kept)
    return found


def read(folder: Path, found: list[Sample]):
    return load_run(write_run(folder / "run", found, header(campaign="loaded_latency")), force=True)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return read(tmp_path_factory.mktemp("latency"), made())


@pytest.fixture(scope="module")
def found(run) -> dict[str, dict[str, Any]]:
    return rows_of(run)


def rows_of(run) -> dict[str, dict[str, Any]]:
    return {row["arm"]: row for row in answer(LATENCY, run).to_dicts()}


def test_traffic_is_that_of_cores_and_writers_in_the_order_of_the_table(found) -> None:
    assert {arm: row["traffic_b_s"] / GB for arm, row in found.items()} == pytest.approx(
        {
            **{"off": 0, "off@load_threads=1": 10, "off@load_threads=2": 10},
            **{"spin@load_threads=2": 12},
            **{"on": 5, "on@load_threads=1": 8 + 4, "on@load_threads=2": 2.5 + 3},
        }
    )
    arms = ["off", "off@load_threads=1", "off@load_threads=2", "spin@load_threads=2"]
    assert list(found) == [*arms, "on", "on@load_threads=1", "on@load_threads=2"]


def test_latency_and_credits(found) -> None:
    row = found["on@load_threads=2"]
    assert (row["writers"], row["load_threads"], row["n"]) == ("on, full", 2, 6)
    assert row["least_s"] == pytest.approx(360 * NS)
    ends = [row[f"latency_s{end}"] for end in ("_low", "", "_high")]
    assert ends == pytest.approx([400 * NS] * 3)
    assert row["slowdown"] == pytest.approx(2)
    # Credits are those of one core without writers.
    (reference,) = (row for row in found.values() if row["word"] == "reference")
    assert reference["arm"] == "off@load_threads=1"
    assert [each["credits"] for each in found.values()] == pytest.approx([15.625] * len(MADE))
    assert [arm for arm, each in found.items() if each["word"] == "-"] == ["off", "on"]


@pytest.mark.parametrize(
    ("arm", "modelled_gb_s", "ratio", "against"),
    [
        # Twice the cores at twice the latency: as fast as one.
        ("off@load_threads=2", 10, 1, "at the bound"),
        ("on@load_threads=1", 8, 1, "at the bound"),
        ("on@load_threads=2", 5, 0.5, "below the bound"),
        ("spin@load_threads=2", 10, 1.2, "above the bound"),
    ],
)
def test_bounds_by_hand(found, arm, modelled_gb_s, ratio, against) -> None:
    row = found[arm]
    assert row["modelled_b_s"] == pytest.approx(modelled_gb_s * GB)
    assert row["of_modelled"] == pytest.approx(ratio)
    assert row["word"] == against


def test_too_few_runs_are_inconclusive(tmp_path: Path) -> None:
    row = rows_of(read(tmp_path, made(pairs=5)))["on@load_threads=2"]
    assert (row["latency_s"], row["of_modelled"]) == (None, None)
    assert row["word"] == "inconclusive"


def test_without_a_loaded_baseline_there_is_no_bound(tmp_path: Path) -> None:
    run = read(tmp_path, [each for each in made() if "load_threads" not in each.arm])
    assert {row["modelled_b_s"] for row in rows_of(run).values()} == {None}
    run = read(
        tmp_path / "on", [each for each in made() if each.arm[:3] != "off" or each.arm == "off"]
    )
    assert rows_of(run)["on@load_threads=1"]["why"] == "credits were not measured"


def test_the_section(run, tmp_path: Path) -> None:
    text = render([run])
    section = text[text.index('id="r0latency"') :]
    assert 'href="#r0latency"' in text
    assert "latency on, full 2 400.0 ns (400.0 to 400.0)" in section  # read out for the picture
    assert ">emulated<" in section[: section.index("</figure>")]
    (file,) = (path for path in write_data(tmp_path, [run]) if path.name == "latency.json")
    document = json.loads(file.read_text())
    assert document["schema"] == 2
    assert len(document["latency"]) == len(MADE)
    assert all("shared memory" in text for row in document["latency"] for text in row["emulated"])
    assert {row["arm"]: row["lines"] for row in document["latency"]}[
        "off@load_threads=1"
    ] == pytest.approx(15.625)


def test_a_level_that_is_no_number_of_cores_is_left_out(tmp_path: Path) -> None:
    odd = dict(zip(list(MADE)[3:], ["many", -1, 1.5, 10**30], strict=True))
    found = [
        replace(each, factors={**each.factors, "load_threads": odd[each.arm]})
        if each.arm in odd
        else each
        for each in made()
    ]
    assert {*rows_of(read(tmp_path, found))} == {*MADE} - {*odd}
    # So are runs whose loading cores moved nothing: no lines were in flight.
    idle = rows_of(read(tmp_path / "idle", made(load=0.0)))
    assert {row["load_threads"] for row in idle.values()} == {0}
