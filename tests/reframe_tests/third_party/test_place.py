"""docs/extend.md#your-own-check, followed literally: by hand, and in a campaign."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from nimc.campaign.plan import block_plan
from nimc.campaign.prepare import prepare
from records.checkout import ROOT
from tests.literal_docs import section
from tests.reframe_tests.reframe_call import reframe, succeeded

PAGE = section("extend.md", "Your own check")
TUTORIAL = Path(sys.prefix) / "share/doc/reframe-hpc/examples/tutorial/stream"
#: As sites write them: for their own system, in the class or in a hook.
THEIRS = """
import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, run_after, sanity_function


class their_check(rfm.RegressionTest):
    build_system = "SingleSource"
    sourcepath = "ring.c"

    @sanity_function
    def ended(self):
        return sn.assert_found("took", self.stdout)

    @performance_function("s")
    def time(self):
        return sn.extractsingle(r"took (\\S+)", self.stdout, 1, float)


class by_hook(their_check):
    @run_after("init")
    def choose(self):
        self.valid_systems = ["lumi:small +cpu"]
        self.valid_prog_environs = ["+cray"]
"""
#: Its own places are set after those of the check.
HOOK = """
from reframe.core.builtins import run_after
from theirs import by_hook


@rfm.simple_test
class contended_hook(by_hook, NimcMixin):
    @run_after("init")
    def choose_here(self):
        self.valid_systems = ["*"]
        self.valid_prog_environs = ["wheels"]
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The third-party checks, and the page's classes next to them."""
    first, mpi = blocks("python")
    (tmp_path / "theirs.py").write_text(THEIRS)
    (tmp_path / "mine.py").write_text(first + "from theirs import their_check\n" + mpi)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "ring.c").write_text("int main(void) { return 0; }\n")
    shutil.copy(TUTORIAL / "stream_runonly.py", tmp_path)
    return tmp_path


def test_the_two_forms_by_hand(folder: Path) -> None:
    done = reframe(
        folder, "localhost", folder / "mine.py", "--dry-run", name=".*", PYTHONPATH=str(ROOT)
    )
    assert "Ran 2/2 test case(s)" in succeeded(done)
    (script,) = folder.glob("stage/**/contended_mpi/rfm_build.sh")
    assert "mpicc ring.c" in script.read_text()


def test_a_hook_of_the_check_is_overruled_by_one_of_the_class(folder: Path) -> None:
    with (folder / "mine.py").open("a") as file:
        file.write(HOOK)
    done = reframe(folder, "localhost", folder / "mine.py", "-l", name="contended_hook")
    assert re.findall(r"^- (\w+)", succeeded(done), re.MULTILINE) == ["contended_hook"]


def test_the_campaign(folder: Path) -> None:
    (text,) = blocks("yaml")
    (folder / "theirs.yaml").write_text(text)
    request = prepare(folder / "theirs.yaml", "localhost")
    assert [case.case for case in request.plan().cases] == [
        f"contended@num_cpus_per_task={threads}" for threads in (1, 2)
    ]
    command = request.plan().cases[1].blocks[0].command
    assert command[command.index("-c") + 1] == str(folder / "mine.py")
    plan = block_plan(request, request.campaign.cases[1], 0, 6, folder, seed=1)
    assert plan.settings == {"num_tasks": 1, "figure": "triad_bw", "num_cpus_per_task": 2}
    done = reframe(folder, "localhost", folder / "mine.py", "-l", name="contended(%.*)?")
    assert re.findall(r"^- (\w+)", succeeded(done), re.MULTILINE) == ["contended"]
