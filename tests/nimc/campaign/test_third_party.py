"""Third-party ReFrame checks in a campaign: how they are planned, started or refused."""

import shutil
from pathlib import Path

import pytest

from nimc.campaign.plan import Request, block_plan
from nimc.campaign.request import load_request
from nimc.readiness.matrix import matrix
from records.errors import InputError
from tests.messages import assert_message

CHECKS = Path(__file__).with_name("third_party.py")
CAMPAIGN = """\
name: c
workloads:
  - check: third_party.py:melt
    case: small
    set: {steps: 20}
    factors: {num_cpus_per_task: [1, 2]}
    expect: 5s
  - {check: third_party.py:plain, expect: 5s}
  - {check: stream, expect: 5s}
arms: [off, on, aa]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the checks, and the campaign `c.yaml` that names them."""
    folder = tmp_path_factory.mktemp("checks")
    shutil.copy(CHECKS, folder)
    (folder / "c.yaml").write_text(CAMPAIGN)
    return folder


@pytest.fixture(scope="module")
def prepared(folder: Path) -> Request:
    return load_request(folder / "c.yaml", "localhost")


@pytest.mark.slow
def test_each_level_of_a_variable_makes_a_case(prepared):
    assert [case.name for case in prepared.campaign.cases] == [
        "small@num_cpus_per_task=1",
        "small@num_cpus_per_task=2",
        "plain",
        "stream",
    ]


@pytest.mark.slow
def test_reframe_is_called_for_the_file_and_the_class_of_a_check(prepared):
    command = prepared.plan().cases[0].blocks[0].command
    assert command[command.index("-c") + 1].endswith("third_party.py")
    small = prepared.campaign.cases[0]
    plan = block_plan(prepared, small, 0, 10, Path("/r"), seed=1)
    assert (plan.workload, plan.pairs) == ("melt", 10)
    assert plan.settings == {"steps": 20, "num_cpus_per_task": 1}


def test_a_check_runs_only_in_the_environments_of_its_class(prepared):
    melt, plain = (prepared.checks[name] for name in ("melt", "plain"))
    assert melt.environs == plain.environs == ("default+wheels",)
    cells = matrix(prepared.checks, prepared.offers).cells
    assert {(cell.workload, cell.combination): cell.runs for cell in cells} == {
        **{(name, "default+wheels"): "yes" for name in ("melt", "plain", "stream")},
        **{(name, "default+spack"): "no" for name in ("melt", "plain", "stream")},
    }


#: Check -> values in its refusal, and what is allowed instead; None if it is not refused.
#: `tests/reframe_tests/third_party/test_refused.py` has more refusals.
REFUSED = {
    "none.py:melt": (["none.py"], "a file"),
    "open.py:melt": (["open.py", "666"], ""),
    "link.py:melt": (["link.py", "symbolic link"], ""),
    "third_party.py:lj": (["lj"], ""),
    "third_party.py:every": (["4 variants"], "one value"),
    "third_party.py:unverified": (["sanity function"], "one"),
    "broken.py:melt": (["SyntaxError"], ""),
    "third_party.py:stream": (["third_party.py:stream", "name"], "a subclass"),
    "third_party.py:plain": None,
    "./third_party.py:plain": None,
    "other/third_party.py:plain": (["other/third_party.py:plain", "name"], "a subclass"),
}


@pytest.mark.slow
def test_checks_that_cannot_be_measured_are_refused_with_their_lines(tmp_path):
    for name in ("third_party.py", "open.py", "other/third_party.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(CHECKS, tmp_path / name)
    (tmp_path / "broken.py").write_text("class melt(:\n")
    (tmp_path / "open.py").chmod(0o666)
    (tmp_path / "link.py").symlink_to("third_party.py")
    entries = "".join(f"  - check: {check}\n" for check in REFUSED)
    (tmp_path / "c.yaml").write_text(f"name: c\nworkloads:\n{entries}arms: [off, on]\n")
    with pytest.raises(InputError) as error:
        load_request(tmp_path / "c.yaml", "localhost")
    refusals = str(error.value).replace(f"{tmp_path}/", "").splitlines()
    expected = [(index, row) for index, row in enumerate(REFUSED.values()) if row]
    for line, (index, (values, allowed)) in zip(refusals, expected, strict=True):
        location = f"c.yaml:{3 + index}: workloads[{index}].check"
        assert_message(line, location, *values, allowed=allowed)


def refusal(folder: Path, check: str) -> str:
    """Return the message in which a campaign of one check is refused."""
    path = folder / "refused.yaml"
    path.write_text(f"name: c\nworkloads: [{{check: '{check}'}}]\narms: [off, on]\n")
    with pytest.raises(InputError) as error:
        load_request(path, "localhost")
    return str(error.value)


@pytest.mark.slow
def test_the_refusal_of_a_class_names_the_classes_that_can_be_measured(folder):
    """These classes have nimc's mixin as a base."""
    message = refusal(folder, "third_party.py:lj")
    assert message.endswith(": every, melt, plain, stream, elsewhere, unverified")


@pytest.mark.slow
def test_a_check_for_no_environment_of_the_machine_is_refused(folder):
    message = refusal(folder, "third_party.py:elsewhere")
    assert "configs/localhost.py:" in message
    assert "'elsewhere'" in message.partition("; allowed: ")[0]
