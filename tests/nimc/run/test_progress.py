"""Counting runs, and the time left."""

from dataclasses import replace

import pytest

from nimc.run.progress import (
    Display,
    ExpectedTime,
    NewSamples,
    RunCounter,
    SessionPace,
    expected_total,
)

ACCEPTED = {"outcome": "accepted"}
REJECTED = {"outcome": "rejected"}
Err = pytest.CaptureFixture[str]


def counter(earlier_pace: SessionPace | None = None) -> RunCounter:
    """Ten runs of 4 s, after 10 s of preparation; 100 to 300 s of blocks after them."""
    more = {"run_s": 4.0, "started_s": 1000.0, "earlier_pace": earlier_pace or SessionPace()}
    return RunCounter(after_block=ExpectedTime(100.0, 300.0), block_runs=10, block_s=50.0, **more)


#: Two runs; the first comes late, as after a build: that is not the length of a run.
TWO = [(ACCEPTED, 1060.0), (ACCEPTED, 1068.0)]


@pytest.mark.parametrize(
    ("runs", "now_s", "known", "block_s", "factor"),
    [
        # Before two runs the plan speaks; never less than its runs take.
        ([], 1000.0, False, 50, 1),
        ([], 1005.0, False, 45, 1),
        ([], 2000.0, False, 40, 1),
        (TWO[:1], 1060.0, False, 9 * 4, 1),
        # 8 s a run: 8 more take 64 s; what was planned as 4 s a run takes twice as long.
        (TWO, 1068.0, True, 64, 2),
        (TWO, 1071.0, True, 61, 2),
        # Repetitions cost time and do not count as done: 10 s for what counts.
        ([(REJECTED, 1010.0), (ACCEPTED, 1020.0), (ACCEPTED, 1030.0)], 1030.0, True, 8 * 10, 2.5),
        # Two warm-ups more than planned.
        ([(ACCEPTED, 1003.0 + 3 * run) for run in range(12)], 1036.0, True, 0, 0.75),
    ],
)
def test_the_time_left_follows_from_the_runs_so_far(runs, now_s, known, block_s, factor):
    run_counter = counter()
    for run in runs:
        run_counter.add(*run)
    done = sum(sample == ACCEPTED for sample, _ in runs)
    assert (run_counter.accepted_runs, run_counter.rejected_runs) == (done, len(runs) - done)
    left_s = (block_s + factor * 100, block_s + factor * 300)
    assert (run_counter.is_known, run_counter.remaining(now_s)) == (known, pytest.approx(left_s))


def test_the_next_block_begins_with_the_pace_of_those_before():
    """Runs that took twice as long as planned: so will 50 s and 100 s, which are no 150 s."""
    first = counter()
    for run in TWO:
        first.add(*run)
    second = counter(first.pace)
    assert (second.is_known, second.remaining(1000.0)) == (False, (100 + 200, 100 + 600))
    for run in TWO:  # as long again
        second.add(*run)
    assert second.remaining(1068.0) == (64 + 200, 64 + 600)
    assert counter(second.pace).remaining(1000.0) == (300, 700)


def test_the_end_of_a_block_does_not_say_that_nothing_is_left(capsys):
    """Only 'about' if no block can follow: an undecided case gets another one."""
    more, none = ExpectedTime(0.0, 110.0), ExpectedTime(0.0, 0.0)
    for later in (more, none):
        ended = replace(counter(), after_block=expected_total([none, later]))
        for run in range(10):
            ended.add(ACCEPTED, 1010.0 + 4 * run)
        Display().show("stream, block 0", ended, 1046.0)
    left = [line.split("runs, ")[1] for line in capsys.readouterr().err.splitlines()]
    assert left == ["0 s to 1 min 50 s left", "about 0 s left"]


