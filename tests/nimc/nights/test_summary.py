"""The summary of a night: its outcome, its document, its metrics and its alarms."""

import json
import os
import signal
import subprocess
from dataclasses import replace
from datetime import date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace as StandIn

import pytest

from analysis.history.alarms import Alarm, BelowReference
from nimc.nights import night as nights
from nimc.nights.night import (
    NightRun,
    alarms_of,
    earlier_alarms,
    environment,
    is_done,
    marked_known,
    new_sample_count,
    night_until,
    tell,
)
from nimc.nights.summary import (
    EndedRun,
    NightAlarm,
    judge_night,
    load,
    load_all,
    make_path,
    prometheus_text,
)
from nimc.run.runner import Failure
from records.checkout import python_code
from records.errors import InputError
from tests.analysis.synthetic import STREAM, samples, write_run
from tests.nimc.checkouts import program
from tests.nimc.nights.made import FIGURES, SUMMARY, figure, summary

ALARM = NightAlarm(
    case="stream", arm="off", quantity="fom", source="history", text="stream lost 10 %"
)
FAILURE = Failure("snap", "no such binary")
UNDECIDED = figure("snap", "on", "slowdown", "1", "lower", 1.1, 0.9, 1.3, "inconclusive")
STOPPED = EndedRun(143, stop_reason="its time ended")


@pytest.mark.parametrize(
    ("ended", "samples", "alarms", "failures", "figures", "expected"),
    [
        (EndedRun(0), 12, [], [], FIGURES, ("measured", "12 samples")),
        (EndedRun(0), 0, [], [], FIGURES, ("measured",
         "no new samples: the run had all of them before the night began")),
        (EndedRun(0), 12, [], [], [*FIGURES, UNDECIDED], ("inconclusive", "undecided: snap")),
        (EndedRun(1), 12, [ALARM], [], [*FIGURES, UNDECIDED], ("slower", "stream lost 10 %")),
        (
            EndedRun(1), 12, [ALARM, ALARM], [], FIGURES,
            ("slower", "stream lost 10 % (and 1 more)"),
        ),
        (EndedRun(3), 5, [ALARM], [FAILURE], [], ("machine failed", "snap: no such binary")),
        (EndedRun(3), 5, [], [FAILURE] * 3, [],
         ("machine failed", "snap: no such binary (and 2 more)")),
        (EndedRun(4, message="x"), 5, [], [], [],
         ("machine failed", "the run ended (status 4): x")),
        (EndedRun(3, message="squeue: gone"), 0, [], [], [], ("machine failed", "squeue: gone")),
        (EndedRun(2, message="c.yaml:1: no"), 0, [], [], [], ("not run", "c.yaml:1: no")),
        (EndedRun(2, message="a sample changed"), 9, [], [], [],
         ("machine failed", "a sample changed")),
        (EndedRun(-9, message="x"), 5, [], [], [],
         ("machine failed", "the run was killed by signal 9 (status -9): x")),
        (STOPPED, 0, [], [], [], ("not run", "its time ended before the first sample")),
        (STOPPED, 5, [], [], [],
         ("inconclusive", "its time ended before all cases were measured")),
        (STOPPED, 5, [ALARM], [], [], ("slower", "stream lost 10 %")),
    ],
)  # fmt: skip
def test_outcome_and_reason_of_a_night(ended, samples, alarms, failures, figures, expected):
    night = summary(figures=figures, alarms=alarms, failures=failures)
    assert judge_night(ended, samples, night) == expected


def test_a_night_ends_at_the_given_time_of_day_and_has_the_date_of_its_evening():
    for start, end, night in (
        (datetime(2026, 11, 20, 22, 0), datetime(2026, 11, 21, 5), date(2026, 11, 20)),
        (datetime(2026, 11, 21, 0, 30), datetime(2026, 11, 21, 5), date(2026, 11, 20)),
        (datetime(2026, 11, 21, 5, 0), datetime(2026, 11, 22, 5), date(2026, 11, 21)),
    ):
        assert night_until("05:00", start) == (end.timestamp(), night)
    for hour, day in ((22, 20), (24, 20), (24 + 11, 20), (24 + 12, 21)):
        start = datetime(2026, 11, 20) + timedelta(hours=hour)
        assert night_until(None, start) == (None, date(2026, 11, day))
    for wrong in ("5", "25:00", "05:00:00", ""):
        with pytest.raises(InputError, match=r"--until: .* found; allowed: a time of day"):
            night_until(wrong, start)


