"""`nimc nightly run` from outside: each way in which a night ends, and what it leaves."""

import json
import shutil
import signal
from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from nimc.nights.summary import UNFINISHED, load, running
from tests.nimc.conftest import CAMPAIGN, ROOT
from tests.nimc.nights.conftest import Box

pytestmark = pytest.mark.slow

#: Takes minutes with the stand-in's fault `slow`.
LONG = CAMPAIGN.replace("floor: 6", "floor: 600, block: 600")

Wait = Callable[[Callable[[], bool]], None]


def samples(box: Box) -> int:
    files = box.nimc.results.glob("small-localhost-*/samples/*.jsonl")
    return sum(file.read_text().count("\n") for file in files)


def test_a_night_measures_and_says_so(box: Box) -> None:
    status, err = box.run("--summary", "copy.json")
    assert status == 0, err
    night = box.night()
    (run,) = box.runs()
    assert (night.outcome, night.reason) == ("measured", "19 samples")  # a warm-up, 6 pairs of 3
    assert (night.run, night.cases, night.campaign) == (str(run), ["stream"], "small")
    figures = {(each.arm, each.quantity): each for each in night.figures}
    off = figures["off", "fom"]
    assert (off.low, off.value, off.high) == pytest.approx((1e10,) * 3)  # as the stand-in reports
    assert figures["on", "slowdown"].value == pytest.approx(2.0)
    assert night.finished_s is not None
    assert 0 < night.used_node_h < night.budget_node_h
    assert (box.folder / "copy.json").read_text() == json.dumps(night.as_dict(), indent=1) + "\n"

    status, err = box.run()  # the scheduler started it once more
    assert status == 0
    assert f"night {night.night} is done: measured" in err
    assert (box.runs(), box.night()) == ([run], night)


def test_a_killed_night_is_known_and_the_next_one_resumes(box: Box, wait_until: Wait) -> None:
    today = box.tonight
    yesterday = today - timedelta(days=1)
    night = box.start("run", str(box.file), "--night", str(yesterday), fake="slow")
    wait_until(lambda: samples(box) >= 8)
    night.send_signal(signal.SIGKILL)
    night.communicate()
    killed = box.night()
    assert (killed.night, killed.outcome) == (yesterday, "machine failed")
    assert (killed.reason, killed.finished_s) == (UNFINISHED, None)

    wait_until(lambda: not running(box.nimc.results / "nights", "localhost", "box"))
    status, err = box.run("--night", str(today))
    assert status == 0, err
    first, second = box.nights()
    assert first == killed
    assert (second.night, second.outcome) == (today, "measured")
    assert len(box.runs()) == 1
    assert second.run == str(box.runs()[0])
    assert second.head == json.loads((box.runs()[0] / "run.json").read_text())["head"]
    status, out, _ = box.call("status", str(box.file), "--json")
    assert [(each["night"], each["outcome"]) for each in json.loads(out)["nights"]] == [
        (str(yesterday), "machine failed"),
        (str(today), "measured"),
    ]


def test_the_next_night_concludes_a_run_whose_last_block_outlived_its_night(box: Box) -> None:
    """Killed with its Slurm job, a night leaves the job of a block, which measures to its end."""
    assert box.nimc.run()[0] == 0
    (run,) = (each for each in box.runs() if not each.is_symlink())
    header = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**header, "finished_s": None}))
    status, err = box.run()
    assert status == 0, err
    night = box.night()
    assert (night.outcome, night.run) == ("measured", str(run))
    figures = {(each.arm, each.quantity): each.value for each in night.figures}
    assert figures["off", "fom"] == pytest.approx(1e10)


