"""`nimc nightly run` from outside: each way in which a night ends, and what it leaves."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path

import pytest

from nimc.nights.description import Night
from nimc.nights.summary import UNFINISHED, load
from tests.literal_docs import FOLDERS
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

    wait_until(lambda: not holds_lock(box))
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


def holds_lock(box: Box) -> bool:
    """Whether any process has the lock's file open: `nimc run` keeps it until it has ended."""
    lock = box.nimc.results / "nights" / "localhost.lock"
    for handle in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.path.samefile(handle, lock):
                return True
        except OSError:
            continue
    return False


def test_a_failed_machine_is_tried_again_in_the_same_run(box: Box) -> None:
    status, err = box.run(fake="fail")
    assert status == 3, err
    night = box.night()
    assert night.outcome == "machine failed"
    assert night.reason.startswith("stream: application_failed: exit status 3: out of paper")
    assert [each.case for each in night.failures] == ["stream"]
    assert box.run()[0] == 0
    assert len(box.runs()) == 1
    assert box.night().outcome == "measured"


def test_a_second_night_on_the_machine_ends_with_one_line(box: Box, wait_until: Wait) -> None:
    box.nimc.write(LONG)
    box.describe(budget="10")
    first = box.start("run", str(box.file), fake="slow")
    wait_until(lambda: samples(box) >= 8)
    other = box.folder / "other.yaml"
    other.write_text(box.file.read_text() + f"pages: {box.folder}/pages\n")
    (box.nimc.results / "store").mkdir()
    status, _, err = box.call("run", str(other))
    assert status == 0
    assert f"another night is running on this machine: box, process {first.pid} on" in err
    mine, others = box.nights()
    assert (others.nightly, others.outcome) == ("other", "not run")
    assert not (box.folder / "pages").exists()  # making them would disturb the first
    status, err = box.run()  # the same nightly: nothing is written over
    assert status == 0
    assert "another night is running" in err
    assert box.nights()[0] == mine
    first.terminate()
    _, err = first.communicate(timeout=120)
    assert first.returncode == 0, err
    assert box.nights()[0].outcome == "inconclusive"
    assert "signal" in box.nights()[0].reason


def test_a_night_stops_at_the_end_of_its_window(box: Box, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shortest window that can be described is a minute: here it ends in eight seconds."""
    box.nimc.write(LONG)
    box.describe(budget="10")
    monkeypatch.setattr(Night, "moved_to", lambda night, now_s: Night(night.date, now_s, now_s + 8))
    status, err = box.run("--night", "2026-11-20", fake="slow")
    assert status == 0, err
    night = box.night()
    assert night.night == date(2026, 11, 20)
    assert night.outcome == "inconclusive"
    assert "window" in night.reason
    assert night.figures
    assert night.finished_s - night.started_s >= 8  # type: ignore[operator]


def test_a_campaign_beyond_the_budget_is_refused(box: Box) -> None:
    box.describe(budget="0.001")
    status, err = box.run()
    assert status == 2
    # Runs of 1 s are doubled for two rows of the writers: 2 s, and 0.7 s between runs. 8 s
    # of a block, a warm-up and 6 pairs of 3 runs of 2.7 s: 59.3 s of one node.
    line = f"{box.file}:4: budget: 0.001 node-hours found; allowed: from 0.0165, which the plan"
    assert line in err
    assert (box.night().outcome, box.night().run) == ("not run", None)
    assert box.runs() == []


def test_a_night_stops_when_its_budget_is_used_up(box: Box) -> None:
    box.nimc.write(LONG)
    box.describe(budget="10")
    yesterday = box.tonight - timedelta(days=1)
    assert box.run("--night", str(yesterday), fake="torn")[0] == 3
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
    for night in ("0001-01-01", "1970-12-31", "9999-01-01"):  # no clock shows them
        fault = f"nimc: --night: {night} found; allowed: years from 1971 to 9998\n"
        assert box.run("--night", night) == (2, fault)
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


def test_slower_than_the_sites_reference(box: Box, tmp_path: Path) -> None:
    """In a copy of the checkout, whose site file expects twice what the stand-in reports."""
    checkout = tmp_path / "checkout"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, checkout / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (checkout / "site" / "localhost.yaml").open("a") as file:
        file.write("references: {stream: 2.0e10}\n")
    own = [sys.executable, "-c", "from nimc.cli.main import main; main()"]
    process = box.start("run", str(box.file), root=checkout, command=own)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 1, err
    night = box.night()
    assert night.outcome == "slower"
    (alarm,) = night.alarms
    assert (alarm.case, alarm.arm, alarm.source) == ("stream", "off", "reference")
    assert "1e+10 B/s without writers; 2e+10 B/s within 10% was expected" in night.reason
    path = next((box.nimc.results / "nights").glob("*.json"))
    for words, expected in (((), 0), (("--fail",), 1), (("--fail", "--case", "stream"), 1)):
        status, out, _ = box.call("export", str(path), "--junit", *words)
        assert status == expected
        assert 'failures="1"' in out


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
