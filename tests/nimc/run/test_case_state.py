"""The state of a case, from its complete pairs, and the reason of a failed block in one line.

A pair is complete if every arm has an accepted run in it.
"""

import json
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.effects.estimate import StoppingRule
from conductor.block.store import Store
from nimc.run.runner import CaseState, case_state, why_failed
from records.block_plan import BlockPlan
from records.campaign import Pairs
from records.errors import InputError
from tests.commands import ROOT
from tests.nimc.fake_reframe import sample

ARMS = ["off", "on", "aa"]
TREATED = ["on", "aa"]
RULE = StoppingRule(pairs_cap=8)


def write(run: Path, block: int, runs: list[tuple[int, str]]) -> None:
    store = Store(run, "stream")
    plan = BlockPlan(
        case="stream",
        workload="stream",
        block=block,
        seed=1,
        treatments=[],
        pairs=1,
        warmups=1,
        nimc_dir=str(run),
    )
    for pair, arm in runs:
        store.append(replace(sample(plan, arm, pair), warmup=pair < 0))


def state(run: Path, rule: StoppingRule = RULE) -> CaseState:
    return case_state(run, "stream", TREATED, rule)


def test_a_pair_counts_if_every_arm_has_an_accepted_run(tmp_path, monkeypatch):
    assert (state(tmp_path).pairs, state(tmp_path).next_block_index) == (0, 0)
    write(tmp_path, 0, [(-1, "off"), (0, "off"), (0, "on"), (0, "aa"), (1, "on"), (1, "off")])
    now = state(tmp_path)
    assert (now.pairs, now.next_block_index, now.rejected_pairs) == (1, 1, 0)
    assert now.pairs_by_treatment == {"on": 2, "aa": 1}
    assert now.pairs_to_measure(Pairs(floor=6)) == 5
    (tmp_path / "logs/stream/3").mkdir(parents=True)  # a block without samples
    assert state(tmp_path).next_block_index == 4
    monkeypatch.setenv("FAKE", "reject")
    write(tmp_path, 4, [(pair, arm) for pair in range(2) for arm in ARMS])
    now = state(tmp_path)
    assert (now.last_reason, now.rejected_pairs) == ("writer 0 wrote at 3 %", 2)
    with (tmp_path / "samples/stream.jsonl").open("a") as file:
        file.write("garbage\n")
    with pytest.raises(InputError, match=r"stream.jsonl:13: .*remove that line .* --fresh$"):
        state(tmp_path)


@pytest.mark.parametrize(
    ("complete", "rejected", "rejected_before", "next_pairs"),
    [(4, 5, 0, 2), (4, 6, 0, 0), (0, 6, 6, 6), (0, 11, 6, 6), (0, 12, 6, 0)],
)
def test_a_session_ends_if_it_rejects_as_many_pairs_as_the_case_may_have(
    complete, rejected, rejected_before, next_pairs
):
    now = CaseState({"on": complete}, next_block_index=1, rejected_pairs=rejected)
    assert now.pairs_to_measure(Pairs(floor=6, cap=6), rejected_before) == next_pairs


PAIRS = Pairs(floor=6, cap=20, precision=0.01, block=5)


@pytest.mark.parametrize(
    ("pairs", "done", "next_pairs"),
    [
        ({"on": 6, "aa": 6}, True, 0),
        ({"on": 6, "aa": 6}, False, 2),  # up to the next interim analysis
        ({"on": 8, "aa": 8}, False, 4),
        ({"on": 18, "aa": 18}, False, 2),  # at most up to the cap
        ({"on": 20, "aa": 20}, False, 0),
        ({"on": 6, "aa": 4}, True, 2),  # every arm needs the minimum of pairs
        # If another arm has reached the cap, a control gets no further pairs.
        ({"on": 6, "spin": 4}, False, 2),
        ({"on": 19, "spin": 4}, False, 1),
        ({"on": 20, "spin": 4}, False, 0),
        ({"on": 4, "spin": 9}, False, 2),
    ],
)
def test_a_case_is_measured_further_until_it_is_done(pairs, done, next_pairs):
    now = CaseState(pairs, next_block_index=1, done=done)
    assert now.pairs_to_measure(PAIRS) == next_pairs


def test_a_case_is_done_when_its_effects_are_decided(tmp_path):
    """The arm `on` is slower in every pair of the made samples. Seven pairs decide, four do not."""
    write(tmp_path, 0, [(pair, arm) for pair in range(4) for arm in ARMS])
    assert not state(tmp_path).done
    write(tmp_path, 1, [(pair, arm) for pair in range(4, 7) for arm in ARMS])
    assert state(tmp_path).done
    many = StoppingRule(
        pairs_cap=8, treatments=frozenset((str(number), "on") for number in range(99))
    )
    assert not state(tmp_path, many).done


