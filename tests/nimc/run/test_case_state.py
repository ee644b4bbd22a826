"""How far a case is, by the pairs that are complete.

Why a block failed, in one line.
"""

from dataclasses import replace
from pathlib import Path
import pytest
from analysis.effects.estimate import StoppingRule
from nimc.base.errors import InputError
from nimc.campaign.schema import Pairs
from nimc.node.conductor import Store
from nimc.run.runner import CaseState, case_state
from tests.nimc.fake_reframe import sample
import json
from nimc.run.runner import why_failed


ARMS = ["off", "on", "aa"]
TREATED = ["on", "aa"]
RULE = StoppingRule(pairs_cap=8)


def write(run: Path, block: int, runs: list[tuple[int, str]]) -> None:
    store = Store(run, "stream")
    settings = {"nimc_dir": str(run), "case": "stream", "block": str(block), "seed": "1"}
    for pair, arm in runs:
        store.append(replace(sample(settings, arm, pair), warmup=pair < 0))


def test_nothing_yet(tmp_path: Path) -> None:
    now = case_state(tmp_path, "stream", TREATED, RULE)
    assert (now.pairs, now.next_block) == (0, 0)


def test_a_pair_counts_when_every_arm_has_run(tmp_path: Path) -> None:
    write(tmp_path, 0, [(-1, "off"), (0, "off"), (0, "on"), (0, "aa"), (1, "on"), (1, "off")])
    now = case_state(tmp_path, "stream", TREATED, RULE)
    assert now.pairs == 1
    assert now.pairs_of == {"on": 2, "aa": 1}
    assert now.next_block == 1
    assert now.missing(Pairs(floor=6)) == 5


def test_a_block_that_left_no_sample_keeps_its_number(tmp_path: Path) -> None:
    write(tmp_path, 0, [(0, arm) for arm in ARMS])
    (tmp_path / "logs/stream/3").mkdir(parents=True)
    assert case_state(tmp_path, "stream", TREATED, RULE).next_block == 4


def test_why_the_last_run_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.nimc.fake_reframe.FAULTS", ["reject"])
    write(tmp_path, 0, [(pair, arm) for pair in range(2) for arm in ARMS])
    now = case_state(tmp_path, "stream", TREATED, RULE)
    assert now.last_reason == "writer 0 wrote at 3%"
    assert (now.pairs, now.rejected) == (0, 2)


def test_a_pair_cut_short_is_not_lost(tmp_path: Path) -> None:
    write(tmp_path, 0, [(0, arm) for arm in ARMS] + [(1, "off")])
    assert case_state(tmp_path, "stream", TREATED, RULE).rejected == 0


def test_a_case_ends_when_as_many_pairs_are_lost_as_may_count() -> None:
    asked = Pairs(floor=6)
    assert CaseState({"on": 4}, next_block=1, rejected=5).missing(asked) == 2
    assert CaseState({"on": 4}, next_block=1, rejected=6).missing(asked) == 0


def test_the_next_session_may_reject_as_many_again() -> None:
    asked = Pairs(floor=6)
    assert CaseState({"on": 0}, next_block=1, rejected=6).missing(asked, 6) == 6
    assert CaseState({"on": 0}, next_block=1, rejected=11).missing(asked, 6) == 6
    assert CaseState({"on": 0}, next_block=1, rejected=12).missing(asked, 6) == 0


def test_a_line_that_is_no_sample_is_named_with_the_way_out(tmp_path: Path) -> None:
    write(tmp_path, 0, [(0, arm) for arm in ARMS])
    file = tmp_path / "samples/stream.jsonl"
    file.write_text(file.read_text() + "garbage\n")
    with pytest.raises(InputError, match=r"stream.jsonl:4: .*remove that line .* --fresh$"):
        case_state(tmp_path, "stream", TREATED, RULE)


ASKED = Pairs(floor=6, cap=20, precision=0.01, block=5)


@pytest.mark.parametrize(
    ("on", "aa", "done", "missing"),
    [
        (6, 6, True, 0),
        (6, 6, False, 5),
        (18, 18, False, 2),  # never beyond the cap
        (20, 20, False, 0),
        (6, 4, True, 2),  # the floor is asked of every arm
    ],
)
def test_a_case_goes_on_until_it_is_done(on: int, aa: int, done: bool, missing: int) -> None:
    now = CaseState({"on": on, "aa": aa}, next_block=1, done=done)
    assert now.missing(ASKED) == missing


def test_a_case_is_done_when_its_effects_are_decided(tmp_path: Path) -> None:
    """The made samples are 1.5 times as slow in every pair; seven decide, and four do not."""
    write(tmp_path, 0, [(pair, arm) for pair in range(4) for arm in ARMS])
    assert not case_state(tmp_path, "stream", TREATED, RULE).done
    write(tmp_path, 1, [(pair, arm) for pair in range(4, 7) for arm in ARMS])
    assert case_state(tmp_path, "stream", TREATED, RULE).done
    many = StoppingRule(pairs_cap=8, family=100)
    assert not case_state(tmp_path, "stream", TREATED, many).done


