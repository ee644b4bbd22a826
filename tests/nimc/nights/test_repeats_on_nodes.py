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
from nimc.nights import measure
from nimc.nights.measure import EndedRun, NightRuns, NightSession
from nimc.records.run import save_header
from nimc.run.folder import new_header
from tests.analysis.made_nights import made_alarm
from tests.nimc.conftest import CAMPAIGN, SECOND
from tests.nimc.nights.made import nightly

MACHINE = "example_slurm"  # its origins are a second component of the job


def alarm(case: str, node: str) -> Alarm:
    return made_alarm("2026-11-20", case=case, nodes=[node])


@pytest.fixture
def campaign(tmp_path: Path) -> Path:
    file = tmp_path / "small.yaml"
    file.write_text(CAMPAIGN.replace("arms:", f"{SECOND}arms:").replace(", aa]", "]"))
    return file


def session(tmp_path: Path, asked: Request, **runs: tuple[float, float | None]) -> NightSession:
    """Of a night that has had these runs: when each began and ended."""
    results = tmp_path / "results"
    for name, (started_s, finished_s) in runs.items():
        (results / name).mkdir(parents=True)
        made = replace(new_header(asked), run=name, started_s=started_s, finished_s=finished_s)
        save_header(results / name, made)
    of = nightly(tmp_path, machine=MACHINE)
    night = NightRuns.of(results, asked, asked.plan(), 0.0)
    end_s, log = time.time() + 3600, tmp_path / "log"
    return NightSession(
        of, night, slurm=asked.slurm, end_s=end_s, budget_node_h=1.0, log=log, lock=0
    )


@pytest.fixture
def asked_for(
    campaign: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Sequence[str]]:
    """The options of the runs that three alarms on two nodes cause; none of them finds a node."""
    repeats = session(tmp_path, prepare(campaign, MACHINE), first=(1.0, 2.0))
    found: list[Sequence[str]] = []

    def no_node(_: object, __: object, *options: str) -> EndedRun:
        found.append(options)
        return EndedRun(3, said="no node")

    monkeypatch.setattr(NightSession, "measure", no_node)
    raised = [alarm("stream", "nid0007"), alarm("lammps", "nid0009"), alarm("stream", "nid0007")]
    lines = list(repeats.repeat(tmp_path / "results" / "first", raised))
    assert lines == ["not confirmed: stream: no node", "not confirmed: lammps: no node"]
    return found


def test_each_case_is_run_again_on_its_own_nodes(asked_for: list[Sequence[str]]) -> None:
    assert asked_for == [
        ("--fresh", "--case=stream", "--nodelist=nid0007"),
        ("--fresh", "--case=lammps", "--nodelist=nid0009"),
    ]


def test_finished_repeats_count_and_the_last_one_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One case, so that repeats have the digest of the night's own run, and of the one before."""
    (tmp_path / "small.yaml").write_text(CAMPAIGN)
    asked = prepare(tmp_path / "small.yaml", MACHINE, nodelist="n1", only=["stream"])
    runs = {"before": (1.0, 2.0), "own": (3.0, 4.0), "one": (5.0, 6.0), "two": (7.0, None)}
    repeats = session(tmp_path, asked, **runs)
    results, made = tmp_path / "results", tmp_path / "made"
    options: list[Sequence[str]] = []
    stored: list[Path] = []

    def measured(_: object, __: object, *words: str) -> EndedRun:
        options.append(words)
        return EndedRun(0, {"run": str(made), "results": [1]})

    monkeypatch.setattr(NightSession, "measure", measured)
    monkeypatch.setattr(measure, "add_run", lambda _, run: stored.append(run))
    assert list(repeats.repeat(results / "own", [alarm("stream", "n1")])) == []
    again = ("--case=stream", "--nodelist=n1")
    assert options == [again, *[("--fresh", *again)] * 3]  # five in all
    assert stored == [results / "one", *[made] * 4]


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
