"""Reservations of origin nodes: lines that Slurm 22.05 prints, and commands that make them."""

import re
import time
from dataclasses import replace
from datetime import datetime

import pytest

from nimc.readiness.reservation import (
    check,
    create,
    create_command,
    remove,
    shortcomings,
)
from records.errors import InputError, MachineError
from records.machine.site import Machine
from records.programs import ProgramAnswer
from records.slurm.client import find_reservation
from records.slurm.parse import parse_reservation
from tests.messages import assert_message
from tests.nimc.checkouts import program
from tests.nimc.cluster.reservation_lines import LINE
from tests.records.machine.made import machine

HALF_AN_HOUR_BEFORE_ITS_END = datetime(2026, 11, 21, 4, 55, 28)


def reserved_machine(
    *, reservation: str | None = "nimc", partition: str | None = "origin", nodes: int = 1
) -> Machine:
    """Return a machine whose origins are in a reservation."""
    origins = {
        "policy": "reservation",
        "reservation": reservation,
        "partition": partition,
        "nodes": nodes,
    }
    return machine(origins=origins)


def faults_of(line: str, *, nodes: int = 1, needed_s: float = 60, user: str = "root") -> list[str]:
    """Return why the reservation in a line is not enough, half an hour before its end."""
    reservation = parse_reservation(line)
    return shortcomings(reservation, nodes, needed_s, user, [], HALF_AN_HOUR_BEFORE_ITS_END)


def test_slurms_line_is_read():
    reservation = parse_reservation(LINE)
    assert (reservation.name, reservation.nodes, reservation.node_count) == ("nimc", "node4", 1)
    assert (reservation.state, reservation.users, reservation.flags) == ("ACTIVE", ["root"], [])
    assert (reservation.end - reservation.start).total_seconds() == 3600


def test_a_reservation_suffices_until_its_end():
    assert faults_of(LINE, needed_s=1800) == []
    (fault,) = faults_of(LINE, needed_s=1801)
    assert " 30 min" in fault


