"""Tests of blocks that a campaign plans and that a check reads from a file.

Such a block must equal the block that ReFrame makes from the same variables of the check. The
values of the campaign must also reach each hook of a check.
"""

import json
from pathlib import Path

import pytest

from nimc.campaign.plan import block_plan, logs_of
from nimc.campaign.request import load_request
from records.checkout import ROOT
from tests.reframe_tests.reframe_call import plan_of, reframe, succeeded

pytestmark = pytest.mark.slow

MACHINE = "example_slurm"
DRY = ("--system", MACHINE, "-p", "wheels", "--dry-run")
CAMPAIGN = """\
name: c
workloads:
  - check: stream
    set: {iterations: 20, array_most: 128MiB}
    factors: {rate: [0, 25%, full], reserved_cores: [0, 1]}
    exclude: [{rate: 25%, reserved_cores: 1}]
  - {check: numa, factors: {buffer: [nic, other], load: [idle, write]}}
  - {check: membench, set: {duration_s: 2, node: 1, reserved_cores: 0}}
  - {check: "theirs.py:mine", set: {steps: 20}}
arms: [off, on, aa]
injector: {message: 32KiB}
verify: {min_share: 0.3, retries: 1, steal_share: null}
run_timeout: 2min
"""
#: A third-party check; its own hooks run before the hooks of the mixin.
THEIRS = """\
import reframe as rfm
import reframe.utility.sanity as sn
from reframe_tests.mixin import NimcMixin

class theirs(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["wheels"]
    steps = variable(int, value=10)
    executable = "echo"

    @run_after("init")
    def use_steps(self):
        self.executable_opts = [f"took {self.steps} s"]

    @sanity_function
    def ended(self):
        return sn.assert_found("took", self.stdout)

    @performance_function("s")
    def time(self):
        return sn.extractsingle(r"took (\\S+)", self.stdout, 1, float)

@rfm.simple_test
class mine(theirs, NimcMixin):
    pass
"""
#: Check -> the variables of the check that have the same effect on ReFrame's command line.
VARIABLES = {
    "stream": {
        "iterations": 20,
        "array_most": "128MiB",
        "exclude": "[{rate: 25%, reserved_cores: 1}]",
        "factors": "{rate: [0, 25%, full], reserved_cores: [0, 1]}",
    },
    "numa": {"factors": "{buffer: [nic, other], load: [idle, write]}"},
    "membench": {"duration_s": 2, "node": 1, "reserved_cores": 0},
}
#: Variables that all checks get on ReFrame's command line.
COMMON_VARIABLES = {
    "arms": "off,on,aa",
    "message": "32KiB",
    "min_share": 0.3,
    "retries": 1,
    "pairs": 6,
    "steal_share": "@none",
    "run_timeout_s": 120,
    "seed": 9,
}
#: The fields of a plan that differ between a block of a campaign and a block of variables.
DIFFERENT_FIELDS = ("nimc_dir", "settings", "provenance", "case")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The folders of two dry runs: one reads the blocks of the campaign, one takes variables."""
    by_file, by_variables = (tmp_path_factory.mktemp(name) for name in ("file", "variables"))
    (by_file / "theirs.py").write_text(THEIRS)
    (by_file / "c.yaml").write_text(CAMPAIGN)
    request = load_request(by_file / "c.yaml", MACHINE)
    words: list[object] = [*DRY]
    for case in request.campaign.cases:
        file = logs_of(by_file / "run", case, 0) / "plan.json"
        file.parent.mkdir(parents=True)
        block_plan(request, case, 0, 6, by_file / "run", seed=9).save(file)
        words += ["-c", ROOT / f"reframe_tests/{case.check}.py"] if case.check != "mine" else []
        words += ["-S", f"{case.check}.block_file={file}"]
    names = f"({'|'.join(VARIABLES)}|mine)"
    succeeded(reframe(by_file, MACHINE, by_file / "theirs.py", *words, name=names))
    words = [*DRY]
    for name, variables in VARIABLES.items():
        words += ["-c", ROOT / f"reframe_tests/{name}.py"]
        for key, value in {**COMMON_VARIABLES, **variables}.items():
            words += ["-S", f"{name}.{key}={value}"]
    succeeded(reframe(by_variables, MACHINE, "stream", *words, name=f"({'|'.join(VARIABLES)})"))
    return by_file, by_variables


@pytest.mark.parametrize("check", VARIABLES)
def test_the_block_of_a_campaign_equals_the_block_of_the_same_variables(
    folders: tuple[Path, Path], check: str
) -> None:
    campaign_plan, variables_plan = (
        {key: value for key, value in plan_of(folder, check).items() if key not in DIFFERENT_FIELDS}
        for folder in folders
    )
    stages = [next(folder.glob(f"stage/*/*/*/{check}")) for folder in folders]
    texts = [
        json.dumps(plan).replace(str(stage), "STAGE")
        for plan, stage in zip((campaign_plan, variables_plan), stages, strict=True)
    ]
    assert json.loads(texts[0]) == json.loads(texts[1])
    assert campaign_plan["seed"] == 9
    assert campaign_plan["limits"]["steal_share"] is None


def test_hooks_of_a_third_party_check_see_the_values_of_the_campaign(
    folders: tuple[Path, Path],
) -> None:
    plan = plan_of(folders[0], "mine")
    assert plan["treatments"][0]["start"]["command"][-3:] == ["took", "20", "s"]
    assert plan["limits"]["run_timeout_s"] == 120
    assert plan["read_by_check"]
