"""A few bad inputs, the same ones every time, and what counts as a wrong answer."""

import random
from pathlib import Path

import pytest
from markupsafe import Markup

from tests.bad_inputs.__main__ import Answer, answered, faults, one
from tests.bad_inputs.kinds import KINDS, OBSTRUCTED, Kind, in_the_way
from tests.nimc.nimc_without_figures import render


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_bad_input_gets_a_short_answer(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.report.page.render", render)
    for index in range(2):
        answer, words = one(kind, random.Random(f"{kind.name} {index}"))
        assert list(faults(answer)) == [], words


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(OBSTRUCTED)))
def test_what_is_in_the_way_gets_a_short_answer(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "logs" not in OBSTRUCTED[number][0][0]:  # those are read by the page itself
        monkeypatch.setattr("analysis.report.page.render", render)
    monkeypatch.setattr("analysis.report.plots.themed_svg", lambda *_, **__: Markup())
    answer = answered(in_the_way(number, tmp_path), tmp_path)
    assert list(faults(answer)) == [], answer


@pytest.mark.parametrize(
    ("answer", "number"),
    [
        (Answer(None, ""), 1),
        (Answer(4, "nimc: x\n"), 1),
        (Answer(2, ""), 1),
        (Answer(2, "nimc: x\n" * 61), 1),
        (Answer(2, "nimc: " + "x" * 3000), 1),
        (Answer(3, "nimc: failed unexpectedly: KeyError\n"), 1),
        (Answer(1, "Traceback (most recent call last):\n"), 1),
        (Answer(2, "nimc: \x1b[2J\n"), 1),
        (Answer(2, "nimc: c.yaml:3: pairs: 2 found\n"), 0),
        (Answer(3, "", "no minicluster\n"), 0),
    ],
)
def test_wrong_answers_are_seen(answer: Answer, number: int) -> None:
    assert len(list(faults(answer))) == number
