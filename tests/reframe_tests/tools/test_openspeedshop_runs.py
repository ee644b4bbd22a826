"""Tests of a built Open|SpeedShop with two ranks of an MPI program.

The tests find the known faults of Open|SpeedShop that falsify counts. They need ossrun, ossutil,
openss and papi_command_line on PATH, and the Open MPI that these programs use. Rank r of the MPI
program computes 1 + r shares of the function `leaf`, and rank 0 waits for rank 1.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import FOLDER_PLACEHOLDER
from reframe_tests.tools.openspeedshop import read_view, view_path, write_views
from tests.reframe_tests.reframe_call import ran, succeeded

PROGRAM = r"""
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static double __attribute__((noinline)) leaf(long n)
{
    volatile double sum = 0;
    for (long i = 0; i < n; i++)
        sum += i;
    return sum;
}

int main(int argc, char **argv)
{
    int rank;
    double mine = 0, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    volatile char *pages = malloc(1000 * 4096);
    for (int page = 0; page < 1000; page++)
        pages[page * 4096] = 1;
    for (int step = 0; step < 50; step++) {
        mine += leaf(4000000L * (1 + rank));
        MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    if (rank == 0 && argc > 2)
        puts(argv[2]);
    if (argc > 3)
        *(volatile int *)0 = 1;
    MPI_Finalize();
    return argc > 1 ? atoi(argv[1]) : 0;
}
"""
NEEDED = ("ossrun", "ossutil", "openss", "papi_command_line")
ABSENT = [program for program in NEEDED if shutil.which(program) is None]
PAGES = 1000


def open_mpi(name: str) -> str | None:
    """Return the path of a program of Open MPI; the MPICH of wheels may come first on PATH."""
    for path in filter(None, map(shutil.which, (f"{name}.openmpi", name))):
        versions = [ran(path, option).stdout for option in ("--showme:version", "--version")]
        if "Open MPI" in "".join(versions):
            return path
    return None


MPICC, MPIRUN = open_mpi("mpicc"), open_mpi("mpirun")
pytestmark = [
    pytest.mark.spack,
    pytest.mark.slow,
    pytest.mark.skipif(bool(ABSENT), reason=f"Open|SpeedShop is not on PATH: {ABSENT}"),
    pytest.mark.skipif(not (MPICC and MPIRUN), reason="no Open MPI: mpicc, mpirun"),
]


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "work.c").write_text(PROGRAM)
    words = [MPICC, "-O1", "-o", "work", "work.c"]
    succeeded(ran(*words, cwd=folder))
    return folder / "work"


def start(folder: Path, words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    many = {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    environment = {**os.environ, **root, **many, **variables}
    words = [word.replace(FOLDER_PLACEHOLDER, str(folder)) for word in words]
    return ran(*words, cwd=folder, env=environment)


def run(folder: Path, name: str, *application: object, ranks: int = 2):
    tool, words = TOOLS[name], [str(word) for word in application]
    launched = tool.wrap([MPIRUN, "-np", str(ranks)], words)
    return start(folder, launched, **tool.environment())


def counted(folder: Path, name: str, *application: object, ranks: int = 2) -> dict:
    succeeded(run(folder, name, *application, ranks=ranks))
    return {(row.rank, row.event): row for row in TOOLS[name].parse(folder, ranks)}


def test_an_event_that_does_not_exist_does_not_shift_the_columns_of_others(tmp_path, work):
    events = "PAPI_NO_SUCH,perf::TASK-CLOCK,perf::PAGE-FAULTS"
    words = [MPIRUN, "-np", "2", "ossrun", "-c", "hwcsamp", str(work)]
    variables = {"OPENSS_HWCSAMP_EVENTS": events, "OPENSS_RAWDATA_DIR": f"{tmp_path}/raw"}
    done = start(tmp_path, words, **variables)
    assert done.returncode == 0
    assert "PAPI_NO_SUCH cannot be counted" in done.stderr
    write_views(tmp_path, 2, "hwcsamp", {})
    for rank in (0, 1):
        sums = read_view(view_path(tmp_path, rank))
        time_s = sums["exclusive cpu time in seconds."]
        assert sums["papi_no_such"] == 0
        assert sums["perf::task-clock"] * 1e-9 == pytest.approx(time_s, rel=0.3)
        assert PAGES <= sums["perf::page-faults"] < 3 * PAGES


def test_hwcsamp_agrees_with_perf_stat_on_the_same_processes(tmp_path, work):
    perf, oss = TOOLS["perf_stat"], TOOLS["openspeedshop"]
    if why := perf.why_missing():
        pytest.skip(why)
    words = oss.wrap(perf.wrap([MPIRUN, "-np", "4"], []), [str(work)])
    done = start(tmp_path, words, **oss.environment())
    assert done.returncode == 0, done.stderr
    by_perf = {row.rank: row for row in perf.parse(tmp_path, 4) if "task-clock" in row.event}
    by_oss = {row.rank: row for row in oss.parse(tmp_path, 4) if row.event == "perf::TASK-CLOCK"}
    for rank in range(4):
        # perf also counts ossrun, MPI_Init and MPI_Finalize.
        assert by_oss[rank].value < by_perf[rank].value < by_oss[rank].value + 1


def test_the_application_keeps_its_arguments_and_its_exit_status(tmp_path, work):
    level = "openspeedshop:pcsamp"
    assert "two  words *" in run(tmp_path, level, work, 0, "two  words *").stdout
    assert run(tmp_path, level, "/nowhere/program").returncode == 127
    for words, status in ((["3"], 3), (["0", "x", "x"], 139)):
        assert run(tmp_path, "openspeedshop", work, *words).returncode == status
    words = TOOLS["openspeedshop"].wrap([MPIRUN, "-np", "2"], [str(work)])
    done = start(tmp_path, words, OMP_NUM_THREADS="2")
    assert done.returncode == 125
    assert "one thread per rank, not 2" in done.stderr
