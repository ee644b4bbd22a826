"""Checks of others in a campaign file: what is refused, planned, and handed to ReFrame."""

import re
import shutil
from pathlib import Path

import pytest

from nimc.campaign.plan import Request
from nimc.campaign.prepare import prepare
from records.errors import InputError
from tests.reframe_tests.command import reframe

THEIRS = Path(__file__).with_name("theirs.py")
CAMPAIGN = """\
name: theirs
workloads:
  - check: theirs.py:melt
    case: small
    set: {steps: 20, atoms: 1000, num_cpus_per_task: 1}
    factors: {source.version: [1.0, 2.0]}
    expect: 5s
  - {check: theirs.py:plain, expect: 5s}
  - {check: stream, expect: 5s}
arms: [off, on, aa]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The campaign beside the checks."""
    found = tmp_path_factory.mktemp("theirs")
    shutil.copy(THEIRS, found)
    (found / "c.yaml").write_text(CAMPAIGN)
    return found


@pytest.fixture(scope="module")
def asked(folder: Path) -> Request:
    return prepare(folder / "c.yaml", "localhost")


def words(asked: Request, case: str) -> list[str]:
    """ReFrame's command of a case's first block."""
    return next(each for each in asked.plan().cases if each.case == case).blocks[0].command


def after(words: list[str], option: str) -> str:
    return words[words.index(option) + 1]


def test_each_value_of_a_parameter_is_a_case_that_reframe_is_asked_for(asked: Request) -> None:
    names = ["small@source.version=1.0", "small@source.version=2.0", "plain", "stream"]
    assert [case.name for case in asked.campaign.cases] == names
    first = words(asked, names[0])
    assert after(first, "-c").endswith("theirs.py")
    assert {"melt.steps=20", "melt.num_cpus_per_task=1", "melt.pairs=8"} <= set(first)
    assert not [word for word in first if word.startswith(("melt.atoms", "melt.source"))]
    # As ReFrame shows the four variants, without spaces.
    shown = [f"melt%atoms={n}%source.version={v}" for n in (1000, 32000) for v in ("1.0", "2.0")]
    found = [[bool(re.search(after(words(asked, name), "-n"), s)) for s in shown] for name in names]
    assert found == [[True, *[False] * 3], [False, True, False, False], [False] * 4, [False] * 4]

    # Only where its class says.
    melt, plain = (asked.others[name].check for name in ("melt", "plain"))
    assert melt.environs == plain.environs == ("default+wheels",)
    assert {(cell.workload, cell.place): cell.runs for cell in asked.matrix().cells} == {
        **{(name, "default+wheels"): "yes" for name in ("melt", "plain", "stream")},
        **{(name, "default+spack"): "no" for name in ("melt", "plain", "stream")},
    }


def test_reframe_finds_the_chosen_variant_alone(asked: Request, tmp_path: Path) -> None:
    planned = words(asked, "small@source.version=2.0")
    config, file, name = (after(planned, option) for option in ("-C", "-c", "-n"))
    done = reframe(tmp_path, Path(config), Path(file), "-l", name=name.strip("^$"))
    assert re.findall(r"^- (\w+ .*) /", done.stdout, re.MULTILINE) == [
        "melt %atoms=1000 %source.version=2.0"
    ]
    assert "Found 1 check(s)" in done.stdout


#: What names a check, and why it is refused; more in `tests/reframe_tests/foreign/test_refused.py`.
REFUSED = [
    ("none.py:melt", "none.py: no such file; allowed: a file"),
    ("open.py:melt", "open.py can be written by others (mode 666); allowed: "),
    ("link.py:melt", "link.py is a symbolic link"),
    (
        "theirs.py:lj",
        "class lj found; allowed, with NimcMixin as a base: melt, plain, stream, open_ended, else",
    ),
    ("theirs.py:open_ended", "parameters without values: atoms"),
    ("broken.py:melt", "SyntaxError"),
    ("theirs.py:stream", "another check has the same name; allowed: such as a subclass"),
    ("theirs.py:plain", ""),
    ("other/theirs.py:plain", "another check has the same name"),
]


def test_what_cannot_be_measured_is_refused_with_its_line(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (
            "set: {atoms: 1000}",
            "set: parameter 'source.version' missing; allowed: 1.0, 2.0, here or",
        ),
        ("set: {atoms: 9, source.version: 1.0}", "set.atoms: 9 found; allowed: 1000, 32000"),
        (
            "set: {source.version: 1.0}, factors: {atoms: [1000, 5]}",
            "factors.atoms: 5 found; allowed: 1000, 32000",
        ),
        ("set: {atoms: 1000, source.version: 1.0}, expect: 1ms", "expect: 0.001 s found; runs of"),
    ],
)
def test_every_parameter_needs_one_value_that_it_has(folder: Path, keys: str, fault: str) -> None:
    path = folder / "faulty.yaml"
    path.write_text(
        f"name: c\nworkloads:\n  - {{check: 'theirs.py:melt', {keys}}}\narms: [off, on]\n"
    )
    with pytest.raises(InputError, match=re.escape(f"workloads[0].{fault}")):
        prepare(path, "localhost")


def test_a_check_for_no_place_of_the_machine_is_refused(folder: Path) -> None:
    path = folder / "far.yaml"
    path.write_text("name: c\nworkloads: [{check: 'theirs.py:elsewhere'}]\narms: [off, on]\n")
    with pytest.raises(InputError, match="can run 'elsewhere'; allowed: an environment with a pla"):
        prepare(path, "localhost")
