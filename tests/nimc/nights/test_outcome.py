"""One outcome for each way in which a night can end; maintenance that it would run into."""

from dataclasses import replace
from datetime import date, datetime
from pathlib import Path

import numpy as np
import pytest

from analysis.history.alarms import Acknowledgement, Alarm, AlarmState, acknowledge, survey
from nimc.base.errors import InputError
from nimc.base.programs import ProgramAnswer
from nimc.campaign.prepare import prepare
from nimc.cluster.reservation import parse
from nimc.nights import night
from nimc.nights.description import Night
from nimc.nights.measure import EndedRun, NightRuns, NightSession
from nimc.nights.night import NightRun, in_the_way, night_of
from nimc.nights.summary import (
    NightAlarm,
    NightFigure,
    Summary,
    judge_night,
    load,
    machine_lock,
    summary_text,
)
from nimc.records.chain import walk_run
from nimc.records.run import save_header
from nimc.run.folder import new_header
from nimc.run.runner import Failure
from tests.analysis.history.nights_table import night_rows, nights_table, runs_table
from tests.analysis.integrity.sound import edit_header
from tests.analysis.made_nights import made_alarm
from tests.nimc.conftest import CAMPAIGN
from tests.nimc.nights.made import FIGURES, TEXT, nightly, summary
from tests.nimc.stored import stored_run

ALARM = NightAlarm("stream", "off", "fom", "history", "stream lost 10 %")
FAILURE = Failure("snap", "no such binary")
OPEN = NightFigure("snap", "on", "slowdown", "1", "lower", 1.1, 0.9, 1.3, 6, "inconclusive")
STOPPED = EndedRun(143, stopped="its window ended")


@pytest.mark.parametrize(
    ("ended", "samples", "alarms", "failures", "figures", "expected"),
    [
        (EndedRun(0), 12, [], [], FIGURES, ("measured", "12 samples")),
        (EndedRun(0), 0, [], [], FIGURES, ("measured", "the night before had taken all samples")),
        (EndedRun(0), 12, [], [], [*FIGURES, OPEN], ("inconclusive", "undecided: snap")),
        (EndedRun(1), 12, [ALARM], [], [*FIGURES, OPEN], ("slower", "stream lost 10 %")),
        (
            EndedRun(1), 12, [ALARM, ALARM], [], FIGURES,
            ("slower", "stream lost 10 % (and 1 more)"),
        ),
        (EndedRun(3), 5, [ALARM], [FAILURE], [], ("machine failed", "snap: no such binary")),
        (EndedRun(3), 5, [], [FAILURE] * 3, [],
         ("machine failed", "snap: no such binary (and 2 more)")),
        (EndedRun(4, said="x"), 5, [], [], [],
         ("machine failed", "nimc run ended (status 4): x")),
        (EndedRun(3, said="squeue: gone"), 0, [], [], [], ("machine failed", "squeue: gone")),
        (EndedRun(2, said="c.yaml:1: no"), 0, [], [], [], ("not run", "c.yaml:1: no")),
        (EndedRun(2, said="a sample changed"), 9, [], [], [],
         ("machine failed", "a sample changed")),
        (EndedRun(-9, said="x"), 5, [], [], [],
         ("machine failed", "nimc run was killed by signal 9 (status -9): x")),
        (STOPPED, 0, [], [], [], ("not run", "its window ended before the first run: no node was"
         " free, or none worked")),
        (STOPPED, 5, [], [], [],
         ("inconclusive", "its window ended before all cases were measured")),
        (STOPPED, 5, [ALARM], [], [], ("slower", "stream lost 10 %")),
    ],
)  # fmt: skip
def test_a_night_ends_in_one_way(ended, samples, alarms, failures, figures, expected) -> None:
    assert judge_night(ended, samples, figures, alarms, failures) == expected


def test_what_has_been_seen_is_that_of_open_alarms_of_the_campaign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """10 % lost from night 79 on; in the other history the five nights after the alarm are good."""
    times = 100 * np.exp(0.01 * np.random.default_rng(27).standard_normal(87))
    times[79:82] *= 1.1
    monkeypatch.setattr(night, "load_runs", lambda *_, **__: runs_table({}))
    of = nightly(tmp_path)

    def seen(nights: int, campaign: str = "nightly") -> set[tuple[str, str, str]]:
        table = nights_table(*night_rows(times[:nights].tolist(), machine="localhost", arm="off"))
        monkeypatch.setattr(night, "load_nights", lambda *_, **__: table)
        found = survey(table, runs_table({})).alarms
        acknowledge(of.store, found, Acknowledgement("jane", "why", 1.75e9))
        return night.seen(of, campaign, pytest.fail)

    assert seen(86) == {("stream", "off", "fom")}
    assert seen(86, "other") == set()
    assert seen(87) == set()


