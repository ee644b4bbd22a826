"""Tests run the commands of docs/extend.md as the page prints them, and lint its examples."""

import sys
from pathlib import Path

import pytest

from records.checkout import ROOT
from tests.literal_docs import run_as_printed, steps
from tests.reframe_tests.followed import FACTOR, INJECTOR, WORKLOAD, followed
from tests.reframe_tests.reframe_call import ran, succeeded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return followed(tmp_path_factory.mktemp("pages"))


@pytest.mark.parametrize(
    ("text", "check"), [(WORKLOAD, "sort"), (FACTOR, "stream"), (INJECTOR, "stream")]
)
def test_the_printed_commands_pass(checkout: Path, tmp_path: Path, text: str, check: str) -> None:
    for done in run_as_printed(text, check, checkout, tmp_path):
        assert "[  PASSED  ]" in succeeded(done)


def test_the_examples_pass_lint(checkout: Path) -> None:
    written = [step for text in (WORKLOAD, FACTOR, INJECTOR) for step in steps(text)]
    python = [step for step in written if step.path.endswith(".py")]
    files = sorted({step.path for step in python})
    new = [step.path for step in python if step.anchor is None]
    for command in (
        ["ruff", "check", "--no-cache", *files],
        ["ruff", "format", "--no-cache", "--check", *files],
        # `make lint` leaves this cache of mypy, if it ran before.
        ["mypy", "--cache-dir", ROOT / ".mypy_cache", *new],
    ):
        succeeded(ran(sys.executable, "-m", *command, cwd=checkout))
