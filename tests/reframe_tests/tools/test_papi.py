"""Tests of the tool PAPI with captured files of PAPI 7.0, and tests of its shim.

The captured files have software events of two ranks of an MPI program. The shim is a library that
starts and stops PAPI in each rank. A library of this module stands in for PAPI and notes its calls.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from records.errors import InputError
from records.last_words import cause_or_gist
from reframe_tests.tools import TOOLS, papi
from reframe_tests.tools.base import FOLDER_PLACEHOLDER, ToolError
from tests.reframe_tests.reframe_call import run_tool, script

CAPTURE = Path(__file__).parents[2] / "captures" / "papi" / "two_ranks"
MPICC, MPIEXEC = (Path(sys.executable).parent / name for name in ("mpicc", "mpiexec"))
HEADER = "#define PAPI_OK 0\nint PAPI_hl_region_begin(const char *);\n"
HEADER += "int PAPI_hl_region_end(const char *);\nint PAPI_hl_stop(void);\n"
#: The library that stands in for PAPI. It notes each call, and whether MPI is initialized and
#: finalized at that time.
LIBRARY = """
#include <stdio.h>
#include <stdlib.h>
#include "papi.h"
extern int PMPI_Initialized(int *flag) __attribute__((weak));
extern int PMPI_Finalized(int *flag) __attribute__((weak));
static int note(const char *what) {
  int in = 0, out = 0;
  if (PMPI_Initialized) PMPI_Initialized(&in), PMPI_Finalized(&out);
  char path[4096];
  snprintf(path, sizeof path, "%s/calls", getenv("PAPI_OUTPUT_DIRECTORY"));
  FILE *file = fopen(path, "a");
  fprintf(file, "%s %d%d %s\\n", what, in, out, getenv("PAPI_EVENTS"));
  return fclose(file);
}
int PAPI_hl_region_begin(const char *name) { (void)name; return note("begin"); }
int PAPI_hl_region_end(const char *name) { (void)name; return note("end"); }
int PAPI_hl_stop(void) { return note("stop"); }
"""
PROGRAM = """
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv) {
  int rank;
  INIT;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (!rank) puts("application");
  MPI_Finalize();
  return 0;
}
"""


@pytest.fixture
def software(monkeypatch):
    """The tool with a group that has the events of the capture and one more event."""
    events = ("perf::TASK-CLOCK", "perf::PAGE-FAULTS:u=1:k=1", "PAPI_TOT_CYC")
    monkeypatch.setitem(papi.GROUPS, "software", events)
    return papi.Papi("software")


def test_the_counts_of_each_rank_are_those_of_its_file(software, tmp_path):
    counts = {(row.rank, row.event): row for row in software.parse(CAPTURE, 2)}
    # A person read these values in the two files.
    assert counts[0, "perf::TASK-CLOCK"].value == 83369564
    assert counts[1, "perf::TASK-CLOCK"].value == 112774171
    assert counts[1, "perf::PAGE-FAULTS:u=1:k=1"].value == 796
    assert counts[0, "region-time"].value == pytest.approx(0.657279790)
    assert counts[0, "region-time"].unit == "s"
    # PAPI has left out this event. The event is not supported, and its count is not zero.
    left_out = counts[0, "PAPI_TOT_CYC"]
    assert (left_out.value, left_out.state) == (None, "not supported")
    # The count of a rank is the sum over its threads.
    shutil.copytree(CAPTURE / "rank-0", tmp_path / "rank-0")
    (file,) = (tmp_path / "rank-0").rglob("*.json")
    record = json.loads(file.read_text())
    record["threads"]["1"] = record["threads"]["0"]
    file.write_text(json.dumps(record))
    summed = {row.event: row.value for row in software.parse(tmp_path, 1)}
    assert summed["perf::TASK-CLOCK"] == 2 * 83369564


def cut_off(rank: Path) -> None:
    (file,) = rank.rglob("*.json")
    file.write_text(file.read_text()[:400])


def emptied(rank: Path) -> None:
    shutil.rmtree(rank)
    rank.mkdir()


def second_rank(rank: Path) -> None:
    shutil.copytree(rank, rank.with_name("rank-1"))


def second_process(rank: Path) -> None:
    shutil.copytree(rank / "papi_hl_output", rank / "papi_hl_output-1")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (shutil.rmtree, "rank-0: no such file; 0 of 1 ranks left counts"),
        (emptied, "rank-0: no counts; PAPI counts none of perf::TASK-CLOCK"),
        (second_rank, "rank-1: unexpected file; the application has 1 rank"),
        (cut_off, r"rank_000000\.json: not a file of PAPI 7"),
        (second_process, "2 processes left counts"),
    ],
)
def test_a_rank_without_the_counts_of_one_process_is_named(software, tmp_path, change, fault):
    change(Path(shutil.copytree(CAPTURE / "rank-0", tmp_path / "rank-0")))
    with pytest.raises(ToolError, match=fault):
        software.parse(tmp_path, 1)


@pytest.fixture
def library(tmp_path, monkeypatch):
    """The folder of the library that stands in for PAPI; the test also has its own cache."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "papi.h").write_text(HEADER)
    (folder / "papi.c").write_text(LIBRARY)
    command = ["cc", "-shared", "-fPIC", "papi.c", "-o", "libpapi.so"]
    subprocess.run(command, cwd=folder, check=True, timeout=60)
    compiler = script(folder / "cc", f'exec cc -I {folder} -L {folder} "$@"')
    monkeypatch.setenv("CC", str(compiler))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.skipif(not MPICC.exists(), reason="no mpicc of the wheel mpich")
