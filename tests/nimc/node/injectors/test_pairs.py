"""Writers in Python on a library of others: what they printed, and blocks of their writes."""

import os
import socket
import subprocess
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from nimc.base.processes import listener
from nimc.node.injectors import INJECTORS, pair
from nimc.node.injectors.base import Arrived, Fault, Row, Writer
from nimc.node.shared_memory import FOLDER_VARIABLE
from nimc.records.treatment import Burst
from tests.nimc.node.conftest import free_port, lasting, stop_for, wait_until

CAPTURES = Path(__file__).parents[3] / "captures"
MIB = 1 << 20
NAMES = ["sst", "mooncake"]


@pytest.fixture(params=NAMES)
def name(request):
    return request.param


@pytest.fixture
def installed(name):
    if reason := INJECTORS[name].missing():
        pytest.skip(reason)
    return name


def writer(**changes):
    return replace(Writer(0, "n1", "n1", "127.0.0.1", 20000, 4 * MIB), **changes)


def meanings(name, text):
    parser = INJECTORS[name].parser(writer())
    return [each for line in text.splitlines() if (each := parser.parse(line)) is not None]


def captured(name, capture):
    return meanings(name, (CAPTURES / name / f"{capture}.txt").read_text())


@pytest.mark.parametrize(
    ("name", "capture", "transport"),
    [
        # Over tcp on one host the target's processor receives: its time says so.
        *[(name, "full", "tcp+two-sided") for name in NAMES],
        *[(name, "limited_2e8", "tcp+two-sided") for name in NAMES],
        *[("mpi_put", mpi, "shared memory") for mpi in ("mpich", "openmpi")],
    ],
)
def test_rows_are_quarters_of_a_second_and_the_target_finds_as_much(name, capture, transport):
    found = captured(name, capture)
    rows = [each for each in found if isinstance(each, Row)]
    assert len(rows) >= 3
    assert min(row.over_s for row in rows) >= 0.25
    assert median(row.over_s for row in rows) < 0.5
    arrivals = [each for each in found if isinstance(each, Arrived)]
    assert arrivals[-1].transport == transport
    claimed_b = sum(row.rate_b_s * row.over_s for row in rows)
    if capture == "limited_2e8":
        assert claimed_b / sum(row.over_s for row in rows) <= 1.1 * 200e6
    late = 2 * max(row.rate_b_s * row.over_s for row in rows)
    assert arrivals[-1].bytes_b == pytest.approx(claimed_b, abs=late)


def test_a_killed_target_is_a_fault(name):
    faults = [each.text for each in captured(name, "target_killed") if isinstance(each, Fault)]
    assert faults[0] in ("the other end has gone", "the transfer engine failed to write")


def test_a_missing_library_names_its_extra(name, monkeypatch):
    monkeypatch.setattr(pair, "python_code", lambda _: ["false"])
    extra = {"sst": "adios2", "mooncake": "mooncake"}[name]
    assert f"'sh scripts/setup.sh {extra}'" in INJECTORS[name].missing()


# The pace, by a clock of the test.


def paced(monkeypatch, seconds, step_b, first_s=0.0, **pace):
    """When steps began: the first takes `first_s` once it is due, others no time."""
    now = [100.0]
    monkeypatch.setattr(pair.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pair.time, "sleep", lambda over_s: now.__setitem__(0, now[0] + over_s))
    steady = pair._Pace(pace["rate_b_s"], pace.get("burst", Burst(0.0, 0.0)))
    began = []
    while now[0] < 100 + seconds:
        begins = steady.wait(step_b)
        began.append((now[0] - 100, begins))
        now[0] += first_s if len(began) == 1 else 0.0
    return began