MAINTENANCE = (
    "ReservationName=pm StartTime=2026-11-21T04:00:00 EndTime=2026-11-21T12:00:00 "
    "Duration=08:00:00 Nodes=node[1-4] NodeCnt=4 CoreCnt=8 Features=(null) PartitionName=(null) "
    "Flags=MAINT,SPEC_NODES,ALL_NODES TRES=cpu=8 Users=root Groups=(null) Accounts=(null) "
    "Licenses=(null) State=INACTIVE BurstBuffer=(null) Watts=n/a MaxStartDelay=(null)"
)
OTHER = MAINTENANCE.replace("MAINT,", "").replace("=pm ", "=class ")


def at(hour: int, minute: int = 0, day: int = 21) -> float:
    return datetime(2026, 11, day, hour, minute).timestamp()  # local, as Slurm prints


@pytest.mark.parametrize(
    ("start_s", "end_s", "expected"),
    [
        (at(22, day=20), at(5), True),
        (at(22, day=20), at(4, 1), True),
        (at(22, day=20), at(4), False),  # it begins when the night ends
        (at(6), at(8), True),  # it has begun
        (at(12), at(13), False),  # it is over
    ],
)
def test_a_night_must_end_before_maintenance(start_s: float, end_s: float, expected: bool) -> None:
    later = parse(MAINTENANCE.replace("=pm ", "=later ").replace("21T04:00", "21T04:30"))
    found = in_the_way([parse(OTHER), later, parse(MAINTENANCE)], start_s, end_s)
    assert (found.name if found else None) == ("pm" if expected else None)


