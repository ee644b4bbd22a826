"""Tests that a tool does not change the application that it wraps; scripts stand in for tools."""

import os
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import FOLDER_PLACEHOLDER
from tests.reframe_tests.reframe_call import ran, run_tool, script

#: Scripts that stand in for the programs of tools. Each script notes its arguments and then runs
#: the application.
PROGRAMS = {
    "perf": 'while [ "$1" != -- ]; do shift; done; shift; "$@"',
    "likwid-perfctr": 'shift 6; "$@"',
}
WRAPPED = ("perf_stat", "likwid:CYCLE_STALLS", "mpip")
AWKWARD = ("two words", "it's", '"quoted"', "$HOME `id` \\n *", "", "--", "-e")
CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function that runs an application under a tool; the name of the folder needs quotes.

    The attribute `note` is the file with the notes of the scripts.
    """
    folder = tmp_path / "two levels,tool=$name"
    folder.mkdir()
    for name, text in PROGRAMS.items():
        script(tmp_path / "bin" / name, f'echo "$LC_ALL $*" >> "$NOTE"; {text}')
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("NOTE", str(tmp_path / "note"))

    def started(name, *application, cpus=CPUS[:1], **options):
        options["preexec_fn"] = lambda: os.sched_setaffinity(0, cpus)
        return run_tool(TOOLS[name], folder, *application, **options)

    started.folder, started.note = folder, tmp_path / "note"
    return started


@pytest.mark.parametrize("name", WRAPPED)
def test_the_application_keeps_its_arguments_output_and_exit_status(run, name):
    printed = "".join(f"{word}\n" for word in AWKWARD)
    done = run(name, "sh", "-c", 'printf "%s\\n" "$@"; exit 3', "x", *AWKWARD)
    assert (done.returncode, done.stdout) == (3, printed)
    # A signal ends the application. Either the status is that of the application itself, or a shell
    # of the tool has converted it.
    assert run(name, "sh", "-c", "kill -9 $$").returncode in (137, -9)
    assert run(name, "/nowhere/program").returncode != 0
    # An MPI launcher communicates with a rank through file descriptors that the rank inherits.
    read_end, write_end = os.pipe()
    says = [sys.executable, "-c", f"import os; os.write({write_end}, b'rank')"]
    done = run(name, *says, pass_fds=[write_end])
    os.close(write_end)
    assert (done.returncode, os.read(read_end, 9)) == (0, b"rank")
    os.close(read_end)


@pytest.mark.parametrize("name", [*WRAPPED, "openspeedshop:pcsamp"])
def test_the_launcher_starts_a_wrapper_for_each_rank(name):
    words = TOOLS[name].wrap(["mpiexec", "-n", "4"], ["app", "a b"])
    start = words.index("mpiexec")
    assert words[start : start + 4] == ["mpiexec", "-n", "4", "sh"]
    assert words[-2:] == ["app", "a b"]
    # The tool for Open|SpeedShop tries its events before it starts the launcher.
    assert words.count(FOLDER_PLACEHOLDER) == 1 + name.startswith("open")
    assert (start == 0) == (not name.startswith("open"))


@pytest.mark.parametrize(
    ("variables", "rank"),
    [
        ({}, 0),
        ({"SLURM_PROCID": "5"}, 5),
        ({"OMPI_COMM_WORLD_RANK": "12"}, 12),
        ({"PMI_RANK": "3", "SLURM_PROCID": "0"}, 3),
        ({"PMIX_RANK": "7", "SLURM_PROCID": "0"}, 7),
    ],
)
def test_the_wrapper_finds_the_rank_for_each_launcher(run, monkeypatch, variables, rank):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run("perf_stat", "true").returncode == 0
    assert f" -o {run.folder}/rank-{rank}.json " in run.note.read_text()


@pytest.mark.parametrize("locale", ["de_DE.UTF-8", None])
def test_perf_prints_decimal_points_and_the_application_keeps_its_locale(run, monkeypatch, locale):
    monkeypatch.setenv("LC_ALL", locale or "")
    done = run("perf_stat", "sh", "-c", 'echo "${LC_ALL-unset}"')
    assert done.stdout.strip() == (locale or "unset")
    assert run.note.read_text().startswith("C ")


@pytest.mark.parametrize("name", ["likwid:MEM", "perf_stat:dram"])
def test_only_the_first_rank_of_a_node_counts_memory_controllers(run, monkeypatch, name):
    monkeypatch.setenv("PMI_RANK", "8")
    # If the launcher does not tell which rank is the first of a node, only rank 0 counts.
    assert run(name, "true").returncode == 0
    assert not run.note.exists()
    # Hydra, Open MPI and Slurm set these variables to the number of the rank on its node.
    for variable in ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"):
        for local in ("1", "0"):
            monkeypatch.setenv(variable, local)
            assert run(name, "true").returncode == 0
            assert run.note.exists() == (local == "0")
        assert "rank-8." in run.note.read_text()
        run.note.unlink()
        monkeypatch.delenv(variable)


def test_a_rank_of_likwid_counts_on_the_cpus_that_it_may_use(run):
    assert run("likwid:CYCLE_STALLS", "true").returncode == 0
    expected = f" -c {CPUS[0]} -g CYCLE_STALLS -o {run.folder}/rank-0.csv "
    assert expected in run.note.read_text()


def test_only_the_application_loads_mpip_and_keeps_the_descriptors_of_the_launcher(run):
    launcher = ["sh", "-c", 'exec 9</dev/zero; exec "$@"', "launcher"]
    report = 'echo "$LD_PRELOAD"; echo seen > "${MPIP##* }/report"; readlink /proc/self/fd/9'
    done = run("mpip", "sh", "-c", report, launcher=launcher)
    assert done.stdout == "libmpiP.so\n/dev/zero\n"
    assert (run.folder / "report").read_text() == "seen\n"


def test_python_and_the_wrapper_find_the_same_identity_of_this_processor():
    # The awk program of the wrapper reads the real /proc/cpuinfo.
    from records.machine.host import processor_identity

    shell = TOOLS["perf_stat:memory"].wrap([], ["true"])[2]
    choice = shell.replace("case ", "echo ", 1).partition(" in GenuineIntel")[0]
    done = ran("sh", "-c", choice)
    assert done.stdout.strip() == processor_identity(Path("/proc/cpuinfo").read_text())
