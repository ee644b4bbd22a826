"""The display of progress: runs are counted, and the time left is estimated."""

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
    """Return the counter of a block with ten runs of 4 s, after 10 s of preparation.

    Later blocks take 100 s to 300 s.
    """
    more = {"run_s": 4.0, "started_s": 1000.0, "earlier_pace": earlier_pace or SessionPace()}
    return RunCounter(after_block=ExpectedTime(100.0, 300.0), block_runs=10, block_s=50.0, **more)


#: Two runs. The first ends late, for example after a compilation, so its time does not show the
#: length of a run.
TWO_RUNS = [(ACCEPTED, 1060.0), (ACCEPTED, 1068.0)]


@pytest.mark.parametrize(
    ("runs", "now_s", "known", "block_s", "factor"),
    [
        # Before two runs have ended, the plan counts. The time left is at least that of its runs.
        ([], 1000.0, False, 50, 1),
        ([], 1005.0, False, 45, 1),
        ([], 2000.0, False, 40, 1),
        (TWO_RUNS[:1], 1060.0, False, 9 * 4, 1),
        # A run takes 8 s, so 8 more take 64 s. Later blocks, planned with 4 s a run, take twice as
        # long as planned.
        (TWO_RUNS, 1068.0, True, 64, 2),
        (TWO_RUNS, 1071.0, True, 61, 2),
        # Rejected runs take time, but do not count as done: 10 s for each accepted run.
        ([(REJECTED, 1010.0), (ACCEPTED, 1020.0), (ACCEPTED, 1030.0)], 1030.0, True, 8 * 10, 2.5),
        # There are two warm-ups more than planned.
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


def test_the_next_block_begins_with_the_pace_of_the_blocks_before():
    """Runs took twice as long as planned. So the planned 50 s and 100 s are expected to double."""
    first = counter()
    for run in TWO_RUNS:
        first.add(*run)
    second = counter(first.pace)
    assert (second.is_known, second.remaining(1000.0)) == (False, (100 + 200, 100 + 600))
    for run in TWO_RUNS:  # runs take as long as in the first block
        second.add(*run)
    assert second.remaining(1068.0) == (64 + 200, 64 + 600)
    assert counter(second.pace).remaining(1000.0) == (300, 700)


def test_at_the_end_of_a_block_the_time_of_a_possible_next_block_is_shown(capsys):
    """'about 0 s' is shown only if no block can follow. An undecided case gets another block."""
    more, none = ExpectedTime(0.0, 110.0), ExpectedTime(0.0, 0.0)
    for later in (more, none):
        ended = replace(counter(), after_block=expected_total([none, later]))
        for run in range(10):
            ended.add(ACCEPTED, 1010.0 + 4 * run)
        Display().show("stream, block 0", ended, 1046.0)
    left = [line.split("runs, ")[1] for line in capsys.readouterr().err.splitlines()]
    assert left == ["0 s to 1 min 50 s left", "about 0 s left"]


def test_only_complete_new_samples_are_read(tmp_path):
    file = tmp_path / "stream.jsonl"
    later = NewSamples(file)
    assert later.new() == []  # the file does not exist yet
    file.write_bytes(b'{"outcome": "accepted"}\n{"torn')
    samples = NewSamples(file)
    assert (samples.new(), later.new()) == ([], [ACCEPTED])
    # The incomplete line has been removed.
    file.write_bytes(b'{"outcome": "accepted"}\n{"outcome": "rejected"}\n{"outco')
    assert samples.new() == [REJECTED]
    with file.open("ab") as more:
        more.write(b'me": "accepted"}\n')
    assert [samples.new(), samples.new()] == [[ACCEPTED], []]


def test_plain_lines_are_printed_at_the_start_of_a_block_and_twice_a_minute(capsys):
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
        # A reason for rejected runs is printed once for each case, even if its numbers differ.
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


def test_a_terminal_shows_progress_in_one_line_that_is_replaced(monkeypatch, capsys):
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


def test_while_the_job_waits_its_reason_is_shown_and_the_time_left_stays(capsys):
    run_counter = counter()
    run_counter.wait("waits in the queue (Priority)", 1600.0)
    Display().show("stream, block 0", run_counter, 1600.0)
    assert capsys.readouterr().err == "nimc: stream, block 0: waits in the queue (Priority)\n"
    run_counter.wait("", 1605.0)
    assert (
        run_counter.remaining(1605.0).least_s == 145.0
    )  # five of the block's fifty seconds have passed
