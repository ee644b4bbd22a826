"""Tests which part of a loss is due to the fabric, and which interrupts a free core serves.

If a free core removes the loss, the fabric is not its cause. True values of the made runs are
known.
"""

import json
import re
from pathlib import Path

import polars as pl
import pytest

from analysis.questions.question import answer, sentences_of
from analysis.subjects.free_core import FABRIC, INTERRUPTS
from scripts.rechain import rechain
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.subjects.made_free_core import CORE_PRICE, TIMES, free_core_run
from tests.analysis.synthetic import HOST, answered


def test_a_core_that_takes_the_loss_away_clears_the_fabric(tmp_path: Path) -> None:
    table = answer(FABRIC, free_core_run(tmp_path))
    rows = {row["arm"]: row for row in table.to_dicts()}
    assert {arm: row["word"] for arm, row in rows.items()} == {
        "daly": "not the fabric",
        "constant": "a part remains",
    }
    assert rows["daly"]["free"] == pytest.approx(1.0, abs=0.005)
    assert rows["daly"]["full"] == pytest.approx(1.5, abs=0.01)
    assert rows["constant"]["free"] == pytest.approx(1.1, abs=0.01)


def test_the_free_core_may_be_the_first_level(tmp_path: Path) -> None:
    """Names of treatments then leave out the free core, and have the level of all cores.

    With the free core, `daly` takes as long as `off`; with all cores, 1.5 times as long.
    """
    times = {
        "daly": 1.0,
        "aa": 1.0,
        "off@reserved_cores=0": 1 / CORE_PRICE,
        "aa@reserved_cores=0": 1 / CORE_PRICE,
        "daly@reserved_cores=0": 1.5 / CORE_PRICE,
    }
    run = free_core_run(tmp_path, times, first_level=1)
    (row,) = answer(FABRIC, run).to_dicts()
    names = ("arm", "cores", "word")
    assert [row[name] for name in names] == ["daly", "reserved_cores=1", "not the fabric"]
    assert row["full"] == pytest.approx(1.5, abs=0.01)
    (interrupts,) = answer(INTERRUPTS, run).to_dicts()
    assert interrupts["n"] == 3 * 12  # runs of the three arms with a free core


def test_the_sentences_have_the_level_the_margin_and_what_remains(tmp_path: Path) -> None:
    text = " ".join(sentences_of(FABRIC, answer(FABRIC, free_core_run(tmp_path))))
    assert "reserved_cores=1" in text
    assert re.search(r"daly [^,;.]*off[^,;.]* 2 %", text)
    assert re.search(r"constant [^;]* 1\.1 \(1\.1 to 1\.1\) [^;]*off", text)


@pytest.mark.parametrize(("margin", "text"), [(0.004, "0.4 %"), (0.025, "2.5 %")])
@pytest.mark.parametrize("full_time", [1.5, 1.0])  # with a loss with all cores, and without
def test_the_margin_is_not_rounded_to_whole_percent(
    tmp_path: Path, margin: float, text: str, full_time: float
) -> None:
    run = free_core_run(tmp_path, {**TIMES, "daly": full_time})
    table = answer(FABRIC, run).filter(arm="daly").with_columns(margin=pl.lit(margin))
    (sentence,) = sentences_of(FABRIC, table)
    assert f"equals off to within {text}" in sentence


@pytest.mark.parametrize(
    ("daly_times", "noise", "word"),
    [
        ({"daly": 1.0}, 0.005, "no loss with all cores"),
        ({"daly@reserved_cores=1": 1.01 * CORE_PRICE}, 0.05, "inconclusive"),  # the margin is 2 %
    ],
)
def test_without_a_loss_or_with_noise_nothing_is_concluded_about_the_fabric(
    tmp_path: Path, daly_times: dict[str, float], noise: float, word: str
) -> None:
    table = answer(FABRIC, free_core_run(tmp_path, {**TIMES, **daly_times}, noise=noise))
    assert table.filter(arm="daly")["word"].to_list() == [word]


@pytest.mark.parametrize(
    ("bound", "share", "word"),
    [
        ({"7": 3, "0-7": 1}, 0.75, "in part"),
        ({"7": 4}, 1.0, "on the free core"),
        ({"0": 1, "0-7": 3}, 0.0, "elsewhere"),
    ],
)
def test_only_interrupts_of_the_machines_device_are_counted(
    tmp_path: Path, bound: dict[str, int], share: float, word: str
) -> None:
    run = free_core_run(tmp_path, interrupts={"mlx5_0": bound, "eth0": {"0": 2}})
    (row,) = answer(INTERRUPTS, run).to_dicts()
    assert (row["device"], row["interrupts"], row["cpus"]) == ("mlx5_0", 4, "7")
    assert (row["share"], row["word"]) == (share, word)
    assert row["n"] == 4 * 12  # runs of the four arms with a free core
    (text,) = sentences_of(INTERRUPTS, answer(INTERRUPTS, run))
    for shown in (f"{100 * share:.0f} %", "mlx5_0", HOST):
        assert shown in text


@pytest.fixture
def counted_run(tmp_path: Path) -> Path:
    """Make 48 runs, each with 100 interrupts, 60 of them on the free CPU.

    Kernel threads worked for 2 s, 0.5 s of it on the free CPU.
    """
    run = free_core_run(tmp_path)
    (path,) = (run.path / "samples").iterdir()
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    counts = {
        "mlx5_0:interrupts": 100.0,
        "mlx5_0:interrupts on free CPUs": 60.0,
        "eth0:interrupts": 7.0,
    }
    times_s = {"kernel-threads-time": 2.0, "kernel-threads-time on free CPUs": 0.5}
    rows = []
    for key in keys:
        for event, count in counts.items():
            rows.append(counter_row(key, event, count, tool="node", unit="count"))
        for event, time_s in times_s.items():
            rows.append(counter_row(key, event, time_s, tool="node", unit="s"))
    write_rows(run.path, path.stem, rows)
    return rechain(run.path)


def test_interrupts_during_the_runs_are_shown_beside_the_bound_ones(counted_run: Path) -> None:
    """Three of four interrupts are bound to the free CPU."""
    table = answered(INTERRUPTS, counted_run)
    (row,) = table.to_dicts()
    assert (row["share"], row["came"], row["threads"]) == (0.75, 0.6, 0.25)
    (text,) = sentences_of(INTERRUPTS, table)
    assert "60 %" in text
    assert "25 %" in text