def test_a_written_summary_is_read_unchanged(tmp_path):
    path = make_path(tmp_path, "small", "m1", date(2026, 11, 20))
    assert path == tmp_path / "nights" / "small-m1-2026-11-20.json"
    path.write_text(SUMMARY.text)
    assert load(path) == SUMMARY
    assert json.loads(path.read_text())["night"] == "2026-11-20"
    newer = path.with_name("small-m1-2026-11-21.json")
    newer.write_text(SUMMARY.text.replace('"schema": 2', '"schema": 3'))
    spoilt = path.with_name("small-m1-2026-11-22.json")
    spoilt.write_text(SUMMARY.text.replace('"slower"', '"fine"'))
    missing = path.with_name("small-m1-2026-11-23.json")
    missing.symlink_to("nowhere")
    summaries, left_out = load_all([tmp_path, tmp_path / "none"])
    assert summaries == [SUMMARY]
    assert left_out[0].startswith(f"{newer}: schema: 3 found; allowed: 2")
    assert left_out[1].startswith(f"{spoilt}: outcome")
    assert left_out[2] == f"{missing}: No such file or directory"


def test_metrics_are_gauges_in_base_units_with_escaped_labels():
    lines = prometheus_text(summary(machine='m"1\\')).splitlines()
    assert all(line.startswith(("# TYPE nimc_night_", "nimc_night_")) for line in lines)
    labels = 'machine="m\\"1\\\\",campaign="small"'
    assert f'nimc_night_outcome{{{labels},outcome="slower"}} 1.0' in lines
    assert f'nimc_night_outcome{{{labels},outcome="measured"}} 0.0' in lines
    assert f"nimc_night_finished_timestamp_seconds{{{labels}}} 1795215600.0" in lines
    assert f"nimc_night_alarms{{{labels}}} 1.0" in lines
    slowdown = 'case="stream",arm="on",quantity="slowdown",unit="1"'
    assert f"nimc_night_value{{{labels},{slowdown}}} 2.0" in lines
    assert f"nimc_night_low{{{labels},{slowdown}}} 1.9" in lines
    # One of the three figures has no interval.
    assert sum(line.startswith("nimc_night_low{") for line in lines) == 2
    unfinished = prometheus_text(summary(finished_s=None))
    assert "finished" not in unfinished


def test_the_sites_command_gets_the_document_and_its_failure_is_reported_in_one_line(tmp_path):
    received = tmp_path / "received.json"
    assert tell(SUMMARY, f"cat > {received}", None) == []
    assert received.read_text() == SUMMARY.text
    (line,) = tell(SUMMARY, "echo no mail >&2; exit 3", None)
    assert line.startswith("--tell: echo no mail >&2; exit 3: exit status 3")
    assert "no mail" in line
    (line,) = tell(SUMMARY, "/nowhere/mail", None)
    assert line.startswith("--tell: /nowhere/mail: ")
    assert tell(SUMMARY, "", tmp_path) == []
    metrics = tmp_path / "nimc_small_m1.prom"
    assert metrics.read_text() == prometheus_text(SUMMARY)
    assert metrics.stat().st_mode & 0o777 == 0o644  # node_exporter reads it as another user
    (line,) = tell(SUMMARY, "", tmp_path / "none")
    assert line.startswith("--metrics: ")


def test_alarms_come_from_references_and_from_the_history():
    below = BelowReference(
        machine="m",
        campaign="small",
        case="stream",
        night="2026-11-20",
        run="run-2",
        text="slower than 2 B/s",
    )
    alarm = Alarm(
        machine="m",
        campaign="small",
        case="stream",
        arm="on",
        quantity="fom",
        since="2026-11-19",
        night="2026-11-20",
        run="run-2",
        ratio=1.5,
        ratio_now=1.5,
        open=True,
        changed=[],
    )
    assert alarms_of([below], [alarm], date(2026, 11, 20)) == [
        NightAlarm(
            case="stream",
            arm="off",
            quantity="fom",
            source="reference",
            text="stream: slower than 2 B/s",
        ),
        NightAlarm(
            case="stream",
            arm="on",
            quantity="fom",
            source="history",
            text="stream on fom: 50.0 % worse since 2026-11-19",
        ),
    ]
    assert alarms_of([], [alarm], date(2026, 11, 21))[0].known


def test_a_night_stops_its_child_process_when_its_time_ends_and_after_a_signal(tmp_path):
    tonight = {
        "campaign": tmp_path / "small.yaml",
        "machine": "localhost",
        "results": tmp_path,
        "night": date(2026, 11, 20),
    }
    for end_s, signum, why in (
        (1.0e9, None, "its time ended"),
        (9.0e9, signal.SIGTERM, "stopped by a signal"),
    ):
        night = NightRun(**tonight, log=print, end_s=end_s)
        child = subprocess.Popen(["sleep", "60"])
        assert night.attend(child, StandIn(wait=lambda _: None, signum=signum), str) == why
        assert child.returncode == -signal.SIGTERM
    child = subprocess.Popen(["sleep", "0.2"])
    lines: list[str] = []
    night = NightRun(**tonight, log=lines.append, end_s=9.0e9)
    progress = ["", "4 of 10 runs", "5 of 10 runs"]
    interrupts = StandIn(wait=lambda _: child.wait() if len(progress) < 2 else None, signum=None)
    assert night.attend(child, interrupts, lambda: progress.pop(0)) is None
    assert lines == ["4 of 10 runs"]  # the next line is due a minute later


