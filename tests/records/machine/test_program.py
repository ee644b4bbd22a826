"""Facts about a program file, compared with binutils and coreutils; versions; loaded modules.

Versions are read from real answers of the programs.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from records.machine import program as versions
from records.machine.program import (
    compilers_in,
    images_in,
    loaded_modules,
    modules_not_among,
    modules_not_loaded,
    mpi_library,
    program_facts,
)

SH = shutil.which("sh") or "/bin/sh"
#: Output of ldd, made of those for Debian 12's Open MPI 4.1.4 and for the mpich wheel.
LDD = """\
\tlinux-vdso.so.1 (0x00007ffc)
\tlibmpi_cxx_no.so.1 => not found
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f01)
\tlibmpi.so.40 => {path} (0x00007f02)
\t/lib64/ld-linux-x86-64.so.2 (0x00007f03)
"""


#: Output of readelf of binutils 2.40.
READELF = """
String dump of section '.comment':
  [     0]  GCC: (Debian 12.2.0-14) 12.2.0
  [    1f]  clang version 14.0.6
  [    40]  GCC: (Debian 12.2.0-14) 12.2.0

"""


@pytest.mark.parametrize(
    ("printed", "compilers"),
    [
        (READELF, ["GCC: (Debian 12.2.0-14) 12.2.0", "clang version 14.0.6"]),
        ("readelf: Warning: Section '.comment' was not dumped because it does not exist\n", []),
        ("", []),
    ],
)
def test_compilers_that_made_a_program(printed: str, compilers: list[str]) -> None:
    assert compilers_in(printed) == compilers


def test_path_and_checksum_are_those_of_the_file_that_runs(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(SH)
    summed = subprocess.run(["sha256sum", SH], capture_output=True, text=True, check=True)
    here = {"PATH": str(tmp_path)}
    for name, folder in (("link", Path("/")), ("./link", tmp_path), (SH, Path("/"))):
        facts = program_facts(name, here, folder)
        assert facts["name"] == name
        assert facts["path"] == os.path.realpath(SH)
        assert facts["sha256"] == summed.stdout.split()[0]
        assert facts["mpi"] is None
    script = program_facts(str(Path(sys.executable).parent / "reframe"), {}, Path("/"))
    assert script["sha256"]
    assert (script["compilers"], script["mpi"]) == ([], None)
    missing = program_facts("nothing-of-that-name", here, tmp_path)
    assert (missing["path"], missing["sha256"], missing["compilers"]) == (None, None, [])


@pytest.mark.parametrize(
    ("line", "images"),
    [
        ('exec apptainer exec /opt/a.sif lulesh2.0 "$@"', ["/opt/a.sif"]),
        ("apptainer exec '/opt/a.sif' x; apptainer exec --bind=/x/b.sif /opt/a.sif y",
         ["/opt/a.sif", "/x/b.sif"]),
        # These names are not whole paths: only the shell or apptainer knows what they mean.
        ("apptainer exec $HOME/a.sif x", []),
        ("apptainer exec /opt/$NAME.sif x", []),
        ("apptainer exec a.sif x", []),
        ("apptainer exec oras://host/a.sif x", []),
        ("ls /opt/a.sif.old /opt/a.siftings", []),
    ],
)  # fmt: skip
def test_images_are_those_that_a_script_names_by_whole_path(line: str, images: list[str]) -> None:
    assert images_in(f"#!/bin/sh\n{line}\n") == images
    assert images_in(f"\x7fELF {line}\n") == []


def test_an_image_has_its_own_checksum(tmp_path: Path) -> None:
    image, start = tmp_path / "lulesh.sif", tmp_path / "lulesh2.0"
    image.write_bytes(b"abc")
    start.write_text(
        f"#!/bin/sh\nexec apptainer exec {image} lulesh2.0\n# not {tmp_path}/old.sif\n"
    )
    start.chmod(0o755)
    # This SHA-256 of the text abc is from FIPS 180-2.
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert program_facts(str(start), {}, Path("/"))["images"] == {str(image): abc}


def test_mpi_is_the_library_that_is_linked(tmp_path: Path) -> None:
    (tmp_path / "libmpi.so.40.30.4").write_text("")
    (tmp_path / "libmpi.so.40").symlink_to("libmpi.so.40.30.4")
    library = mpi_library(LDD.format(path=tmp_path / "libmpi.so.40"))
    assert library == str(tmp_path / "libmpi.so.40.30.4")
    for name in ("libmpich.so.12", "libmpi-abc123.so.12", "libmpi_cray.so.12", "libpmpi.so.0"):
        assert mpi_library(f"\t{name} => /opt/{name} (0x1)\n") == f"/opt/{name}"
    for other in ("libmpicc.txt", "libm.so.6", "libimpi.so", "libmpfr.so.6"):
        assert mpi_library(f"\t{other} => /opt/{other} (0x1)\n") is None
    assert mpi_library("\tnot a dynamic executable\n") is None
    assert mpi_library("\tlibmpi.so.40 => /opt/\0libmpi.so.40 (0x1)\n") is None


#: Program, its answer, and the version in it. The answers are those of perftest 6.06, Open MPI
#: 4.1.4, MPICH 5.0.2 and Slurm 22.05.8, from Debian 12 and from wheels.
ANSWERS = [
    ("ib_write_bw", "Version: 6.06\n", "Version: 6.06"),
    ("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs\n", "mpirun (Open MPI) 4.1.4"),
    ("mpiexec", "HYDRA build details:\n    Version:      5.0.2\n", "Version: 5.0.2"),
    ("srun", "slurm-wlm 22.05.8\n", "slurm-wlm 22.05.8"),
]


def program(folder, name, answer, status):
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}END\nexit {status}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(("name", "answer", "version"), ANSWERS)
def test_versions_in_answers_of_programs(tmp_path, name, answer, version):
    path = program(tmp_path, name, answer, 1 if name == "ib_write_bw" else 0)
    assert versions.version_of(str(path)) == version


def test_programs_without_a_version_are_left_out(tmp_path, monkeypatch):
    program(tmp_path, "srun", "srun: error: no answer from 10.1.0.2:6817\n", 1)
    program(tmp_path, "mpirun", "mpirun (Open MPI) 4.1.4\n", 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(versions, "WHEELS", ("click", "no-such-wheel"))
    detected = versions.detect_versions()
    assert detected["mpirun"] == "mpirun (Open MPI) 4.1.4"
    assert "srun" not in detected
    assert detected["wheel click"][0].isdigit()
    assert "wheel no-such-wheel" not in detected
    assert versions.version_of("") is None


# Loaded modules are compared with requested ones.


LOADED = ["gcc/13.2.0", "openmpi/5.0.8-ucx", "hpccg/9.9"]


@pytest.mark.parametrize(
    ("requested", "missing"),
    [
        (["gcc"], []),
        (["gcc/13"], []),
        (["gcc/13.2.0"], []),
        (["gcc/1"], ["gcc/1"]),
        (["gcc/12"], ["gcc/12"]),
        (["gc"], ["gc"]),
        (["openmpi/5.0.8"], []),
        (["hpccg/9.9", "hpccg/9.8", "lammps"], ["hpccg/9.8", "lammps"]),
        ([], []),
    ],
)
def test_a_requested_module_may_omit_parts_of_its_version(
    requested: list[str], missing: list[str]
) -> None:
    assert modules_not_among(requested, LOADED) == missing


def test_loaded_modules_are_read_from_the_variable_of_lmod_and_environment_modules() -> None:
    assert loaded_modules({"LOADEDMODULES": ":".join(LOADED)}) == LOADED
    assert loaded_modules({"LOADEDMODULES": ""}) == []
    assert loaded_modules({}) == []


def test_the_module_system_is_asked_about_an_alias(tmp_path: Path) -> None:
    """`mpi` is an alias of openmpi, which only the module system knows.

    In Lmod 8.6, `module is-loaded mpi` fails, and `module load mpi` moves openmpi to the end.
    """
    script = tmp_path / "modules.sh"
    script.write_text(
        "module() { case $2 in\n"
        "mpi) LOADEDMODULES=gcc/13:openmpi/5.0.8; echo text of a module;;\n"
        "gcc/14) LOADEDMODULES=openmpi/5.0.8:gcc/14;;\n"
        "*) return 1;; esac; [ $1 = load ]; }\n"
    )
    environment = {
        "PATH": os.environ["PATH"],
        "BASH_ENV": str(script),
        "LOADEDMODULES": "openmpi/5.0.8:gcc/13",
    }
    assert modules_not_loaded(["mpi", "cuda"], environment) == ["cuda"]
    assert modules_not_loaded(["gcc/14"], environment) == ["gcc/14"]
    assert modules_not_loaded(["mpi"], {"PATH": os.environ["PATH"], "LOADEDMODULES": ""}) == ["mpi"]
