"""Nights whose runs raise an alarm on the machine's history, and confirm or dismiss it at once.

The history is made from one run of the stand-in (`made_history`).
"""

from __future__ import annotations

import json

import pytest

from tests.campaigns.nightly.conftest import Box
from tests.campaigns.nightly.made_history import make_history

pytestmark = pytest.mark.slow


@pytest.fixture
def watched(box: Box) -> int:
    """How many runs there are: steady nights, and one of half the speed."""
    status, _, err = box.nimc.run()
    assert status == 0, err
    (run,) = (each for each in box.runs() if not each.is_symlink())
    return make_history(box.nimc.results / "store", run, loss=0.5)


def states(box: Box) -> set[str]:
    files = (box.nimc.results / "store" / "alarms").glob("*.json")
    return {json.loads(file.read_text())["state"] for file in files}


def new_runs(box: Box) -> int:
    return sum("-made-" not in run.name for run in box.runs())


def test_a_loss_that_stays_is_confirmed_in_the_same_night(box: Box, watched: int) -> None:
    box.describe(pages=str(box.folder / "pages"))
    status, err = box.run(fake=f"loss={watched + 6}")
    assert status == 1, err
    night = box.night()
    assert (night.outcome, new_runs(box)) == ("slower", 6)
    assert {(each.case, each.source) for each in night.alarms} == {("stream", "history")}
    assert ("stream", "off", "fom") in {
        (each.case, each.arm, each.quantity) for each in night.alarms
    }
    assert "confirmed" in night.reason
    assert states(box) == {"confirmed"}
    # Six runs of the same length: the repeats are five times the first one.
    assert night.run is not None
    page = (box.folder / "pages" / "localhost" / "index.html").read_text()
    assert '<span class="verdict bad">confirmed</span>' in page


def test_a_loss_that_does_not_come_back_is_dismissed(box: Box, watched: int) -> None:
    status, err = box.run(fake=f"loss={watched + 1}")
    assert status == 0, err
    assert (box.night().outcome, box.night().alarms, new_runs(box)) == ("measured", [], 6)
    assert states(box) == {"dismissed"}
    assert "alarm: stream off: fom" in err
    assert "dismissed" in err


@pytest.mark.parametrize(
    ("changes", "why"),
    [({"confirm": "false"}, None), ({"budget": "0.03"}, "node-hours are left")],
)
def test_without_leave_or_budget_it_stays_suspected(
    box: Box, watched: int, changes: dict[str, str], why: str | None
) -> None:
    box.describe(**changes)
    status, err = box.run(fake=f"loss={watched + 6},slow")
    assert status == 1, err
    assert (box.night().outcome, new_runs(box), states(box)) == ("slower", 1, {"suspected"})
    assert (f"not confirmed: stream: {why}" in err) is (why is not None)