@pytest.mark.parametrize(("on", "spin", "missing"), [(6, 4, 2), (19, 4, 1), (20, 4, 0), (4, 9, 2)])
def test_a_control_gets_no_pairs_beyond_the_cap_of_the_others(
    on: int, spin: int, missing: int
) -> None:
    now = CaseState({"on": on, "spin": spin}, next_block=1)
    assert now.missing(ASKED) == missing
    exact = Pairs(floor=6)  # and at most 6: ten and nine pairs came of this
    assert CaseState({"on": 6, "spin": 2}, next_block=1).missing(exact) == 0


def test_a_session_that_did_its_work(tmp_path: Path) -> None:
    assert why_failed(0, tmp_path) is None
    (tmp_path / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    assert why_failed(0, tmp_path) is None


def test_the_conductor_speaks_first(tmp_path: Path) -> None:
    block = {"state": "injector_died", "reason": "writer 0:\nsignal 9"}
    (tmp_path / "block.json").write_text(json.dumps(block))
    (tmp_path / "reframe.json").write_text(report("sanity", "sanity error: x"))
    # ReFrame ignores exit statuses: a block that is not done has failed even where it reports 0.
    for status in (0, 1):
        assert why_failed(status, tmp_path) == "injector_died: writer 0: signal 9"


def test_what_slurm_says_of_the_job_goes_before_the_conductor(tmp_path: Path) -> None:
    block = {"state": "cancelled", "reason": "stopped by a signal, or the owner process ended"}
    (tmp_path / "block.json").write_text(json.dumps(block))
    job = {"outcome": "time_limit", "reason": "Slurm: job state TIMEOUT"}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert why_failed(1, tmp_path) == "time_limit: Slurm: job state TIMEOUT"


@pytest.mark.parametrize(
    ("phase", "reason"),
    [
        ("performance", "failed to meet reference"),
        ("sanity", "sanity error: no pair of 'on' counts: writer 0 was at 3% of its rate alone"),
    ],
)
def test_a_result_is_no_failure_of_the_block(tmp_path: Path, phase: str, reason: str) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    (tmp_path / "reframe.json").write_text(report(phase, reason))
    assert why_failed(1, tmp_path) is None


def test_else_reframes_report(tmp_path: Path) -> None:
    (tmp_path / "reframe.json").write_text(report("compile", "build job failed\nwith status 1"))
    assert why_failed(1, tmp_path) == (
        "ReFrame failed in 'compile': build job failed with status 1"
    )


def test_else_its_last_error(tmp_path: Path) -> None:
    log = tmp_path / "reframe.log"
    log.write_text("start\nERROR: could not load 'x'\nbye\n\n")
    assert why_failed(1, tmp_path) == (
        f"ReFrame ended with status 1: ERROR: could not load 'x' ({log})"
    )
    log.write_text("start\nbye\n\n")
    assert why_failed(-9, tmp_path) == f"ReFrame was killed by SIGKILL: bye ({log})"


def test_else_that_it_said_nothing(tmp_path: Path) -> None:
    (tmp_path / "reframe.json").write_text("{ half")
    assert why_failed(2, tmp_path) == (
        f"ReFrame ended with status 2: it printed nothing to {tmp_path}/reframe.log"
    )


def test_long_reasons_are_cut(tmp_path: Path) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "no_fom", "reason": "x" * 5000}))
    reason = why_failed(1, tmp_path)
    assert len(reason) == 400
    assert reason.endswith("...")


def report(phase: str, reason: str) -> str:
    """As ReFrame 4.10 writes it, what does not matter left out."""
    good = {"result": "pass", "fail_phase": None, "fail_reason": None}
    bad = {"result": "fail", "fail_phase": phase, "fail_reason": reason}
    return json.dumps({"runs": [{"testcases": [good, bad]}]})


def test_a_check_that_was_skipped_everywhere_is_not_a_success(tmp_path: Path) -> None:
    # As ReFrame 4.10.4 prints and reports it, colours included.
    (tmp_path / "reframe.log").write_text(
        "[ \x1b[33m    SKIP\x1b[0m ] (1/2) hpccg /ae019b7e @localhost:default+wheels"
        " [test_HPCCG is not on PATH]\n"
        "[ \x1b[33m    SKIP\x1b[0m ] (2/2) hpccg /ae019b7e @localhost:default+spack"
        " [nimc: no Spack is set up]\n"
    )
    skip, ran = {"result": "skip"}, {"result": "pass"}
    report = tmp_path / "reframe.json"
    report.write_text(json.dumps({"runs": [{"testcases": [skip, skip]}]}))
    said = "skipped: test_HPCCG is not on PATH; nimc: no Spack is set up"
    assert why_failed(0, tmp_path) == said
    report.write_text(json.dumps({"runs": [{"testcases": [skip, ran]}]}))
    assert why_failed(0, tmp_path) is None


def test_where_else_the_check_was_skipped_is_no_failure_either(tmp_path: Path) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "done", "reason": None}))
    both = json.loads(report("performance", "failed to meet reference"))
    skipped = {"result": "skip", "fail_phase": None, "fail_reason": None}
    both["runs"][0]["testcases"].append(skipped)
    (tmp_path / "reframe.json").write_text(json.dumps(both))
    assert why_failed(1, tmp_path) is None
