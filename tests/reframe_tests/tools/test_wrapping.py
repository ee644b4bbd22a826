"""What every tool owes to the application that it wraps, with stand-ins for the tools' programs."""

import os
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import TOOLS
from reframe_tests.tools.base import FOLDER_PLACEHOLDER
from tests.reframe_tests.reframe_call import ran, run_tool, script

#: Each notes its arguments, and runs the application.
PROGRAMS = {
    "perf": 'while [ "$1" != -- ]; do shift; done; shift; "$@"',
    "likwid-perfctr": 'shift 6; "$@"',
}
WRAPPED = ("perf_stat", "likwid:CYCLE_STALLS", "mpip")
AWKWARD = ("two words", "it's", '"quoted"', "$HOME `id` \\n *", "", "--", "-e")
CPUS = sorted(os.sched_getaffinity(0))


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs an application under a tool in a folder of an awkward name; `note` is what it noted."""
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
def test_words_output_and_status_of_the_application_survive(run, name):
    printed = "".join(f"{word}\n" for word in AWKWARD)
    done = run(name, "sh", "-c", 'printf "%s\\n" "$@"; exit 3', "x", *AWKWARD)
    assert (done.returncode, done.stdout) == (3, printed)
    # Ended by a signal, itself or by the tool's shell.
    assert run(name, "sh", "-c", "kill -9 $$").returncode in (137, -9)
    assert run(name, "/nowhere/program").returncode != 0
    # MPI launchers talk to a rank through descriptors that it inherits.
    read_end, write_end = os.pipe()
    says = [sys.executable, "-c", f"import os; os.write({write_end}, b'rank')"]
    done = run(name, *says, pass_fds=[write_end])
    os.close(write_end)
    assert (done.returncode, os.read(read_end, 9)) == (0, b"rank")
    os.close(read_end)


@pytest.mark.parametrize("name", [*WRAPPED, "openspeedshop:pcsamp"])
def test_the_launcher_starts_a_wrapper_per_rank(name):
    words = TOOLS[name].wrap(["mpiexec", "-n", "4"], ["app", "a b"])
    start = words.index("mpiexec")
    assert words[start : start + 4] == ["mpiexec", "-n", "4", "sh"]
    assert words[-2:] == ["app", "a b"]
    # Open|SpeedShop tries its events before the launcher starts.
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
def test_the_rank_is_found_whoever_starts_it(run, monkeypatch, variables, rank):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert run("perf_stat", "true").returncode == 0
    assert f" -o {run.folder}/rank-{rank}.json " in run.note.read_text()


@pytest.mark.parametrize("locale", ["de_DE.UTF-8", None])
def test_perf_has_decimal_points_and_the_application_its_own_locale(run, monkeypatch, locale):
    monkeypatch.setenv("LC_ALL", locale or "")
    done = run("perf_stat", "sh", "-c", 'echo "${LC_ALL-unset}"')
    assert done.stdout.strip() == (locale or "unset")
    assert run.note.read_text().startswith("C ")


@pytest.mark.parametrize("name", ["likwid:MEM", "perf_stat:dram"])
def test_controllers_are_counted_by_the_first_rank_of_a_node(run, monkeypatch, name):
    monkeypatch.setenv("PMI_RANK", "8")
    # Where no launcher names the first of a node, only rank 0 counts.
    assert run(name, "true").returncode == 0
    assert not run.note.exists()
    # Hydra's, Open MPI's and Slurm's names of the rank on its node.
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


def test_only_the_application_has_mpips_library_and_launchers_keep_their_files(run):
    launcher = ["sh", "-c", 'exec 9</dev/zero; exec "$@"', "launcher"]
    report = 'echo "$LD_PRELOAD"; echo seen > "${MPIP##* }/report"; readlink /proc/self/fd/9'
    done = run("mpip", "sh", "-c", report, launcher=launcher)
    assert done.stdout == "libmpiP.so\n/dev/zero\n"
    assert (run.folder / "report").read_text() == "seen\n"


def test_perf_and_the_shell_of_its_wrapper_agree_on_this_processor():
    # The awk of the wrapper, on the real /proc/cpuinfo; an unknown processor has no events.
    from records.machine.host import processor_identity

    shell = TOOLS["perf_stat:memory"].wrap([], ["true"])[2]
    choice = shell.replace("case ", "echo ", 1).partition(" in GenuineIntel")[0]
    done = ran("sh", "-c", choice)
    assert done.stdout.strip() == processor_identity(Path("/proc/cpuinfo").read_text())
