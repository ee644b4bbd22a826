"""The reason of a failure, taken from what the failed program printed."""

import pytest

from records.last_words import Gist, cause_or_gist, failure_reason


@pytest.mark.parametrize(
    ("printed", "gist"),
    [
        ("", ""),
        ("----\n", ""),
        ("\n  only   this\x07\n--\n", "only this\\x07"),
        ("first\n\nlast", "first / last"),
        ("first\nsecond\nlast", "first ... last"),
        ("f" * 120 + "\n" + "l" * 200, "f" * 120 + " / " + "l" * 200),
        ("f" * 121 + "\n" + "l" * 201, "f" * 117 + "... / " + "l" * 197 + "..."),
        ("x" * 321, "x" * 317 + "..."),
    ],
)
def test_the_reason_has_the_first_and_the_last_line_with_words(printed: str, gist: str) -> None:
    assert cause_or_gist(printed) == gist


def test_the_detail_of_a_fault_that_ends_with_a_colon_follows_it() -> None:
    """Lines of such faults usually say only that something failed."""
    gist = Gist()
    gist.add("usual output")
    gist.add_fault("Other MPI error, error stack:")
    assert gist.reason() == "Other MPI error, error stack:"
    gist.add("cannot map the window")
    assert gist.reason() == "Other MPI error, error stack:; cannot map the window"


def test_the_reason_of_a_failure_has_exit_status_and_printed_line() -> None:
    gist = Gist()
    assert failure_reason(3, gist) == "exit status 3"
    gist.add("x" * 181)
    assert failure_reason(3, gist) == f"exit status 3: {'x' * 177}..."
