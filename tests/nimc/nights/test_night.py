"""`nimc nights run` from outside: each way in which a night ends, and what it leaves."""

import json
import signal
from collections.abc import Callable

import numpy as np
import polars as pl
import pytest

from analysis.history.alarms import RECENT
from nimc.nights.night import FRESH_AFTER_S
from nimc.nights.summary import UNFINISHED, load
from tests.commands import CAMPAIGN
from tests.nimc.nights.conftest import Box

pytestmark = pytest.mark.slow

#: Takes minutes with the stand-in's fault `slow`.
LONG = CAMPAIGN.replace("floor: 6, cap: 6", "floor: 600, block: 600")
DAY_S = 86_400.0

Wait = Callable[[Callable[[], bool]], None]


def samples(box: Box) -> int:
    files = box.nimc.results.glob("small-localhost-*/samples/*.jsonl")
    return sum(file.read_text().count("\n") for file in files)


def test_a_night_measures_and_says_so(box: Box) -> None:
    told = box.folder / "told.json"
    options = ("--json", "--tell", f"cat > {told}", "--metrics", str(box.folder))
    status, out, err = box.run(*options)
    assert status == 0, err
    night = box.night()
    (run,) = box.runs()
    assert (night.outcome, night.reason) == ("measured", "19 samples")  # a warm-up, 6 pairs of 3
    assert (night.run, night.campaign, night.machine) == (str(run), "small", "localhost")
    figures = {(each["arm"], each["quantity"]): each for each in night.figures}
    off = figures["off", "fom"]
    assert (off["low"], off["value"], off["high"]) == pytest.approx(
        (1e10,) * 3
    )  # as the stand-in reports
    assert figures["on", "slowdown"]["value"] == pytest.approx(2.0)
    assert night.finished_s is not None
    assert json.loads(out) == json.loads(told.read_text()) == night.as_dict()
    assert 'outcome="measured"} 1.0' in (box.folder / "nimc_small_localhost.prom").read_text()

    told.unlink()
    status, _, err = box.run(*options)  # the scheduler started it once more
    assert status == 0
    assert f"night {night.night} is done: measured" in err
    assert (box.runs(), box.night(), told.exists()) == ([run], night, False)


def test_what_could_not_be_told_is_told_when_the_next_night_starts(box: Box) -> None:
    """The command is a line of the shell, in the folder where the night was started."""
    refused, accepts = "cat > draft; echo no mail >&2; exit 1", "cat >> told.json"
    _, _, err = box.run("--tell", refused)
    assert f"--tell: {refused}: exit status 1: no mail" in err
    assert not box.night().told
    assert json.loads((box.folder / "draft").read_text())["told"]
    yesterday = box.summaries()[0].with_name("small-localhost-2026-01-01.json")
    box.summaries()[0].rename(yesterday)
    status, _, err = box.run("--tell", accepts)
    assert status == 0, err
    assert [load(path).told for path in box.summaries()] == [True, True]
    assert (box.folder / "told.json").read_text().count('"outcome": "measured"') == 2
    box.run("--tell", accepts)
    assert (box.folder / "told.json").read_text().count('"outcome": "measured"') == 2


def test_a_killed_night_is_known_and_the_next_start_resumes(box: Box, wait_until: Wait) -> None:
    night = box.start(fake="stuck")
    wait_until(lambda: samples(box) >= 7)  # a warm-up, and two pairs of three
    night.send_signal(signal.SIGKILL)
    night.communicate()
    killed = box.night()
    assert (killed.outcome, killed.reason, killed.finished_s) == (
        "machine failed", UNFINISHED, None
    )  # fmt: skip
    status, _, err = box.run()
    assert status == 0, err
    assert (box.night().outcome, len(box.runs())) == ("measured", 1)


def test_a_night_that_is_told_to_end_stops_and_reports(box: Box, wait_until: Wait) -> None:
    box.nimc.write(LONG)
    night = box.start(fake="slow")
    wait_until(lambda: samples(box) >= 20)
    night.terminate()
    _, err = night.communicate(timeout=300)
    assert night.returncode == 0, err
    ended = box.night()
    assert ended.outcome == "inconclusive"
    assert ended.reason.startswith("stopped by a signal before")
    assert ended.figures
    assert (box.runs()[0] / "report" / "results.parquet").exists()


def test_a_failed_machine_ends_with_three_and_is_tried_again_if_not_too_late(box: Box) -> None:
    assert box.run(fake="none,fail")[0] == 3
    failed = box.night()
    assert failed.outcome == "machine failed"
    assert failed.reason.startswith("stream: application_failed: exit status 3: out of paper")
    assert [each.case for each in failed.failures] == ["stream"]
    (run,) = box.runs()
    header = json.loads((run / "run.json").read_text())
    header["started_s"] -= FRESH_AFTER_S + 60
    (run / "run.json").write_text(json.dumps(header))
    assert box.run()[0] == 0  # an old unfinished run is not resumed
    assert (box.night().outcome, len(box.runs())) == ("measured", 2)
    assert box.night().run == str(box.runs()[1])


def test_what_cannot_be_run_is_told_as_well(box: Box) -> None:
    box.nimc.write("name: small\n")
    told = box.folder / "told.json"
    assert box.run("--tell", f"cat > {told}")[0] == 2
    assert json.loads(told.read_text())["outcome"] == "not run"
    assert load(box.summaries()[0]).finished_s is not None


def test_a_loss_against_the_history_makes_the_night_slower(box: Box) -> None:
    """70 made nights before this one, the last of them and this one with a loss of 10 %."""
    assert box.run()[0] == 0
    (run,) = box.runs()
    table = pl.read_parquet(run / "report" / "results.parquet")
    usual = 1.1 * np.exp(0.01 * np.random.default_rng(5).standard_normal(70))
    usual[-(RECENT - 1) :] /= 1.1
    for days, factor in enumerate(usual.tolist()[::-1], 1):
        moved = [pl.col(name) - days * DAY_S for name in ("started_s", "finished_s")]
        made = table.with_columns(pl.col("fom") * factor, *moved, run=pl.lit(f"made-{days}"))
        folder = box.nimc.results / f"made-{days}" / "report"
        folder.mkdir(parents=True)
        made.write_parquet(folder / "results.parquet")
    box.summaries()[0].unlink()
    status, _, err = box.run()
    assert status == 1, err
    ended = box.night()
    assert ended.outcome == "slower"
    assert {(each.arm, each.quantity) for each in ended.alarms} == {("off", "fom"), ("on", "fom")}
    assert {(each.source, each.known) for each in ended.alarms} == {("history", False)}
    assert "% worse since" in ended.reason
