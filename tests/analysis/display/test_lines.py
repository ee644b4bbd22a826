"""Tests tables, lines, commands and durations for the terminal. Every table fits 80 columns."""

import csv

import click
import pytest

from analysis.contention import evaluate
from analysis.contention.evaluate import Errors
from analysis.contention.page import errors_parts
from analysis.display.document import Form, formatted_parts, formatted_table
from analysis.display.lines import (
    Line,
    aligned_lines,
    aligned_table,
    broken_command,
    duration,
    terminal_columns,
    wrapped,
)
from nimc.cli.answer import Listing
from records.text import first_names
from tests.commands import widest


def test_errors_of_models_in_eighty_columns() -> None:
    errors = Errors(**evaluate.published_errors("henri"))
    names = ("fitted", "cores held out", "placements held out")
    text = formatted_parts(errors_parts(dict.fromkeys(names, errors), []))
    assert widest(text) <= 80
    lines = [line.split()[1:] for line in text.splitlines() if line.startswith("average")]
    assert lines == [[f"{errors.average:.2f}"] * 3]


def test_columns_that_do_not_fit_continue_in_another_line() -> None:
    header = ["name", "first", "second"]
    table = aligned_table(header, [["a", "1" * 10, "2" * 10], ["b", "", "3"]], width=22)
    assert table.splitlines() == [
        "name       first", "      second",
        "   a  1111111111", "  2222222222",
        "   b", "           3",
    ]  # fmt: skip
    # With the gap, two columns of three characters need eight.
    two = aligned_table(["abc", "def"], [["1", "2"]], width=6)
    assert two.splitlines() == ["abc", "  def", "  1", "    2"]
    assert aligned_table(["name", "figure"], [["ab", "1"]], width=11) == "name figure\n  ab      1"
    assert aligned_table(header, [["a", "1", "2"]]) == "name  first  second\n   a      1       2"
    assert aligned_table(["x", "why"], [["a", "word " * 6]], width=12).splitlines() == [
        "x", "  why", "a", "  word word", "  word word", "  word word",
    ]  # fmt: skip


def lines(pairs: str = "6 pairs") -> list[Line]:
    """Return the lines of an effect that is shown and of one that is not."""
    slower = ["stream", "1.61 [1.51, 1.71]", "slower under emulated writes", "26.2 -> 16.4 GB/s"]
    unknown = ["lammps", "1.02 [0.99, 1.06]", "inconclusive", "3.10 -> 3.17 s"]
    return [Line([*slower, pairs], ["control: 1.002"]), Line([*unknown, "6 pairs"])]


def test_a_case_is_one_line_that_reads_as_a_sentence_in_eighty_columns() -> None:
    """Cells have 6, 17, 28, 17 and 7 characters.

    With one space between cells, the line has 79 characters, with two it has 83.
    """
    slower, unknown = aligned_lines(lines())
    assert slower == (
        "stream 1.61 [1.51, 1.71] slower under emulated writes 26.2 -> 16.4 GB/s 6 pairs"
    )
    assert unknown.index("3.10 -> 3.17 s") == slower.index("26.2 -> 16.4 GB/s")


def test_cells_that_do_not_fit_a_line_follow_in_the_details() -> None:
    long = "12 pairs, 1 rejected"
    assert [text.split("  ")[-1] for text in aligned_lines(lines(long))] == [
        "26.2 -> 16.4 GB/s", "3.10 -> 3.17 s",
    ]  # fmt: skip
    first, second = aligned_lines(lines(long), details=True)
    assert [line.strip() for line in first.splitlines()[1:]] == [long, "control: 1.002"]
    assert [line.strip() for line in second.splitlines()[1:]] == ["6 pairs"]
    wide = aligned_lines(lines(long), width=120)
    assert [text.split("  ")[-1].strip() for text in wide] == [long, "6 pairs"]
    assert max(map(len, wide)) == 6 + 17 + 28 + 17 + len(long) + 4 * 2


