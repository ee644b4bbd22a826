"""A night that is killed while it confirms an alarm, and started again within its window."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from nimc.nights.summary import path_of, running, summary_text, write
from tests.nimc.nights.conftest import Box
from tests.nimc.nights.test_confirmation import made_runs, states

pytestmark = pytest.mark.slow

Wait = Callable[[Callable[[], bool]], None]


@dataclass
class Killed:
    """A night that was killed during the second of the runs that repeat its own."""

    box: Box
    #: What ReFrame's stand-in does when the night is started again.
    fake: str

    def runs(self) -> list[Path]:
        """The night's own run and the repeats, in order of their start."""
        headers = self.box.nimc.results.glob("small-localhost-2*/run.json")
        return sorted(file.parent for file in headers)

    def again(self, *options: str) -> tuple[int, str]:
        return self.box.run(*options, fake=self.fake)


def samples(run: Path) -> list[dict[str, float]]:
    file = run / "samples" / "stream.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def is_finished(run: Path) -> bool:
    return json.loads((run / "run.json").read_text())["finished_s"] is not None


def node_h(run: Path) -> float:
    """Of one node, from the first sample of each block to the end of its last."""

    def blocks() -> Iterator[float]:
        for number in {each["block"] for each in samples(run)}:
            block = [each for each in samples(run) if each["block"] == number]
            end_s = max(each["start_s"] + each["elapsed_s"] for each in block)
            yield end_s - min(each["start_s"] for each in block)

    return sum(blocks()) / 3600


@pytest.fixture
def killed(
    request: pytest.FixtureRequest, box: Box, steady_history: Path, wait_until: Wait
) -> Killed:
    """The parameter: how many of the runs have half the speed, the night's own first."""
    fake = f"loss={made_runs(box, steady_history) + getattr(request, 'param', 6)}"
    found = Killed(box, fake)
    night = box.start("run", str(box.file), fake=f"slow,{fake}")
    wait_until(lambda: len(found.runs()) == 3 and len(samples(found.runs()[2])) >= 3)
    night.send_signal(signal.SIGKILL)
    night.communicate()
    wait_until(lambda: not running(box.nimc.results / "nights", "localhost", "box"))
    assert [is_finished(run) for run in found.runs()] == [True, True, False]
    assert states(box) == {"suspected"}
    assert box.night().finished_s is None
    return found


@pytest.mark.parametrize(
    ("killed", "status", "outcome", "state"),
    [
        (6, 1, "slower", "confirmed"),
        pytest.param(1, 0, "measured", "dismissed", marks=pytest.mark.long),
    ],
    indirect=["killed"],
)
def test_it_goes_on_with_confirming(killed: Killed, status: int, outcome: str, state: str) -> None:
    began_s = killed.box.night().started_s
    before = killed.runs()
    own = samples(before[0])
    assert killed.again()[0] == status
    ended = killed.box.night()
    assert (ended.outcome, ended.started_s, states(killed.box)) == (outcome, began_s, {state})
    # The campaign was not measured again, the repeat that was killed was resumed.
    runs = killed.runs()
    assert (len(runs), runs[:3], ended.run) == (6, before, str(before[0]))
    assert samples(runs[0]) == own
    assert all(map(is_finished, runs))
    assert ended.used_node_h == pytest.approx(sum(map(node_h, runs)))
    assert (killed.box.nimc.results / "latest").resolve() == runs[0].resolve()

    # Killed once more, with nothing left to run: it is judged by what is there.
    path = path_of(killed.box.nimc.results / "nights", "box", ended.night)
    unfinished = replace(ended, finished_s=None, outcome="machine failed", alarms=[])
    write(path, summary_text(unfinished))
    assert killed.again()[0] == status
    assert killed.runs() == runs
    again = killed.box.night()
    assert (again.outcome, again.alarms, again.used_node_h) == (
        ended.outcome,
        ended.alarms,
        ended.used_node_h,
    )


@pytest.mark.long
def test_what_repeats_used_is_not_used_twice(killed: Killed) -> None:
    """Enough for the four missing runs next to the night's own, but not for the others as well."""
    killed.box.describe(budget=f"{5.2 * node_h(killed.runs()[0]):f}")
    status, err = killed.again()
    assert status == 1
    assert "not confirmed: stream: " in err
    assert "node-hours are left" in err
    assert len(killed.runs()) == 3
    assert states(killed.box) == {"suspected"}
    assert killed.box.night().used_node_h == pytest.approx(sum(map(node_h, killed.runs())))


@pytest.mark.long
def test_the_next_night_measures_anew(killed: Killed) -> None:
    """It does not resume the repeat, which has the campaign's only case and so looks like a run."""
    before = killed.runs()
    tomorrow: date = killed.box.night().night + timedelta(days=1)
    status, err = killed.again("--night", str(tomorrow))
    assert status == 0, err
    runs = killed.runs()
    ended = killed.box.nights()[1]
    assert (len(runs), ended.run, ended.reason) == (4, str(runs[3]), "19 samples")
    assert not is_finished(before[2])
    assert ended.used_node_h == pytest.approx(node_h(runs[3]))