def test_an_hour_is_missing_on_the_night_when_clocks_go_forward(monkeypatch):
    """In Berlin, it is 5 hours from 23:00 on 28 March 2026 to 05:00, by the clock 6."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        ends = replace(parse_reservation(LINE), end=datetime(2026, 3, 29, 5))
        evening = datetime(2026, 3, 28, 23)
        assert shortcomings(ends, 1, 5 * 3600, "root", [], evening) == []
        assert len(shortcomings(ends, 1, 5 * 3600 + 1, "root", [], evening)) == 1
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.parametrize(
    ("line", "nodes", "needed_s", "user", "values"),
    [
        (LINE, 1, 5400, "root", ["30 min", "90 min"]),
        (LINE, 2, 60, "root", ["1", "2"]),
        (LINE, 1, 60, "ada", ["root", "ada"]),
        (LINE.replace("ACTIVE", "INACTIVE"), 1, 60, "root", ["INACTIVE"]),
    ],
)
def test_why_a_reservation_does_not_suffice_is_one_line(line, nodes, needed_s, user, values):
    (fault,) = faults_of(line, nodes=nodes, needed_s=needed_s, user=user)
    assert fault.startswith("reservation nimc ")
    for value in values:
        assert re.search(rf"\b{value}\b", fault)


def test_the_command_reserves_nodes_of_a_partition_or_named_ones():
    words = create_command(reserved_machine(nodes=3), 90, None, "ada")
    assert words == [
        "scontrol",
        "create",
        "reservation",
        "ReservationName=nimc",
        "StartTime=now",
        "Duration=90",
        "Users=ada",
        "PartitionName=origin",
        "NodeCnt=3",
    ]
    named = create_command(reserved_machine(), 90, "n[1-2]", "ada")
    assert named[-1] == "Nodes=n[1-2]"
    assert "PartitionName=origin" not in named


@pytest.mark.parametrize(
    ("box", "key"),
    [
        (reserved_machine(reservation=None), "origins.reservation"),
        (reserved_machine(partition=None), "origins.partition"),
    ],
)
def test_a_key_of_the_site_file_that_the_command_needs_is_named(box, key):
    with pytest.raises(InputError) as error:
        create_command(box, 90, None, "ada")
    assert_message(str(error.value), f"site/box.yaml: {key}")


@pytest.fixture
def relative_times(tmp_path, monkeypatch):
    """Sets up a user for whom Slurm prints relative times. The only reservation is `nimc`."""
    relative = LINE.replace("2026-11-21T", "Tomorr ")
    script = (
        '[ "$4" = none ] && echo "Reservation none not found" >&2 && exit 1\n'
        f'[ "$SLURM_TIME_FORMAT" = standard ] && echo "{LINE}" || echo "{relative}"'
    )
    program(tmp_path, "scontrol", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")


@pytest.mark.usefixtures("relative_times")
def test_a_reservation_is_found_even_if_slurm_prints_relative_times():
    assert find_reservation("nimc") == parse_reservation(LINE)
    assert find_reservation("none") is None


@pytest.mark.usefixtures("relative_times")
def test_a_reservation_that_ends_too_early_or_does_not_exist_is_refused():
    with pytest.raises(MachineError, match=r"^reservation nimc "):
        check(reserved_machine(), 1, needed_s=1e12)
    with pytest.raises(MachineError, match=r"^reservation none .* origins create "):
        check(reserved_machine(reservation="none"), 1, needed_s=0)


@pytest.mark.usefixtures("relative_times")
def test_other_origins_need_no_reservation():
    assert check(machine("same_host"), 1, needed_s=0) is None


def test_a_reservation_that_suffices_is_returned(monkeypatch):
    monkeypatch.setattr("records.slurm.client.find_reservation", lambda _: parse_reservation(LINE))
    monkeypatch.setattr("nimc.readiness.reservation.shortcomings", lambda *_: [])
    assert check(reserved_machine(), 1, needed_s=0) == parse_reservation(LINE)


@pytest.fixture
def scontrol(monkeypatch):
    """Return a function that sets the next answers of `scontrol`, and returns its commands."""

    def answer_with(*answers: ProgramAnswer) -> list[list[str]]:
        remaining, commands = [*answers], []

        def ask(command, _environment):
            commands.append(command)
            return remaining.pop(0)

        monkeypatch.setattr("records.slurm.client.ask", ask)
        return commands

    return answer_with


DONE = ProgramAnswer("scontrol", 0, "", "")
DENIED = ProgramAnswer("scontrol", 1, "", "scontrol: error: denied")


def test_a_new_reservation_is_returned_as_slurm_shows_it(scontrol):
    commands = scontrol(DONE, ProgramAnswer("scontrol", 0, LINE, ""))
    assert create(reserved_machine(), 90, None) == parse_reservation(LINE)
    assert commands[0][:3] == ["scontrol", "create", "reservation"]


def test_a_new_reservation_that_slurm_does_not_show_is_named(scontrol):
    scontrol(DONE, ProgramAnswer("scontrol", 1, "", "x not found"))
    with pytest.raises(MachineError, match=r" nimc$"):
        create(reserved_machine(), 90, None)


def test_a_reservation_is_removed_by_its_name(scontrol):
    commands = scontrol(DONE)
    remove(reserved_machine())
    assert commands == [["scontrol", "delete", "ReservationName=nimc"]]


def test_a_command_that_slurm_refuses_is_printed_for_an_operator(scontrol):
    scontrol(DENIED)
    with pytest.raises(MachineError, match=r"denied; .*: scontrol create reservation Reservation"):
        create(reserved_machine(), 90, None)
    scontrol(DENIED)
    with pytest.raises(MachineError, match=r"denied; .*: scontrol delete ReservationName=nimc$"):
        remove(reserved_machine())
