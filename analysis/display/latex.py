"""Text and tables for LaTeX documents."""

from __future__ import annotations

from collections.abc import Sequence

#: Character -> the LaTeX that prints it.
_LATEX_BY_CHARACTER = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    # In LaTeX's default encoding, these print as other signs.
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    # LaTeX takes a bracket at the beginning of a row for an option of the line break before it.
    "[": "{[}",
    **{
        "\u00b1": r"$\pm$",
        "\u00d7": r"$\times$",
        "\u00b5": r"$\mu$",
        "\u2013": "--",
        "\u2212": "$-$",
    },
}
#: If a text of a column has more characters than this, the column's texts are broken into lines.
_MAX_UNBROKEN_CHARACTERS = 40


def escaped(text: str) -> str:
    """Text that LaTeX prints as it is."""
    return "".join(_LATEX_BY_CHARACTER.get(character, character) for character in text)


def tabular(rows: Sequence[Sequence[str]]) -> str:
    """A table of texts, with a line break at its end. The first row is the header."""
    lines = [" & ".join(map(escaped, row)) + r" \\" for row in rows]
    max_lengths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    column_types = "".join(
        "l" if length <= _MAX_UNBROKEN_CHARACTERS else "p{18em}" for length in max_lengths
    )
    begin = rf"\begin{{tabular}}{{{column_types}}}"
    return "\n".join([begin, lines[0], r"\hline", *lines[1:], r"\end{tabular}", ""])
