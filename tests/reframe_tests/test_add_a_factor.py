"""docs/add-a-factor.md, followed literally, gives a factor that campaigns and checks know."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from analysis.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow
from tests.undisturbed import VARIABLES

PAGE = ROOT / "docs" / "add-a-factor.md"
#: Tells by its figure of merit what it found in its environment.
CHECK = '''
import shlex
import sys

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function

from reframe_tests.mixin import NimcMixin

_PROGRAM = """
import os
asked = os.environ.get("GLIBC_TUNABLES") == "glibc.malloc.hugetlb=1"
print(f"took {2 if asked else 1} s")
"""


@rfm.simple_test
class shows(rfm.RunOnlyRegressionTest, NimcMixin):
    executable = sys.executable
    executable_opts = ["-c", shlex.quote(_PROGRAM)]
    sourcesdir = None
    better = "lower"

    @sanity_function
    def ended(self):
        return sn.assert_found("took", self.stdout)

    @performance_function("s")
    def time(self):
        return sn.extractsingle(r"took (\\d) s", self.stdout, 1, float)
'''
CAMPAIGN = """\
name: pages
workloads: [{check: stream}]
factors: {huge_pages: [never, always]}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout to which the page was applied."""
    copy = copy_of_checkout(tmp_path_factory.mktemp("factor") / "checkout")
    shutil.copytree(ROOT / "docs", copy / "docs")
    added = follow(PAGE, copy)
    assert len(added) <= 3
    assert f"{sum(added.values())} lines in all" in PAGE.read_text()
    (copy / "reframe_tests" / "shows.py").write_text(CHECK)
    return copy


def run(checkout: Path, *words: object) -> str:
    environment = {
        **os.environ,
        "PYTHONPATH": str(checkout),
        "XDG_CACHE_HOME": str(checkout / "cache"),
    }
    done = subprocess.run(
        [str(word) for word in words],
        cwd=checkout,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def nimc(checkout: Path, *words: object) -> str:
    return run(checkout, sys.executable, "-c", "from campaigns.cli import main; main()", *words)


def test_a_campaign_can_name_it(checkout: Path) -> None:
    (checkout / "pages.yaml").write_text(CAMPAIGN)
    (case,) = json.loads(nimc(checkout, "plan", "pages.yaml", "--machine", "localhost", "--json"))[
        "cases"
    ]
    assert case["factors_within"] == {"huge_pages": ["never", "always"]}
    paired = {each["name"]: each["baseline"] for each in case["treatments"]}
    assert paired["off@huge_pages=always"] is None
    assert paired["on@huge_pages=always"] == "off@huge_pages=always"
    assert paired["on"] == "off"


def test_another_level_is_refused(checkout: Path) -> None:
    (checkout / "wrong.yaml").write_text(CAMPAIGN.replace("always", "sometimes"))
    with pytest.raises(AssertionError) as error:
        nimc(checkout, "plan", "wrong.yaml", "--machine", "localhost")
    assert "factors.huge_pages: sometimes found; allowed: never, always" in str(error.value)


def test_the_application_gets_it(checkout: Path) -> None:
    settings = {
        "arms": "off,aa",
        "pairs": 1,
        "warmups": 0,
        "factors": "huge_pages=never,always",
        "nimc_dir": checkout / "run",
        **VARIABLES,
    }
    reframe = Path(sys.executable).parent / "reframe"
    words = [reframe, "-C", "configs/localhost.py", "--prefix", checkout / "rfm"]
    words += ["-c", "reframe_tests/shows.py", "-r"]
    for name, value in settings.items():
        words += ["-S", f"shows.{name}={value}"]
    run(checkout, *words)
    samples = map(json.loads, (checkout / "run/samples/shows.jsonl").read_text().splitlines())
    found = {each["arm"]: (each["factors"]["huge_pages"], each["fom"]) for each in samples}
    assert found == {
        "off": ("never", 1.0),
        "aa": ("never", 1.0),
        "off@huge_pages=always": ("always", 2.0),
        "aa@huge_pages=always": ("always", 2.0),
    }
