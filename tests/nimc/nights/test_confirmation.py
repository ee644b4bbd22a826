"""Nights whose runs raise an alarm on the machine's history, and confirm or dismiss it at once.

The history is made from one run of the stand-in (`made_history`).
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from nimc.nights.measure import too_much
from tests.nimc.nights.conftest import Box

pytestmark = pytest.mark.slow


def night(box: Box, history: Path, *, slow_runs: int, **description: str) -> tuple[int, str]:
    """A night after the history, so many first runs of which have half the speed."""
    made = made_runs(box, history)
    box.describe(**description)
    return box.run(fake=f"loss={made + slow_runs}")


def made_runs(box: Box, history: Path) -> int:
    """Take over the history; returns how many runs it has."""
    shutil.copytree(history, box.nimc.results)
    return sum(1 for _ in history.glob("*/run.json"))


def states(box: Box) -> set[str]:
    files = (box.nimc.results / "store" / "alarms").glob("*.json")
    return {json.loads(file.read_text())["state"] for file in files}


def measured_runs(box: Box) -> int:
    return sum("-made-" not in run.name for run in box.nimc.runs() if (run / "run.json").exists())


def test_a_loss_that_stays_is_confirmed_in_the_same_night(box: Box, steady_history: Path) -> None:
    status, err = night(box, steady_history, slow_runs=6, pages=str(box.folder / "pages"))
    assert status == 1, err
    ended = box.night()
    assert (ended.outcome, measured_runs(box)) == ("slower", 6)
    assert {(each.case, each.source) for each in ended.alarms} == {("stream", "history")}
    assert ("off", "fom") in {(each.arm, each.quantity) for each in ended.alarms}
    assert "confirmed" in ended.reason
    assert states(box) == {"confirmed"}
    # The night's own run, not one of those that repeat some of its cases.
    assert (box.nimc.results / "latest").resolve() == Path(ended.run or "").resolve()
    page = (box.folder / "pages" / "localhost" / "index.html").read_text()
    assert '<span class="verdict bad">confirmed</span>' in page


def test_a_loss_that_does_not_come_back_is_dismissed(box: Box, steady_history: Path) -> None:
    status, err = night(box, steady_history, slow_runs=1)
    assert status == 0, err
    ended = box.night()
    assert (ended.outcome, ended.alarms, measured_runs(box)) == ("measured", [], 6)
    assert states(box) == {"dismissed"}
    assert "nimc: alarm: stream off: fom" in err


def test_without_leave_it_stays_suspected(box: Box, steady_history: Path) -> None:
    status, err = night(box, steady_history, slow_runs=6, confirm="false")
    assert status == 1, err
    assert (box.night().outcome, measured_runs(box), states(box)) == ("slower", 1, {"suspected"})


def test_repeats_must_fit_into_what_is_left(box: Box) -> None:
    """By hand: a block of two nodes that took 360 s; five more are 1 node-hour and half an hour."""
    run = box.folder / "run"
    block = run / "logs" / "stream" / "0" / "block.json"
    block.parent.mkdir(parents=True)
    block.write_text('{"started_s": 1000, "finished_s": 1360}')
    nodes = {"stream": 2}
    assert too_much(run, 5, nodes, 1801.0, 1.01) is None
    assert too_much(run, 5, nodes, 1801.0, 0.99) == "0.99 node-hours are left; 1 are needed"
    assert too_much(run, 5, nodes, 1700.0, 1.01) == "28.3 minutes are left; 30 are needed"
    assert too_much(run, 4, nodes, 1700.0, 0.99) is None
