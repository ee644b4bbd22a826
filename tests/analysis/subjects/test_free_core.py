"""What a free core says of the fabric, and which interrupts it served, on a run of known truth."""

import json
from pathlib import Path

import pytest

from analysis.questions.question import answer, sentences_of
from analysis.subjects.free_core import FABRIC, INTERRUPTS
from scripts.rechain import rechain
from tests.analysis.made_counters import counter_row, write_rows
from tests.analysis.subjects.made_free_core import CORE, TIMES, free_core_run
from tests.analysis.synthetic import HOST, answered


def test_a_core_that_takes_the_loss_away_clears_the_fabric(tmp_path: Path) -> None:
    run = free_core_run(tmp_path)
    rows = {row["arm"]: row for row in answer(FABRIC, run).to_dicts()}
    assert {arm: row["word"] for arm, row in rows.items()} == {
        "daly": "not the fabric",
        "constant": "a part remains",
    }
    assert rows["daly"]["free"] == pytest.approx(1.0, abs=0.005)
    assert rows["daly"]["full"] == pytest.approx(1.5, abs=0.01)
    assert rows["constant"]["free"] == pytest.approx(1.1, abs=0.01)
    text = " ".join(sentences_of(FABRIC, answer(FABRIC, run)))
    assert "with reserved_cores=1, daly equals off to within 2%" in text
    assert "constant takes 1.1 (1.1 to 1.1) times as long as off" in text


@pytest.mark.parametrize(
    ("daly_times", "noise", "word"),
    [
        ({"daly": 1.0}, 0.005, "no loss with all cores"),
        ({"daly@reserved_cores=1": 1.01 * CORE}, 0.05, "inconclusive"),  # the margin is 2 %
    ],
)
def test_equal_to_off_says_nothing_without_a_loss(
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
def test_interrupts_of_the_machines_device_alone(
    tmp_path: Path, bound: dict[str, int], share: float, word: str
) -> None:
    run = free_core_run(tmp_path, interrupts={"mlx5_0": bound, "eth0": {"0": 2}})
    (row,) = answer(INTERRUPTS, run).to_dicts()
    expected = {"device": "mlx5_0", "share": share, "interrupts": 4, "cpus": "7", "word": word}
    assert row == {**row, **expected, "n": 4 * 12}  # the four arms with a free core
    (text,) = sentences_of(INTERRUPTS, answer(INTERRUPTS, run))
    assert f"{share:.0%} of the interrupts of mlx5_0 on {HOST}" in text


def test_what_came_during_the_runs_is_beside_what_was_bound(tmp_path: Path) -> None:
    """In each of 48 runs 100 interrupts, 60 on the free CPU; of 2 s of kernel threads 0.5 s."""
    run = free_core_run(tmp_path)
    (path,) = (run.path / "samples").iterdir()
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    values = {"mlx5_0:interrupts": 100.0, "eth0:interrupts": 7.0, "kernel-threads-time": 2.0}
    values |= {"mlx5_0:interrupts on free CPUs": 60.0, "kernel-threads-time on free CPUs": 0.5}
    rows = [
        counter_row(key, event, value, tool="node", unit="s" if "time" in event else "count")
        for key in keys
        for event, value in values.items()
    ]
    write_rows(run.path, path.stem, rows)
    (row,) = answered(INTERRUPTS, rechain(run.path)).to_dicts()
    assert (row["share"], row["came"], row["threads"]) == (0.75, 0.6, 0.25)
    (text,) = sentences_of(INTERRUPTS, answered(INTERRUPTS, run.path))
    assert "60% of those that came were served there; 25% of the time of kernel threads" in text
