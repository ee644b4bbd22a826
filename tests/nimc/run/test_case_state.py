"""How far a case is, by the pairs that are complete.

Why a block failed, in one line.
"""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.estimate import StoppingRule
from nimc.base.errors import InputError
from nimc.campaign.schema import Pairs
from nimc.node.conductor import Store
from nimc.run.runner import CaseState, case_state, why_failed
from tests.nimc.fake_reframe import sample

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


def test_long_reasons_are_cut(tmp_path: Path) -> None:
    (tmp_path / "block.json").write_text(json.dumps({"state": "no_fom", "reason": "x" * 5000}))
    reason = why_failed(1, tmp_path)
    assert len(reason) == 400
    assert reason.endswith("...")


def failed(phase: str, reason: str) -> dict[str, str]:
    """As ReFrame 4.10 reports a test case, what does not matter left out."""
    return {"result": "fail", "fail_phase": phase, "fail_reason": reason}


PASS, SKIP = {"result": "pass"}, {"result": "skip", "fail_phase": None, "fail_reason": None}
DONE = {"state": "done", "reason": None}
DIED = {"state": "injector_died", "reason": "writer 0:\nsignal 9"}
STOPPED = {"state": "cancelled", "reason": "stopped by a signal, or the owner process ended"}
TIMEOUT = json.dumps({"outcome": "time_limit", "reason": "Slurm: job state TIMEOUT"})
UNMET = failed("performance", "failed to meet reference")
NO_PAIR = failed("sanity", "sanity error: no pair of 'on' counts: writer 0 was at 3% of its rate")
#: As ReFrame 4.10.4 prints it, colours included.
SKIPPED = """\
[ \x1b[33m    SKIP\x1b[0m ] (1/2) hpccg /ae @localhost:default+wheels [test_HPCCG is not on PATH]
[ \x1b[33m    SKIP\x1b[0m ] (2/2) hpccg /ae @localhost:default+spack [nimc: no Spack is set up]
"""

UNLOADED = """\
\x1b[33mWARNING: skipping test file 'run/checks/x.py': reframe error: x.py: was changed
rerun with '-v' for a backtrace\x1b[0m
"""
NOWHERE = "\x1b[33mWARNING: x does not run on m: valid_systems\n"


@pytest.mark.parametrize(
    ("status", "block", "cases", "files", "expected"),
    [
        (0, None, [], {}, None),
        (0, DONE, [], {}, None),
        # The conductor is asked first, whatever the status: ReFrame ignores that of programs.
        (0, DIED, [failed("sanity", "x")], {}, "injector_died: writer 0: signal 9"),
        (1, DIED, [failed("sanity", "x")], {}, "injector_died: writer 0: signal 9"),
        # But what Slurm says of its job goes before.
        (1, STOPPED, [], {"job.json": TIMEOUT}, "time_limit: Slurm: job state TIMEOUT"),
        # A result is no failure of the block, wherever else the check was skipped.
        (1, DONE, [UNMET], {}, None),
        (1, DONE, [NO_PAIR], {}, None),
        (1, DONE, [UNMET, SKIP], {}, None),
        # Without the conductor's word ReFrame's report, else its last error or line, else nothing.
        (1, None, [PASS, failed("compile", "no\ncc")], {}, "ReFrame failed in 'compile': no cc"),
        (
            1,
            None,
            [],
            {"reframe.log": "ERROR: no x\nbye\n\n"},
            "with status 1: ERROR: no x (LOG)",
        ),
        (-9, None, [], {"reframe.log": "a\nbye\n\n"}, "ReFrame was killed by SIGKILL: bye (LOG)"),
        (2, None, [], {"reframe.json": "{ half"}, "with status 2: it printed nothing to LOG"),
        (
            *(0, None, [SKIP, SKIP], {"reframe.log": SKIPPED}),
            "skipped: test_HPCCG is not on PATH; nimc: no Spack is set up",
        ),
        (0, None, [SKIP, PASS], {"reframe.log": SKIPPED}, None),
        (0, None, [], {"reframe.log": UNLOADED}, "skipped: reframe error: x.py: was changed"),
        (0, None, [], {"reframe.log": NOWHERE}, "skipped: x does not run on m: valid_systems"),
    ],
)
def test_why_a_block_failed(
    tmp_path: Path, status: int, block: dict[str, str] | None, cases: list[dict[str, str]],
    files: dict[str, str], expected: str | None,
) -> None:  # fmt: skip
    if block:
        (tmp_path / "block.json").write_text(json.dumps(block))
    if cases:
        (tmp_path / "reframe.json").write_text(json.dumps({"runs": [{"testcases": cases}]}))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = why_failed(status, tmp_path)
    if expected is None:
        assert found is None
    else:
        assert found.endswith(expected.replace("LOG", str(tmp_path / "reframe.log")))
