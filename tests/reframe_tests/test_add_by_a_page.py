"""Tests follow docs/extend.md#add-a-factor and docs/extend.md#add-a-workload word for word.

The factor of the page is `nice`, and the workload of the page is `sort`.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest

from tests.reframe_tests.followed import WORKLOAD, followed
from tests.reframe_tests.reframe_call import ran, reframe, samples_of, succeeded
from tests.undisturbed import VARIABLES

pytestmark = pytest.mark.slow

CAMPAIGN = """\
name: pages
workloads: [{check: stream}]
factors: {nice: [0, 7]}
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return followed(tmp_path_factory.mktemp("pages"))


#: A program that plans two campaigns. The page allows the levels of the first campaign only.
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


def test_a_campaign_can_use_the_added_factor(checkout: Path) -> None:
    (checkout / "pages.yaml").write_text(CAMPAIGN)
    (checkout / "refused.yaml").write_text(CAMPAIGN.replace("7", "20"))
    variables = {"PYTHONPATH": str(checkout), "XDG_CACHE_HOME": f"{checkout}/cache"}
    done = ran(sys.executable, "-c", PLAN, cwd=checkout, env=os.environ | variables)
    (case,) = json.loads(succeeded(done))["cases"]
    assert case["factors_within"] == {"nice": [0, 7]}
    baselines = {treatment["name"]: treatment["baseline"] for treatment in case["treatments"]}
    assert baselines["off@nice=7"] is None
    assert baselines["on@nice=7"] == "off@nice=7"
    assert baselines["on"] == "off"
    status_of_first, refusal, status_of_second = done.stderr.splitlines()
    assert (status_of_first, status_of_second) == ("0", "2")
    assert "factors.nice: 20 found; allowed: whole numbers from 0 to 19" in refusal


@pytest.fixture(scope="module")
def run(checkout: Path) -> Path:
    """The folder of a run of the checks `shows` and `sort`."""
    folder = checkout / "run"
    common = {"arms": "off,aa", "pairs": 1, "warmups": 0, "nimc_dir": folder, **VARIABLES}
    words: list[object] = ["-c", checkout / "reframe_tests/sort.py", "-r"]
    for key, value in {**common, "numbers": 1000}.items():
        words += ["-S", f"sort.{key}={value}"]
    for key, value in {**common, "factors": "{nice: [0, 7]}"}.items():
        words += ["-S", f"shows.{key}={value}"]
    name = "(shows|sort)"
    succeeded(reframe(checkout, "localhost", "shows", *words, name=name, root=checkout))
    return folder


def test_the_application_runs_at_the_niceness_of_each_level(run: Path) -> None:
    samples = samples_of(run, "shows")
    by_arm = {sample["arm"]: (sample["factors"], sample["fom"]) for sample in samples}
    usual = 1 + os.nice(0)
    for arm in ("off", "aa"):
        assert by_arm[arm] == ({"nice": 0}, usual)
        # The highest niceness is 19.
        assert by_arm[f"{arm}@nice=7"] == ({"nice": 7}, min(usual + 7, 1 + 19))
    assert len(by_arm) == 4


def test_the_added_workload_runs(run: Path) -> None:
    samples = {sample["arm"]: sample for sample in samples_of(run, "sort")}
    assert samples.keys() == {"aa", "off"}
    for sample in samples.values():
        assert sample["fom_extra"] == {"numbers": 1000.0}
        assert 0 < sample["fom"] < sample["elapsed_s"]
        assert (sample["fom_unit"], sample["fom_better"]) == ("s", "lower")


def test_the_mixins_have_each_method_that_the_page_names() -> None:
    from reframe_tests.binaries import ThreadsMixin
    from reframe_tests.mixin import NimcMixin

    rows = re.findall(r"^\| (`\w+\(.*?\)`(?:, `\w+\(.*?\)`)*) \|(.*)", WORKLOAD, re.MULTILINE)
    assert len(rows) == 6
    for names, text in rows:
        mixin = ThreadsMixin if "of `ThreadsMixin`" in text else NimcMixin
        assert all(callable(getattr(mixin, name)) for name in re.findall(r"`(\w+)\(", names))