def failed(phase: str, reason: str) -> dict[str, str]:
    """Return a failed test case of ReFrame 4.10's report, without irrelevant keys."""
    return {"result": "fail", "fail_phase": phase, "fail_reason": reason}


PASS, SKIP = {"result": "pass"}, {"result": "skip", "fail_phase": None, "fail_reason": None}
DONE = {"state": "done", "reason": None}
DIED = {"state": "injector_died", "reason": "writer 0:\nsignal 9"}
STOPPED = {"state": "cancelled", "reason": "stopped by a signal, or the owner process ended"}
TIMEOUT = json.dumps({"outcome": "time_limit", "reason": "Slurm: job state TIMEOUT"})
UNMET = failed("performance", "failed to meet reference")
NO_PAIR = failed("sanity", "sanity error: no pair of 'on' counts: writer 0 was at 3 % of its rate")
#: Content of a check's file `skipped.json`: a line for each environment.
SKIPPED = json.dumps(["test_HPCCG is not on PATH", "nimc: no Spack is set up"])
#: Output of ReFrame 4.10.4, with its colours.
UNLOADED = """\
\x1b[33mWARNING: skipping test file 'run/checks/x.py': reframe error: x.py: was changed
rerun with '-v' for a backtrace\x1b[0m
"""


@pytest.mark.parametrize(
    ("status", "block", "cases", "files", "expected"),
    [
        (0, None, [], {}, None),
        (0, DONE, [], {}, None),
        # The conductor's reason comes first, even if the status is 0: ReFrame ignores the exit
        # status of programs.
        (0, DIED, [failed("sanity", "x")], {}, "injector_died: writer 0: signal 9"),
        (1, {"state": "no_fom", "reason": "x" * 5000}, [], {}, f"no_fom: {'x' * 389}..."),
        (1, DIED, [failed("sanity", "x")], {}, "injector_died: writer 0: signal 9"),
        # Slurm's reason for the end of the job comes before the conductor's.
        (1, STOPPED, [], {"job.json": TIMEOUT}, "time_limit: Slurm: job state TIMEOUT"),
        # A missed reference or limit is a result, and no failure of the block. The check may have
        # been skipped in other environments.
        (1, DONE, [UNMET], {}, None),
        (1, DONE, [NO_PAIR], {}, None),
        (1, DONE, [UNMET, SKIP], {}, None),
        # Without a reason of the conductor, it is taken from ReFrame's report, then from its last
        # error, then from its last line.
        (1, None, [PASS, failed("compile", "no\ncc")], {}, "ReFrame failed in 'compile': no cc"),
        (1, None, [], {"reframe.log": "ERROR: no x\nbye\n\n"}, "status 1: ERROR: no x (LOG)"),
        (
            -9,
            None,
            [],
            {"reframe.log": "a\nbye\n\n"},
            "ReFrame was killed by SIGKILL, perhaps for lack of memory (LOG)",
        ),
        (2, None, [], {"reframe.json": "{ half"}, "with status 2: it printed nothing to LOG"),
        (
            0,
            None,
            [SKIP, SKIP],
            {"skipped.json": SKIPPED},
            "skipped: test_HPCCG is not on PATH; nimc: no Spack is set up",
        ),
        (0, None, [SKIP, PASS], {"skipped.json": SKIPPED}, None),
        (0, None, [SKIP], {}, "skipped by ReFrame"),
        (
            0,
            None,
            [],
            {"reframe.log": UNLOADED},
            "ReFrame ran no check: WARNING: skipping test file 'run/checks/x.py': reframe error:"
            " x.py: was changed (LOG)",
        ),
    ],
)
def test_why_a_block_failed(tmp_path, status, block, cases, files, expected):
    if block:
        (tmp_path / "block.json").write_text(json.dumps(block))
    if cases:
        (tmp_path / "reframe.json").write_text(json.dumps({"runs": [{"testcases": cases}]}))
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    why = why_failed(status, tmp_path)
    if expected is None:
        assert why is None
    else:
        assert why.endswith(expected.replace("LOG", str(tmp_path / "reframe.log")))


def test_a_block_that_had_no_room_for_its_files_names_the_limit(tmp_path: Path) -> None:
    """A limit on the size of files stands in for a user's quota."""
    code = "from pathlib import Path; from nimc.run.runner import why_failed\n"
    code += f"print(why_failed(1, Path({str(tmp_path)!r})))"
    limit_b = (4096, resource.RLIM_INFINITY)
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limit_b),
        capture_output=True,
        text=True,
    )
    assert ended.stdout == f"{tmp_path}: File too large\n", ended.stderr
