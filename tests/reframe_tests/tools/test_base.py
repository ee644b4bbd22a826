"""What all tools share: which numbers are figures."""

import pytest

from reframe_tests.tools.base import figure


@pytest.mark.parametrize("printed", ["7", 7, " 7.0 ", "-1e30", 1e30])
def test_a_printed_number_is_a_figure(printed: object) -> None:
    assert figure(printed) == float(str(printed))


@pytest.mark.parametrize(
    "printed", ["nan", "inf", "-inf", "1.1e30", "7 counts", "", None, [], 10**400]
)
def test_what_no_counter_can_have_is_no_figure(printed: object) -> None:
    """Nothing in SI units is beyond 1e30; Python reads `10**400`, but no double holds it."""
    with pytest.raises(ValueError, match=r"not a figure|not convert"):
        figure(printed)
