"""A copy of the checkout to which sections of docs/extend.md were applied."""

import re
import shutil
from pathlib import Path

from records.checkout import ROOT
from tests.literal_docs import copy_of_checkout, follow, section
from tests.undisturbed import PROOF

FACTOR, WORKLOAD, INJECTOR = (
    section("extend.md", f"Add {addition}")
    for addition in ("a factor", "a workload", "an injector")
)
#: A check whose figure of merit shows the niceness of its application: the figure is 1 plus the
#: niceness, in seconds.
CHECK = '''
import shlex
import sys

import reframe as rfm
import reframe.utility.sanity as sn
from reframe.core.builtins import performance_function, sanity_function

from reframe_tests.mixin import NimcMixin

_PROGRAM = """
import os
print(f"took {1 + os.nice(0)} s")
"""


@rfm.simple_test
class shows(rfm.RunOnlyRegressionTest, NimcMixin):
    executable = sys.executable
    executable_opts = ["-c", shlex.quote(_PROGRAM)]
    sourcesdir = None
    better = "lower"

    @sanity_function
    def ended(self):
        return sn.assert_found("took", self.stdout)

    @performance_function("s")
    def time(self):
        return sn.extractsingle(r"took (\\d+) s", self.stdout, 1, float)
'''


def followed(folder: Path) -> Path:
    """Copy the checkout to a folder, follow three sections of docs/extend.md there, and add CHECK.

    Return the path of the copy.
    """
    copy = copy_of_checkout(folder / "checkout")
    shutil.copytree(ROOT / "docs", copy / "docs")
    shutil.copy(ROOT / "pyproject.toml", copy)
    added = follow(FACTOR, copy)
    assert len(added) <= 3
    assert f"{sum(added.values())} lines in all" in FACTOR
    added = follow(WORKLOAD, copy)
    assert added.keys() == {"reframe_tests/sort.py"}
    table = (ROOT / "docs" / "extend.md").read_text()
    assert f"#add-a-workload) | {added['reframe_tests/sort.py']} | one |" in table
    follow(INJECTOR, copy)
    (copy / "reframe_tests" / "shows.py").write_text(CHECK)
    site = copy / "site" / "localhost.yaml"
    site.write_text(re.sub(r"^proof: .*\n", PROOF, site.read_text(), flags=re.MULTILINE))
    return copy
