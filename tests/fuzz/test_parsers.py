"""Any input of any parser gives a result or a documented error of one line, in bounded time."""

import pytest

from records.machine.node_counters import NodeCounter
from tests.fuzz.mutate import inputs
from tests.fuzz.parsers import CRASHED, TARGETS
from tests.fuzz.target import Target, check

#: Inputs of each parser; `make fuzz` tries many more.
_INPUTS = 8


@pytest.mark.parametrize("name", TARGETS)
def test_a_faulty_input_gives_a_result_or_a_documented_error(name, tmp_path):
    target = TARGETS[name]
    crashed = CRASHED.get(name, [])
    for text in (*target.seeds, *crashed, *inputs(name, target.seeds, _INPUTS)):
        check(target, text, tmp_path)


def test_inputs_that_crashed_have_a_parser():
    assert set(CRASHED) <= set(TARGETS)


@pytest.mark.parametrize("result", [{"a": [1, (float("nan"),)]}, NodeCounter(float("inf"), "s")])
def test_a_fault_of_a_parser_is_seen(result, tmp_path):
    with pytest.raises(AssertionError):
        check(Target("x", lambda *_: result, []), b"", tmp_path)


def test_an_error_of_two_lines_is_a_fault(tmp_path):
    def read(*_: object) -> None:
        raise ValueError("one\ntwo")

    with pytest.raises(AssertionError, match="not one line"):
        check(Target("x", read, [], (ValueError,)), b"", tmp_path)
