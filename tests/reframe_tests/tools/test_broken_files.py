"""Tests of broken files: a tool refuses and names a truncated, invalid, missing or extra file."""

from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from tests.captures import CAPTURES
from tests.messages import assert_message

MPIP = (CAPTURES / "mpip/lammps/lmp.mpiP").read_text()
LIKWID = (CAPTURES / "likwid/memory/rank-4.csv").read_text()
LIKWID_UNSUPPORTED = (CAPTURES / "likwid/unsupported/stderr.txt").read_text()
PERF_FOLDER = CAPTURES / "perf_stat/two_ranks"
PERF_0, PERF_1 = ((PERF_FOLDER / f"rank-{rank}.json").read_text() for rank in (0, 1))


def before(text: str, word: str) -> str:
    """Return the part of a text before the first occurrence of a word."""
    return text[: text.index(word)]


def share(text: str, length: float) -> str:
    """Return the first part of a text; `length` is the part's share of the whole text."""
    return text[: int(len(text) * length)]


@pytest.mark.parametrize(
    ("tool", "file", "content", "ranks", "named_file", "values"),
    [
        ("likwid:MEM", "rank-4.csv", before(LIKWID, "MBOX0C1"), 8, "rank-4.csv", []),
        ("likwid:MEM", "rank-0.csv", LIKWID_UNSUPPORTED, 1, "rank-0.csv", ["group 1"]),
        ("mpip", "lmp.mpiP", before(MPIP, "@--- End of Report"), 2, "lmp.mpiP", []),
        ("mpip", "lmp.mpiP", before(MPIP, "@--- Callsite Message Sent"), 2, "lmp.mpiP", []),
        ("mpip", "lmp.mpiP", before(MPIP, "Task "), 2, "lmp.mpiP", []),
        ("mpip", "lmp.mpiP", MPIP, 4, "lmp.mpiP", ["2 tasks", "4 ranks"]),
        ("perf_stat", "rank-0.json", share(PERF_1, 0.0), 1, "rank-0.json", []),
        ("perf_stat", "rank-0.json", share(PERF_1, 0.1), 1, "rank-0.json", []),
        ("perf_stat", "rank-0.json", share(PERF_1, 0.5), 1, "rank-0.json", []),
        ("perf_stat", "rank-0.json", share(PERF_1, 0.98), 1, "rank-0.json", []),
        # The file ends after a complete line.
        ("perf_stat", "rank-0.json", PERF_1.rpartition("{")[0], 1, "rank-0.json", ["7 of 8"]),
        ("perf_stat", "rank-0.json", PERF_0, 2, "rank-1.json", ["1 of 2 ranks"]),
    ],
)
def test_a_truncated_invalid_or_missing_file_is_named(
    tmp_path: Path,
    tool: str,
    file: str,
    content: str,
    ranks: int,
    named_file: str,
    values: list[str],
) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(ToolError) as error:
        TOOLS[tool].parse(tmp_path, ranks)
    assert_message(str(error.value), f"{tmp_path / named_file}", *values)


def test_the_message_on_a_missing_report_of_mpip_names_its_library(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    with pytest.raises(ToolError) as error:
        TOOLS["mpip"].parse(tmp_path, 2)
    assert_message(str(error.value), f"{tmp_path}", "0", "libmpiP.so")


def test_the_file_of_an_extra_rank_is_named() -> None:
    with pytest.raises(ToolError) as error:
        TOOLS["perf_stat"].parse(PERF_FOLDER, 1)
    assert_message(str(error.value), f"{PERF_FOLDER / 'rank-1.json'}")
