"""Tests of the short forms of checks, which README's ReFrame command runs.

The tests compare the tags of the checks with the short forms, and read the plans of dry runs.
"""

import json
import re
from pathlib import Path

import pytest

from tests.reframe_tests.reframe_call import plan_of, reframe, succeeded

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TAGS = ("quick", "short")


def quick(folder, file, name, *words, **settings):
    """Call ReFrame for the short forms that `name` matches; return the output of ReFrame."""
    return succeeded(reframe(folder, "localhost", file, *words, name=name, settings=settings))


def test_the_tag_quick_has_two_checks_and_the_tag_short_has_all_short_forms(tmp_path):
    words = ("-c", ROOT / "reframe_tests", "-R", "--describe")
    checks = json.loads(quick(tmp_path, "stream", ".*", *words))
    tagged = {tag: {check["@class"] for check in checks if tag in check["tags"]} for tag in TAGS}
    texts = [path.read_text() for path in (ROOT / "reframe_tests").glob("*.py")]
    forms = re.findall(r"^add_short_form\(\s*(\w+)", "\n".join(texts), re.MULTILINE)
    assert tagged["quick"] == {"lammps_quick", "stream_quick"}
    assert tagged["short"] == {f"{name}_quick" for name in forms}


def test_checks_plan_longer_runs_and_take_the_min_share_of_the_machine(tmp_path):
    names = "(stream|lammps|membench|hpccg)_quick"
    words = ("-c", ROOT / "reframe_tests", "-R", "-p", "wheels", "--dry-run")
    quick(tmp_path, "stream", names, *words, "-S", "stream_quick.min_share=0.7")
    plans = {path.parent.name: json.loads(path.read_text())
             for path in tmp_path.glob("stage/*/*/*/*/plan.json")}  # fmt: skip
    first = {name: plan["treatments"][0] for name, plan in plans.items()}
    times = [2, 4, 8, 16, 32, 64]
    assert [start["command"][-1] for start in first["lammps_quick"]["longer"]] == [
        str(150 * times_longer) for times_longer in times
    ]
    steps = first["lammps_quick"]["start"]["command"]
    assert steps[-2:] == ["steps", "150"]
    assert all(start["command"][:-1] == steps[:-1] for start in first["lammps_quick"]["longer"])
    assert [
        start["environment"]["STREAM_ITERATIONS"] for start in first["stream_quick"]["longer"]
    ] == [str(18 * times_longer) for times_longer in times]
    assert first["stream_quick"]["start"]["environment"]["STREAM_ITERATIONS"] == "18"
    assert first["membench_quick"]["longer"][-1]["command"][4:6] == ["-d", "64.0"]
    assert first["hpccg_quick"]["longer"] == []
    assert plans["lammps_quick"]["lengthened_by"] == "steps"
    assert plans["lammps_quick"]["notes"] == plans["hpccg_quick"]["notes"]
    # The `min_share` of the machine holds, unless the check sets its own.
    assert [plans[f"{name}_quick"]["limits"]["min_share"] for name in ("lammps", "stream")] == [
        0.1,
        0.7,
    ]


def test_the_short_form_of_scaling_takes_at_most_two_nodes_and_has_a_writer(tmp_path):
    """The short form has one target. If origins are nodes of their own, it also has one origin.

    Daly's formula gives no writer for one target, so the short form sets the number itself.
    """
    name = "lammps_scaling_quick"
    quick(tmp_path, "lammps_scaling", name, "-p", "wheels", "--dry-run")
    plan = plan_of(tmp_path, name)
    assert [treatment["name"] for treatment in plan["treatments"]] == ["off", "daly", "aa"]
    (writes,) = (
        treatment["writes"] for treatment in plan["treatments"] if treatment["name"] == "daly"
    )
    assert writes["scheduled"] == 1
    assert (plan["short"]["length_s"], plan["short"]["fill"]) == (0.4, 0.5)
    on_cluster = tmp_path / "cluster"
    on_cluster.mkdir()
    words = ("--system=example_slurm", "-p", "spack", "--dry-run")
    succeeded(reframe(on_cluster, "example_slurm", "lammps_scaling", *words, name=name))
    (job,) = on_cluster.glob("stage/*/*/*/*/rfm_job.sh")
    components = re.findall(r"^#SBATCH .*--nodes=(\d+)", job.read_text(), re.MULTILINE)
    assert list(map(int, components)) == [1, 1]
