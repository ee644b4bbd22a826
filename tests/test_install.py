"""Tests how the checkout is installed: from the lock files of the set-up, and never as a wheel."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from records.checkout import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text()
EXTRAS = ("wheels", "ucx", "spack", "dev", "docs")
LOCKS = {path.stem: path.read_text() for path in (ROOT / "requirements").glob("*.lock")}


def names(text: str) -> set[str]:
    return {name.lower().replace("_", "-") for name in re.findall(r"^([\w.-]+)==", text, re.M)}


def requested(section: str) -> set[str]:
    """Return the packages in a list of pyproject.toml.

    A regular expression reads the list, since Python 3.10 has no parser of TOML.
    """
    (items,) = re.findall(rf"^{section} = \[(.*?)\]$", PROJECT, re.M | re.S)
    return {name.lower() for name in re.findall(r'"([\w.-]+)[=><]', items)}


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_adds_what_the_base_lacks(extra):
    assert requested(extra) <= names(LOCKS[extra])
    assert not names(LOCKS[extra]) & names(LOCKS["base"])


def test_the_base_is_what_a_measurement_needs():
    assert requested("dependencies") | requested("editable") <= names(LOCKS["base"])
    others = set().union(*(requested(extra) for extra in (*EXTRAS, "notebook")))
    assert not names(LOCKS["base"]) & others


@pytest.mark.parametrize("name", sorted(LOCKS))
def test_every_pin_has_hashes_and_no_address(name):
    pins = re.split(r"^(?=[\w.-]+==)", LOCKS[name], flags=re.M)[1:]
    assert pins
    assert all("--hash=sha256:" in pin for pin in pins)
    assert "://" not in LOCKS[name]


def test_setup_refuses_an_extra_that_does_not_exist_before_it_makes_anything(tmp_path):
    checkout = tmp_path / "a checkout"
    for name in ("scripts/setup.sh", "requirements/base.lock"):
        (checkout / name).parent.mkdir(parents=True)
        shutil.copy(ROOT / name, checkout / name)
    done = subprocess.run(
        ["sh", str(checkout / "scripts" / "setup.sh"), "wheel"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr == f"setup: no extra 'wheel': allowed are {', '.join(EXTRAS)}\n"
    assert not list(tmp_path.rglob(".venv"))


@pytest.mark.parametrize("variable", ["PYTHON", "CC"])
def test_setup_names_the_variable_that_leads_to_no_program(tmp_path, variable):
    """Modules and profiles of users set them, such as CC with options."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path / "scripts")
    environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "CC": "true"}
    done = subprocess.run(
        ["sh", "scripts/setup.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={**environment, variable: "none -m64"},
    )
    assert done.returncode == 3
    assert f"({variable} is none -m64) is missing" in done.stderr


def test_setup_takes_a_python_that_has_venv(tmp_path):
    """On Debian and Ubuntu, the system's Python has venv only if a package adds it."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path / "scripts")
    programs = {
        "python3": f'case $2 in *venv*) exit 1;; esac; exec {sys.executable} "$@"',
        "python3.12": f'echo "$@" >> {tmp_path}/asked; exec {sys.executable} "$@"',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CC": "none"}
    for name in ("python3.14", "python3.13"):
        (tmp_path / name).symlink_to("/bin/false")
    done = subprocess.run(
        ["sh", "scripts/setup.sh"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert "venv" in (tmp_path / "asked").read_text()
    assert done.stderr.startswith("setup: a C compiler (CC is none) is missing")


def setup_after_pip(tmp_path: Path, printed: str) -> subprocess.CompletedProcess[str]:
    """Run the set-up with a stand-in for Python whose pip prints `printed` and fails."""
    for name in ("scripts/setup.sh", "requirements/base.lock"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    (tmp_path / ".venv" / ".folder").write_text(f"{tmp_path}\n")
    has_pip = '[ "$1" = -c ] && exit 0'
    python.write_text(f"#!/bin/sh\n{has_pip}\ncat >&2 <<'END'\n{printed}\nEND\nexit 1\n")
    python.chmod(0o755)
    return subprocess.run(
        ["sh", "scripts/setup.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHON": sys.executable, "CC": "true"},
    )


#: A warning as pip 23.2 prints it, except that an address is shortened.
RETRY = (
    "WARNING: Retrying (Retry(total={}, connect=None, read=None, redirect=None, status=None)) after"
    " connection broken by 'ProxyError('Cannot connect to proxy.', NewConnectionError('[Errno 111]"
    " Connection refused'))': /simple/x/"
)
NO_PROXY = f"""\
{RETRY.format(1)}
{RETRY.format(0)}
ERROR: Could not find a version that satisfies the requirement x==1 (from versions: none)
ERROR: No matching distribution found for x==1"""
OTHER_BUILD = """\
ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated it
    x==1 from file:///site/x-1-py3-none-any.whl (from -r requirements/base.lock (line 1)):
        Expected sha256 8742
             Got        341b
"""


@pytest.mark.parametrize(
    ("printed", "lines"),
    [
        (
            NO_PROXY,
            [
                "setup: no connection: 'ProxyError('Cannot connect to proxy.',"
                " NewConnectionError('[Errno 111] Connection refused'))': /simple/x/",
                NO_PROXY.splitlines()[2],
            ],
        ),
        (OTHER_BUILD, [OTHER_BUILD.splitlines()[0]]),
        (
            "python: error while loading shared libraries: libpython3.11.so.1.0: not found",
            ["python: error while loading shared libraries: libpython3.11.so.1.0: not found"],
        ),
    ],
)
def test_setup_says_why_pip_failed(tmp_path, printed, lines):
    done = setup_after_pip(tmp_path, printed)
    assert done.returncode == 3
    pins = len(re.findall(r"^[\w.-]+==", LOCKS["base"], re.MULTILINE))
    assert done.stdout.splitlines() == [
        f"setup: installs into {tmp_path}/.venv; the first time takes a minute or two",
        f"setup: packages of base: {pins}",
    ]
    assert done.stderr.splitlines() == [
        *lines,
        "setup: pip cannot install requirements/base.lock (.venv/pip.log); proxies, a site's index,"
        " no network: docs/first-day.md#pip-at-a-site",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("without", ["python", "pip"])
def test_setup_makes_its_environment_anew_if_it_is_not_complete(tmp_path, without):
    """An environment module with the Python was removed, or the first set-up was interrupted."""
    for name in ("scripts/setup.sh", "requirements/base.lock"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    bin_folder = tmp_path / ".venv" / "bin"
    bin_folder.mkdir(parents=True)
    (bin_folder.parent / ".folder").write_text(f"{tmp_path}\n")
    (bin_folder / "python3").symlink_to(tmp_path / "apps" / "python3")
    for name in ("python", Path(sys.executable).resolve().name):
        (bin_folder / name).symlink_to("python3")
    if without == "pip":
        subprocess.run(
            [sys.executable, "-m", "venv", "--clear", "--without-pip", bin_folder.parent],
            check=True,
        )
    environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "CC": "true"}
    # pip finds no package index, and the user's settings make pip install into the home.
    environment |= {"PIP_NO_INDEX": "1", "PIP_USER": "1"}
    done = subprocess.run(
        ["sh", "scripts/setup.sh"], cwd=tmp_path, capture_output=True, text=True, env=environment
    )
    assert subprocess.run([bin_folder / "python", "-c", "import pip"], check=False).returncode == 0
    assert "ERROR: Could not find a version" in done.stderr


def path_with(tmp_path: Path, pythonpath: str, *, cwd: Path) -> list[str]:
    """Return where Python searches if the environment's packages are in `site-packages`."""
    packages = tmp_path / "site-packages"
    packages.mkdir()
    shutil.copy(ROOT / "scripts" / "pythonpath_last.pth", packages)
    program = tmp_path / "program"
    program.mkdir()
    (program / "main.py").write_text(
        f"import site, sys; site.addsitedir({str(packages)!r}); print(*sys.path[1:], sep='\\n')"
    )
    environment = {"PYTHONPATH": pythonpath}
    command = [sys.executable, "-S", program / "main.py"]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_packages_of_pythonpath_replace_none_of_this_environment(tmp_path):
    """A site's environment module of ReFrame or Python sets PYTHONPATH.

    Python would search these folders first. An empty entry is the current folder, which may be
    another user's.
    """
    current, foreign = tmp_path / "current", tmp_path / "apps" / "python3.6"
    current.mkdir()
    searched = path_with(tmp_path, f"{foreign}/:", cwd=current)
    assert searched[-3:] == [str(tmp_path / "site-packages"), str(foreign), str(current)]


def test_a_checkout_in_pythonpath_is_searched_first(tmp_path):
    """A session starts ReFrame so; the environment may be that of another checkout."""
    foreign = tmp_path / "apps" / "python3.6"
    searched = path_with(tmp_path, f"{foreign}:{ROOT}", cwd=tmp_path)
    assert searched.index(str(ROOT)) < searched.index(os.path.dirname(os.__file__))
    assert searched[-2:] == [str(tmp_path / "site-packages"), str(foreign)]


def test_make_adds_the_extras_that_the_last_set_up_left_out(tmp_path):
    for name in ("Makefile", "pyproject.toml", "scripts/setup.sh", "scripts/pythonpath_last.pth"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("requirements", "conductor/mpi_put"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / ".folder").write_text(f"{tmp_path}\n")
    log, last = tmp_path / "installed", "for last; do :; done; echo $last"
    lines = {"python": f'{last} >>"{log}"', "nimc": ":", "mpicc": f'{last} >>"{log}"'}
    for name, line in lines.items():
        program = tmp_path / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    packages = tmp_path / ".venv" / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)

    def installed(*words: str) -> list[str]:
        log.write_text("")
        environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "CC": "true"}
        subprocess.run(["make", *words], cwd=tmp_path, check=True, env=environment)
        return re.findall(r"(\w+)\.(?:lock|c)$", log.read_text(), re.MULTILINE)

    assert installed("campaign", "NIMC_EXTRAS=") == ["base"]
    assert (packages / "pythonpath_last.pth").is_file()
    assert installed("campaign", "NIMC_EXTRAS=") == []
    # `mpi_put`, a writer that works on one host, is compiled with the MPI of the extra `wheels`.
    assert installed("campaign") == ["base", "wheels", "ucx", "mpi_put"]
    assert installed("campaign") == []
    assert installed("campaign", "NIMC_EXTRAS=") == []
    wheels_and_spack = ["base", "wheels", "spack", "mpi_put"]
    assert installed("campaign", "NIMC_EXTRAS=wheels spack") == wheels_and_spack
    # The packages of the tests are installed once, with all packages that a campaign needs.
    all_extras = ["base", "wheels", "ucx", "spack", "dev", "docs", "mpi_put"]
    assert installed(".venv/.dev") == all_extras
    assert installed("campaign") == []
    assert installed(".venv/.dev") == []


