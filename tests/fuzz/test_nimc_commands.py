"""Tests commands with a few damaged inputs, the same ones every time.

It also tests that a wrong answer of a command is recognized.
"""

from pathlib import Path

import pytest
from markupsafe import Markup

from tests.fuzz.mutate import inputs
from tests.fuzz.nimc_commands import OBSTRUCTED, TARGETS, command, faults, in_the_way
from tests.fuzz.target import check
from tests.nimc.nimc_without_figures import render


@pytest.mark.parametrize("name", TARGETS)
def test_bad_input_gets_a_short_answer(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.report.page.render", render)
    target = TARGETS[name]
    for index, text in enumerate(inputs(name, target.valid(), 2)):
        folder = tmp_path / str(index)
        folder.mkdir()
        check(target, text, folder)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(OBSTRUCTED)))
def test_an_obstacle_at_a_path_gets_a_short_answer(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "logs" not in OBSTRUCTED[number][0][0]:  # the page reads the logs itself
        monkeypatch.setattr("analysis.report.page.render", render)
    monkeypatch.setattr("analysis.report.plots.themed_svg", lambda *_, **__: Markup())
    target = command("in the way", tuple, lambda _, folder: in_the_way(number, folder))
    check(target, b"", tmp_path)


@pytest.mark.parametrize(
    ("status", "out", "err", "number"),
    [
        (4, "", "nimc: x\n", 1),
        (2, "", "", 1),
        (2, "", "nimc: x\n" * 61, 1),
        (2, "", "nimc: " + "x" * 3000, 1),
        (3, "", "nimc: failed unexpectedly: KeyError\n", 1),
        (1, "", "Traceback (most recent call last):\n", 1),
        (2, "", "nimc: \x1b[2J\n", 1),
        (2, "", "nimc: c.yaml:3: pairs: 2 found\n", 0),
        (3, "no minicluster\n", "", 0),
    ],
)
def test_wrong_answers_are_recognized(status: int, out: str, err: str, number: int) -> None:
    assert len(list(faults(status, out, err))) == number
