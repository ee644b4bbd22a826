"""Checks of others in a campaign file: what is refused, planned, and handed to ReFrame."""

import re
import shutil
from pathlib import Path

import pytest

from nimc.base.errors import InputError
from nimc.campaign import others
from nimc.campaign.plan import Request
from nimc.campaign.prepare import prepare
from tests.nimc.conftest import Command
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
    assert after(first, "-c") == "$RUN/checks/melt.py"
    assert {"melt.steps=20", "melt.num_cpus_per_task=1", "melt.pairs=10"} <= set(first)
    assert not [word for word in first if word.startswith(("melt.atoms", "melt.source"))]
    # As ReFrame shows the four variants, without spaces.
    shown = [f"melt%atoms={n}%source.version={v}" for n in (1000, 32000) for v in ("1.0", "2.0")]
    found = [[bool(re.search(after(words(asked, name), "-n"), s)) for s in shown] for name in names]
    assert found == [[True, *[False] * 3], [False, True, False, False], [False] * 4, [False] * 4]

    # Its own places count where this machine has some.
    melt, plain = (asked.others[name].check for name in ("melt", "plain"))
    assert (melt.systems, melt.environs) == (("*",), ("PrgEnv-gnu", "wheels"))
    assert (plain.systems, plain.environs) == (("*",), ("wheels",))


def test_a_plan_shows_the_file_and_writes_nothing(folder: Path, command: Command) -> None:
    before = sorted(folder.rglob("*"))
    said = command("plan", folder / "c.yaml", "--machine", "localhost")
    assert "class melt(original.melt, NimcMixin):" in said
    assert 'valid_prog_environs = ["PrgEnv-gnu", "wheels"]' in said
    assert sorted(folder.rglob("*")) == before


def listed(run: Path, asked: Request, case: str) -> str:
    """What ReFrame lists of a case in the folder of a run, whose files are written."""
    others.write(run, asked.others.values())
    planned = words(asked, case)
    file = Path(after(planned, "-c").replace("$RUN", str(run)))
    done = reframe(
        run, Path(after(planned, "-C")), file, "-l", name=after(planned, "-n").strip("^$")
    )
    return done.stdout + done.stderr


def test_reframe_finds_the_chosen_variant_alone(asked: Request, tmp_path: Path) -> None:
    said = listed(tmp_path, asked, "small@source.version=2.0")
    assert re.findall(r"^- (\w+ .*) /", said, re.MULTILINE) == [
        "melt %atoms=1000 %source.version=2.0"
    ]
    assert "Found 1 check(s)" in said


def test_a_check_that_was_changed_is_not_run(folder: Path, tmp_path: Path) -> None:
    """Nor is its run resumed: `tests/nimc/run/test_run.py`."""
    for path in folder.iterdir():
        if path.is_file():
            shutil.copy(path, tmp_path)
    asked = prepare(tmp_path / "c.yaml", "localhost", only=["plain"])
    assert asked.others.keys() == {"plain"}
    with (tmp_path / "theirs.py").open("a") as file:
        file.write("# one line more\n")
    (tmp_path / "run").mkdir()
    said = listed(tmp_path / "run", asked, "plain")
    assert "was changed after this run began" in said
    assert "Found 0 check(s)" in said


#: What names a check, and why it is refused; more in `tests/reframe_tests/foreign/test_refused.py`.
REFUSED = [
    ("none.py:melt", "none.py: no such file or directory; allowed: a file"),
    ("open.py:melt", "open.py: can be written by others (mode 666)"),
    ("link.py:melt", "link.py: is a symbolic link"),
    ("theirs.py:molt", "class molt found; allowed: fetched, melt, plain, stream, open_ended"),
    ("theirs.py:open_ended", "parameters without values: atoms"),
    ("broken.py:melt", "SyntaxError"),
    ("theirs.py:stream", "a workload of this project has the same name; allowed: another class"),
    ("theirs.py:plain", ""),
    ("other/theirs.py:plain", "theirs.py:plain has the same name"),
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
        ("set: {atoms: 1000}", "set: parameter 'source.version' missing; allowed, here or in"),
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
