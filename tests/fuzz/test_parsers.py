"""Any input of any parser gives a result or a documented error of one line, in bounded time."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.found import FOUND
from tests.fuzz.mutate import inputs
from tests.fuzz.table import TARGETS
from tests.fuzz.target import check

#: Examples of each parser; `make fuzz` tries many more.
EXAMPLES = 8


@pytest.mark.parametrize("name", TARGETS)
def test_a_faulty_input_gives_a_result_or_a_documented_error(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target.seeds))
    def holds(text: bytes) -> None:
        check(target, text, tmp_path)

    for text in target.seeds:
        check(target, text, tmp_path)
    holds()


@pytest.mark.parametrize(("name", "text"), FOUND)
def test_what_was_found_once_stays_mended(name: str, text: bytes, tmp_path: Path) -> None:
    check(TARGETS[name], text, tmp_path)
