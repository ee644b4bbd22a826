"""Where a check of others runs: docs/your-own-check.md, and what is said if that is nowhere."""

import re
import sys
from pathlib import Path

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


def test_a_check_of_another_site_says_what_to_write_and_that_helps(tmp_path: Path) -> None:
    mine = MINE
    for base in ("their_check", "by_hook"):
        mine += class_(f"none_{base}", base) + class_(f"one_{base}", base, SYSTEMS)
        mine += class_(f"both_{base}", base, SYSTEMS, ENVIRONS)
    said = shown(tmp_path, mine, "-L")
    known = "(environments: wheels, spack)"
    of_both = {
        "their_check": ("['daint:mc']", "['PrgEnv-gnu']"),
        "by_hook": ("['lumi:small +cpu']", "['+cray']"),
    }
    assert sorted(re.findall(r"WARNING: (.*)", said)) == sorted(
        warning
        for base, (systems, environs) in of_both.items()
        for warning in (
            f"none_{base} does not run on localhost: valid_systems {systems} matches no partition,"
            f" valid_prog_environs {environs} matches no environment; write in the class:"
            f" valid_systems = ['*']; valid_prog_environs = ['wheels'] {known}",
            f"one_{base} does not run on localhost: valid_prog_environs {environs} matches no"
            f" environment; write in the class: valid_prog_environs = ['wheels'] {known}",
        )
    )
    listed = re.findall(r"^- (\w+)", said, re.MULTILINE)
    assert sorted(listed) == ["both_by_hook"] * 2 + ["both_their_check"]


def test_the_two_forms_of_the_page(tmp_path: Path) -> None:
    first, mpi = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    said = shown(tmp_path, first + "from theirs import their_check\n" + mpi, "--dry-run")
    assert "Ran 2/2 test case(s)" in said
    assert "WARNING" not in said
    (script,) = tmp_path.glob("stage/**/contended_mpi/rfm_build.sh")
    assert "mpicc ring.c" in script.read_text()
