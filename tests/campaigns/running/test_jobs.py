"""Jobs that nobody waits for any more, without Slurm."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from campaigns.planning.plan import Site
from campaigns.request.schema import Campaign
from campaigns.running import jobs, runner
from campaigns.running.interrupts import Interrupts, Stopped
from campaigns.running.progress import display
from campaigns.running.runner import CampaignRunner


def test_a_run_is_found_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "lustre" / "r").mkdir(parents=True)
    (tmp_path / "scratch").symlink_to("lustre")
    listed = f"7 {tmp_path}/lustre/r/logs/a/0\n8 {tmp_path}/lustre/q\n"
    assert jobs.working_in(tmp_path / "scratch" / "r", listed) == ["7"]


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
    monkeypatch.setattr(runner, "run_session", session)
    monkeypatch.setattr(jobs, "cancel", cancelled.append)
    campaign = Campaign.model_validate(
        {
            "name": "c",
            "workloads": [{"check": "stream", "expect": "1s"}],
            "arms": ["off", "on"],
            "pairs": {"floor": 6},
        }
    )
    (tmp_path / "samples").mkdir()
    site = Site("m", Path("c.py"), Path("checks"), origin_nodes=0, slurm=slurm)
    with Interrupts() as interrupts:
        work = CampaignRunner(campaign, site, tmp_path, "reframe", 1, interrupts, display())
        if how == "stopped":
            with pytest.raises(Stopped):
                work.run_all()
        else:
            assert "SIGKILL" in work.run_all()[0].reason
    assert cancelled == [tmp_path] * ended
