"""Tests follow docs/extend.md#your-own-check word for word.

ReFrame runs the checks of the page, and a campaign plans one of them.
"""

import re
import shutil
import sys
from pathlib import Path

import pytest

from nimc.campaign.plan import block_plan
from nimc.campaign.request import load_request
from records.checkout import ROOT
from tests.literal_docs import section
from tests.reframe_tests.reframe_call import reframe, succeeded

PAGE = section("extend.md", "Your own check")
#: The page's first check derives from `stream_runonly.py` of this folder.
TUTORIAL = Path(sys.prefix) / "share/doc/reframe-hpc/examples/tutorial/stream"
#: The check that the page's second class derives from, and a check that sets its systems and
#: environments in a hook.
THIRD_PARTY_CHECKS = """
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


class check_with_hook(their_check):
    @run_after("init")
    def choose(self):
        self.valid_systems = ["lumi:small +cpu"]
        self.valid_prog_environs = ["+cray"]
"""
#: A class with a hook that sets systems and environments after the hook of its check.
CLASS_WITH_HOOK = """
from reframe.core.builtins import run_after
from third_party import check_with_hook


@rfm.simple_test
class contended_hook(check_with_hook, NimcMixin):
    @run_after("init")
    def choose_here(self):
        self.valid_systems = ["*"]
        self.valid_prog_environs = ["wheels"]
"""


def code_blocks(language: str) -> list[str]:
    """Return the blocks of the page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with third-party checks, and the page's classes in `mine.py`."""
    first_class, mpi_class = code_blocks("python")
    (tmp_path / "third_party.py").write_text(THIRD_PARTY_CHECKS)
    (tmp_path / "mine.py").write_text(
        f"{first_class}from third_party import their_check\n{mpi_class}"
    )
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "ring.c").write_text("int main(void) { return 0; }\n")
    shutil.copy(TUTORIAL / "stream_runonly.py", tmp_path)
    return tmp_path


def listed_checks(folder: Path, pattern: str) -> list[str]:
    """Return the checks of `mine.py` that ReFrame lists for a pattern of names."""
    listing = reframe(folder, "localhost", folder / "mine.py", "-l", name=pattern)
    return re.findall(r"^- (\w+)", succeeded(listing), re.MULTILINE)


@pytest.mark.slow
def test_reframe_runs_both_classes_and_compiles_one_with_mpicc(folder: Path) -> None:
    dry_run = reframe(
        folder, "localhost", folder / "mine.py", "--dry-run", name=".*", PYTHONPATH=str(ROOT)
    )
    assert "Ran 2/2 test case(s)" in succeeded(dry_run)
    (script,) = folder.glob("stage/**/contended_mpi/rfm_build.sh")
    assert "mpicc ring.c" in script.read_text()


@pytest.mark.slow
def test_a_hook_of_the_class_overrides_a_hook_of_its_check(folder: Path) -> None:
    with (folder / "mine.py").open("a") as file:
        file.write(CLASS_WITH_HOOK)
    assert listed_checks(folder, "contended_hook") == ["contended_hook"]


@pytest.mark.slow
def test_the_pages_campaign_has_a_case_for_each_value_of_its_variable(folder: Path) -> None:
    (campaign,) = code_blocks("yaml")
    (folder / "campaign.yaml").write_text(campaign)
    request = load_request(folder / "campaign.yaml", "localhost")
    cases = request.plan().cases
    assert [case.case for case in cases] == [
        "contended@num_cpus_per_task=1",
        "contended@num_cpus_per_task=2",
    ]
    command = cases[1].blocks[0].command
    assert command[command.index("-c") + 1] == str(folder / "mine.py")
    plan = block_plan(request, request.campaign.cases[1], 0, 6, folder, seed=1)
    assert plan.settings == {"num_tasks": 1, "figure": "triad_bw", "num_cpus_per_task": 2}


@pytest.mark.slow
def test_reframe_finds_the_campaigns_check_by_the_pattern_of_its_command(folder: Path) -> None:
    assert listed_checks(folder, "contended(%.*)?") == ["contended"]
