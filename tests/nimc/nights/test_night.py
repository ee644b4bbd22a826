"""`nimc nights run` as a user sees it: how a night may end, and the files that it writes."""

import json
import resource
import signal
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from analysis.history.alarms import RECENT_NIGHTS
from nimc.nights.night import MAX_RESUMED_AGE_S
from nimc.nights.summary import BY_SIGNAL, UNFINISHED, Summary, load
from tests.commands import CAMPAIGN
from tests.messages import assert_message
from tests.nimc.nights.conftest import Box
from tests.waiting import wait_until

pytestmark = pytest.mark.slow

#: A campaign that takes minutes with the stand-in's fault `slow`.
LONG = CAMPAIGN.replace("floor: 6, cap: 6", "floor: 600, block: 600")
DAY_S = 86_400.0


def samples(box: Box) -> int:
    files = box.nimc.results.glob("small-localhost-*/samples/*.jsonl")
    return sum(file.read_text().count("\n") for file in files)


def test_a_night_measures_and_reports_by_all_means(box: Box) -> None:
    summary = box.folder / "told.json"
    options = ("--json", "--tell", f"cat > {summary}", "--metrics", str(box.folder))
    status, out, err = box.run(*options)
    assert status == 0, err
    night = box.night()
    (run,) = box.runs()
    # A warm-up and 6 pairs of 3 runs.
    assert (night.outcome, night.reason) == ("measured", "19 samples")
    assert (night.run, night.campaign, night.machine) == (str(run), "small", "localhost")
    figures = {(figure["arm"], figure["quantity"]): figure for figure in night.figures}
    off = figures["off", "fom"]
    assert (off["low"], off["value"], off["high"]) == pytest.approx(
        (1e10,) * 3
    )  # as the stand-in reports
    assert figures["on", "slowdown"]["value"] == pytest.approx(2.0)
    assert night.finished_s is not None
    assert json.loads(out) == json.loads(summary.read_text()) == night.as_dict()
    assert 'outcome="measured"} 1.0' in (box.folder / "nimc_small_localhost.prom").read_text()

    summary.unlink()
    status, _, err = box.run(*options)  # the scheduler started it once more
    assert status == 0
    assert f"night {night.night} is done: measured" in err
    assert (box.runs(), box.night(), summary.exists()) == ([run], night, False)

    _, out, err = box.run("--results", str(box.nimc.results))
    assert "no output" not in err
    rows = [line.split() for line in out.splitlines()]
    (slowdown,) = [row for row in rows if row[:3] == ["stream", "on", "slowdown"]]
    assert slowdown[3:7] == ["2.00", "2.00", "to", "2.00"]
    assert sum(row[:5] == ["stream", "off", "figure", "of", "merit"] for row in rows) == 1
    paths = dict(line.split(maxsplit=1) for line in out.splitlines() if ": " in line)
    assert paths == {
        "run:": str(run),
        "report:": str(run / "report" / "report.html"),
        "summary:": str(box.summaries()[0]),
    }


def test_a_night_has_the_name_of_its_campaign(box: Box) -> None:
    """The name is used even if the file has another name, and if the campaign cannot be run.

    An undelivered message of an earlier night with this name is then sent.
    """
    box.nimc.write("name: mini\n")
    assert box.run()[0] == 2
    assert [path.name.rpartition("-localhost")[0] for path in box.summaries()] == ["mini"]
    assert box.night().campaign == "mini"
    older = replace(box.night(), told=False)
    path = box.summaries()[0].with_name("small-localhost-2026-01-01.json")
    path.write_text(older.text)
    box.run("--tell", "cat >> told.json")
    assert load(path).told
    assert (box.folder / "told.json").read_text().count('"campaign": "mini"') == 2


