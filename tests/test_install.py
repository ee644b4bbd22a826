"""How the checkout is installed: set-up's lock files, and no wheel."""

import os
import re
import shutil
import subprocess
import sys

import pytest

from records.checkout import ROOT

PROJECT = (ROOT / "pyproject.toml").read_text()
EXTRAS = ("wheels", "ucx", "spack", "dev", "docs")
LOCKS = {path.stem: path.read_text() for path in (ROOT / "requirements").glob("*.lock")}


def names(text: str) -> set[str]:
    return {name.lower().replace("_", "-") for name in re.findall(r"^([\w.-]+)==", text, re.M)}


def requested(section: str) -> set[str]:
    """Packages in a list of pyproject.toml; Python 3.10 has no reader of TOML."""
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


def test_setup_says_in_two_lines_that_pip_failed(tmp_path):
    for name in ("scripts/setup.sh", "requirements/base.lock"):
        (tmp_path / name).parent.mkdir()
        shutil.copy(ROOT / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    printed = "WARNING: Retrying\nERROR: none\nERROR: No matching distribution found for x==1"
    python.write_text(f"#!/bin/sh\necho '{printed}' >&2\nexit 1\n")
    python.chmod(0o755)
    done = subprocess.run(
        ["sh", "scripts/setup.sh"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "PYTHON": sys.executable, "CC": "true"},
    )
    assert done.returncode == 3
    pins = len(re.findall(r"^[\w.-]+==", LOCKS["base"], re.MULTILINE))
    assert done.stdout.splitlines() == [
        f"setup: installs into {tmp_path}/.venv; the first time takes a minute or two",
        f"setup: packages of base: {pins}",
    ]
    assert done.stderr.splitlines() == [
        "ERROR: No matching distribution found for x==1",
        "setup: pip cannot install requirements/base.lock (.venv/pip.log); without a network:"
        " docs/first-day.md#a-site-without-a-network",
    ]


def test_make_adds_the_extras_that_the_last_set_up_left_out(tmp_path):
    for name in ("Makefile", "pyproject.toml", "scripts/setup.sh"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("requirements", "conductor/mpi_put"):
        shutil.copytree(ROOT / name, tmp_path / name)
    log, last = tmp_path / "installed", "for last; do :; done; echo $last"
    lines = {"python": f'{last} >>"{log}"', "nimc": ":", "mpicc": f'{last} >>"{log}"'}
    for name, line in lines.items():
        program = tmp_path / ".venv" / "bin" / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!/bin/sh\n{line}\n")
        program.chmod(0o755)

    def installed(*words: str) -> list[str]:
        log.write_text("")
        environment = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "CC": "true"}
        subprocess.run(["make", *words], cwd=tmp_path, check=True, env=environment)
        return re.findall(r"(\w+)\.(?:lock|c)$", log.read_text(), re.MULTILINE)

    assert installed("campaign", "NIMC_EXTRAS=") == ["base"]
    assert installed("campaign", "NIMC_EXTRAS=") == []
    # The writer of one host is compiled with the MPI of the wheels.
    assert installed("campaign") == ["base", "wheels", "ucx", "mpi_put"]
    assert installed("campaign") == []
    assert installed("campaign", "NIMC_EXTRAS=") == []
    wheels_and_spack = ["base", "wheels", "spack", "mpi_put"]
    assert installed("campaign", "NIMC_EXTRAS=wheels spack") == wheels_and_spack
    # What tests need is installed once, with all that a campaign needs.
    all_extras = ["base", "wheels", "ucx", "spack", "dev", "docs", "mpi_put"]
    assert installed(".venv/.dev") == all_extras
    assert installed("campaign") == []
    assert installed(".venv/.dev") == []


def test_pages_name_locks_and_extras_that_exist():
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    text = "\n".join(page.read_text() for page in pages)
    assert "requirements.lock" not in text
    for words in re.findall(r"setup\.sh((?: [a-z0-9]+)*)", text):
        assert set(words.split()) <= set(LOCKS)
    # Whoever has neither modules nor Spack yet needs the workloads of the wheels.
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
