"""Third-party checks in a campaign file: what is refused, planned, and handed to ReFrame."""

import shutil
from pathlib import Path

import pytest

from nimc.campaign.plan import Request, block_plan
from nimc.campaign.prepare import prepare
from nimc.readiness.matrix import matrix
from records.errors import InputError

THEIRS = Path(__file__).with_name("theirs.py")
CAMPAIGN = """\
name: theirs
workloads:
  - check: theirs.py:melt
    case: small
    set: {steps: 20}
    factors: {num_cpus_per_task: [1, 2]}
    expect: 5s
  - {check: theirs.py:plain, expect: 5s}
  - {check: stream, expect: 5s}
arms: [off, on, aa]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign beside the checks."""
    theirs = tmp_path_factory.mktemp("theirs")
    shutil.copy(THEIRS, theirs)
    (theirs / "c.yaml").write_text(CAMPAIGN)
    return theirs


@pytest.fixture(scope="module")
def prepared(folder: Path) -> Request:
    return prepare(folder / "c.yaml", "localhost")


def words(prepared: Request, case: str) -> list[str]:
    """ReFrame's command of a case's first block."""
    (planned,) = (planned for planned in prepared.plan().cases if planned.case == case)
    return planned.blocks[0].command


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_each_level_is_a_case_that_reframe_is_asked_for(prepared):
    names = ["small@num_cpus_per_task=1", "small@num_cpus_per_task=2", "plain", "stream"]
    assert [case.name for case in prepared.campaign.cases] == names
    assert after(words(prepared, names[0]), "-c").endswith("theirs.py")
    (small, *_) = prepared.campaign.cases
    plan = block_plan(prepared, small, 0, 10, Path("/r"), seed=1)
    assert (plan.workload, plan.pairs) == ("melt", 10)
    assert plan.settings == {"steps": 20, "num_cpus_per_task": 1}

    # Only where its class says.
    melt, plain = (prepared.checks[name] for name in ("melt", "plain"))
    assert melt.environs == plain.environs == ("default+wheels",)
    cells = matrix(prepared.checks, prepared.offers).cells
    assert {(cell.workload, cell.place_name): cell.runs for cell in cells} == {
        **{(name, "default+wheels"): "yes" for name in ("melt", "plain", "stream")},
        **{(name, "default+spack"): "no" for name in ("melt", "plain", "stream")},
    }


#: Name of a check -> why it is refused; `tests/reframe_tests/third_party/test_refused.py` has more.
REFUSED = [
    ("none.py:melt", "none.py: no such file; allowed: a file"),
    ("open.py:melt", "open.py can be written by others (mode 666); allowed: "),
    ("link.py:melt", "link.py is a symbolic link"),
    (
        "theirs.py:lj",
        "class lj found; allowed, with NimcMixin as a base: every, melt, plain, stream, elsewhere",
    ),
    ("theirs.py:every", "4 variants; allowed: one value of parameters"),
    ("broken.py:melt", "SyntaxError"),
    ("theirs.py:stream", "another check has the same name; allowed: such as a subclass"),
    ("theirs.py:plain", ""),
    ("other/theirs.py:plain", "another check has the same name"),
]


def test_what_cannot_be_measured_is_refused_with_its_line(tmp_path):
    for name in ("theirs.py", "open.py", "other/theirs.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(THEIRS, tmp_path / name)
    (tmp_path / "broken.py").write_text("class melt(:\n")
    (tmp_path / "open.py").chmod(0o666)
    (tmp_path / "link.py").symlink_to("theirs.py")
    entries = "".join(f"  - check: {named}\n" for named, _ in REFUSED)
    (tmp_path / "c.yaml").write_text(f"name: c\nworkloads:\n{entries}arms: [off, on]\n")
    with pytest.raises(InputError) as error:
        prepare(tmp_path / "c.yaml", "localhost")
    lines = str(error.value).replace(f"{tmp_path}/", "").splitlines()
    expected = [
        (f"c.yaml:{3 + index}: workloads[{index}].check: ", reason)
        for index, (_, reason) in enumerate(REFUSED)
        if reason
    ]
    for line, (start, reason) in zip(lines, expected, strict=True):
        assert line.startswith(start)
        assert reason in line


def test_a_check_for_no_place_of_the_machine_is_refused(folder):
    path = folder / "far.yaml"
    path.write_text("name: c\nworkloads: [{check: 'theirs.py:elsewhere'}]\narms: [off, on]\n")
    with pytest.raises(InputError, match="can run 'elsewhere'; allowed: an environment with a pla"):
        prepare(path, "localhost")