def test_an_origin_prints_rows_and_what_its_target_reports(monkeypatch, capsys):
    """At full rate, a step of 100 B takes a tenth of a second: rows come after three."""
    now = [100.0]
    monkeypatch.setattr(pair.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(pair.time, "process_time", lambda: now[0] / 2)
    near, far = socket.socketpair()
    with near, far:
        link, target = pair.Link(near), pair.Link(far)
        for bytes_b in (0, 5, 7):  # the second follows too soon
            target.report(bytes_b)
            now[0] += 0.125

        def put(before_b):
            now[0] += 0.1
            if before_b == 700:
                raise StopIteration

        ends = pair.Ends("", 0, 100, "", 0.0, Burst(0.0, 0.0))
        with pytest.raises(StopIteration):
            pair.write(ends, link, 100, put)
    at, lines = "by unshared memory, target sleeps,", capsys.readouterr().out.splitlines()
    assert sorted(lines) == [
        f"arrived 0 B {at} 0.000000 s of its processor",
        f"arrived 7 B {at} 0.125000 s of its processor",
        *["row 0.300000 s 300 B"] * 2,
    ]


def test_steps_are_spaced_evenly(monkeypatch):
    began = paced(monkeypatch, 0.95, 10, rate_b_s=100.0)
    assert [at_s for at_s, _ in began] == pytest.approx([0.1 * step for step in range(11)])


def test_steps_come_in_bursts_of_which_the_rate_is_the_mean(monkeypatch):
    """10 ms of 100: a tenth of a second has 10 steps of 1 B, at a rate of 1000 B/s within."""
    began = paced(monkeypatch, 0.299, 1, rate_b_s=100.0, burst=Burst(0.01, 0.09))
    expected = [0.1 * burst + 0.001 * step for burst in range(3) for step in range(10)]
    assert [at_s for at_s, _ in began[:30]] == pytest.approx(expected, abs=1.1e-3)
    assert sum(begins for _, begins in began[:30]) == 2  # the first has no pause before it


def test_a_late_step_is_made_up_for_a_quarter_of_a_second_at_most(monkeypatch):
    """A step takes 5 s, of which 100 a second were asked: 25 of 500 missing ones come at once."""
    began = paced(monkeypatch, 6, 1, first_s=5.0, rate_b_s=100.0)
    assert sum(at_s < 5.001 for at_s, _ in began) == pytest.approx(1 + 25, abs=1)
    assert len(began) == pytest.approx(1 + 25 + 100, abs=2)


# Ends and blocks.


def run_under(block, name, seconds=2, rate_b_s=None, **changes):
    writes = {"injector": name, "message_b": 4 * MIB, "rate_b_s": rate_b_s}
    return block(arms=["off", "on"], command=lasting(seconds), writes=writes, **changes)


@pytest.mark.parametrize("victim", [0, 1])
def test_each_end_exits_when_the_other_is_killed(installed, victim, tmp_path):
    """And leaves no file in the folder that its agent gives it."""
    told, injector = writer(port=free_port()), INJECTORS[installed]
    both = [start(injector.target_command(told), tmp_path)]
    wait_until(lambda: listener(told.port, both[0].pid) == "own")
    both.append(start(injector.origin_command(told), tmp_path))
    assert any(line.startswith(b"arrived") for line in both[1].stdout)
    both[victim].kill()
    for end in both:
        end.communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []


def start(command, folder):
    return subprocess.Popen(
        command,
        env={**os.environ, FOLDER_VARIABLE: str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.slow
def test_its_writes_are_proven_by_the_targets_memory_unless_it_stands_still(block, installed):
    running = run_under(block, installed, seconds=3, rate_b_s=5e7, pairs=2)
    running.started("1-on-0")
    stop_for(running.processes("\0target\0"), 2.0)
    first, second = (each for each in running.done().samples() if each["arm"] == "on")
    assert first["outcome"] == "kept", first["reason"]
    (found,) = first["writers"]
    assert (found["injector"], found["transport"]) == (installed, "tcp+two-sided")
    assert found["proof"] == "memory"
    assert 0 < found["rate_b_s"] < 1.15 * 5e7
    assert second["outcome"] == "rejected"
    assert "nothing for " in second["reason"]


#: In place of the origin's end: claims a rate, and puts nothing.
IDLE_END = """
import sys
if {"origin", "nimc.node.injectors.mooncake"} <= set(sys.orig_argv):
    import time
    from nimc.node.injectors import mooncake, pair
    mooncake._send = lambda ends, link: pair.write(
        ends, link, 1 << 20, lambda before_b: link.receive() if not before_b else time.sleep(0.01)
    )
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mooncake"])
def test_an_origin_that_claims_and_does_not_write_is_rejected(block, installed, tmp_path):
    """Its target looks at its own memory, where no mark moves."""
    (tmp_path / "sitecustomize.py").write_text(IDLE_END)
    sample = run_under(block, installed, python_path=str(tmp_path)).done().sample()
    assert sample["outcome"] == "rejected"
    assert "wrote nothing for " in sample["reason"]