@pytest.mark.parametrize("target", [".venv/.ready", ".venv/.dev"])
@pytest.mark.parametrize("is_copy", [True, False])
def test_a_copied_checkout_is_set_up_anew(tmp_path, target, is_copy):
    """The programs in its .venv would run the code of the checkout that was copied."""
    for name in ("Makefile", "pyproject.toml", "scripts/setup.sh", "scripts/pythonpath_last.pth"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "requirements", tmp_path / "requirements")
    environment = tmp_path / ".venv"
    environment.mkdir()
    for name, text in {".ready": "wheels ucx", ".dev": "", ".folder": str(tmp_path)}.items():
        (environment / name).write_text(f"{text}\n")
    if is_copy:
        (environment / ".folder").write_text("/home/user/nimc\n")
    log, python = tmp_path / "log", tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$1" = -c ] || {{ echo "$@" >{log}; exit 1; }}\n')
    python.chmod(0o755)
    (environment / "bin").mkdir()
    (environment / "bin" / "python").symlink_to(python)
    variables = {"PATH": os.environ["PATH"], "PYTHON": str(python), "CC": "true"}
    subprocess.run(["make", target], cwd=tmp_path, check=False, env=variables)
    assert log.exists() == is_copy
    if is_copy:
        assert log.read_text() == "-m venv --clear .venv\n"


