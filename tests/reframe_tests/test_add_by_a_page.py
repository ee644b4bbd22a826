"""docs/extend.md#add-a-factor and docs/extend.md#add-a-workload, followed literally."""

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
    paired = {treatment["name"]: treatment["baseline"] for treatment in case["treatments"]}
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
    by_arm = {sample["arm"]: (sample["factors"], sample["fom"]) for sample in samples}
    usual = 1 + os.nice(0)
    for arm in ("off", "aa"):
        assert by_arm[arm] == ({"nice": 0}, usual)
        assert by_arm[f"{arm}@nice=7"] == ({"nice": 7}, min(usual + 7, 1 + 19))  # 19: the most
    assert len(by_arm) == 4


def test_a_workload_is_one_file_and_runs(run: Path) -> None:
    samples = {sample["arm"]: sample for sample in samples_of(run, "sort")}
    assert samples.keys() == {"aa", "off"}
    for sample in samples.values():
        assert sample["fom_extra"] == {"numbers": 1000.0}
        assert 0 < sample["fom"] < sample["elapsed_s"]
        assert (sample["fom_unit"], sample["fom_better"]) == ("s", "lower")


def test_the_page_names_what_the_mixin_has() -> None:
    from reframe_tests.binaries import ThreadsMixin
    from reframe_tests.mixin import NimcMixin

    rows = re.findall(r"^\| (`\w+\(.*?\)`(?:, `\w+\(.*?\)`)*) \|(.*)", WORKLOAD, re.MULTILINE)
    assert len(rows) == 5
    for names, text in rows:
        mixin = ThreadsMixin if "of `ThreadsMixin`" in text else NimcMixin
        assert all(callable(getattr(mixin, name)) for name in re.findall(r"`(\w+)\(", names))
