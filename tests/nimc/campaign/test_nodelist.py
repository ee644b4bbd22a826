"""Runs that are pinned to nodes, and runs of some cases."""

from __future__ import annotations

from pathlib import Path

import pytest

from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.campaign.plan import plan
from nimc.campaign.prepare import prepare
from nimc.run.folder import new_header

QUICK = ROOT / "campaigns/quick.yaml"


def test_the_check_is_given_the_nodes_and_the_run_is_another_one() -> None:
    pinned = prepare(QUICK, "example_slurm", nodelist="nid0001")
    free = prepare(QUICK, "example_slurm")
    for case in plan(pinned.campaign, pinned.site).cases:
        assert f"{case.workload}.nodelist=nid0001" in case.blocks[0].command
    for case in plan(free.campaign, free.site).cases:
        assert not any("nodelist" in word for word in case.blocks[0].command)
    assert new_header(pinned).digest != new_header(free).digest


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ("n1,n2", "2 nodes found; allowed: as many as case 'stream' has, 1"),
        ("n[1-4]", "allowed: names joined with commas"),
        ("n1 --wrap=x", "allowed: names joined with commas"),
        ("-x", "allowed: names joined with commas"),
    ],
)
def test_what_is_no_list_of_as_many_nodes_is_refused(nodes: str, said: str) -> None:
    with pytest.raises(InputError, match=r"--nodelist: .*") as error:
        prepare(QUICK, "example_slurm", nodelist=nodes)
    assert said in str(error.value)


def test_a_machine_without_slurm_has_no_nodes_to_choose() -> None:
    with pytest.raises(InputError, match="has no Slurm"):
        prepare(QUICK, "localhost", nodelist="n1")


def test_nodes_of_one_job_cannot_be_pinned(tmp_path: Path) -> None:
    for folder in ("configs", "site", "reframe_tests"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    (tmp_path / "site").unlink()
    (tmp_path / "site").mkdir()
    text = (ROOT / "site/example_slurm.yaml").read_text()
    changed = text.replace("  policy: hetjob\n", "  policy: same_job\n")
    changed = changed.replace("  partition: standard\n\n", "\n", 1)
    (tmp_path / "site/example_slurm.yaml").write_text(changed)
    with pytest.raises(InputError, match="same_job"):
        prepare(QUICK, "example_slurm", tmp_path, nodelist="n1")


def test_only_some_cases_are_another_run() -> None:
    some = prepare(QUICK, "example_slurm", only=["lammps"])
    assert [case.case for case in plan(some.campaign, some.site).cases] == ["lammps"]
    assert new_header(some).digest != new_header(prepare(QUICK, "example_slurm")).digest
    with pytest.raises(InputError, match="--case: 'amg' found; allowed: stream, lammps"):
        prepare(QUICK, "example_slurm", only=["amg"])