def test_another_campaign_of_the_same_name_is_refused(box: Box) -> None:
    """It would find that the night is done, and would measure nothing.

    A copy of the same campaign in another file is accepted.
    """
    text = CAMPAIGN.replace("floor: 6, cap: 6", "floor: 8, cap: 8")
    other, copy = box.folder / "other.yaml", box.folder / "copy.yaml"
    other.write_text(text)
    copy.write_text((box.folder / "small.yaml").read_text())
    assert box.run()[0] == 0
    night = box.night()
    status, _, err = box.run(campaign="other.yaml")
    assert status == 2
    (line,) = err.splitlines()
    assert_message(
        line.removeprefix("nimc: "), f"{other}: name", allowed=str(box.folder / "small.yaml")
    )
    status, _, err = box.run(campaign="copy.yaml")
    assert (status, box.night(), len(box.runs())) == (0, night, 1)
    assert f"night {night.night} is done: measured" in err


def test_a_message_that_could_not_be_sent_is_sent_when_the_next_night_starts(box: Box) -> None:
    """The command of --tell is a shell line. It runs in the folder where the night was started."""
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


def test_a_killed_night_has_a_summary_and_is_resumed_by_the_next_start(box: Box) -> None:
    night = box.start(faults="stuck")
    wait_until(lambda: samples(box) >= 7, process=night)  # a warm-up, and two pairs of three
    night.send_signal(signal.SIGKILL)
    night.communicate()
    killed = box.night()
    assert (killed.outcome, killed.reason, killed.finished_s) == (
        "machine failed", UNFINISHED, None
    )  # fmt: skip
    status, _, err = box.run()
    assert status == 0, err
    assert (box.night().outcome, len(box.runs())) == ("measured", 1)


def terminated_night(box: Box, samples_before: int) -> Summary:
    """Return the summary of a night that is terminated after so many samples."""
    process = box.start(faults="slow")
    wait_until(lambda: samples(box) >= samples_before, process=process)
    process.terminate()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return box.night()


def test_a_terminated_night_stops_and_writes_its_report(box: Box) -> None:
    box.nimc.write(LONG)
    ended = terminated_night(box, 20)
    assert ended.outcome == "inconclusive"
    assert ended.reason.startswith("stopped by a signal before")
    assert ended.figures
    assert (box.runs()[0] / "report" / "results.parquet").exists()


def test_a_night_that_a_signal_stopped_is_resumed_and_then_done(box: Box) -> None:
    stopped = terminated_night(box, 5)
    assert (stopped.outcome, stopped.stopped) == ("inconclusive", "stopped by a signal")
    status, _, err = box.run()
    assert status == 0, err
    assert f"night {stopped.night} goes on; so far: inconclusive" in err
    resumed = box.night()
    # The samples of both starts are counted.
    assert (resumed.outcome, resumed.reason) == ("measured", f"{samples(box)} samples")
    assert (resumed.stopped, resumed.started_s) == (None, stopped.started_s)
    assert [str(run) for run in box.runs()] == [resumed.run]
    _, _, err = box.run()
    assert f"night {resumed.night} is done: measured" in err
    assert box.night() == resumed


def test_a_night_whose_machine_failed_exits_with_3_and_is_tried_again(box: Box) -> None:
    assert box.run(faults="none,fail")[0] == 3
    failed = box.night()
    assert failed.outcome == "machine failed"
    assert failed.reason.startswith("stream: application_failed: exit status 3: out of paper")
    assert [failure.case for failure in failed.failures] == ["stream"]
    (run,) = box.runs()
    header = json.loads((run / "run.json").read_text())
    header["started_s"] -= MAX_RESUMED_AGE_S + 60
    (run / "run.json").write_text(json.dumps(header))
    assert box.run()[0] == 0  # an old unfinished run is not resumed
    assert (box.night().outcome, len(box.runs())) == ("measured", 2)
    assert box.night().run == str(box.runs()[1])


