"""Repeats under Slurm: the same allocations as the night's own, on the nodes of the alarm."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.history.alarms import Alarm
from nimc.campaign.plan import Request
from nimc.campaign.prepare import prepare
from nimc.cli.run import run_command as nimc_run
from nimc.machine.slurm import job_options
from nimc.nights import description
from nimc.nights.measure import EndedRun, NightRuns, NightSession
from nimc.records.run import save_header
from nimc.run.folder import new_header
from tests.nimc.conftest import CAMPAIGN, SECOND

MACHINE = "example_slurm"  # its origins are a second component of the job


def alarm(case: str, node: str) -> Alarm:
    return Alarm(
        **{"machine": MACHINE, "campaign": "small", "case": case, "arm": "off", "quantity": "fom"},
        **{"unit": "B/s", "night": "2026-11-20", "since": "2026-11-19", "run": "first"},
        **{"runs": ["first"], "nodes": [node], "ratio": 1.5, "ratio_low": None},
        **{"ratio_high": None, "reference": 1e10, "detectable": None},
    )


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(CAMPAIGN.replace("arms:", f"{SECOND}arms:").replace(", aa]", "]"))
    return file


@pytest.fixture
def asked_for(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Sequence[str]]:
    """The options of the runs that three alarms on two nodes cause; none of them finds a node."""
    file = tmp_path / "box.yaml"
    file.write_text(
        f"machine: {MACHINE}\ncampaign: {campaign}\nbudget: 1\nresults: {tmp_path}/results\n"
        'window: {start: "22:00", end: "05:00"}\n'
    )
    asked = prepare(campaign, MACHINE)
    run = tmp_path / "results" / "first"
    run.mkdir(parents=True)
    save_header(run, replace(new_header(asked), run="first", finished_s=time.time()))
    found: list[Sequence[str]] = []

    def measure(_: object, __: object, *options: str) -> EndedRun:
        found.append(options)
        return EndedRun(3, said="no node")

    monkeypatch.setattr(NightSession, "measure", measure)
    nightly = description.load(str(file))
    night = NightRuns.of(nightly.results, asked, asked.plan(), 0.0)
    end_s, log = time.time() + 3600, tmp_path / "log"
    repeats = NightSession(
        nightly, night, slurm=asked.slurm, end_s=end_s, budget_node_h=1.0, log=log, lock=0
    )
    raised = [alarm("stream", "nid0007"), alarm("lammps", "nid0009"), alarm("stream", "nid0007")]
    lines = list(repeats.repeat(run, raised))
    assert lines == ["not confirmed: stream: no node", "not confirmed: lammps: no node"]
    return found


def test_each_case_is_run_again_on_its_own_nodes(asked_for: list[Sequence[str]]) -> None:
    assert asked_for == [
        ("--fresh", "--case=stream", "--nodelist=nid0007"),
        ("--fresh", "--case=lammps", "--nodelist=nid0009"),
    ]


def test_only_the_nodes_differ_from_the_nights_own_allocation(
    asked_for: list[Sequence[str]], campaign: Path
) -> None:
    def asked(*options: str) -> Request:
        words = [str(campaign), "--machine", MACHINE, *options]
        given = nimc_run.make_context("run", words).params
        return prepare(campaign, MACHINE, nodelist=given["nodelist"], only=given["cases"])

    own = commands(asked())
    for options, case, node in zip(
        asked_for, ("stream", "lammps"), ("nid0007", "nid0009"), strict=True
    ):
        again = asked(*options)
        (repeat,) = commands(again).values()
        at = repeat.index(f"{case}.nodelist={node}")
        assert repeat[: at - 1] + repeat[at + 1 :] == own[case]
        origins = again.machine.origins
        pinned, free = job_options(origins, nodelist=node), job_options(origins)
        assert [each for each in pinned if each not in free] == [f"--nodelist={node}"]
        assert [each for each in pinned if each in free] == free
        assert "#SBATCH hetjob" in free


def commands(asked: Request) -> dict[str, list[str]]:
    """Case -> ReFrame's command for its first block."""
    cases = asked.plan().cases
    return {each.case: list(each.blocks[0].command) for each in cases}
