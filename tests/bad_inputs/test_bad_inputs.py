"""A few bad inputs, the same ones every time, and what counts as a wrong answer."""

import random
from pathlib import Path

import pytest

from tests.bad_inputs.__main__ import Answer, faults, here, one
from tests.bad_inputs.kinds import KINDS, OBSTRUCTED, Kind, in_the_way
from tests.nimc.nimc_without_figures import render


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_bad_input_gets_a_short_answer(kind: Kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NIMC_REFRAME", "/bin/true")
    monkeypatch.setattr("sys.argv", [])
    if "--force" not in kind.name:  # the figures of one kind are enough
        monkeypatch.setattr("analysis.report.page.render", render)
    for index in range(2):
        answer, words = one(kind, random.Random(f"{kind.name} {index}"))
        assert list(faults(answer)) == [], words


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(OBSTRUCTED)))
def test_what_is_in_the_way_gets_a_short_answer(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [])
    place = OBSTRUCTED[number][0][0]
    if "logs" not in place:  # which the page reads; the others do not depend on its figures
        monkeypatch.setattr("analysis.report.page.render", render)
    answer = here(in_the_way(number, tmp_path))
    assert list(faults(answer)) == [], answer


@pytest.mark.parametrize(
    "answer",
    [
        Answer(None, ""),
        Answer(4, "nimc: x\n"),
        Answer(2, ""),
        Answer(2, "nimc: x\n" * 61),
        Answer(2, "nimc: " + "x" * 3000),
        Answer(3, "nimc: failed unexpectedly: KeyError\n"),
        Answer(1, "Traceback (most recent call last):\n"),
        Answer(2, "nimc: \x1b[2J\n"),
    ],
)
def test_a_wrong_answer_is_seen(answer: Answer) -> None:
    assert len(list(faults(answer))) == 1


def test_a_right_answer_is_right() -> None:
    assert list(faults(Answer(2, "nimc: c.yaml:3: pairs: 2 found\n"))) == []
    assert list(faults(Answer(3, "", "no minicluster\n"))) == []
