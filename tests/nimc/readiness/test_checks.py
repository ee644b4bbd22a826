"""ReFrame's description of the checks, and the cache that keeps it."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import reframe as rfm

from nimc.readiness import checks
from nimc.readiness.checks import VariableType, checks_in
from records.campaign import WARMUPS
from records.checkout import ROOT
from records.errors import MachineError
from records.programs import ProgramAnswer
from reframe_tests.mixin import NimcMixin

CHECK = """\
import reframe as rfm
from reframe.core.builtins import variable
from reframe_tests.mixin import NimcMixin

@rfm.simple_test
class base(rfm.RunOnlyRegressionTest, NimcMixin):
    inherited = variable(int, value=1)
    comparable_across_cores = True
"""
HEIR = """\
from reframe.core.builtins import variable
from more_checks.base import base

class heir(base):
    own = variable(str, value="")
    within_block = ("own",)
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the path of an empty cache. Descriptions in memory are dropped as well."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    checks.cached_checks.cache_clear()
    return tmp_path / "cache" / "nimc" / "checks.json"


#: ReFrame's description of the check `melt`.
MELT = {
    "variables": ["steps", "rate"],
    "types": {"steps": {"name": "int", "default": 100}, "rate": {"name": "str"}},
    "within_block": [],
    "comparable_across_cores": True,
    "environs": ["+wheels"],
    "program": "melt",
    "from_spack": True,
    "compiles": False,
    "lengthened_by": "steps",
}


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Returns a list of the folders about which ReFrame is asked; it answers with one check."""
    folders: list[Path] = []

    def ask(command: list[str], *_: object, **__: object) -> ProgramAnswer:
        folders.append(Path(command[-1]))
        return ProgramAnswer("python", 0, json.dumps({"melt": MELT}), "")

    monkeypatch.setattr(checks, "ask", ask)
    return folders


def folder(tmp_path: Path, **files: str) -> Path:
    checks_folder = tmp_path / "more_checks"
    checks_folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (checks_folder / f"{name}.py").write_text(text)
    return checks_folder


def test_campaigns_may_set_no_variable_of_reframe_and_all_defaults_are_valid():
    project_checks = checks_in(ROOT / "reframe_tests")
    stream = project_checks["stream"]
    assert {"iterations", "array_most", "comm_node", "direction", "warmups"} <= stream.settable
    sizes = [
        name
        for check in project_checks.values()
        for name in check.types
        if check.types[name].name == "size"
    ]
    assert sizes == ["size", "array_most"]
    # Variables with a key of their own in campaigns are factors too.
    assert {"rate", "message"} <= stream.factors
    assert not {"rate", "arms", "pairs", "notes"} & stream.settable
    reframe_variables = set(rfm.RegressionTest.var_space)
    for name, check in project_checks.items():
        assert not check.settable & reframe_variables
        for variable, kind in check.types.items():
            if kind.default is not None:
                value = int(kind.default) if kind.name == "int" else kind.default
                assert kind.accepts(value), f"{name}.{variable}"
    assert NimcMixin.warmups == WARMUPS


@pytest.mark.usefixtures("cache")
def test_variables_are_inherited(tmp_path):
    declared = checks_in(folder(tmp_path, base=CHECK, heir=HEIR, other="x = 1\n"))
    assert set(declared) == {"base", "heir"}
    assert declared["base"].settable - declared["heir"].settable == set()
    assert declared["heir"].settable - declared["base"].settable == {"own"}
    assert "inherited" in declared["heir"].settable
    assert declared["heir"].comparable_across_cores
    assert declared["heir"].changes_within("own")
    assert not declared["heir"].changes_within("inherited")
    assert declared["heir"].changes_within("rate")
    assert declared["heir"].types["inherited"] == VariableType("int", 1)
    assert declared["heir"].types["own"] == VariableType("str")
    assert declared["heir"].environs == ("*",)  # inherited from the mixin


def test_a_check_that_cannot_be_read_is_named(tmp_path, cache):
    with pytest.raises(MachineError, match=r"base\.py: the check cannot be read: IndentationError"):
        checks_in(folder(tmp_path, base="class base(x):\n"))
    assert not cache.exists()


def test_reframe_is_asked_once_until_a_check_changes(tmp_path, cache, queries):
    checks_folder = folder(tmp_path, melt="x = 1\n")
    first = checks_in(checks_folder)
    assert first["melt"].types["steps"] == VariableType("int", 100)
    assert checks_in(checks_folder) == first
    checks.cached_checks.cache_clear()  # as if another process asked
    assert checks_in(checks_folder) == first
    assert len(queries) == 1
    folder(tmp_path, melt="x = 2\n")
    assert checks_in(checks_folder) == first
    assert len(queries) == 2
    assert cache.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "change",
    [
        lambda cache: cache.write_text("{"),
        lambda cache: cache.write_text(json.dumps(json.loads(cache.read_text()) | {"checks": 3})),
        lambda cache: shutil.move(cache, cache.with_name("x")) and cache.symlink_to("x"),
        lambda cache: cache.parent.chmod(0o777),
        pytest.param(
            lambda cache: os.chown(cache, 12345, 12345),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away"),
        ),
    ],
)
def test_a_broken_or_foreign_cache_is_ignored(tmp_path, cache, queries, change):
    checks_folder = folder(tmp_path, melt="x = 1\n")
    checks_in(checks_folder)
    change(cache)
    checks.cached_checks.cache_clear()
    assert set(checks_in(checks_folder)) == {"melt"}
    assert len(queries) == 2


@pytest.mark.usefixtures("cache")
def test_a_reframe_that_does_not_answer_is_reported_in_one_line(tmp_path, monkeypatch):
    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("python", 1)

    monkeypatch.setattr(subprocess, "run", late)
    with pytest.raises(MachineError, match="the checks cannot be read: "):
        checks_in(folder(tmp_path, melt="x = 1\n"))


@pytest.mark.parametrize(
    ("kind", "accepted", "refused", "allowed"),
    [
        (("int", 10), [1, 7], [0, -1, 1.0, "abc", "7", True], "whole numbers from 1"),
        (("int", 0), [0, 7], [-1], "whole numbers from 0"),
        (("int", -1), [-1, 0], [-2], "whole numbers from -1"),
        (("float", 4.0), [1, 0.5], [0, -0.5, "abc", True, float("inf")], "numbers above 0"),
        (("float", 0.0), [0, 0.5], [-0.5], "numbers from 0"),
        (("bool", None), [True, False], [1, "true"], "true, false"),
        (("str", None), ["x", 1], [True], "text"),
        (("size", None), ["64MiB", "1GB", ""], ["64MB/s", "64M", "0B", 64, True], "a size with"),
        (("tuple", None), ["1,2", 3], [], "anything"),
    ],
)
def test_values_are_accepted_by_type_and_range_of_a_variable(kind, accepted, refused, allowed):
    variable = VariableType(*kind)
    assert [variable.accepts(value) for value in accepted] == [True] * len(accepted)
    assert [variable.accepts(value) for value in refused] == [False] * len(refused)
    assert variable.allowed.startswith(allowed)