@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    "init", ["MPI_Init(&argc, &argv)", "MPI_Init_thread(&argc, &argv, MPI_THREAD_SINGLE, &rank)"]
)
def test_a_rank_is_counted_between_init_and_finalize(tmp_path, init):
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text(PROGRAM.replace("INIT", init))
    subprocess.run([str(MPICC), str(source), "-o", str(program)], check=True, timeout=60)
    launcher = [str(MPIEXEC), "-n", "2"]
    done = run_tool(TOOLS["papi:stalls"], tmp_path, str(program), launcher=launcher)
    assert (done.returncode, done.stdout) == (0, "application\n"), done.stderr
    events = "PAPI_TOT_CYC,PAPI_TOT_INS,PAPI_STL_ICY"
    for rank in (0, 1):
        calls = (tmp_path / f"rank-{rank}" / "calls").read_text().splitlines()
        assert calls == [f"begin 10 {events}", f"end 10 {events}", f"stop 10 {events}"]


#: An MPI whose functions for Fortran call its functions for C by one name or the other.
FORTRAN_MPI = """
#include <stddef.h>
int PMPI_Initialized(int *flag), PMPI_Finalized(int *flag), PMPI_Finalize(void);
int PMPI_Init(int *argc, char ***argv), MPI_Init(int *argc, char ***argv), MPI_Finalize(void);
static int initialized, finalized;
int PMPI_Initialized(int *flag) { *flag = initialized; return 0; }
int PMPI_Finalized(int *flag) { *flag = finalized; return 0; }
int PMPI_Init(int *argc, char ***argv) { (void)argc, (void)argv; initialized = 1; return 0; }
int PMPI_Finalize(void) { finalized = 1; return 0; }
__attribute__((weak)) int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }
__attribute__((weak)) int MPI_Finalize(void) { return PMPI_Finalize(); }
void mpi_initSUFFIX(int *error) { *error = NAME_Init(NULL, NULL); }
void mpi_init_threadSUFFIX(int *a, int *b, int *error) { *b = *a; mpi_initSUFFIX(error); }
void mpi_finalizeSUFFIX(int *error) { *error = NAME_Finalize(); }
"""
#: What a Fortran compiler makes of a program that initializes and finalizes MPI.
FORTRAN_PROGRAM = """
int mpi_initSUFFIX(int *), mpi_init_threadSUFFIX(int *, int *, int *), mpi_finalizeSUFFIX(int *);
int main(void) { int a = 0, b, error; INIT; mpi_finalizeSUFFIX(&error); return error; }
"""


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize(
    "init", ["mpi_initSUFFIX(&error)", "mpi_init_threadSUFFIX(&a, &b, &error)"]
)
@pytest.mark.parametrize("suffix", ["_", "_f08_"])
@pytest.mark.parametrize("name", ["PMPI", "MPI"])  # of Open MPI, and the other way
def test_a_rank_of_a_fortran_program_is_counted_once(library, tmp_path, init, suffix, name):
    sources = {"mpi.c": FORTRAN_MPI, "program.c": FORTRAN_PROGRAM.replace("INIT", init)}
    for file, text in sources.items():
        (library / file).write_text(text.replace("SUFFIX", suffix).replace("NAME", name))
    build = "cc -shared -fPIC mpi.c -o libmpi.so && cc program.c -o program -L . -l mpi"
    subprocess.run(build, shell=True, cwd=library, check=True, timeout=60)
    launcher = ["env"]
    done = run_tool(TOOLS["papi:stalls"], tmp_path, str(library / "program"), launcher=launcher)
    assert done.returncode == 0, done.stderr
    calls = (tmp_path / "rank-0" / "calls").read_text().splitlines()
    assert [call.split()[:2] for call in calls] == [["begin", "10"], ["end", "10"], ["stop", "10"]]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.usefixtures("library")
def test_a_program_without_mpi_is_counted_from_start_to_end_without_its_children(tmp_path):
    program = "import os; os.system('true'); print('application'); raise SystemExit(3)"
    done = run_tool(TOOLS["papi:stalls"], tmp_path, sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (3, "application\n")
    calls = (tmp_path / "rank-0" / "calls").read_text().split()
    assert [word for word in calls if word.isalpha()] == ["begin", "end", "stop"]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.usefixtures("library")
def test_a_node_that_does_not_see_the_users_cache_says_so(tmp_path):
    """Nodes of some clusters see no home. The loader would only print that it ignores the shim."""
    wrapped = TOOLS["papi:stalls"].wrap([], ["true"])
    shim = papi.shim()
    shim.rename(shim.with_suffix(".elsewhere"))
    command = [word.replace(FOLDER_PLACEHOLDER, str(tmp_path)) for word in wrapped]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 127
    cause = cause_or_gist(done.stderr, done.stdout)
    assert cause
    assert "XDG_CACHE_HOME" in cause
    assert str(shim) in cause


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_the_shim_is_compiled_once_and_the_reason_names_what_is_missing(library, monkeypatch):
    # The library writes no results. PAPI also writes none if no event is valid.
    assert TOOLS["papi:caches"].why_missing() == (
        "PAPI counts none of PAPI_L1_TCM, PAPI_L2_TCM, PAPI_L3_TCM on this host"
    )
    compiler, first = os.environ["CC"], papi.shim()
    monkeypatch.setenv("CC", "/nowhere/cc")
    assert papi.shim() == first
    monkeypatch.setenv("CC", compiler)
    first.unlink()
    (library / "papi.h").write_text("#error no PAPI\n")
    with pytest.raises(InputError, match=r"its shim does not compile: .*\(apt install libpapi-dev"):
        papi.shim()
    assert "apt install libpapi-dev" in TOOLS["papi:stalls"].why_missing()

    def none():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", none)
    assert TOOLS["papi:stalls"].why_missing() == (
        "papi: no folder for its shim: Could not determine home directory. (set XDG_CACHE_HOME)"
    )
