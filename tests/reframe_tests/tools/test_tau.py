"""TAU: profiles of two ranks that exchange 1000 doubles and reduce one, 50 times; and real runs."""

import subprocess
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from tests.reframe_tests.command import run_tool

TOOL = TOOLS["tau"]
CAPTURE = Path(__file__).parents[2] / "captures" / "tau" / "mpiwork"
BIN = Path(sys.executable).parent
WHY = TOOL.missing()
PROGRAM = """
#include <mpi.h>
int main(int argc, char **argv) {
  double out[1000] = {0}, in[1000], sum;
  int rank;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int i = 0; i < 7; i++) {
    MPI_Sendrecv(out, 1000, MPI_DOUBLE, 1 - rank, 0, in, 1000, MPI_DOUBLE, 1 - rank, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Allreduce(out, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return 0;
}
"""


def counted(folder: Path) -> dict:
    return {(row.rank, row.event): row.value for row in TOOL.parse(folder, 2)}


def test_times_and_messages_are_those_of_the_profile():
    found = counted(CAPTURE)
    # The profile of rank 0, microseconds: Sendrecv 89565; Allreduce 95260 and 102259 of waiting;
    # Init 72513, Finalize 14390, Comm_rank 2, Comm_size 1; 416836 in all.
    assert found[0, "point-to-point-time"] == pytest.approx(0.089565)
    assert found[0, "collective-time"] == pytest.approx(0.095260 + 0.102259)
    assert found[0, "other-time"] == pytest.approx(0.072513 + 0.014390 + 0.000003)
    assert found[0, "MPI-time"] == pytest.approx(0.373990)
    assert found[0, "application-time"] == pytest.approx(0.416836)
    for rank in (0, 1):
        assert found[rank, "point-to-point-messages"] == 50
        assert found[rank, "point-to-point-sent"] == 50 * 1000 * 8
        assert found[rank, "collective-calls"] == 50
        assert found[rank, "collective-sent"] == 50 * 8


@pytest.mark.skipif(WHY is not None, reason=str(WHY))
@pytest.mark.skipif(not (BIN / "mpicc").exists(), reason="no mpicc of the wheel mpich")
def test_a_real_run_counts_what_the_program_sends(tmp_path):
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM)
    subprocess.run([str(BIN / "mpicc"), str(source), "-o", str(program)], check=True, timeout=60)
    launcher = [str(BIN / "mpiexec"), "-n", "2"]
    run_tool(TOOL, tmp_path, str(program), launcher=launcher, check=True)
    found = counted(tmp_path)
    for rank in (0, 1):
        assert found[rank, "point-to-point-calls"] == found[rank, "point-to-point-messages"] == 7
        assert found[rank, "point-to-point-sent"] == 7 * 8000
        assert found[rank, "collective-calls"] == 7
        assert 0 < found[rank, "MPI-time"] <= found[rank, "application-time"]