@pytest.mark.parametrize("name", ["a b", "50%", "user's"])
def test_setup_refuses_a_path_that_make_and_slurm_cannot_quote(tmp_path, name):
    """GNU make cut such a path in the middle when it built `mpi_put`."""
    (tmp_path / name / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", tmp_path / name / "scripts")
    command = ["sh", str(tmp_path / name / "scripts" / "setup.sh")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"'{tmp_path}/{name}'" in done.stderr
    assert [path.name for path in (tmp_path / name).iterdir()] == ["scripts"]


def test_pages_name_locks_and_extras_that_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    assert "requirements.lock" not in text
    for words in re.findall(r"setup\.sh((?: [a-z0-9]+)*)", text):
        assert set(words.split()) <= set(LOCKS)
    # A user who has neither environment modules nor Spack yet needs the workloads of the extra
    # `wheels`.
    first_day = (ROOT / "docs" / "first-day.md").read_text()
    assert "\nsh scripts/setup.sh wheels ucx\n" in first_day


@pytest.mark.slow
@pytest.mark.parametrize("hook", ["build_wheel", "build_sdist"])
def test_a_wheel_is_refused_in_one_line(tmp_path, hook):
    call = f"import editable_only; editable_only.{hook}({str(tmp_path)!r})"
    done = subprocess.run(
        [sys.executable, "-c", call], cwd=ROOT / "scripts", capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "is not built as a wheel: clone it and run 'make campaign'" in done.stderr
    assert list(tmp_path.iterdir()) == []
    assert 'build-backend = "editable_only"\nbackend-path = ["scripts"]' in PROJECT
