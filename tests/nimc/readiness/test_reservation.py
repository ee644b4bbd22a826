"""A line as Slurm 22.05 prints it (minicluster), and requests worked out by hand."""

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
from tests.nimc.checkouts import program
from tests.nimc.cluster.reservation_lines import LINE
from tests.records.machine import made

NOON = datetime(2026, 11, 21, 4, 55, 28)  # half an hour before the end


def machine(**origins: object) -> Machine:
    origin_fields = {
        "policy": "reservation",
        "reservation": "nimc",
        "partition": "origin",
        **origins,
    }
    return made.machine(origins=origin_fields)


def test_slurms_line_is_read():
    current = parse_reservation(LINE)
    assert (current.name, current.nodes, current.node_count) == ("nimc", "node4", 1)
    assert (current.state, current.users, current.flags) == ("ACTIVE", ["root"], [])
    assert (current.end - current.start).total_seconds() == 3600
    assert shortcomings(current, 1, 1800, "root", [], NOON) == []


@pytest.mark.parametrize(
    ("line", "nodes", "needed_s", "user", "expected"),
    [
        (LINE, 1, 5400, "root", "reservation nimc ends in 30 min; 90 min are needed"),
        (LINE, 1, 1801, "root", "ends in 30 min"),
        (LINE, 2, 60, "root", "holds 1 nodes; 2 are needed"),
        (LINE, 1, 60, "ada", "is for root, not for ada"),
        (LINE.replace("ACTIVE", "INACTIVE"), 1, 60, "root", "is INACTIVE"),
    ],
)
def test_what_makes_it_useless_is_reported(line, nodes, needed_s, user, expected):
    (fault,) = shortcomings(parse_reservation(line), nodes, needed_s, user, [], NOON)
    assert expected in fault


def test_the_operators_line_and_what_the_site_file_lacks_for_it():
    by_count = " ".join(create_command(machine(nodes=3), 90, None, "ada")[3:])
    assert by_count == (
        "ReservationName=nimc StartTime=now Duration=90 Users=ada PartitionName=origin NodeCnt=3"
    )
    assert create_command(machine(), 90, "n[1-2]", "ada")[-1] == "Nodes=n[1-2]"
    with pytest.raises(InputError, match=r"site/box\.yaml: origins\.reservation"):
        create_command(machine(reservation=None), 90, None, "ada")
    with pytest.raises(InputError, match=r"site/box\.yaml: origins\.partition"):
        create_command(machine(partition=None), 90, None, "ada")


def test_how_a_user_likes_times_does_not_matter(tmp_path, monkeypatch):
    script = (
        '[ "$4" = none ] && echo "Reservation none not found" >&2 && exit 1\n'
        '[ "$*" = "-o show reservation" ] && echo "No reservations in the system"\n'
        f'[ "$SLURM_TIME_FORMAT" = standard ] && echo "{LINE}"'
        f' || echo "{LINE.replace("2026-11-21T", "Tomorr ")}"'
    )
    program(tmp_path, "scontrol", script)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_TIME_FORMAT", "relative")
    assert find_reservation("nimc") == parse_reservation(LINE)
    assert find_reservation("none") is None
    with pytest.raises(MachineError, match="reservation nimc ends in"):
        check(machine(), 1, needed_s=1e12)
    with pytest.raises(MachineError, match="reservation none does not exist"):
        check(machine(reservation="none"), 1, needed_s=0)
    assert check(machine(policy="same_host"), 1, needed_s=0) is None


def test_what_slurm_refuses_an_operator_can_run(monkeypatch):
    answers = [(0, "", ""), (0, LINE, ""), (0, "", ""), (1, "", "x not found")]
    answers += [(1, "", "scontrol: error: denied"), (0, "", ""), (1, "", "denied")]
    commands = []

    def ask(command, _environment):
        commands.append(command)
        return ProgramAnswer("scontrol", *answers.pop(0))

    monkeypatch.setattr("records.slurm.client.ask", ask)
    assert create(machine(), 90, None) == parse_reservation(LINE)
    assert commands[0][:3] == ["scontrol", "create", "reservation"]
    with pytest.raises(MachineError, match="Slurm does not show the new reservation nimc"):
        create(machine(), 90, None)
    with pytest.raises(MachineError, match="denied; an operator can run: scontrol create reserv"):
        create(machine(), 90, None)
    remove(machine())
    assert commands[-1] == ["scontrol", "delete", "ReservationName=nimc"]
    with pytest.raises(MachineError, match=r"run: scontrol delete ReservationName=nimc$"):
        remove(machine())
    # One that is held until then can be used.
    monkeypatch.setattr("records.slurm.client.find_reservation", lambda _: parse_reservation(LINE))
    monkeypatch.setattr("nimc.readiness.reservation.shortcomings", lambda *_: [])
    assert check(machine(), 1, needed_s=0) == parse_reservation(LINE)
