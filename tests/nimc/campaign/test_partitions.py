"""What a ReFrame configuration says of a campaign's jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.campaign.prepare import prepare, time_limit_s, use_slurm
from nimc.campaign.settings import target_partitions
from nimc.cli.plan import plan_command

PARTITIONS = [
    {"name": "std", "scheduler": "slurm", "time_limit": "1h30m"},
    {"name": "big", "scheduler": "local", "time_limit": "1d"},
]
CONFIG = """
site_configuration = {"systems": [{"name": "box", "hostnames": ["b"], "partitions": [
    {"name": "p", "scheduler": "slurm", "launcher": "srun",
     "time_limit": "2h", "environs": ["e"]},
]}], "environments": [{"name": "e", "features": ["wheels"]}]}
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


def checkout(folder: Path, config: str = CONFIG, site: str = SITE) -> Path:
    """A checkout with a machine `box`."""
    (folder / "reframe_tests").symlink_to(ROOT / "reframe_tests")
    for name, text in (("configs/box.py", config), ("site/box.yaml", site)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("config", "site", "expected"),
    [
        (
            "site_configuration = {",
            SITE,
            r"box.py:1: cannot be read: SyntaxError: '{' was never closed",
        ),
        (
            CONFIG.replace('"partitions": [', '"partitions": [7, '),
            SITE,
            r"box.py: cannot be read: TypeError: 'int' object is not subscriptable",
        ),
        ("x = 1", SITE, r"box.py: cannot be read: KeyError: 'site_configuration'"),
        (CONFIG, SITE + "partition: nope\n", r"^site/box.yaml:5: partition: 'nope' found; .*: p$"),
        (
            CONFIG.replace('"name": "e",', '"name": "e", "cc": "",'),
            SITE,
            r"box.py:3: environs: none of partition p can run 'stream'; .* a C compiler, 'cc'$",
        ),
        (
            CONFIG.replace('"environs"', '"environ"'),
            SITE,
            r"box.py:4: systems: partitions: unknown key 'environ', did you mean 'environs'\?; ",
        ),
        (
            CONFIG.replace('"launcher": "srun",', ""),
            SITE,
            r"box.py:3: systems: partitions: p: launcher missing$",
        ),
        (
            CONFIG.replace('"name": "box",', '"name": "box",\n"modules_system": "lmd",'),
            SITE,
            r"box.py:3: systems: modules_system: 'lmd' found; allowed: .*lmod",
        ),
        (
            CONFIG.replace('"box"', '"bax"'),
            SITE,
            r"box.py:2: systems: name: 'bax' found; allowed: the name of the file, 'box'$",
        ),
    ],
)
def test_a_configuration_that_cannot_run_the_campaign_is_refused(
    tmp_path: Path, config: str, site: str, expected: str
) -> None:
    """`plan` gave 0, and `run` ended with 'no run was made'."""
    (tmp_path / "c.yaml").write_text(
        "name: c\nworkloads: [{check: stream, expect: 1s}]\narms: [off, on]\npairs: {floor: 6}\n"
    )
    with pytest.raises(InputError, match=expected):
        prepare(tmp_path / "c.yaml", "box", checkout(tmp_path, config, site))


def test_slurm_drives_a_shared_host_where_its_configuration_says_so(tmp_path: Path) -> None:
    site = prepare(ROOT / "campaigns/quick.yaml", "box", checkout(tmp_path)).site
    assert (site.slurm, site.time_limit_s, site.origin_nodes) == (True, 7200, 0)
    here = prepare(ROOT / "campaigns/quick.yaml", "localhost").site
    assert not here.slurm


def test_a_block_that_outlasts_its_job_is_reported(tmp_path: Path) -> None:
    # 8 s, and 13 runs of 1 h and 0.7 s each: above 4 h.
    (tmp_path / "long.yaml").write_text(
        "name: long\nworkloads: [{check: stream, expect: 1h}, {check: lammps, expect: 1s}]\n"
        "arms: [off, on]\npairs: {floor: 6}\nrun_timeout: 2h\n"
    )
    words = [str(tmp_path / "long.yaml"), "--machine", "example_slurm"]
    (line,) = json.loads(CliRunner().invoke(plan_command, [*words, "--json"]).stdout)["warnings"]
    assert line == (
        "stream: 6 pairs in one job take 13 h 00 min, but time_limit in"
        " configs/example_slurm.py is 4 h 00 min: reduce pairs.block, or raise the limit"
    )
    assert line in " ".join(CliRunner().invoke(plan_command, words).stdout.split())
