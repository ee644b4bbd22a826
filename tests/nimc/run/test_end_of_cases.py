"""A case ends by the same verdict that the report shows, in a campaign of made cases."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import polars as pl
import pytest

from analysis.effects.estimate import StoppingRule, results
from analysis.effects.result import Result, Verdict
from analysis.samples.columns import read_run
from nimc.run import runner
from nimc.run.folder import new_header
from nimc.run.progress import Display, expected_total
from nimc.run.runner import CampaignRunner
from records.campaign import Campaign
from records.interrupts import Interrupts
from records.run import load_header, save_header
from tests.analysis.synthetic import Case, samples
from tests.nimc.blocks import block_of
from tests.nimc.campaign.made_request import made_machine, made_request

#: Case -> seed of its pairs. With the seeds 161 and 185, the first eight pairs show that the
#: baseline differs from itself, if a case is judged separately from the others.
SEEDS = {f"c{seed:04}": seed for seed in (1, 161, 3, 185, 5, 6)}
CASES = sorted(SEEDS)
#: The first interim analysis is after eight pairs. A case has at most twelve.
FLOOR, CAP = 8, 12
CAMPAIGN = Campaign.model_validate(
    {
        "name": "c",
        "workloads": [{"case": name, "check": "stream", "expect": "1s"} for name in CASES],
        "arms": ["off", "on", "aa"],
        "pairs": {"floor": FLOOR, "cap": CAP, "block": FLOOR},
    }
)


@pytest.fixture
def campaign_runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CampaignRunner]:
    """Yields a runner of the campaign. Its cases are made samples without any effect."""
    case_samples = {
        name: samples(
            Case(name=name, unit="B/s", better="higher", base=14e9, effects={"on": 1.0, "aa": 1.0}),
            pairs=CAP,
            seed=seed,
        )
        for name, seed in SEEDS.items()
    }

    def session(argv: Sequence[str], run: Path, *_: object) -> int:
        plan = block_of(argv)
        name, block = plan.case, plan.block
        lines = [
            json.dumps(sample.as_dict())
            for sample in case_samples[name]
            if (sample.pair >= FLOOR) == block
        ]
        with (run / "samples" / f"{name}.jsonl").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)
        return 0

    monkeypatch.setattr(runner, "run_session", session)
    request = made_request(CAMPAIGN, made_machine())
    save_header(tmp_path, new_header(request))
    (tmp_path / "samples").mkdir()
    with Interrupts() as interrupts:
        yield CampaignRunner(
            request=request,
            run=tmp_path,
            reframe="reframe",
            seed=1,
            interrupts=interrupts,
            display=Display(),
        )


def rows_of(samples: pl.DataFrame, rule: StoppingRule) -> dict[str, Result]:
    """Return the results of the effects: case -> result."""
    return {row.case: row for row in results(samples, rule) if row.role == "effect"}


def test_the_time_left_at_the_start_agrees_with_the_plan(campaign_runner):
    """Each case has at least eight pairs. Up to twelve pairs take another block."""
    sums = campaign_runner.request.plan().sums
    expected = expected_total(
        campaign_runner.expected(case) for case in campaign_runner.request.campaign.cases
    )
    assert expected == (sums["duration_least_s"], sums["duration_most_s"])
    assert expected.most_s > expected.least_s == campaign_runner.least_time_s()


@pytest.mark.slow
def test_no_case_ends_as_unstable_if_the_report_calls_it_undecided(campaign_runner):
    """No case has an effect. If judged separately, two cases would end as 'baseline unstable'."""
    assert campaign_runner.run_all() == []
    rule = StoppingRule.from_header(load_header(campaign_runner.run))
    assert rule == campaign_runner.stopping_rule
    frame = read_run(campaign_runner.run).frame
    rows = rows_of(frame, rule)
    assert sorted(rows) == CASES
    for name, row in rows.items():
        assert row.pairs == CAP or rule.is_done(row), name
    eight = frame.filter(pl.col("pair") < FLOOR)
    alone = [rows_of(eight.filter(case=name), StoppingRule())[name] for name in CASES]
    assert [row.verdict for row in alone].count(Verdict.BASELINE_UNSTABLE) == 2


@pytest.mark.slow
def test_a_case_is_continued_if_the_samples_of_a_later_case_make_it_undecided(
    campaign_runner, monkeypatch
):
    last = campaign_runner.run / "samples" / f"{CASES[-1]}.jsonl"

    def is_done(_: Path, case: str, __: StoppingRule) -> bool:
        return case != CASES[0] or not last.exists()

    monkeypatch.setattr(runner, "case_is_done", is_done)
    assert campaign_runner.run_all() == []
    rows = rows_of(read_run(campaign_runner.run).frame, campaign_runner.stopping_rule)
    assert (rows[CASES[0]].pairs, rows[CASES[1]].pairs) == (CAP, FLOOR)
