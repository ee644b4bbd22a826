"""Counting runs, and the time left."""

import pytest

from nimc.run.progress import Display, NewSamples, Pace, RunCounter, run_line

KEPT = {"outcome": "kept"}
REJECTED = {"outcome": "rejected"}
Err = pytest.CaptureFixture[str]


def counter(before: Pace | None = None) -> RunCounter:
    """Ten runs of 4 s, after 10 s of preparation."""
    more = {"run_s": 4.0, "started_s": 1000.0, "before": before or Pace()}
    return RunCounter(later_s=100.0, block_runs=10, block_s=50.0, **more)


#: Two runs; the first comes late, as after a build: that is not the length of a run.
TWO = [(KEPT, 1060.0), (KEPT, 1068.0)]


@pytest.mark.parametrize(
    ("runs", "now_s", "known", "left_s"),
    [
        # Before two runs the plan speaks; never less than its runs take.
        ([], 1000.0, False, 50 + 100),
        ([], 1005.0, False, 45 + 100),
        ([], 2000.0, False, 40 + 100),
        (TWO[:1], 1060.0, False, 9 * 4 + 100),
        # 8 s a run: 8 more take 64 s; what was planned as 4 s a run takes twice as long.
        (TWO, 1068.0, True, 64 + 200),
        (TWO, 1071.0, True, 61 + 200),
        # Repetitions cost time and do not count as done: 10 s for what counts.
        ([(REJECTED, 1010.0), (KEPT, 1020.0), (KEPT, 1030.0)], 1030.0, True, 8 * 10 + 250),
        # Two warm-ups more than planned.
        ([(KEPT, 1003.0 + 3 * run) for run in range(12)], 1036.0, True, 75),
    ],
)
def test_the_time_left(runs, now_s, known, left_s):
    at_work = counter()
    for run in runs:
        at_work.add(*run)
    done = sum(sample == KEPT for sample, _ in runs)
    assert (at_work.done, at_work.rejected) == (done, len(runs) - done)
    assert (at_work.is_known, at_work.left_s(now_s)) == (known, pytest.approx(left_s))


def test_the_next_block_begins_with_the_pace_of_those_before():
    """Runs that took twice as long as planned: so will 50 s and 100 s, which are no 150 s."""
    first = counter()
    for run in TWO:
        first.add(*run)
    second = counter(first.pace)
    assert (second.is_known, second.left_s(1000.0)) == (False, 300.0)
    for run in TWO:  # as long again
        second.add(*run)
    assert second.left_s(1068.0) == 64.0 + 200.0
    assert counter(second.pace).left_s(1000.0) == 300.0


def test_only_whole_new_samples_are_read(tmp_path):
    file = tmp_path / "stream.jsonl"
    later = NewSamples(file)
    assert later.new() == []  # the file comes later
    file.write_bytes(b'{"outcome": "kept"}\n{"torn')
    samples = NewSamples(file)
    assert (samples.new(), later.new()) == ([], [KEPT])
    file.write_bytes(b'{"outcome": "kept"}\n{"outcome": "rejected"}\n{"outco')  # torn line cut off
    assert samples.new() == [REJECTED]
    with file.open("ab") as more:
        more.write(b'me": "kept"}\n')
    assert [samples.new(), samples.new()] == [[KEPT], []]


def test_plain_lines_come_at_a_block_and_twice_a_minute(capsys):
    display = Display()
    for second in range(61):
        display.show("stream, block 0", counter(), 1000.0 + second)
    display.show("stream, block 1", counter(), 1061.0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0] == "nimc: stream, block 0: 0 of 10 runs, at least 2 min 30 s left"
    assert lines[-1].startswith("nimc: stream, block 1: ")


@pytest.mark.parametrize(("progress", "lines"), [("quiet", 1), ("normal", 2), ("verbose", 5)])
def test_quiet_shows_errors_only_and_verbose_every_run(capsys, progress, lines):
    kept = {"outcome": "kept", "key": "melt/0/1", "fom": 2.5e9, "fom_unit": "B/s"}
    lost = {"outcome": "rejected", "key": "melt/0/2", "reason": "the node was busy"}
    display = Display(progress)  # type: ignore[arg-type]
    display.show("melt, block 0", counter(), 1000.0)
    for sample in (kept, {**kept, "key": "melt/0/-1", "warmup": True}, lost):
        display.detail(run_line(sample))
    display.tell("an error")
    shown = capsys.readouterr().err.splitlines()
    assert (len(shown), shown[-1]) == (lines, "nimc: an error")
    assert (
        shown[1:-1]
        == [
            "nimc: melt/0/1 2.500 GB/s",
            "nimc: melt/0/-1 2.500 GB/s (warm-up)",
            "nimc: melt/0/2 rejected: the node was busy",
        ][: lines - 2 if lines > 2 else 0]
    )


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
    at_work = counter()
    at_work.wait("waits in the queue (Priority)", 1600.0)
    Display().show("stream, block 0", at_work, 1600.0)
    assert capsys.readouterr().err == "nimc: stream, block 0: waits in the queue (Priority)\n"
    at_work.wait("", 1605.0)
    assert at_work.left_s(1605.0) == 145.0  # five seconds of its fifty have passed
