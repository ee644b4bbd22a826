"""docs/add-a-workload.md, followed literally, gives a check that runs."""

import re

import pytest

from nimc.base.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow
from tests.reframe_tests.command import reframe, samples_of, succeeded
from tests.undisturbed import VARIABLES

PAGE = ROOT / "docs" / "add-a-workload.md"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of the checkout to which the page was applied."""
    copy = copy_of_checkout(tmp_path_factory.mktemp("workload") / "checkout")
    added = follow(PAGE, copy)
    compiled = {"reframe_tests/src/sort/sort.c", "reframe_tests/sort_compiled.py"}
    assert added.keys() - compiled == {"reframe_tests/sort.py"}
    assert f"in {added['reframe_tests/sort.py']} lines" in PAGE.read_text()
    return copy


@pytest.mark.parametrize("check", ["sort", "sort_compiled"])
def test_a_workload_is_one_file_and_runs(checkout, tmp_path, check):
    settings = {"arms": "off,aa", "pairs": 1, "warmups": 0, "numbers": 1000, **VARIABLES}
    settings["nimc_dir"] = tmp_path / "run"
    succeeded(reframe(tmp_path, "localhost", check, "-r", settings=settings, root=checkout))
    samples = samples_of(tmp_path / "run", check)
    assert sorted(sample["arm"] for sample in samples) == ["aa", "off"]
    for sample in samples:
        assert sample["fom_extra"] == {"numbers": 1000.0}
        assert 0 < sample["fom"] < sample["elapsed_s"]
        assert (sample["fom_unit"], sample["fom_better"]) == ("s", "lower")


def test_the_page_names_what_the_mixin_has():
    from reframe_tests.mixin import NimcMixin

    named = re.findall(r"^\| `(\w+)\(.*?\)` \|", PAGE.read_text(), re.MULTILINE)
    assert len(named) == 4
    assert all(callable(getattr(NimcMixin, name)) for name in named)
