"""A file of a run that is cut off, invalid or missing, or one too many, is named."""

from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import ToolError
from tests.captures import CAPTURES


def text(capture: str, end: str | float = 1.0) -> str:
    """A captured file up to a word, or a share of it."""
    whole = (CAPTURES / capture).read_text()
    return whole[: whole.index(end) if isinstance(end, str) else int(len(whole) * end)]


MPIP, PERF = "mpip/lammps/lmp.mpiP", "perf_stat/two_ranks"
NO_REPORT = r"lmp\.mpiP: not a report of mpiP 3\.5, or truncated"
#: Tool, its file and what that holds, number of ranks, what is said.
BROKEN = [
    ("likwid:MEM", "rank-4.csv", text("likwid/memory/rank-4.csv", "MBOX0C1"), 8,
     r"rank-4\.csv: not a CSV file of likwid-perfctr"),
    ("likwid:MEM", "rank-0.csv", text("likwid/unsupported/stderr.txt"), 1,
     r"rank-0\.csv: no table of group 1"),
    *(
        ("mpip", "lmp.mpiP", text(MPIP, end), 2, NO_REPORT)
        for end in ("@--- End of Report", "@--- Callsite Message Sent", "Task ")
    ),
    ("mpip", "lmp.mpiP", text(MPIP), 4, r"lmp\.mpiP: 2 tasks; the application has 4 ranks"),
    ("mpip", "other", "", 2, r"0 reports of mpiP, must be one; it needs libmpiP\.so"),
    *(
        ("perf_stat", "rank-0.json", text(f"{PERF}/rank-1.json", share), 1, r"rank-0\.json")
        for share in (0.0, 0.1, 0.5, 0.98)
    ),
    # Between two lines.
    ("perf_stat", "rank-0.json", text(f"{PERF}/rank-1.json").rpartition("{")[0], 1,
     r"rank-0\.json: 7 of 8 events"),
    ("perf_stat", "rank-0.json", text(f"{PERF}/rank-0.json"), 2,
     r"rank-1\.json: no such file; 1 of 2 ranks"),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "file", "content", "ranks", "fault"), BROKEN)
def test_a_file_that_is_cut_off_invalid_or_missing(
    tmp_path: Path, tool: str, file: str, content: str, ranks: int, fault: str
) -> None:
    (tmp_path / file).write_text(content)
    with pytest.raises(ToolError, match=fault):
        TOOLS[tool].parse(tmp_path, ranks)


def test_a_rank_too_many() -> None:
    with pytest.raises(ToolError, match=r"rank-1\.json: unexpected file"):
        TOOLS["perf_stat"].parse(CAPTURES / PERF, 1)
