"""The reason of a failure, taken from what the failed program printed."""

import pytest

from records.last_words import Gist, cause_or_gist, failure_reason, unlabelled


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
        # The first error states no cause, and what follows may be its consequence.
        ("error: no such case\nUCX ERROR lost", "error: no such case / UCX ERROR lost"),
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


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["MPID_Init(92): cannot start", "MPIDU_Map(7): no memory"], "no memory"),
        (["MPID_Init(92): cannot start", "output", "MPID_Stop(7): not started"], "cannot start"),
        (["MPID_Init(92): cannot start", "sh: line 1: a: command not found"], "cannot start"),
        (["There are not enough slots available in the system.", "Next"],
         "There are not enough slots available in the system."),
        (["There are not enough slots available in", "the system. Next"],
         "There are not enough slots available in the system."),
    ],
)  # fmt: skip
def test_only_the_next_frame_or_the_rest_of_a_sentence_changes_a_cause(
    lines: list[str], reason: str
) -> None:
    gist = Gist()
    for line in lines:
        gist.add(line)
    assert gist.reason() == reason


def test_a_cause_precedes_a_fault_although_a_later_frame_makes_it_more_precise() -> None:
    gist = Gist()
    gist.add("MPID_Init(92): cannot start")
    gist.add_fault("the program ended")
    gist.add("MPIDU_Map(7): no memory")
    assert gist.reason() == "no memory"


def test_empty_lines_do_not_decide_whether_lines_have_labels() -> None:
    assert unlabelled("0: a\n \n \n \n1: b\n") == "a\n \n \n \nb\n"
    assert unlabelled("0: a\nb\nc\n") == "0: a\nb\nc\n"


def test_the_reason_of_a_failure_has_exit_status_and_printed_line() -> None:
    gist = Gist()
    assert failure_reason(3, gist) == "exit status 3"
    gist.add("x" * 181)
    assert failure_reason(3, gist) == f"exit status 3: {'x' * 177}..."
