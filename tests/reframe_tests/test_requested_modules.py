"""Tests of environment modules with a real module system.

The job loads each requested module. If a module does not exist, the block fails and names the
module. A host with Debian has either Lmod or environment-modules; the tests of the other system
are skipped.
"""

import os
from pathlib import Path

import pytest

from records.checkout import ROOT
from tests.reframe_tests.reframe_call import provenance_of, reframe, script
from tests.undisturbed import VARIABLES

LMOD = Path("/usr/share/lmod/lmod")
ENVIRONMENT_MODULES = Path("/usr/share/modules")
#: ReFrame's name of a module system -> the file that defines the shell function `module`, and the
#: variables that ReFrame needs.
SYSTEMS = {
    "lmod": (LMOD / "init/bash", {"LMOD_CMD": str(LMOD / "libexec/lmod")}),
    "tmod4": (ENVIRONMENT_MODULES / "init/bash", {}),
}
pytestmark = pytest.mark.slow


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(("module", "runs"), [("hpccg/1.0", True), ("hpccg/9.9", False)])
def test_a_program_on_path_does_not_replace_that_of_a_missing_module(
    tmp_path: Path, system: str, module: str, runs: bool
) -> None:
    """PATH also has a program `test_HPCCG`, so the missing module is not obvious."""
    start, needed = SYSTEMS[system]
    if not start.is_file():
        pytest.skip(f"no {start}")
    program = tmp_path / "bin" / "test_HPCCG"
    script(program, f"cat {ROOT}/tests/captures/hpccg/n1.txt")
    file = tmp_path / "modulefiles/hpccg/1.0"  # in Tcl, which Lmod reads as well
    file.parent.mkdir(parents=True)
    file.write_text(f"#%Module1.0\nprepend-path PATH {program.parent}\n")
    localhost = (ROOT / "configs/localhost.py").read_text()
    config = tmp_path / "modules.py"
    config.write_text(
        localhost.replace('"launcher": "mpiexec"', '"launcher": "local"')
        .replace('"nomod"', f'"{system}"')
        .replace('"environs": ["wheels", "spack"]', '"environs": ["spack"]')
        .replace('"features": ["spack"]', f'"features": ["modules"], "modules": ["{module}"]')
    )
    settings_of_check = {"arms": "off", "pairs": 1, "warmups": 0, "layout_cores": 1, **VARIABLES}
    result = reframe(
        tmp_path,
        config,
        "hpccg",
        "-r",
        name="hpccg_quick",
        settings={**settings_of_check, "nimc_dir": tmp_path / "run"},
        PATH=f"{program.parent}:{os.environ['PATH']}",
        BASH_ENV=str(start),
        MODULEPATH=str(tmp_path / "modulefiles"),
        LOADEDMODULES="",
        **needed,
    )
    samples = tmp_path / "run/samples/hpccg_quick.jsonl"
    text = samples.read_text() if samples.exists() else ""
    assert bool(text) == runs, result.stdout
    if not runs:
        assert "module hpccg/9.9 is not loaded on " in result.stdout
        return
    provenance = provenance_of(tmp_path / "run")
    assert provenance["modules"] == ["hpccg/1.0"]
    assert provenance["program"]["path"] == str(program)
