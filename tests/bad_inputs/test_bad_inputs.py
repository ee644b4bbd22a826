"""A few bad inputs, the same ones every time, and what counts as a wrong answer."""

import random
from pathlib import Path

import pytest

from tests.bad_inputs.__main__ import faults, here, one
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
