"""Counting runs, and the time left."""

from pathlib import Path

import pytest

from nimc.run.progress import NewSamples, PlainDisplay, RunCounter, TerminalDisplay, run_line
from nimc.run.progress import display as make_display

KEPT = {"outcome": "kept"}
REJECTED = {"outcome": "rejected"}


def counter() -> RunCounter:
    return RunCounter(later_s=100.0, block_runs=10, block_s=50.0, started_s=1000.0)


@pytest.mark.parametrize(
    ("runs", "now_s", "done", "left_s"),
    [
        # Before the first run the plan speaks; never less than what comes after.
        ([], 1000.0, 0, 150.0),
        ([], 1020.0, 0, 130.0),
        ([], 2000.0, 0, 100.0),
        # 8 s a run: 8 more take 64 s.
        ([(KEPT, 1008.0), (KEPT, 1016.0)], 1016.0, 2, 164.0),
        ([(KEPT, 1008.0), (KEPT, 1016.0)], 1019.0, 2, 161.0),
        # Repetitions cost time and do not count as done: 20 s for what counts.
        ([(REJECTED, 1010.0), (KEPT, 1020.0)], 1020.0, 1, 280.0),
        # Two warm-ups more than planned.
        ([(KEPT, 1003.0 + 3 * run) for run in range(12)], 1036.0, 12, 100.0),
    ],
)
def test_the_time_left(
    runs: list[tuple[dict[str, str], float]], now_s: float, done: int, left_s: float
) -> None:
    at_work = counter()
    for run in runs:
        at_work.add(*run)
    assert (at_work.done, at_work.rejected) == (done, len(runs) - done)
    assert at_work.left_s(now_s) == left_s
    assert at_work.block_runs == max(10, done)


def test_later_cases_take_as_much_longer_as_those_so_far() -> None:
    """Runs of 4 s that take 8: 100 s of the plan are 200. A later block begins with that."""
    at_work = RunCounter(later_s=100.0, block_runs=10, block_s=50.0, started_s=1000.0, run_s=4.0)
    for now_s in (1010.0, 1018.0, 1026.0):
        at_work.add(KEPT, now_s)
    assert at_work.left_s(1026.0) == pytest.approx(7 * 26 / 3 + 200)
    assert at_work.lengths_s == (8.0, 16.0)
    later = RunCounter(100.0, 10, 50.0, 2000.0, 4.0, at_work.lengths_s)
    assert later.left_s(2000.0) == pytest.approx(300.0)
    # A run of 10 s, then: 26 s for what was expected to take 12.
    later.add(KEPT, 2010.0)
    later.add(KEPT, 2020.0)
    assert later.pace == pytest.approx(26 / 12)


def test_only_whole_new_samples_are_read(tmp_path: Path) -> None:
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
    assert samples.new() == [KEPT]
    assert samples.new() == []


def test_plain_lines_come_at_a_block_and_twice_a_minute(capsys: pytest.CaptureFixture[str]) -> None:
    display = PlainDisplay()
    for second in range(61):
        display.show("stream, block 0", counter(), 1000.0 + second)
    display.show("stream, block 1", counter(), 1061.0)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[0] == "nimc: stream, block 0: 0 of 10 runs, about 2 min 30 s left"
    assert lines[-1].startswith("nimc: stream, block 1: ")


def test_quiet_shows_errors_only_and_verbose_every_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    kept = {"outcome": "kept", "key": "melt/0/1", "fom": 2.5e9, "fom_unit": "B/s"}
    lost = {"outcome": "rejected", "key": "melt/0/2", "reason": "the node was busy"}
    shown = {}
    for progress in ("quiet", "normal", "verbose"):
        display = PlainDisplay() if progress == "normal" else make_display(progress)
        display.show("melt, block 0", counter(), 1000.0)
        for sample in (kept, {**kept, "key": "melt/0/-1", "warmup": True}, lost):
            display.detail(run_line(sample))
        display.tell("an error")
        shown[progress] = capsys.readouterr().err.splitlines()
    assert shown["quiet"] == ["nimc: an error"]
    assert len(shown["normal"]) == 2
    assert shown["verbose"][1:] == [
        "nimc: melt/0/1 2.500 GB/s",
        "nimc: melt/0/-1 2.500 GB/s (warm-up)",
        "nimc: melt/0/2 rejected: the node was busy",
        "nimc: an error",
    ]


def test_a_terminal_has_one_bar_which_lines_replace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    at_work, bar = counter(), TerminalDisplay()
    for at_s in range(1, 6):
        at_work.add(KEPT, 1000.0 + at_s)
    bar.show("stream", at_work, 1005.0)
    bar.tell("a line\n")
    monkeypatch.setenv("COLUMNS", "20")
    bar.show("stream", at_work, 1005.0)
    bar.close()
    words = "stream: 5 of 10 runs, about 1 min 45 s left"
    assert capsys.readouterr().err.split("\r\x1b[K")[1:] == [
        f"{words} {'#' * 12}{'.' * 12}",
        "nimc: a line\\n\n",
        words[:19],
        "",
    ]


def test_while_the_job_waits_its_reason_is_shown_and_no_time_passes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    at_work = counter()
    at_work.wait("waits in the queue (Priority)", 1600.0)
    PlainDisplay().show("stream, block 0", at_work, 1600.0)
    assert capsys.readouterr().err == "nimc: stream, block 0: waits in the queue (Priority)\n"
    at_work.wait("", 1605.0)
    assert at_work.left_s(1605.0) == 145.0  # five seconds of its fifty have passed
    PlainDisplay().show("stream, block 0", at_work, 1605.0)
    assert "0 of 10 runs" in capsys.readouterr().err
