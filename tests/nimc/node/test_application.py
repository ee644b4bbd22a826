"""What is quoted of an application that failed."""

import pytest

from nimc.node.application import quoted

#: Open MPI 4.1.4, started by root.
REFUSED = """\
--------------------------------------------------------------------------
mpiexec has detected an attempt to run as root.

Running as root is *strongly* discouraged as any mistake (e.g., in
defining TMPDIR) or bug can result in catastrophic damage to the OS
file system, leaving your system in an unusable state.

We strongly suggest that you run mpiexec as a non-root user.

You can override this protection by adding the --allow-run-as-root option
to the cmd line or by setting two environment variables in the following way:
the variable OMPI_ALLOW_RUN_AS_ROOT=1 to indicate the desire to override this
protection, and OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 to confirm the choice and
add one more layer of certainty that you want to do so.
We reiterate our advice against doing so - please proceed at your own risk.
--------------------------------------------------------------------------
"""


def test_the_first_line_says_what_the_last_one_hid() -> None:
    assert quoted(REFUSED) == (
        "mpiexec has detected an attempt to run as root. ... We reiterate our advice against doing"
        " so - please proceed at your own risk."
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("\n---\n\n", ""),
        ("ERROR: lost atoms\n", "ERROR: lost atoms"),
        ("one\n\ttwo  words\n", "one / two words"),
        ("a\nb\nc\n", "a ... c"),
    ],
)
def test_lines_without_words_are_not_quoted(text: str, expected: str) -> None:
    assert quoted(text) == expected


def test_long_lines_lose_their_ends() -> None:
    first, _, last = quoted(f"{'x' * 500}\nmiddle\n{'y' * 500}").partition(" ... ")
    assert (first, last) == ("x" * 117 + "...", "y" * 197 + "...")
    assert len(quoted("z" * 1000)) == 320
