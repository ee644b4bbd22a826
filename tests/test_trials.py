"""Tests of the runner of trials (`tests.trials`), with made-up rows."""

from dataclasses import dataclass

import pytest

from tests import trials
from tests.trials import FAILED, Outcome


@dataclass(frozen=True)
class Made:
    name: str


ROWS = [Made("an apple"), Made("a pear"), Made("a plum")]


def exit_code(*words: str, wrong: str = "") -> int:
    """Run trials of the rows, of which the row named `wrong` fails; return the exit code."""
    options = trials.arguments("made", None).parse_args(words)
    return trials.run(
        trials.select_rows(ROWS, options.only),
        lambda row, *_: Outcome(FAILED, ["two\nlines"]) if row.name == wrong else Outcome("held"),
        kinds=("held",),
        options=options,
    )


def test_each_row_is_drawn_once_a_turn_and_the_same_way_for_a_seed() -> None:
    turns = [[trials.draw_trial(ROWS, 7, index) for index in range(3 * turn, 3 * turn + 3)]
             for turn in range(20)]  # fmt: skip
    orders = {tuple(row.name for row, _ in turn) for turn in turns}
    assert all(set(order) == {"an apple", "a pear", "a plum"} for order in orders)
    assert len(orders) > 1
    again, rng = trials.draw_trial(ROWS, 7, 4)
    assert (again, rng.random()) == (turns[1][1][0], turns[1][1][1].random())


def test_a_wrong_trial_is_printed_and_counted(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--count", "6", wrong="a pear") == 1
    lines = capsys.readouterr().out.splitlines()
    assert sum("a pear" in line and FAILED in line for line in lines) == 2
    assert lines.count("       two") == lines.count("       lines") == 2
    assert lines[-4:] == ["| a pear | 2 | 0 | 2 |", "| a plum | 2 | 2 | 0 |",
                          "| an apple | 2 | 2 | 0 |", "| all | 6 | 4 | 2 |"]  # fmt: skip


def test_without_a_number_each_row_is_tried_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("--only", "pl") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "| all | 2 | 2 | 0 |"


def test_trials_go_on_for_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    options = trials.arguments("made", None).parse_args(["--seconds", "5"])
    now_s = [100.0]
    monkeypatch.setattr("tests.trials.time.monotonic", lambda: now_s[0])
    begun: list[int] = []

    def trial(_: Made, __: object, index: int) -> Outcome:
        now_s[0] += 2.0
        begun.append(index)
        return Outcome("held")

    trials.run(ROWS, trial, kinds=("held",), options=options)
    assert begun == [0, 1, 2]  # at 100, 102 and 104 s


def test_a_word_of_no_row_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        exit_code("--only", "pear,quince")
    assert end.value.code == 2
    assert "quince: in the name of no row" in capsys.readouterr().err