def test_only_whole_new_samples_are_read(tmp_path):
    file = tmp_path / "stream.jsonl"
    later = NewSamples(file)
    assert later.new() == []  # the file comes later
    file.write_bytes(b'{"outcome": "accepted"}\n{"torn')
    samples = NewSamples(file)
    assert (samples.new(), later.new()) == ([], [ACCEPTED])
    # The torn line is cut off.
    file.write_bytes(b'{"outcome": "accepted"}\n{"outcome": "rejected"}\n{"outco')
    assert samples.new() == [REJECTED]
    with file.open("ab") as more:
        more.write(b'me": "accepted"}\n')
    assert [samples.new(), samples.new()] == [[ACCEPTED], []]


def test_plain_lines_come_at_a_block_and_twice_a_minute(capsys):
    display = Display()
    for second in range(61):
        display.show("stream, block 0", counter(), 1000.0 + second)
    display.show("stream, block 1", counter(), 1061.0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0] == "nimc: stream, block 0: 0 of 10 runs, at least 2 min 30 s left"
    assert lines[-1].startswith("nimc: stream, block 1: ")


ALIKE = "nimc: melt/0/2 rejected: busy: 1.5 threads"
OTHERS = ["nimc: melt/0/4 rejected: no writes", "nimc: lammps/0/2 rejected: busy: 1.5 threads"]


@pytest.mark.parametrize(
    ("progress", "lines"),
    [
        ("quiet", []),
        # Why runs are rejected is said once for each case and reason, whatever its numbers.
        ("normal", [ALIKE, *OTHERS]),
        (
            "verbose",
            [
                "nimc: melt/0/1 2.500 GB/s",
                "nimc: melt/0/-1 2.500 GB/s (warm-up)",
                ALIKE,
                "nimc: melt/0/3 rejected: busy: 12.25 threads",
                *OTHERS,
            ],
        ),
    ],
)
def test_quiet_shows_errors_only_and_verbose_every_run(capsys, progress, lines):
    accepted = {"case": "melt", "outcome": "accepted", "key": "melt/0/1", "fom": 2.5e9}
    accepted["fom_unit"] = "B/s"
    rejected = {"case": "melt", "outcome": "rejected", "key": "melt/0/2"}
    display = Display(progress)  # type: ignore[arg-type]
    display.show("melt, block 0", counter(), 1000.0)
    for sample in (
        accepted,
        {**accepted, "key": "melt/0/-1", "warmup": True},
        {**rejected, "reason": "busy: 1.5 threads"},
        {**rejected, "key": "melt/0/3", "reason": "busy: 12.25 threads"},
        {**rejected, "key": "melt/0/4", "reason": "no writes"},
        {**rejected, "case": "lammps", "key": "lammps/0/2", "reason": "busy: 1.5 threads"},
    ):
        display.tell_run(sample)
    display.tell("an error")
    shown = capsys.readouterr().err.splitlines()
    assert shown[-1] == "nimc: an error"
    assert [line for line in shown[:-1] if "melt, block 0" not in line] == lines


def test_a_terminal_has_one_line_which_others_replace(monkeypatch, capsys):
    display = Display(terminal=True)
    display.show("stream", counter(), 1005.0)
    display.tell("a line\n")
    monkeypatch.setenv("COLUMNS", "20")
    display.show("stream", counter(), 1005.0)
    display.close()
    words = "stream: 0 of 10 runs, at least 2 min 25 s left"
    assert capsys.readouterr().err.split("\r\x1b[K")[1:] == [
        words,
        "nimc: a line\\n\n",
        words[:19],
        "",
    ]


def test_while_the_job_waits_its_reason_is_shown_and_no_time_passes(capsys):
    run_counter = counter()
    run_counter.wait("waits in the queue (Priority)", 1600.0)
    Display().show("stream, block 0", run_counter, 1600.0)
    assert capsys.readouterr().err == "nimc: stream, block 0: waits in the queue (Priority)\n"
    run_counter.wait("", 1605.0)
    assert run_counter.remaining(1605.0).least_s == 145.0  # five seconds of its fifty have passed