def test_a_second_night_on_the_machine_ends_with_one_line(box: Box, wait_until: Wait) -> None:
    box.nimc.write(LONG)
    box.describe(budget="10")
    first = box.start("run", str(box.file), fake="slow")
    wait_until(lambda: samples(box) >= 20)
    other = box.folder / "other.yaml"
    other.write_text(box.file.read_text() + f"pages: {box.folder}/pages\n")
    (box.nimc.results / "store").mkdir()
    status, _, err = box.call("run", str(other))
    assert status == 0
    assert f"another night is running on this machine: box, process {first.pid} on" in err
    _, others = box.nights()
    assert (others.nightly, others.outcome) == ("other", "not run")
    assert not (box.folder / "pages").exists()  # making them would disturb the first
    first.terminate()
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert box.nights()[0].outcome == "inconclusive"
    assert "signal" in box.nights()[0].reason
    assert box.nights()[0].figures


def test_a_failed_machine_is_tried_again_in_the_same_run_until_its_budget_is_used_up(
    box: Box,
) -> None:
    box.nimc.write(LONG)
    box.describe(budget="10")
    yesterday = box.tonight - timedelta(days=1)
    assert box.run("--night", str(yesterday), fake="none,fail")[0] == 3
    failed = box.night()
    assert failed.outcome == "machine failed"
    assert failed.reason.startswith("stream: application_failed: exit status 3: out of paper")
    assert [each.case for each in failed.failures] == ["stream"]
    box.describe(budget="0.0005")  # 1.8 s of one node; a run that is resumed was planned before
    status, err = box.run(fake="slow")
    assert status == 0, err
    assert len(box.runs()) == 1
    night = box.nights()[1]
    assert night.outcome == "inconclusive"
    assert "budget" in night.reason
    assert night.used_node_h >= night.budget_node_h


def later() -> str:
    """A window that opens in two hours."""
    start, end = (f"{datetime.now() + timedelta(hours=hours):%H:%M}" for hours in (2, 3))
    return f'{{start: "{start}", end: "{end}"}}'


def test_outside_of_its_window_nothing_is_run_and_nothing_is_written(box: Box) -> None:
    box.describe(window=later())
    status, err = box.run()
    assert (status, err.strip().count("\n")) == (0, 0)
    assert err.startswith("nimc: not run: ")
    fault = "nimc: --night: 0001-01-01 found; allowed: years from 1971 to 9998\n"
    assert box.run("--night", "0001-01-01") == (2, fault)  # no clock shows it
    assert not box.nimc.results.exists()


@pytest.mark.parametrize(
    ("fault", "status", "outcome"),
    [
        ("window", 0, "not run"),
        ("campaign", 2, "not run"),
        ("folder", 2, "not run"),
        ("log", 3, "machine failed"),
    ],
)
def test_a_summary_is_written_whatever_happens(
    box: Box, fault: str, status: int, outcome: str
) -> None:
    """In GitLab it would be that of the night before: nothing is cloned."""
    nights = box.nimc.results / "nights"
    if fault == "window":
        box.describe(window=later())
    elif fault == "campaign":
        box.nimc.write("name: small\n")
    elif fault == "folder":
        nights.mkdir(parents=True)
        nights.chmod(0o777)
    else:
        (nights / f"box-{box.tonight}.log").mkdir(parents=True)
    copy = box.folder / "copy.json"
    copy.write_text("of yesterday")
    assert box.run("--summary", str(copy))[0] == status
    assert load(copy).outcome == outcome
    assert load(copy).finished_s is not None
    exit_of_case = box.call("export", str(copy), "--junit", "--fail", "--case", "stream")[0]
    assert exit_of_case == {"not run": 0, "machine failed": 3}[outcome]


def test_a_night_of_a_check_of_others(box: Box) -> None:
    shutil.copy(ROOT / "tests/nimc/campaign/theirs.py", box.folder)
    box.nimc.write(
        CAMPAIGN.replace("stream, set: {iterations: 10}, expect: 1s", "'theirs.py:plain'")
    )
    status, err = box.run()
    assert status == 0, err
    night = box.night()
    assert (night.outcome, night.cases) == ("measured", ["plain"])
    figures = {(each.arm, each.quantity): each.value for each in night.figures}
    assert figures["off", "fom"] == pytest.approx(1e10)
    assert figures["on", "slowdown"] == pytest.approx(2.0)
