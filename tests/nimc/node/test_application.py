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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The first line says what the last one hides.
        (
            REFUSED,
            "mpiexec has detected an attempt to run as root. ... We reiterate our advice against"
            " doing so - please proceed at your own risk.",
        ),
        ("", ""),
        ("\n---\n\n", ""),
        ("ERROR: lost atoms\n", "ERROR: lost atoms"),
        ("one\n\ttwo  words\n", "one / two words"),
        ("a\nb\nc\n", "a ... c"),
        (f"{'x' * 500}\nb\n{'y' * 500}", f"{'x' * 117}... ... {'y' * 197}..."),
        ("z" * 1000, f"{'z' * 317}..."),
    ],
)
def test_the_first_and_the_last_line_that_have_words_are_quoted(text: str, expected: str) -> None:
    assert quoted(text) == expected
