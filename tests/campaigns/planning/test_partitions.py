"""What a ReFrame configuration says of a campaign's jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis.checkout import ROOT
from campaigns.commands.plan import command as plan_command
from campaigns.planning.partitions import target_partitions, time_limit_s, use_slurm
from campaigns.planning.prepare import prepare

PARTITIONS = [
    {"name": "std", "scheduler": "slurm", "time_limit": "1h30m"},
    {"name": "big", "scheduler": "local", "time_limit": "1d"},
]
CONFIG = """
site_configuration = {"systems": [{"name": "box", "partitions": [
    {"name": "p", "scheduler": "slurm", "time_limit": "2h"},
]}]}
"""
SITE = "name: box\ndescription: a box\norigins: {policy: same_host}\ninjector: ucx\n"


@pytest.mark.parametrize(
    ("limit", "seconds"),
    [("1d2h3m4s", 93784), ("4h", 14400), (90, 90), (None, None), ("0s", None), ("soon", None)],
)
def test_time_limits_as_reframe_spells_them(limit: object, seconds: float | None) -> None:
    assert time_limit_s([{"time_limit": limit}]) == seconds


def test_a_named_partition_is_asked_else_the_strictest() -> None:
    assert time_limit_s(target_partitions(PARTITIONS, "big")) == 86400
    assert time_limit_s(target_partitions(PARTITIONS, None)) == 5400
    assert not use_slurm(target_partitions(PARTITIONS, "big"))
    assert use_slurm(target_partitions(PARTITIONS, None))
    assert time_limit_s([]) is None


def test_slurm_drives_a_shared_host_where_its_configuration_says_so(tmp_path: Path) -> None:
    (tmp_path / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    for name, text in (("configs/box.py", CONFIG), ("site/box.yaml", SITE)):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    site = prepare(ROOT / "campaigns/quick.yaml", "box", tmp_path).site
    assert (site.slurm, site.time_limit_s, site.origin_nodes) == (True, 7200, 0)
    here = prepare(ROOT / "campaigns/quick.yaml", "localhost").site
    assert not here.slurm


def test_a_block_that_outlasts_its_job_is_reported(tmp_path: Path) -> None:
    # 8 s, and 13 runs of 1 h and 3.6 s each: above 4 h.
    (tmp_path / "long.yaml").write_text(
        "name: long\nworkloads: [{check: stream, expect: 1h}, {check: lammps, expect: 1s}]\n"
        "arms: [off, on]\npairs: {floor: 6}\nrun_timeout: 2h\n"
    )
    words = [str(tmp_path / "long.yaml"), "--machine", "example_slurm"]
    (line,) = json.loads(CliRunner().invoke(plan_command, [*words, "--json"]).stdout)["warnings"]
    assert line == (
        "stream: 6 pairs in one job take 13 h 01 min, but time_limit in"
        " configs/example_slurm.py is 4 h 00 min: reduce pairs.block, or raise the limit"
    )
    assert line in CliRunner().invoke(plan_command, words).stdout
