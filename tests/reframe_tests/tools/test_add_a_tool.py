"""Tests follow docs/extend.md#add-a-tool word for word in a copy of the checkout."""

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


def run_python(root: Path, *words: str) -> str:
    """Run Python with the modules of a checkout; assert that it succeeds, and return its output."""
    environment = os.environ | {"PYTHONPATH": str(root)}
    return succeeded(ran(sys.executable, *words, cwd=root, env=environment))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """Return a copy of the checkout in which the page was followed."""
    root = copy_of_checkout(tmp_path_factory.mktemp("checkout"))
    (root / TEST).parent.mkdir(parents=True)
    (root / DOCS).parent.mkdir()
    for name in (DOCS, "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    follow(PAGE, root)
    return root


def test_a_tool_takes_three_files():
    assert {step.path for step in steps(PAGE)} == {TOOL, TEST, DOCS}


@pytest.mark.slow
def test_the_tools_test_passes(checkout):
    output = run_python(checkout, "-m", "pytest", "-q", "-rN", TEST)
    assert re.search(r"\b4 passed", output)


def test_the_files_have_the_style_of_the_checkout(checkout):
    run_python(checkout, "-m", "ruff", "check", "--no-cache", TOOL, TEST)
    run_python(checkout, "-m", "ruff", "format", "--no-cache", "--check", TOOL, TEST)


def test_the_tools_row_is_the_first_one_of_the_table(checkout):
    """The next row is that of `perf_stat`, and both rows have the same number of cells."""
    lines = (checkout / DOCS).read_text().splitlines()
    (index,) = (number for number, line in enumerate(lines) if line.startswith("| `rusage`"))
    row, next_row = lines[index : index + 2]
    assert next_row.startswith("| `perf_stat`")
    assert row.count("|") == next_row.count("|")


def test_the_tool_is_a_level_of_the_factor(checkout):
    script = (
        "from reframe_tests import factors, tools\n"
        "factors.check_level('tool', 'rusage')\n"
        "print(tools.__file__, *tools.NAMES)"
    )
    module_file, *names = run_python(checkout, "-c", script).split()
    assert Path(module_file).is_relative_to(checkout)
    assert {*names} == {*NAMES, "rusage"}
