"""Where a check of others runs: docs/your-own-check.md, and what is said if that is nowhere."""

import re
import sys
from pathlib import Path

import pytest

from nimc.base.checkout import ROOT
from tests.reframe_tests.command import reframe, succeeded

PAGE = (ROOT / "docs" / "your-own-check.md").read_text()
TUTORIAL = Path(sys.prefix) / "share/doc/reframe-hpc/examples/tutorial/stream"
#: As sites write them: for their own system, in the class or in a hook.
THEIRS = """
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import parameter, performance_function, run_after, sanity_function


class their_check(rfm.RegressionTest):
    valid_systems = ["daint:mc"]
    valid_prog_environs = ["PrgEnv-gnu"]
    build_system = "SingleSource"
    sourcepath = "ring.c"

    @sanity_function
    def ended(self):
        return sn.assert_found("took", self.stdout)

    @performance_function("s")
    def time(self):
        return sn.extractsingle(r"took (\\S+)", self.stdout, 1, float)


class by_hook(their_check):
    size = parameter([1, 2])

    @run_after("init")
    def choose(self):
        self.valid_systems = ["lumi:small +cpu"]
        self.valid_prog_environs = ["+cray"]
"""
MINE = """
import reframe as rfm
from reframe_tests.mixin import NimcMixin
from theirs import by_hook, their_check
"""


def shown(folder: Path, mine: str, option: str) -> str:
    (folder / "theirs.py").write_text(THEIRS)
    (folder / "mine.py").write_text(mine)
    (folder / "src").mkdir()
    (folder / "src" / "ring.c").write_text("int main(void) { return 0; }\n")
    paths = f"{ROOT}:{TUTORIAL}:{folder}"
    file = folder / "mine.py"
    done = reframe(folder, "localhost", file, option, name=".*", PYTHONPATH=paths)
    return succeeded(done) + done.stderr


def class_(name: str, base: str, *lines: str) -> str:
    body = "\n".join(f"    {line}" for line in lines or ("pass",))
    return f"\n\n@rfm.simple_test\nclass {name}({base}, NimcMixin):\n{body}\n"


SYSTEMS, ENVIRONS = 'valid_systems = ["*"]', 'valid_prog_environs = ["wheels"]'


@pytest.mark.parametrize("base", ["their_check", "by_hook"])
def test_a_check_of_another_site_says_what_to_write_and_that_helps(
    tmp_path: Path, base: str
) -> None:
    mine = MINE + class_("none", base) + class_("one", base, SYSTEMS)
    said = shown(tmp_path, mine + class_("both", base, SYSTEMS, ENVIRONS), "-L")
    warnings = re.findall(r"WARNING: (.*)", said)
    assert len(warnings) == 2
    systems, environs = {
        "their_check": ("['daint:mc']", "['PrgEnv-gnu']"),
        "by_hook": ("['lumi:small +cpu']", "['+cray']"),
    }[base]
    assert warnings[0] == (
        f"none does not run on localhost: valid_systems {systems} matches no partition,"
        f" valid_prog_environs {environs} matches no environment; write in the class:"
        " valid_systems = ['*']; valid_prog_environs = ['wheels'] (environments: wheels, spack)"
    )
    assert warnings[1] == (
        f"one does not run on localhost: valid_prog_environs {environs} matches no environment;"
        " write in the class: valid_prog_environs = ['wheels'] (environments: wheels, spack)"
    )
    listed = re.findall(r"^- (\w+)", said, re.MULTILINE)
    assert listed == ["both"] * {"their_check": 1, "by_hook": 2}[base]


def test_the_two_forms_of_the_page(tmp_path: Path) -> None:
    first, mpi = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    said = shown(tmp_path, first + "from theirs import their_check\n" + mpi, "--dry-run")
    assert "Ran 2/2 test case(s)" in said
    assert "WARNING" not in said
    (script,) = tmp_path.glob("stage/**/contended_mpi/rfm_build.sh")
    assert "mpicc ring.c" in script.read_text()
