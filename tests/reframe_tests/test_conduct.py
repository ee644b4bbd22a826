"""What conductor and agents import on compute nodes."""

import os
import subprocess
import sys

import pytest

from nimc.base.checkout import ROOT

READERS = """
import sys
from nimc.records.plan import BlockPlan
from reframe_tests.conduct import readers
import nimc.node.agent
name, read_by_check = sys.argv[1], sys.argv[2] == "by_check"
found = readers(BlockPlan("case", name, 0, 0, [], 1, 0, "run", read_by_check=read_by_check))
files = {module.__file__ for module in list(sys.modules.values()) if hasattr(module, "WORKLOAD")}
print(found.unit, found.better, *sorted(path.rpartition("/")[2] for path in files))
"""


def readers(*words, options=(), path=""):
    return subprocess.run(
        [sys.executable, *options, "-c", READERS, *words],
        env={**os.environ, "PYTHONPATH": f"{path}:{ROOT}"},
        capture_output=True,
        text=True,
    )


def test_outputs_that_the_check_reads_need_the_standard_library_only():
    # -S leaves site-packages out, so that any other import fails.
    done = readers("stream", "by_check", options=["-S"])
    assert (done.returncode, done.stdout.split()) == (0, ["lower"]), done.stderr
    assert "No module named 'reframe'" in readers("stream", "here", options=["-S"]).stderr


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("stream", ["B/s", "higher", "stream.py"]),
        ("lammps_scaling", ["s", "lower", "lammps.py", "lammps_scaling.py"]),
    ],
)
def test_the_blocks_own_workload_is_imported_and_no_other(name, said):
    done = readers(name, "here")
    assert done.stdout.split() == said, done.stderr


def test_packages_that_modules_put_into_pythonpath_do_not_replace_our_own(tmp_path):
    for name in ("reframe", "pydantic"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('for another Python')\n")
    done = readers("stream", "here", path=tmp_path)
    assert done.stdout.split() == ["B/s", "higher", "stream.py"], done.stderr