class Nights:
    """A night within its window, whose runs are made up; what it said and was asked to run."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        (folder / "small.yaml").write_text(CAMPAIGN)
        self.folder, self.lines = folder, list[str]()
        self.options, self.repeated = list[tuple[str, ...]](), list[list[str]]()
        self.ended, self.now_s, self.slurm = EndedRun(3, said="gone"), 1000.0, False
        self.raised = list[list[Alarm]]()
        asked = prepare(folder / "small.yaml", "localhost")
        patch.setattr(night, "prepare", lambda *_: replace(asked, slurm=self.slurm))
        patch.setattr(NightSession, "measure", lambda *of: self.measure(*of))
        patch.setattr(NightSession, "repeat", self.repeat)
        patch.setattr(night, "raised", lambda *_: self.raised.pop(0))
        patch.setattr(night, "add_run", lambda *_, **__: None)

    def measure(self, session: NightSession, _: NightRuns, *options: str) -> EndedRun:
        assert session.end_s == self.until_s
        self.options.append(options)
        return self.ended

    def repeat(self, _: Path, alarms: list[Alarm]) -> list[str]:
        self.repeated.append([each.case for each in alarms])
        return ["not confirmed: x"]

    def run(self, at: Night | None = None, **described: str) -> Summary:
        when = at or Night(date(2026, 11, 20), 900.0, 9000.0)
        self.until_s = when.end_s
        text = TEXT.format(campaign=self.folder / "small.yaml", results=self.folder / "results")
        text = text.replace("budget: 2", f"budget: {described.pop('budget', '2')}")
        of = nightly(self.folder, text, **described)
        return NightRun(of, when, self.lines.append, lambda: self.now_s).run()


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Nights:
    return Nights(tmp_path, monkeypatch)


def test_a_night_that_failed_is_tried_again_with_the_budget_of_its_first_start(
    nights: Nights,
) -> None:
    first = nights.run()
    assert (first.outcome, first.reason, first.cases) == ("machine failed", "gone", ["stream"])
    assert (first.night, first.started_s, first.finished_s) == (date(2026, 11, 20), 1000.0, 1000.0)
    assert nights.lines == ["night 2026-11-20: machine failed: gone"]
    (path,) = (nights.folder / "results/nights").glob("*.json")
    assert load(path) == first
    assert path.with_suffix(".log").read_text() == f"nimc: {nights.lines[0]}\n"
    nights.now_s, nights.ended = 2000.0, EndedRun(0)
    again = nights.run(fresh_after="1001s")
    assert (again.outcome, again.started_s, again.finished_s) == ("measured", 1000.0, 2000.0)
    assert nights.options == [("--fresh",)] * 2  # there is no run to be resumed
    # It is done: neither run nor written again.
    assert (nights.run(), len(nights.options)) == (again, 2)
    path.write_text(summary_text(first))
    nights.run(fresh_after="1000s")
    assert load(path).started_s == 2000.0


def test_a_run_that_is_not_too_old_is_resumed(nights: Nights) -> None:
    new = new_header(prepare(nights.folder / "small.yaml", "localhost"))
    run = nights.folder / "results" / "begun"
    run.mkdir(parents=True)
    save_header(run, replace(new, run="begun", started_s=400.0))
    nights.run(fresh_after="600s")
    nights.run(fresh_after="599s")
    assert nights.options == [(), ("--fresh",)]


def test_a_night_is_not_run_beyond_its_budget_or_into_maintenance(
    nights: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Runs of 1 s are doubled for two rows of the writers: 2 s, and 2.1 s between runs. 8 s
    # of a block, a warm-up and 6 pairs of 3 runs of 4.1 s: 86 s of one node.
    line = r"box\.yaml:4: budget: 0\.01 node-hours found; allowed: from 0\.0239, which the plan"
    with pytest.raises(InputError, match=line):
        nights.run(budget="0.01")
    (path,) = (nights.folder / "results/nights").glob("*.json")
    assert (load(path).outcome, load(path).finished_s) == ("not run", 1000.0)
    monkeypatch.setattr(NightRuns, "used_node_h", lambda _: 0.01)
    refused = nights.run(budget="0.03")
    assert (refused.outcome, refused.reason) == (
        "not run", "0.02 node-hours are left; 0.0239 are needed"
    )  # fmt: skip
    assert nights.options == []
    nights.slurm, nights.now_s = True, at(2)
    window = Night(date(2026, 11, 20), at(22, day=20), at(5))
    monkeypatch.setattr(night.reservation, "find_all", lambda: [parse(MAINTENANCE)])
    kept = nights.run(window)
    assert kept.reason == "maintenance pm from 2026-11-21 04:00:00, on node[1-4]"
    assert (kept.outcome, nights.options) == ("not run", [])
    nights.run(replace(window, end_s=at(3)))
    assert nights.options == [("--fresh",)]


def test_a_night_beside_another_one_writes_its_own_summary_alone(nights: Nights) -> None:
    folder = nights.folder / "results/nights"
    folder.mkdir(parents=True)
    for holder, files in (("box", 0), ("other", 1)):
        with machine_lock(folder, "localhost", holder):
            busy = nights.run()
        assert (busy.outcome, busy.finished_s) == ("not run", 1000.0)
        assert busy.reason.startswith(f"another night is running on this machine: {holder}, proc")
        assert len(list(folder.glob("*.json"))) == files
    assert nights.options == []


def alarm(case: str, state: AlarmState, low: float | None = None) -> Alarm:
    """A loss of 50 %, of as much more at most as it is less at least."""
    ends = {"ratio_low": low, "ratio_high": None if low is None else 3.0 - low}
    of = {"case": case, "arm": "off", "since": "2026-11-19", "state": state}
    return made_alarm("2026-11-20", ratio=1.5, **ends, **of)


@pytest.mark.parametrize(
    ("confirm", "first", "then", "outcome"),
    [
        (True, ["suspected"], ["confirmed"], "slower"),
        (True, ["suspected", "confirmed"], ["dismissed", "dismissed"], "measured"),
        (False, ["suspected"], [], "slower"),
        (True, ["confirmed"], [], "slower"),
        (True, [], [], "measured"),
    ],
)
def test_suspected_alarms_are_repeated_and_dismissed_ones_left_out(
    nights: Nights, confirm: bool, first: list[AlarmState], then: list[AlarmState], outcome: str
) -> None:
    run = stored_run(nights.folder)
    nights.ended = EndedRun(0, {"run": str(run), "results": [1]})
    lists = [[alarm(str(at), state) for at, state in enumerate(each)] for each in (first, then)]
    nights.raised = list(lists)
    ended = nights.run(confirm=str(confirm).lower())
    assert ended.outcome == outcome
    assert nights.repeated == ([[str(at) for at in range(len(first))]] if then else [])
    assert len(ended.alarms) == (0 if outcome == "measured" else 1)
    assert all((each.source, each.acknowledged) == ("history", False) for each in ended.alarms)
    assert ended.run == str(run)
    assert ended.head == walk_run(run).head
    # Figures of the stored run: STREAM at half its rate with all writers.
    found = {(each.arm, each.quantity): each for each in ended.figures}
    assert found["off", "fom"].unit == "B/s"
    assert (nights.folder / "latest").resolve() == run.resolve()


def test_a_baseline_below_the_sites_reference_is_an_alarm(nights: Nights) -> None:
    run = stored_run(nights.folder)
    site = {"references": {"stream": 2e12}, "reference_tolerance": 0.1}
    edit_header(run, lambda head: head["facts"].update(site=site))
    nights.ended, nights.raised = EndedRun(1, {"run": str(run), "results": [1]}), [[]]
    ended = nights.run()
    (found,) = ended.alarms
    assert (ended.outcome, found.source) == ("slower", "reference")
    assert (found.case, found.arm, found.quantity) == ("stream", "off", "fom")
    assert "; 2e+12 B/s within 10% was expected" in ended.reason


def test_an_alarm_in_one_line() -> None:
    line = "stream off: fom 50 % worse than the machine's history{} since 2026-11-19, suspected"
    assert night.alarm_text(alarm("stream", "suspected")) == line.format("")
    bounds = alarm("stream", "suspected", 1.4)
    assert night.alarm_text(bounds) == line.format(" [40, 60]")


def test_what_follows_a_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing without a store; with one, old runs are removed and pages are made."""
    asked: list[list[str]] = []

    def ask(command: list[str], *_: object, **__: object) -> ProgramAnswer:
        asked.append(command[len(night.NIMC) :])
        return ProgramAnswer("nimc", len(asked) - 1, "", "nimc: x\nnimc: no")

    def refuse(*_: object, **__: object) -> None:
        raise InputError("r: no")

    monkeypatch.setattr(night, "ask", ask)
    monkeypatch.setattr(night, "add_run", refuse)
    of = nightly(tmp_path, retention="{age: 1d, size: 1GiB}", pages=f"{tmp_path}/pages")
    ended = summary()
    assert list(night.conclude(of, ended)) == ["store: r: no"]
    for not_begun in (replace(ended, run=None), replace(ended, finished_s=None)):
        assert list(night.conclude(of, not_begun)) == []
    of.store.mkdir(parents=True)
    assert list(night.conclude(of, ended)) == ["store: r: no", "nimc pages: no"]
    where = ["--results", f"{tmp_path}/results", "--store", f"{tmp_path}/results/store"]
    limits = ["--older-than", "86400.000000s", "--larger-than", f"{2**30}B", "--yes"]
    pages = ["pages", *where, "--output", f"{tmp_path}/pages"]
    assert asked == [["store", "prune", *where, *limits], pages]
    asked.clear()
    assert list(night.conclude(nightly(tmp_path), replace(ended, run=None))) == []
    assert asked == []


def test_only_a_scheduled_night_or_one_that_is_asked_for_is_run(tmp_path: Path) -> None:
    of = nightly(tmp_path)  # Mondays to Fridays from 22:00 to 05:00
    found = night_of(of, at(23, day=20), None)
    assert found
    assert (found.date, found.start_s) == (date(2026, 11, 20), at(22, day=20))
    assert night_of(of, at(23, day=21), None) is None
    made_up = night_of(of, 5000.0, date(2026, 11, 20))
    assert made_up == Night(date(2026, 11, 20), 5000.0, 5000.0 + 7 * 3600)
    for year in (1971, 9998):
        assert night_of(of, 0.0, date(year, 1, 1))
    for year in (1970, 9999):
        with pytest.raises(InputError, match=f"--night: {year}-01-01 found; allowed: years from"):
            night_of(of, 0.0, date(year, 1, 1))
    said = night.outside(of, at(23, day=21))
    assert (said.night, said.outcome, said.finished_s) == (
        date(2026, 11, 21), "not run", at(23, day=21)
    )  # fmt: skip
