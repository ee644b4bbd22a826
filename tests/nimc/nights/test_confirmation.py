"""Nights whose runs raise an alarm on the machine's history, and confirm or dismiss it at once.

The history is made from one run of the stand-in (`made_history`). A night that is killed meanwhile
is started again within its window.
"""

import json
import shutil
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import pytest

from nimc.nights.summary import path_of, running, summary_text, write
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
    assert '<span class="verdict bad">open</span><span class="sub told">confirmed by ' in page


def test_a_loss_that_does_not_come_back_is_dismissed(box: Box, steady_history: Path) -> None:
    status, err = night(box, steady_history, slow_runs=1)
    assert status == 0, err
    ended = box.night()
    assert (ended.outcome, ended.alarms, measured_runs(box)) == ("measured", [], 6)
    assert states(box) == {"dismissed"}
    assert "nimc: alarm: stream off: fom" in err


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
def killed(box: Box, steady_history: Path, wait_until: Wait) -> Killed:
    """All its runs have half the speed."""
    found = Killed(box, fake=f"loss={made_runs(box, steady_history) + 6}")
    night = box.start("run", str(box.file), fake=f"slow,{found.fake}")
    wait_until(lambda: len(found.runs()) == 3 and len(samples(found.runs()[2])) >= 3)
    night.send_signal(signal.SIGKILL)
    night.communicate()
    wait_until(lambda: not running(box.nimc.results / "nights", "localhost", "box"))
    assert [is_finished(run) for run in found.runs()] == [True, True, False]
    assert states(box) == {"suspected"}
    assert box.night().finished_s is None
    return found


def test_it_goes_on_with_confirming(killed: Killed) -> None:
    began_s = killed.box.night().started_s
    before = killed.runs()
    own = samples(before[0])
    assert killed.again()[0] == 1
    ended = killed.box.night()
    assert (ended.outcome, ended.started_s) == ("slower", began_s)
    assert states(killed.box) == {"confirmed"}
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
    assert killed.again()[0] == 1
    assert killed.runs() == runs
    again = killed.box.night()
    assert (again.outcome, again.alarms) == (ended.outcome, ended.alarms)
    assert again.used_node_h == ended.used_node_h


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
