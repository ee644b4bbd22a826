"""One outcome for each way in which a night can end; maintenance that it would run into."""

from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from analysis.history.alarms import Acknowledgement, acknowledge, survey
from nimc.base.errors import MachineError
from nimc.cluster.reservation import find_all, parse
from nimc.nights import night
from nimc.nights.measure import EndedRun
from nimc.nights.night import in_the_way
from nimc.nights.summary import NightAlarm, NightFigure, judge_night
from nimc.run.runner import Failure
from tests.analysis.history.nights_table import night_rows, nights_table, runs_table
from tests.nimc.nights.made import FIGURES, nightly

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


def test_all_reservations_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def say(text: str) -> None:
        (tmp_path / "scontrol").write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / "scontrol").chmod(0o755)

    say(f'[ "$*" = "-o show reservation" ] && echo "{OTHER}" && echo "{MAINTENANCE}"')
    assert [each.flags[:1] for each in find_all()] == [["SPEC_NODES"], ["MAINT"]]
    say("echo No reservations in the system")
    assert find_all() == []
    say("echo cannot contact controller >&2; exit 1")
    with pytest.raises(MachineError, match="scontrol: exit status 1: cannot contact contr"):
        find_all()