def test_the_last_column_that_is_needed_is_wrapped_under_itself() -> None:
    (text,) = aligned_lines([Line(["name", "1.0", "word " * 4, "more"])], width=24)
    assert text.splitlines() == ["name  1.0  word word", "           word word"]


def test_only_a_terminal_has_another_width(monkeypatch: pytest.MonkeyPatch) -> None:
    for wide, terminal, expected in (("120", True, 120), ("120", False, 80), ("60", True, 80)):
        monkeypatch.setenv("COLUMNS", wide)
        monkeypatch.setattr("sys.stdout.isatty", lambda is_terminal=terminal: is_terminal)
        assert terminal_columns() == expected


def test_a_duration_has_whole_seconds_or_from_an_hour_on_whole_minutes() -> None:
    shown = {
        42: "42 s",
        59.4: "59 s",
        59.6: "1 min 00 s",
        250: "4 min 10 s",
        3599.4: "59 min 59 s",
        3599.6: "1 h 00 min",
        3660: "1 h 01 min",
        1e4: "2 h 47 min",
    }
    assert {seconds: duration(seconds) for seconds in shown} == shown


def test_prose_and_commands_are_broken_between_words() -> None:
    assert wrapped("short\n" + "word " * 5, 12) == "short\nword word\n  word word\n  word"
    command = broken_command(["reframe", "-C", "/a/path/longer/than/a/line", "-r", "-n", "x"], 16)
    assert command == "reframe -C \\\n  /a/path/longer/than/a/line \\\n  -r -n x"


def test_only_the_first_names_are_listed() -> None:
    assert [first_names("abac", most) for most in (2, 3, 4)] == [
        "a, b and 1 more",
        *["a, b, c"] * 2,
    ]


def test_notes_come_once_and_the_option_v_is_named_unless_it_is_given() -> None:
    case, below = (
        Line(["a", "b", "c"], details=["deep"]),
        ("legend", "-v adds: more", "note", "next"),
    )

    def text(lines: list[Line], **options: bool) -> list[str]:
        notes = {"legend": "legend", "details_hint": "more", "conclusions": ["next"]}
        shown = Listing(
            header=("x", "y", "z"), lines=lines, notes=["note", "note"], **notes, **options
        )
        return click.unstyle(str(shown)).split("\n")

    assert text([case]) == ["x  y  z", "a  b  c", "", *below]
    assert text([case], details=True) == ["x  y  z", "a  b  c", "    deep", "", *below[::2], "next"]
    assert text([]) == list(below[2:])


@pytest.mark.parametrize(
    ("form", "lines"),
    [
        ("csv", ["case,95 %", '"a, b",\'=1_000', "\\x1b,x|y"]),
        ("markdown", ["| case | 95 % |", "|---|---|", r"| a, b | =1\_000 |", r"| \\x1b | x\|y |"]),
        ("latex", [r"\begin{tabular}{ll}", r"case & 95 \% \\", r"\hline", r"a, b & =1\_000 \\",
                   r"\textbackslash{}x1b & x\textbar{}y \\", r"\end{tabular}"]),
    ],
)  # fmt: skip
def test_a_table_as_csv_markdown_and_latex(form: Form, lines: list[str]) -> None:
    text = formatted_table(form, ["case", "95 %"], [["a, b", "=1_000"], ["\x1b", "x|y"]])
    assert text == "\n".join([*lines, ""])


def test_only_formulas_have_an_apostrophe_in_csv() -> None:
    cells = ["+1.0 %", "-2.3e-05", "-1,024 MB/s", "-", "-1+cmd|x", "@SUM(A1)", "=1", "+A1"]
    text = formatted_table("csv", ["value"], [[cell] for cell in cells])
    *plain, call, name, formula, reference = next(zip(*csv.reader(text.splitlines()), strict=True))
    assert plain == ["value", *cells[:4]]
    assert [call, name, formula, reference] == [f"'{cell}" for cell in cells[4:]]
