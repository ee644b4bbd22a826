"""Tests that a parser answers any input with a result or a documented error of one line, in time.

The tests use a few damaged inputs, the same ones every time. `python -m tests.fuzz` tries many
more.
"""

from pathlib import Path

import pytest

from records.machine.node_counters import NodeCounter
from tests.fuzz.mutate import inputs
from tests.fuzz.parsers import CRASHED, TARGETS
from tests.fuzz.target import Target, check

#: Number of damaged inputs that each parser is tested with.
_INPUT_COUNT = 8


@pytest.mark.parametrize("name", TARGETS)
def test_a_faulty_input_gives_a_result_or_a_documented_error(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    seeds = target.valid()
    texts = (*seeds, *CRASHED.get(name, []), *inputs(name, seeds, _INPUT_COUNT))
    for index, text in enumerate(texts):
        folder = tmp_path / str(index)
        folder.mkdir()
        check(target, text, folder)


def test_inputs_that_crashed_have_a_parser() -> None:
    assert set(CRASHED) <= set(TARGETS)


@pytest.mark.parametrize("result", [{"a": [1, (float("nan"),)]}, NodeCounter(float("inf"), "s")])
def test_a_result_that_is_not_finite_is_a_fault(result: object, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        check(Target(name="x", read=lambda *_: result, seeds=[]), b"", tmp_path)


def test_an_error_of_two_lines_is_a_fault(tmp_path: Path) -> None:
    def read(*_: object) -> None:
        raise ValueError("one\ntwo")

    with pytest.raises(AssertionError, match="not one line"):
        check(Target(name="x", read=read, seeds=[], allowed=(ValueError,)), b"", tmp_path)
