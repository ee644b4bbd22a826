"""Jobs that nobody waits for any more, without Slurm."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from nimc.base.errors import MachineError
from nimc.base.interrupts import Interrupts, Stopped
from nimc.base.programs import ask
from nimc.campaign.plan import Site
from nimc.campaign.schema import Campaign
from nimc.machine import slurm as jobs
from nimc.run import runner, slurm_watch
from nimc.run.progress import PlainDisplay, display
from nimc.run.runner import CampaignRunner

CAMPAIGN = Campaign.model_validate(
    {
        "name": "c",
        "workloads": [{"check": "stream", "expect": "1s"}],
        "arms": ["off", "on"],
        "pairs": {"floor": 6},
    }
)


def test_a_run_is_found_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "lustre" / "r").mkdir(parents=True)
    (tmp_path / "scratch").symlink_to("lustre")
    listed = f"7 {tmp_path}/lustre/r/logs/a/0\n8 {tmp_path}/lustre/q\n"
    assert jobs.working_in(tmp_path / "scratch" / "r", listed) == ["7"]


def test_a_heterogeneous_job_that_is_just_ending_is_cancelled_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [f"2+0 {tmp_path}/a\n2+1 {tmp_path}/a\n5 {tmp_path}/b\n", f"2+1 {tmp_path}/a\n", ""]
    asked: list[tuple[str, ...]] = []

    def answer(*command: str) -> str:
        if command == jobs.SQUEUE:
            return listed.pop(0)
        asked.append(command)
        raise MachineError("scancel: Operation not permitted")

    monkeypatch.setattr(jobs, "_ask_slurm", answer)
    assert jobs.cancel(tmp_path) == ["2", "5"]
    assert asked == [("scancel", "2", "5")]


@pytest.mark.parametrize(("slurm", "ended"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_what_a_dead_reframe_left_is_ended_also_where_nodes_are_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slurm: bool, ended: int, how: str
) -> None:
    def session(*_: object) -> int:
        if how == "stopped":
            raise Stopped(signal.SIGTERM)
        return -signal.SIGKILL

    cancelled: list[Path] = []
    monkeypatch.setattr(slurm_watch, "_ASKED", {})
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(jobs, "cancel", cancelled.append)
    (tmp_path / "samples").mkdir()
    (tmp_path / "run.json").touch()
    site = Site("m", Path("c.py"), Path("checks"), origin_nodes=0, slurm=slurm)
    with Interrupts() as interrupts:
        work = CampaignRunner(CAMPAIGN, site, tmp_path, "reframe", 1, interrupts, display())
        if how == "stopped":
            with pytest.raises(Stopped):
                work.run_all()
        else:
            assert "SIGKILL" in work.run_all()[0].reason
    assert cancelled == [tmp_path] * ended


def test_a_signal_is_obeyed_though_slurm_is_away_and_jobs_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def session(*given: Any) -> int:
        (probe,) = work.slurm._probes  # type: ignore[union-attr]
        if probe.running:  # asked by the first tick, for the last time
            probe.running.wait(10)
        given[-1]()  # its tick
        raise Stopped(signal.SIGINT)

    def cancel(_: Path) -> None:
        raise MachineError("squeue: Unable to contact slurm controller")

    squeue = ("echo", f"7 {tmp_path}/logs")
    monkeypatch.setattr(jobs, "SQUEUE", squeue)
    monkeypatch.setattr(slurm_watch, "_ASKED", {"slurmctld": squeue})
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(jobs, "cancel", cancel)
    site = Site("m", Path("c.py"), Path("checks"), origin_nodes=0, slurm=True)
    with Interrupts() as interrupts:
        work = CampaignRunner(CAMPAIGN, site, tmp_path, "reframe", 1, interrupts, PlainDisplay())
        with pytest.raises(Stopped):
            work.run_all()
    assert capsys.readouterr().err.splitlines()[-1] == (
        "nimc: squeue: Unable to contact slurm controller; jobs of this run may go on: scancel 7"
    )


def test_a_folder_in_another_encoding_hides_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    squeue = tmp_path / "squeue"
    listed = f"7 /old/caf\\351\\n8 {tmp_path}/run\\n"
    squeue.write_text(f"#!/bin/sh\nprintf '{listed}'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert jobs.working_in(tmp_path / "run", jobs._ask_slurm(*jobs.SQUEUE)) == ["8"]
    assert ask(["squeue"]).text.startswith("7 /old/caf\ufffd\n")
