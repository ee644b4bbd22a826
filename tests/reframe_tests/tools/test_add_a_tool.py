"""docs/extend.md#add-a-tool, followed literally in a copy of the checkout."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest

from reframe_tests.tools import NAMES
from tests.literal_docs import copy_of_checkout, follow, section, steps
from tests.reframe_tests.reframe_call import ran, succeeded

ROOT = Path(__file__).parents[3]
PAGE = section("extend.md", "Add a tool")
TOOL, TEST, DOCS = (
    "reframe_tests/tools/rusage.py",
    "tests/reframe_tests/tools/test_rusage.py",
    "docs/tools.md",
)


def check(root: Path, *command: str) -> str:
    environment = os.environ | {"PYTHONPATH": str(root)}
    return succeeded(ran(sys.executable, *command, cwd=root, env=environment))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    root = copy_of_checkout(tmp_path_factory.mktemp("checkout"))
    (root / TEST).parent.mkdir(parents=True)
    (root / DOCS).parent.mkdir()
    for name in (DOCS, "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    follow(PAGE, root)
    return root


def test_three_files_of_good_style_whose_test_passes(checkout):
    assert {step.path for step in steps(PAGE)} == {TOOL, TEST, DOCS}
    assert re.search(r"\b4 passed", check(checkout, "-m", "pytest", "-q", "-rN", TEST))
    check(checkout, "-m", "ruff", "check", "--no-cache", TOOL, TEST)
    check(checkout, "-m", "ruff", "format", "--no-cache", "--check", TOOL, TEST)
    lines = (checkout / DOCS).read_text().splitlines()
    (index,) = (i for i, line in enumerate(lines) if line.startswith("| `rusage`"))
    assert lines[index + 1].startswith("| `perf_stat`")
    assert lines[index].count("|") == lines[index + 1].count("|")


def test_it_is_a_level_of_the_factor(checkout):
    script = (
        "from reframe_tests import factors, tools\n"
        "factors.check_level('tool', 'rusage')\n"
        "print(tools.__file__, *tools.NAMES)"
    )
    file, *names = check(checkout, "-c", script).split()
    assert Path(file).is_relative_to(checkout)
    assert {*names} == {*NAMES, "rusage"}
