"""docs/extend.md#add-a-factor and docs/extend.md#add-a-workload, followed literally."""

import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from records.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow, run_as_printed, section, steps
from tests.reframe_tests.command import ran, reframe, samples_of, succeeded
from tests.undisturbed import PROOF, VARIABLES

FACTOR, WORKLOAD, INJECTOR = (
    section("extend.md", f"Add {what}") for what in ("a factor", "a workload", "an injector")
)
#: Tells its niceness by its figure of merit.
CHECK = '''
import shlex
import sys

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function

from reframe_tests.mixin import NimcMixin

_PROGRAM = """
import os
print(f"took {1 + os.nice(0)} s")
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
        return sn.extractsingle(r"took (\\d+) s", self.stdout, 1, float)
'''
CAMPAIGN = """\
name: pages
workloads: [{check: stream}]
factors: {nice: [0, 7]}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout to which three sections of docs/extend.md were applied."""
    copy = copy_of_checkout(tmp_path_factory.mktemp("pages") / "checkout")
    shutil.copytree(ROOT / "docs", copy / "docs")
    shutil.copy(ROOT / "pyproject.toml", copy)
    added = follow(FACTOR, copy)
    assert len(added) <= 3
    assert f"{sum(added.values())} lines in all" in FACTOR
    added = follow(WORKLOAD, copy)
    assert added.keys() == {"reframe_tests/sort.py"}
    table = (ROOT / "docs" / "extend.md").read_text()
    assert f"#add-a-workload) | {added['reframe_tests/sort.py']} | one |" in table
    follow(INJECTOR, copy)
    (copy / "reframe_tests" / "shows.py").write_text(CHECK)
    site = copy / "site" / "localhost.yaml"
    site.write_text(re.sub(r"^proof: .*\n", PROOF, site.read_text(), flags=re.MULTILINE))
    return copy


#: Plans a campaign, and one with another level.
PLAN = """
import sys
from nimc.cli.main import main
for file in ("pages.yaml", "refused.yaml"):
    sys.argv = ["nimc", "plan", file, "--machine", "localhost", "--json"]
    try:
        main()
    except SystemExit as end:
        print(end.code, file=sys.stderr)
"""


def test_a_campaign_can_name_it(checkout: Path) -> None:
    (checkout / "pages.yaml").write_text(CAMPAIGN)
    (checkout / "refused.yaml").write_text(CAMPAIGN.replace("7", "20"))
    places = {"PYTHONPATH": str(checkout), "XDG_CACHE_HOME": f"{checkout}/cache"}
    done = ran(sys.executable, "-c", PLAN, cwd=checkout, env=os.environ | places)
    (case,) = json.loads(succeeded(done))["cases"]
    assert case["factors_within"] == {"nice": [0, 7]}
    paired = {each["name"]: each["baseline"] for each in case["treatments"]}
    assert paired["off@nice=7"] is None
    assert paired["on@nice=7"] == "off@nice=7"
    assert paired["on"] == "off"
    planned, refused, status = done.stderr.splitlines()
    assert (planned, status) == ("0", "2")
    assert "factors.nice: 20 found; allowed: whole numbers from 0 to 19" in refused


@pytest.fixture(scope="module")
def run(checkout: Path) -> Path:
    """The folder of a run of both added checks."""
    folder = checkout / "run"
    usual = {"arms": "off,aa", "pairs": 1, "warmups": 0, "nimc_dir": folder, **VARIABLES}
    shows = {**usual, "factors": "{nice: [0, 7]}"}
    words: list[object] = ["-c", checkout / "reframe_tests/sort.py", "-r"]
    for key, value in {**usual, "numbers": 1000}.items():
        words += ["-S", f"sort.{key}={value}"]
    for key, value in shows.items():
        words += ["-S", f"shows.{key}={value}"]
    name = "(shows|sort)"
    succeeded(reframe(checkout, "localhost", "shows", *words, name=name, root=checkout))
    return folder


def test_the_application_gets_it(run: Path) -> None:
    samples = samples_of(run, "shows")
    found = {each["arm"]: (each["factors"], each["fom"]) for each in samples}
    usual = 1 + os.nice(0)
    for arm in ("off", "aa"):
        assert found[arm] == ({"nice": 0}, usual)
        assert found[f"{arm}@nice=7"] == ({"nice": 7}, usual + 7)
    assert len(found) == 4


def test_a_workload_is_one_file_and_runs(run: Path) -> None:
    samples = {sample["arm"]: sample for sample in samples_of(run, "sort")}
    assert samples.keys() == {"aa", "off"}
    for sample in samples.values():
        assert sample["fom_extra"] == {"numbers": 1000.0}
        assert 0 < sample["fom"] < sample["elapsed_s"]
        assert (sample["fom_unit"], sample["fom_better"]) == ("s", "lower")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "check"), [(WORKLOAD, "sort"), (FACTOR, "stream"), (INJECTOR, "stream")]
)
def test_the_commands_as_printed(checkout: Path, tmp_path: Path, text: str, check: str) -> None:
    for done in run_as_printed(text, check, checkout, tmp_path):
        assert "[  PASSED  ]" in succeeded(done)


@pytest.mark.slow
def test_the_examples_pass_lint(checkout: Path) -> None:
    written = [each for text in (WORKLOAD, FACTOR, INJECTOR) for each in steps(text)]
    python = [each for each in written if each.path.endswith(".py")]
    files = sorted({each.path for each in python})
    new = [each.path for each in python if each.anchor is None]
    for command in (
        ["ruff", "check", "--no-cache", *files],
        ["ruff", "format", "--no-cache", "--check", *files],
        ["mypy", "--cache-dir", ROOT / ".mypy_cache", *new],  # of `make lint`, if it is there
    ):
        succeeded(ran(sys.executable, "-m", *command, cwd=checkout))


def test_the_page_names_what_the_mixin_has() -> None:
    from reframe_tests.binaries import ThreadsMixin
    from reframe_tests.mixin import NimcMixin

    rows = re.findall(r"^\| (`\w+\(.*?\)`(?:, `\w+\(.*?\)`)*) \|(.*)", WORKLOAD, re.MULTILINE)
    assert len(rows) == 5
    for names, text in rows:
        of = ThreadsMixin if "of `ThreadsMixin`" in text else NimcMixin
        assert all(callable(getattr(of, name)) for name in re.findall(r"`(\w+)\(", names))
