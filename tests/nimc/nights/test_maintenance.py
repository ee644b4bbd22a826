"""Maintenance that a night would run into; lines as Slurm 22.05 prints them."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from nimc.base.errors import MachineError
from nimc.cluster.reservation import find_all, parse
from nimc.nights.night import in_the_way

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
    found = in_the_way([parse(OTHER), parse(MAINTENANCE)], start_s, end_s)
    assert (found.name if found else None) == ("pm" if expected else None)


def test_the_first_one_is_named() -> None:
    later = parse(MAINTENANCE)
    sooner = parse(MAINTENANCE.replace("=pm ", "=sooner ").replace("21T04:00", "21T03:00"))
    found = in_the_way([later, sooner], at(22, day=20), at(5))
    assert found is sooner


@pytest.fixture
def scontrol(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "scontrol"
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return program


def say(program: Path, text: str) -> None:
    program.write_text(f"#!/bin/sh\n{text}\n")
    program.chmod(0o755)


def test_all_reservations_are_asked_for(scontrol: Path) -> None:
    say(scontrol, f'[ "$*" = "-o show reservation" ] && echo "{OTHER}" && echo "{MAINTENANCE}"')
    assert [each.flags[:1] for each in find_all()] == [["SPEC_NODES"], ["MAINT"]]
    say(scontrol, "echo No reservations in the system")
    assert find_all() == []
    say(scontrol, "echo cannot contact controller >&2; exit 1")
    with pytest.raises(MachineError, match="scontrol: exit status 1: cannot contact contr"):
        find_all()