def test_a_second_start_of_a_night_in_progress_leaves_it_alone(box: Box) -> None:
    night = box.start(faults="stuck")
    wait_until(lambda: samples(box) >= 7, process=night)  # a warm-up, and two pairs of three
    before = {path: path.read_bytes() for path in box.summaries()}
    message = box.folder / "told.json"
    options = ("--json", "--tell", f"cat > {message}")
    status, out, err = box.run(*options)
    assert (status, json.loads(out)["outcome"]) == (0, "not run")
    assert f"another nimc (process {night.pid}) runs a night of small on localhost" in err
    assert {path: path.read_bytes() for path in box.summaries()} == before
    assert not message.exists()
    assert not [*box.runs()[0].glob("report")]
    # The night of yesterday may be in progress, too: this night has a summary that says so.
    (path,) = before
    path.rename(path.with_name("small-localhost-2026-01-02.json"))
    status, _, err = box.run(*options)
    assert (status, json.loads(message.read_text())["outcome"]) == (0, "not run")
    assert len(box.summaries()) == 2
    # A summary of tonight, such as that of an earlier start, is kept.
    message.unlink()
    before = {path: path.read_bytes() for path in box.summaries()}
    assert box.run(*options)[0] == 0
    assert {path: path.read_bytes() for path in box.summaries()} == before
    assert not message.exists()
    night.terminate()
    night.communicate(timeout=300)


def test_a_message_is_sent_even_if_no_summary_can_be_written(box: Box) -> None:
    """A limit on the size of files stands in for a full disk."""
    message = box.folder / "told.json"
    limit = (400, resource.RLIM_INFINITY)
    night = box.start(
        "--tell", f"ulimit -f unlimited; cat > {message}",
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit),
    )  # fmt: skip
    _, err = night.communicate(timeout=300)
    assert night.returncode == 3, err
    assert "not written: " in err
    assert "File too large" in err
    assert "Traceback" not in err
    assert json.loads(message.read_text())["outcome"] == "machine failed"


def test_a_message_is_sent_even_if_the_campaign_cannot_be_run(box: Box) -> None:
    box.nimc.write("name: small\n")
    summary = box.folder / "told.json"
    assert box.run("--tell", f"cat > {summary}")[0] == 2
    assert json.loads(summary.read_text())["outcome"] == "not run"
    assert load(box.summaries()[0]).finished_s is not None


def test_a_loss_against_the_history_makes_the_night_slower(box: Box) -> None:
    """Before this night, there are 70 synthetic nights. The last few of them and this night are
    10 % slower than the others."""
    assert box.run()[0] == 0
    (run,) = box.runs()
    table = pl.read_parquet(run / "report" / "results.parquet")
    usual = 1.1 * np.exp(0.01 * np.random.default_rng(5).standard_normal(70))
    usual[-(RECENT_NIGHTS - 1) :] /= 1.1
    for days, factor in enumerate(usual.tolist()[::-1], 1):
        moved = [pl.col(name) - days * DAY_S for name in ("started_s", "finished_s")]
        night_table = table.with_columns(pl.col("fom") * factor, *moved, run=pl.lit(f"made-{days}"))
        folder = box.nimc.results / f"made-{days}" / "report"
        folder.mkdir(parents=True)
        night_table.write_parquet(folder / "results.parquet")
    box.summaries()[0].unlink()
    status, _, err = box.run()
    assert status == 1, err
    ended = box.night()
    assert ended.outcome == "slower"
    assert {(alarm.arm, alarm.quantity) for alarm in ended.alarms} == {
        ("off", "fom"),
        ("on", "fom"),
    }
    assert {(alarm.source, alarm.known) for alarm in ended.alarms} == {("history", False)}
    assert "% worse since" in ended.reason

    # After a signal the same night continues; alarms that it has reported are not new.
    box.summaries()[0].write_text(replace(ended, stopped=BY_SIGNAL).text)
    assert box.run()[0] == 1
    assert {alarm.known for alarm in box.night().alarms} == {True}
    assert len(box.night().alarms) == len(ended.alarms)