def test_a_night_that_is_done_is_neither_run_nor_reported_again(tmp_path):
    lines: list[str] = []
    night = NightRun(
        campaign=tmp_path / "small.yaml",
        machine="m1",
        results=tmp_path,
        log=lines.append,
        end_s=None,
        night=SUMMARY.night,
        tell_command=f"touch {tmp_path}/told",
    )
    night.path.write_text(SUMMARY.text)
    assert night.run() == SUMMARY
    assert lines == [f"night 2026-11-20 is done: slower; {night.path}"]
    # A night that was killed is tried again. Here the file of its campaign is gone.
    night.path.write_text(summary(finished_s=None).text)
    assert not (tmp_path / "told").exists()
    with pytest.raises(InputError, match=r"small\.yaml: No such file"):
        night.run()
    ended = load(night.path)
    assert (ended.outcome, ended.run) == ("not run", None)
    assert ended.finished_s is not None
    assert ended.reason in lines[-1]
    assert (tmp_path / "told").exists()


def test_a_night_is_resumed_if_a_signal_or_a_failure_ended_it():
    cases = [
        ("inconclusive", "stopped by a signal", 1.0, False),
        ("slower", "stopped by a signal", 1.0, False),
        ("inconclusive", "its time ended", 1.0, True),
        ("slower", "its time ended", 1.0, True),
        ("inconclusive", None, 1.0, True),
        ("measured", None, 1.0, True),
        ("not run", "its time ended", 1.0, False),
        ("machine failed", None, 1.0, False),
        ("machine failed", None, None, False),
    ]
    for outcome, stopped, finished_s, done in cases:
        night = summary(outcome=outcome, stopped=stopped, finished_s=finished_s)
        assert is_done(night) == done, (outcome, stopped)


def test_an_alarm_is_new_until_it_was_reported_even_if_its_night_is_resumed():
    delivered, undelivered = summary(alarms=[ALARM]), summary(alarms=[ALARM], told=False)
    other = replace(ALARM, arm="on")
    known = replace(ALARM, known=True)
    assert marked_known([ALARM, other], earlier_alarms(delivered)) == [known, other]
    assert marked_known([ALARM], earlier_alarms(undelivered)) == [ALARM]
    # The next start continues the night, but is killed before it reports.
    for first, third in ((delivered, known), (undelivered, ALARM)):
        killed = summary(alarms=earlier_alarms(first), finished_s=None)
        assert marked_known([ALARM], earlier_alarms(killed)) == [third]


def test_samples_since_a_time_are_counted_without_an_incomplete_line(tmp_path):
    run = write_run(tmp_path / "run", run_samples := samples(STREAM, pairs=6))
    with (run / "samples" / "stream.jsonl").open("a") as file:
        file.write('{"star')
    starts_s = sorted(sample.start_s for sample in run_samples)
    assert [new_sample_count(run, since_s) for since_s in (0.0, starts_s[-3])] == [
        len(run_samples),
        3,
    ]
    assert new_sample_count(tmp_path / "none", 0.0) == 0


def test_jobs_that_a_night_submits_do_not_inherit_variables_of_the_nights_own_job(monkeypatch):
    kept_names = ("SLURM_CONF", "SLURM_CLUSTERS", "OTHER")
    for name in ("SLURM_JOB_ID", "SLURMD_NODENAME", "SBATCH_ACCOUNT", *kept_names):
        monkeypatch.setenv(name, "x")
    kept = {name for name, value in environment().items() if value == "x"}
    assert kept == {*kept_names}


#: Code of a `nimc run` that begins a run and is killed.
KILLED_RUN = """\
import os, signal, sys
from pathlib import Path
from nimc.campaign.request import load_request
from nimc.run.folder import new_header, open_run
_, _, campaign, _, machine, _, results, *_ = sys.argv
with open_run(Path(results), new_header(load_request(Path(campaign), machine))):
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_jobs_of_a_run_that_was_killed_are_cancelled(tmp_path, monkeypatch):
    """squeue lists a job in the run's folder until scancel has cancelled it."""
    results = tmp_path / "results"
    job = f'for run in {results}/c-*; do echo "7|R|2026-11-23T20:00:00|None|$run/logs"; done'
    program(tmp_path, "squeue", f"[ -e {tmp_path}/cancelled ] || {job}")
    program(tmp_path, "scancel", f"echo $* >> {tmp_path}/cancelled")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(nights, "NIMC_COMMAND", python_code(KILLED_RUN))
    campaign = tmp_path / "c.yaml"
    campaign.write_text("name: c\nworkloads: [{check: stream, expect: 1s}]\narms: [off, aa]\n")
    night = NightRun(
        campaign=campaign,
        machine="example_slurm",
        results=results,
        log=print,
        end_s=None,
        night=SUMMARY.night,
    )
    ended = night.run()
    assert (ended.outcome, Path(ended.run).parent) == ("machine failed", results)
    assert "killed by signal 9" in ended.reason
    assert (tmp_path / "cancelled").read_text() == "7\n"
