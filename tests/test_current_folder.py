"""Tests that nimc opens or starts no file of the current folder.

Another user may have made files there. The tests trace commands in a folder full of files that
Python, compilers and tools look for in the current folder.
"""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from records.checkout import ROOT, python_code
from tests.analysis.history.made import made_run
from tests.analysis.report.tables import add_table

NIMC = str(Path(sys.executable).with_name("nimc"))
RUN = ROOT / "tests" / "captures" / "run_quick" / "quick-localhost-20261123-021501"
#: Relative name on `sys.path`. Earlier ways to install `nimc` put it there.
HOOK = "__editable__.nimc-0.1.0.finder.__path_hook__"
MODULES = ("sitecustomize", "usercustomize", "json", "re", "click", "polars", "matplotlib", "nimc")
LIBRARIES = ("libgcc_s.so.1", "libgcc_s.so", "libc.so.6", "libgomp.so.1", "libpapi.so", "crt1.o")
SETTINGS = (
    "matplotlibrc",
    "ucx.conf",
    "specs",
    "libgomp.spec",
    ".pylintrc",
    "pyproject.toml",
    "setup.cfg",
    "spack.yaml",
    "reframe.toml",
    ".gitconfig",
    "fonts.conf",
    "slurm.conf",
)
PROGRAMS = ("cc", "as", "ld", "collect2", "git", "ldd", "lscpu", "ucx_info", "fc-list", "reframe")


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """Make a folder with files of every kind.

    Each program or module in it writes to the file `mark` beside the folder if it runs.
    """
    folder, mark = tmp_path / "planted", tmp_path / "mark"
    (folder / HOOK).mkdir(parents=True)
    for name in MODULES:
        for parent in (folder, folder / HOOK):
            (parent / f"{name}.py").write_text(f"open({str(mark)!r}, 'a').write({name!r})\n")
    for name in (*LIBRARIES, *SETTINGS):
        (folder / name).write_text("nonsense\n")
    for name in PROGRAMS:
        (folder / name).write_text(f"#!/bin/sh\necho {name} >>{mark}\n")
        (folder / name).chmod(0o755)
    return folder


def taken(trace: str, folder: Path) -> set[str]:
    """Return the files of a folder that a traced command opened or started.

    The command may have used a relative or an absolute path.
    """
    pattern = re.escape(str(folder))
    relative = re.findall(rf'openat\(AT_FDCWD<{pattern}>, "([^/"][^"]*)"', trace)
    whole = re.findall(rf'(?:openat\(AT_FDCWD<[^>]*>, |execve\()"{pattern}/([^"]*)"', trace)
    return {*relative, *whole, *re.findall(r'execve\("([^/"][^"]*)"', trace)}


def traced(folder: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], set[str]]:
    """Run a command in a folder.

    Returns the completed process, and the files of the folder that were opened or started.
    """
    if shutil.which("strace") is None:
        pytest.skip("no strace (apt install strace)")
    file = folder.parent / "trace"
    strace = ["strace", "-f", "-y", "--seccomp-bpf", "-e", "trace=openat,execve", "-o", str(file)]
    own_folders = {
        name: str(folder.parent / name.lower()) for name in ("XDG_CACHE_HOME", "MPLCONFIGDIR")
    }
    environment = {**os.environ, **own_folders, "PYTHONPATH": ""}
    environment["NIMC_SPACK_DIR"] = own_folders["MPLCONFIGDIR"]
    done = subprocess.run(
        [*strace, *command], cwd=folder, env=environment, capture_output=True, text=True
    )
    return done, taken(file.read_text(errors="replace"), folder)


COMMANDS = {
    "version": (NIMC, "--version"),
    "plan": (NIMC, "plan", "quick", "--machine", "localhost", "--results", "OUT"),
    "report": (NIMC, "report", str(RUN), "--output", "OUT"),
    "pack": (NIMC, "pack", str(RUN), "--author", "A, B", "--output", "OUT.zip"),
    "pages": (NIMC, "nights", "pages", "--results", "RESULTS", "--output", "OUT"),
    "spack": (NIMC, "spack", "info"),
    "PAPI's shim": tuple(python_code("import reframe_tests.tools.papi as papi; papi.shim()")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_nothing_from_a_planted_folder(planted: Path, name: str) -> None:
    results, output = planted.parent / "results", planted.parent / "out"
    if name == "pages":
        add_table(made_run(results / "monday"))
    paths = {"OUT": str(output), "OUT.zip": f"{output}.zip", "RESULTS": str(results)}
    words = [paths.get(word, word) for word in COMMANDS[name]]
    done, names = traced(planted, *words)
    # Some versions of Python try to open these names to show a line in a traceback.
    assert names <= {"<string>", "<unknown>"}, done.stderr
    assert not (planted.parent / "mark").exists()
    is_without_papi = "papi: its shim does not compile" in done.stderr
    assert done.returncode == 0 or is_without_papi, done.stderr


@pytest.mark.slow
def test_doctor_compiles_and_asks_programs_elsewhere(planted: Path) -> None:
    done, names = traced(planted, NIMC, "doctor", "--machine", "localhost", "-v")
    assert names == set()
    assert not (planted.parent / "mark").exists()
    assert re.search(r"^C compiler with OpenMP +ok", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.slow
def test_only_what_is_named_is_opened_there_and_figures_stay_the_same(planted: Path) -> None:
    shutil.copytree(RUN, planted / RUN.name)
    (planted / "matplotlibrc").write_text("lines.linewidth: 9\n")
    _, names = traced(planted, NIMC, "report", RUN.name, "--output", "here")
    assert names
    assert {name.split("/")[0] for name in names} <= {RUN.name, "here"}
    done, _ = traced(planted.parent, NIMC, "report", str(planted / RUN.name), "--output", "there")
    assert done.returncode == 0
    pages = [folder / "report.html" for folder in (planted / "here", planted.parent / "there")]
    assert pages[0].read_bytes() == pages[1].read_bytes()


def test_a_trace_shows_what_is_taken() -> None:
    trace = """\
1 openat(AT_FDCWD</p>, "matplotlibrc", O_RDONLY) = 3</p/matplotlibrc>
1 openat(AT_FDCWD</p>, "/usr/lib/libc.so.6", O_RDONLY) = 3</usr/lib/libc.so.6>
2 openat(AT_FDCWD</>, "/p/json.py", O_RDONLY) = -1 ENOENT (No such file or directory)
2 openat(AT_FDCWD</other>, "own", O_RDONLY) = 3</other/own>
3 execve("/p/cc", ["cc"], 0x1 /* 9 vars */) = 0
4 execve("./as", ["as"], 0x1 /* 9 vars */) = 0
"""
    assert taken(trace, Path("/p")) == {"matplotlibrc", "json.py", "cc", "./as"}


@pytest.mark.slow
def test_the_checkout_is_installed_by_its_whole_path(tmp_path: Path) -> None:
    build = "import editable_only; editable_only.build_editable(sys.argv[1])"
    program = f"import sys; sys.path.insert(0, {str(ROOT / 'scripts')!r}); {build}"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        (path_file,) = [name for name in content.namelist() if name.endswith(".pth")]
        assert content.read(path_file).decode().split() == [str(ROOT)]
        assert not [name for name in content.namelist() if name.endswith(".py")]
