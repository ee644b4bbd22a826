from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.estimate import Result
from analysis.effects.verdict import Verdict
from analysis.report.data import RunData, load_run
from analysis.report.page import NEXT, summary
from analysis.report.words import control
from tests.analysis.synthetic import LAMMPS, STREAM, header, reject, samples, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunData:
    found = samples(STREAM, pairs=6) + samples(LAMMPS, pairs=6)
    found[3] = reject(found[3], "rejected", "slow")
    return load_run(write_run(tmp_path_factory.mktemp("sum") / "run", found, header()))


def _effect(run: RunData, **changes: object) -> Result:
    row = next(row for row in run.results if (row.case, row.arm) == ("stream", "on"))
    return replace(row, **changes)  # type: ignore[arg-type]


def _said(run: RunData, *rows: Result) -> list[str]:
    return summary(replace(run, results=list(rows)))


def test_what_was_measured_is_counted(run: RunData) -> None:
    """A warm-up and six pairs of four treatments, of each case: twice 25 runs."""
    (measured, _, _) = summary(run)
    assert (
        "on 1 node of synthetic machine, 50 runs of which 1 rejected, from 2026-05-28" in measured
    )


def test_runs_of_the_same_campaign_beside_it_are_counted(tmp_path: Path) -> None:
    """Of four other runs, one is of another campaign, and one started later."""
    own = header()
    others = {
        "run": own,
        "one": replace(own, started_s=own.started_s - 10),
        "two": replace(own, started_s=own.started_s - 5),
        "later": replace(own, started_s=own.started_s + 5),
        "another": replace(own, started_s=own.started_s - 10, digest="other"),
    }
    for name, each in others.items():
        write_run(tmp_path / name, samples(LAMMPS, pairs=6), replace(each, run=name))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    run = load_run(tmp_path / "run", force=True)
    assert run.earlier == 2
    assert "2 earlier runs of the same campaign" in summary(run)[0]


def test_a_loss_is_in_node_hours_with_its_interval(run: RunData) -> None:
    slower = {"verdict": Verdict.CONTENTION, "writer_rate_b_s": 2.5e9}
    ends = {"mean_low": 1.22, "mean_high": 1.28, "mean_family_low": 1.2, "mean_family_high": 1.3}
    row = _effect(run, mean=1.25, **ends, **slower)
    lost = _said(run, row)[1]
    assert lost.startswith("Lost: work of 100 node-hours takes 25.0 more (20.0 to 30.0) in stream ")
    assert lost.endswith(" 2.50 GB/s.")


def test_a_mean_that_few_pairs_do_not_show_is_said_to_be_open(run: RunData) -> None:
    ends = {"mean_low": 0.9, "mean_high": 1.2, "mean_family_low": 0.845, "mean_family_high": 1.307}
    row = _effect(run, mean=1.054, verdict=Verdict.EMULATED, **ends)
    lost = _said(run, row)[1]
    assert "takes 5.4 more (15.5 fewer to 30.7 more; 5 pairs do not show" in lost


@pytest.mark.parametrize("verdict", [v for v in NEXT if "slower" not in v and "memory" not in v])
def test_no_other_verdict_carries_a_loss(run: RunData, verdict: Verdict) -> None:
    row = _effect(run, verdict=verdict, margin=0.03)
    lost = _said(run, row)[1]
    ruled_out = "; 3 % or more is ruled out for stream" if verdict == "no effect" else ""
    assert lost == f"Lost: no interval shows a loss of node-hours{ruled_out}."


def test_what_the_figures_need_comes_before_what_they_show(run: RunData) -> None:
    slower = _effect(run, verdict=Verdict.CONTENTION)
    unstable = _effect(run, case="lammps", verdict=Verdict.BASELINE_UNSTABLE)
    assert _said(run, slower, unstable)[2].endswith("measure again (lammps: baseline unstable).")


def test_every_verdict_of_an_effect_has_a_next_step() -> None:
    assert set(Verdict) - set(NEXT) == {Verdict.NOISE_FLOOR, Verdict.CONTROL}


def test_a_run_without_samples_says_so(tmp_path: Path) -> None:
    empty = load_run(write_run(tmp_path / "run", []))
    (only,) = summary(empty)
    assert only.startswith("Nothing was measured")


def test_the_control_is_named_with_what_it_shows(run: RunData) -> None:
    rows = [row for row in run.results if row.case == "lammps"]
    (effect,) = (row for row in rows if row.role == "effect")
    own = replace(effect, over_control=1.05, over_control_low=1.01, over_control_high=1.09)
    others = [row for row in rows if row.role != "effect"]
    said = control([own, *others], same_host=True, cpu_shares=[0.41, 0.27, 0.59])
    assert said.startswith("Control: spin, ")
    assert " in 6 pairs, using 27% to 59% of a core." in said
    assert "on took 1.050 times as long as the control (1.010 to 1.090)." in said


def test_a_control_that_was_not_run_is_said_with_why(run: RunData) -> None:
    rows = [row for row in run.results if row.role == "effect"]
    assert "although origin and target share a host" in control(rows, same_host=True, cpu_shares=[])
    assert "writers on other hosts" in control(rows, same_host=False, cpu_shares=[])
