"""Loaded modules against requested ones."""

import os
from pathlib import Path

import pytest

from nimc.machine.program import loaded_modules, missing_modules, modules_not_loaded

LOADED = ["gcc/13.2.0", "openmpi/5.0.8-ucx", "hpccg/9.9"]


@pytest.mark.parametrize(
    ("requested", "lacking"),
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
def test_versions_may_be_left_out(requested: list[str], lacking: list[str]) -> None:
    assert missing_modules(requested, LOADED) == lacking


def test_the_variable_of_lmod_and_environment_modules() -> None:
    assert loaded_modules({"LOADEDMODULES": ":".join(LOADED)}) == LOADED
    assert loaded_modules({"LOADEDMODULES": ""}) == []
    assert loaded_modules({}) == []


def test_an_alias_is_asked_of_the_module_system(tmp_path: Path) -> None:
    """`mpi` stands for openmpi: only the module system knows."""
    script = tmp_path / "modules.sh"
    script.write_text('module() { [ "$1 $2" = "is-loaded mpi" ]; }\n')
    environment = {
        "PATH": os.environ["PATH"],
        "BASH_ENV": str(script),
        "LOADEDMODULES": "openmpi/5.0.8",
    }
    assert modules_not_loaded(["mpi", "cuda"], environment) == ["cuda"]
    assert modules_not_loaded(["mpi"], {"PATH": os.environ["PATH"], "LOADEDMODULES": ""}) == ["mpi"]
