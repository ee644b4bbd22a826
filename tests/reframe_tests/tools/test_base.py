"""Tests of parsed_number, which reads the numbers that all tools print."""

import pytest

from reframe_tests.tools.base import parsed_number


@pytest.mark.parametrize("printed", ["7", 7, " 7.0 ", "-1e30", 1e30])
def test_a_printed_number_is_parsed(printed: object) -> None:
    assert parsed_number(printed) == float(str(printed))


@pytest.mark.parametrize(
    "printed", ["nan", "inf", "-inf", "1.1e30", "7 counts", "", None, [], 10**400]
)
def test_a_number_that_no_counter_can_have_is_refused(printed: object) -> None:
    """No count in SI units exceeds 1e30. Python can read `10**400`, but no double can hold it."""
    with pytest.raises(ValueError, match=r"not a number|not convert"):
        parsed_number(printed)
