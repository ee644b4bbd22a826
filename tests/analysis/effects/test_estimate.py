"""Tests results that are computed from pairs of runs.

They test which runs count, controls, repeated runs, first attempts, blocks, verdicts and notes.
"""

import re
from dataclasses import replace
from typing import Any

import pytest

from analysis.effects.estimate import StoppingRule, reported_figures, results
from analysis.effects.result import Result, Verdict
from analysis.report.first_sentences import next_step
from analysis.samples.pairs import pair_shortfalls
from analysis.statistics.interval import Estimate
from records.commands import Shell
from records.errors import InputError
from records.notes import remedy_of
from records.run import Reproduced, Requirements, RunHeader
from records.sample import Outcome, Sample, TimetableRecord
from tests.analysis.synthetic import (
    LAMMPS,
    STREAM,
    Case,
    changed,
    commands,
    frame_of,
    header,
    reject,
    result,
    samples,
    two_unit_samples,
)

#: Rates (GB/s or the like) of six pairs, in the order off, on, spin, aa. Results are worked out
#: from them by hand.
RATES = [
    (12.0, 8.0, 11.0, 12.1),
    (12.4, 8.0, 11.1, 12.3),
    (12.2, 8.2, 11.2, 12.2),
    (12.6, 8.1, 11.3, 12.5),
    (12.1, 7.9, 11.0, 12.2),
    (12.3, 8.3, 11.4, 12.0),
]
#: A case with writes between hosts and a control.
FAR = Case(
    name="x",
    unit="s",
    better="lower",
    base=1.0,
    effects={"on": 1.1, "spin": 1.07, "aa": 1.0},
    noise=0.0,
    origin="far",
)


def _results(runs: list[Sample], rule: StoppingRule | None = None) -> list[Result]:
    return results(frame_of(runs), rule or StoppingRule())


def _by_arm(runs: list[Sample]) -> dict[str, Result]:
    return {row.arm: row for row in _results(runs)}


def _with_scaled_times(runs: list[Sample], **factors: float) -> list[Sample]:
    """Return the runs, with the times of each arm in `factors` multiplied by its factor."""
    return [replace(s, fom=s.fom * factors.get(s.arm, 1.0)) if s.fom else s for s in runs]


def _by_hand(**changes: Any) -> list[Sample]:
    arms = ("off", "on", "spin", "aa")
    return [
        replace(s if s.warmup else replace(s, fom=RATES[s.pair][arms.index(s.arm)]), **changes)
        for s in samples(STREAM, pairs=6)
    ]


def test_six_pairs_by_hand() -> None:
    on, spin, aa = rows = _results(_by_hand())
    assert [(row.arm, row.role) for row in rows] == [
        ("on", "effect"),
        ("spin", "control"),
        ("aa", "floor"),
    ]
    # Slowdowns of the pairs, against the geometric mean of off and aa, are 1.5062, 1.5438, 1.4878,
    # 1.5494, 1.5380 and 1.4637. Half of them are below 1.507 and half above 1.537; the geometric
    # middle is 1.5220.
    assert on.slowdown.value == pytest.approx(1.5220, abs=0.008)
    assert 1.4637 <= on.slowdown.low < 1.4878
    assert 1.5438 < on.slowdown.high <= 1.5494 * 1.005
    assert (on.off_median, on.on_median) == (pytest.approx(12.25), pytest.approx(8.05))
    assert on.noise_floor == pytest.approx((12.0 / 12.1, 12.3 / 12.0))
    assert on.control == (spin.slowdown.low, spin.slowdown.high)
    # Rates of spin divided by those of on are ratios of times. They are 11/8 to 11.4/8.3, since
    # each run of on is compared with one run of spin.
    over = on.over_control
    assert (over.low, over.high) == pytest.approx((11.2 / 8.2, 11.3 / 8.1))
    # Rates of off have the mean 12.2667, a sum of squared deviations of 0.23333 and five degrees of
    # freedom. Rates of on have the mean 8.08333 and a sum of 0.10833.
    assert on.off_spread == pytest.approx((0.23333 / 5) ** 0.5 / 12.26667, rel=1e-4)
    assert on.on_spread == pytest.approx((0.10833 / 5) ** 0.5 / 8.08333, rel=1e-4)
    # Of 3^6 exchanges of runs, one has on as slow against off; of 2^6, one against the control. An
    # analysis after six pairs has a quarter of the error.
    assert on.p.slower >= 4 * 3**-6
    assert (on.p.above_control, on.verdict) == (4 / 2**6, "not above the control")
    assert (spin.verdict, aa.verdict) == ("control", "baseline repeatability")
    assert (aa.slowdown.low, aa.slowdown.high) == aa.noise_floor
    assert (on.pairs, on.rejected, on.unit) == (6, 0, "B/s")
    assert (spin.writer_rate_b_s, spin.over_control, spin.p) == (None, None, None)
    # Warm-ups count for nothing.
    assert rows == _results([s for s in _by_hand() if not s.warmup])


# Which runs count.


def _with_failed_run(arm: str, pair: int, outcome: Outcome, again: bool = False) -> list[Sample]:
    """Return the runs by hand, of which one failed; with `again`, it was repeated."""
    runs = []
    for s in _by_hand():
        if (s.arm, s.pair) == (arm, pair):
            runs.append(reject(s, outcome, "why"))
            if again:
                runs.append(replace(s, key=s.key[:-1] + "1", attempt=1))
        else:
            runs.append(s)
    return runs


def test_a_rejected_run_removes_its_pair_and_its_reason_is_shown() -> None:
    rows = _results(_with_failed_run("on", 2, "injector_died"))
    assert [(row.pairs, row.rejected) for row in rows] == [(5, 1), (6, 0), (6, 0)]
    assert (rows[0].verdict, rows[0].slowdown) == ("too few pairs", None)
    why = {"key": "stream/0/2/on/0", "outcome": "injector_died", "reason": "why"}
    assert rows[0].rejections == [why]
    # A rejected baseline run removes its pair from all arms.
    without_baseline = _results(_with_failed_run("off", 0, "application_failed"))
    assert [(row.pairs, row.rejected) for row in without_baseline] == [(5, 1)] * 3
    repeated = _results(_with_failed_run("on", 2, "rejected", again=True))[0]
    assert (repeated.pairs, repeated.rejected) == (6, 1)
    assert repeated.slowdown == _results(_by_hand())[0].slowdown


def test_of_a_run_that_counts_twice_the_last_attempt_is_used() -> None:
    twice = []
    for s in _by_hand():
        if (s.arm, s.pair) == ("on", 2):
            twice.append(replace(s, fom=9 * s.fom))
            s = replace(s, key=s.key[:-1] + "1", attempt=1)
        twice.append(s)
    assert _results(twice)[0].slowdown == _results(_by_hand())[0].slowdown


def test_an_on_sample_whose_writer_wrote_nothing_never_counts() -> None:
    def silent(s: Sample) -> Sample:
        nothing = {1: [replace(writer, rate_b_s=0.0) for writer in s.writers], 3: []}
        return replace(s, writers=nothing.get(s.pair, s.writers))

    on = _results(changed(_by_hand(), silent, "on"))[0]
    assert (on.pairs, on.rejected) == (4, 2)
    assert {r["reason"] for r in on.rejections} == {"no writer wrote during the run"}


@pytest.mark.parametrize(("writers", "pairs"), [(None, 0), (1, 0), (0, 6)])
def test_an_arm_whose_timetable_asks_for_no_writer_counts_without_one(
    writers: int | None, pairs: int
) -> None:
    planned = (
        None
        if writers is None
        else TimetableRecord(writers=writers, length_s=1.0, tolerance_s=0.2, allowed_share=0.1)
    )
    daly = {"arm": "daly", "writers": [], "timetable": planned}
    runs = changed(_by_hand(), lambda s: replace(s, key=s.key + "d", **daly), "on")
    row = _by_arm(runs)["daly"]
    verdict = "no writes" if pairs else "too few pairs"
    assert (row.pairs, row.writer_rate_b_s, row.verdict) == (pairs, None, verdict)


def test_rates_of_writers_are_harmonic_means_over_pairs() -> None:
    """Rates are 1, 1, 1, 1, 2 and 4 GB/s, so 6 GB take 4.75 s. Uncontended rates are the double."""

    def written(s: Sample) -> Sample:
        rate_b_s = {4: 2e9, 5: 4e9}.get(s.pair, 1e9)
        rates = {"rate_b_s": rate_b_s, "rate_alone_b_s": 2 * rate_b_s}
        return replace(s, writers=[replace(writer, **rates) for writer in s.writers])

    on, _, aa = _results(changed(_by_hand(), written, "on"))
    mean_b_s = pytest.approx(6e9 / 4.75)
    assert (on.writer_rate_b_s, on.writer_rate_alone_b_s / 2) == (mean_b_s, mean_b_s)
    assert (aa.writer_rate_b_s, aa.writer_rate_alone_b_s) == (None, None)


def test_the_role_of_a_treatment_decides_whether_it_needs_writers() -> None:
    """An arm has a name that the program does not know.

    If its role is control, it needs no writer; if its role is effect, it needs one.
    """
    silent = changed(_by_hand(), lambda s: replace(s, arm="mine", writers=[]), "spin")
    by_arm = _by_arm(silent)
    assert (by_arm["mine"].role, by_arm["mine"].pairs) == ("control", 6)
    assert by_arm["on"].control.low == by_arm["mine"].slowdown.low
    effect = _by_arm(changed(silent, lambda s: replace(s, role="effect"), "mine"))["mine"]
    assert (effect.pairs, effect.rejected) == (0, 6)


def test_every_case_has_its_rows_even_without_any_pair() -> None:
    lost = [reject(s, "no_fom", "no Loop time") for s in samples(LAMMPS, pairs=2)]
    rows = _results(samples(STREAM, pairs=6) + lost)
    arms = ("on", "spin", "aa")
    expected = [(case, arm) for case in ("lammps", "stream") for arm in arms]
    assert [(r.case, r.arm) for r in rows] == expected
    assert (rows[0].pairs, rows[0].off_median, rows[0].verdict) == (0, None, "too few pairs")
    assert not any("next allocation" in note for note in rows[0].notes)


def test_units_may_differ_between_baselines_but_not_within_one() -> None:
    runs = two_unit_samples()
    on, idle = _results(runs)
    assert (on.unit, on.slowdown.value) == ("s", pytest.approx(1.5))
    assert (idle.unit, idle.slowdown.value) == ("B/s", pytest.approx(1 / 1.2))
    index = next(i for i, s in enumerate(runs) if s.arm == "on@load=idle")
    for change, figures in (
        ({"fom_unit": "s"}, r"B/s \(higher\), s \(higher\)"),
        ({"fom_better": "lower"}, r"B/s \(higher\), B/s \(lower\)"),
    ):
        mixed = [*runs[:index], replace(runs[index], **change), *runs[index + 1 :]]
        with pytest.raises(InputError, match=rf"case 'x': .*'off@load=idle'.*: {figures}"):
            _results(mixed)


@pytest.mark.parametrize(
    ("arms", "outcome", "requested", "least", "reasons"),
    [
        (("on",), "rejected", ["on", "aa", "spin"], 1, {"on": "why", "spin": "no run was made"}),
        # `on@c=1` was never run, since the block ended when the baseline failed.
        (("off",), "application_failed", ["on", "on@c=1"], 1, {"on": "why", "on@c=1": "why"}),
        (("on",), "rejected", ["aa"], 2, {}),
    ],
)
def test_arms_without_a_pair_say_why(
    arms: tuple[str, ...],
    outcome: Outcome,
    requested: list[str],
    least: int,
    reasons: dict[str, str],
) -> None:
    runs = samples(
        Case(
            name="x", unit="s", better="lower", base=1.0, effects={"on": 1.5, "aa": 1.0}, noise=0.0
        ),
        pairs=2,
    )
    frame = frame_of(changed(runs, lambda s: reject(s, outcome, "why"), *arms))
    expected = {arm: f"2 of 2 pairs missing: {why}" for arm, why in reasons.items()}
    assert pair_shortfalls(frame, requested, 2, least) == expected


# Verdicts, and notes on them.


@pytest.mark.parametrize(
    ("other_case", "verdict"),
    [((), Verdict.BASELINE_UNSTABLE), (("off", "on", "aa"), Verdict.INCONCLUSIVE)],
)
def test_a_baseline_is_unstable_over_all_that_the_campaign_repeats(
    other_case: tuple[str, ...], verdict: Verdict
) -> None:
    """With eight pairs, p is 2 / 2^8 over 3/16 of the error, 0.0417: enough for one baseline."""
    unstable = replace(FAR, effects={"on": 1.0, "aa": 1.3}, pair_noise=0.0)
    requested = {("x", name) for name in ("off", "on", "aa")} | {("y", name) for name in other_case}
    effect, _ = _results(samples(unstable, pairs=8), StoppingRule(treatments=frozenset(requested)))
    assert effect.verdict is verdict


def test_an_effect_that_needs_more_pairs_for_its_family_says_so() -> None:
    """In a campaign of twenty cases, seven pairs of a clear effect decide nothing; eight do."""
    cases = {"stream": ["off", "on"], **{str(number): ["off", "on"] for number in range(19)}}
    requirements = Requirements(cases, min_share=0.5, retries=2)
    rule = StoppingRule.from_header(header(asked=requirements))
    clear = replace(STREAM, effects={"on": 1.5, "aa": 1.0}, origin="far", noise=0.002)
    for pairs, decided in ((7, False), (8, True)):
        on = _results(samples(clear, pairs=pairs), rule)[0]
        assert (on.family, on.verdict != "inconclusive") == (20, decided)
        is_noted = any("a verdict over 20 questions needs more pairs" in note for note in on.notes)
        assert is_noted != decided
    assert _results(samples(clear, pairs=6))[0].verdict != "inconclusive"


def test_an_effect_that_is_above_the_control_by_its_own_interval_says_so() -> None:
    """`on` is 10 % slower than `off`, and 3 % slower than `spin`.

    With six pairs, the p value is that of one of 2^6 exchanges, over a quarter of the error:
    0.0625, which is above 0.05. With eight pairs, it is one of 2^8 over 3/16: 0.0208, which is
    below 0.05.
    """
    rows = {n: _by_arm(samples(FAR, pairs=n))["on"] for n in (6, 8)}
    assert (rows[6].p.above_control, rows[8].p.above_control) == pytest.approx((1 / 16, 1 / 48))
    assert rows[6].verdict == "not above the control"
    assert any("against the control excludes 1" in note for note in rows[6].notes)
    step = next_step([rows[6]], _header_with_cap(6), commands())
    assert step.startswith("Next: measure more pairs: `nimc run quick --machine far --pairs 8`")
    assert rows[8].verdict == "slower under emulated writes"
    # If `on` is not slower than the control, its interval against the control does not exclude 1.
    row = _by_arm(_with_scaled_times(samples(FAR, pairs=8), on=1 / 1.03))["on"]
    assert row.verdict == "not above the control"
    assert not any("needs more pairs" in note for note in row.notes)
    assert "origins on other hosts" in next_step([row], _header_with_cap(8), commands())
    # With five pairs of the control, there is no comparison with it.
    few = [s for s in samples(FAR, pairs=8) if s.arm != "spin" or s.pair < 5]
    assert _by_arm(few)["on"].over_control is None


def _header_with_cap(cap: int, **changes: Any) -> RunHeader:
    """Return the header of a campaign run of at most `cap` pairs."""
    return header(campaign="quick", machine="far", pairs_cap=cap, **changes)


@pytest.mark.parametrize(
    ("verdict", "pairs", "cap", "beside", "more"),
    [
        # A campaign run is continued up to its cap or beyond, and to at least as many pairs as any
        # other row has.
        (Verdict.TOO_FEW_PAIRS, 3, 12, 12, 12),
        (Verdict.TOO_FEW_PAIRS, 3, 12, 13, 16),
        (Verdict.INCONCLUSIVE, 12, 12, 12, 16),
        (Verdict.INCONCLUSIVE, 8, 10, 20, 24),
        (Verdict.INCONCLUSIVE, 8, 8, 6, 12),
    ],
)
def test_the_next_step_is_a_number_of_pairs_that_the_run_can_go_on_to(
    verdict: Verdict, pairs: int, cap: int, beside: int, more: int
) -> None:
    rows = [result(verdict=verdict, pairs=pairs), result(role="floor", arm="aa", pairs=beside)]
    assert f"`nimc run quick --machine far --pairs {more}`" in next_step(
        rows, _header_with_cap(cap), commands()
    )
    # An unfinished run is resumed without `--pairs`.
    step = next_step(rows, _header_with_cap(cap, finished_s=None), commands())
    assert "`nimc run quick --machine far`, which" in step


def test_a_reproduction_that_was_interrupted_is_resumed() -> None:
    """`nimc reproduce` has neither `--pairs` nor `--fresh`."""
    rows = [result(verdict=Verdict.BASELINE_UNSTABLE)]
    reproduced = _header_with_cap(12, finished_s=None, reproduces=Reproduced("old-run", "d" * 64))
    here = replace(commands(), shell=Shell())
    step = next_step(rows, reproduced, here)
    assert re.fullmatch(
        r"Next: `.*run quick .*far.*`, to repeat the other pairs of old-run\.", step
    )
    assert "some pairs" in next_step(rows, reproduced, commands())
    ended = replace(reproduced, finished_s=1.0)
    assert next_step(rows, ended, commands()).startswith("Next: nothing")


@pytest.mark.parametrize("is_reversed", [False, True])
def test_the_time_of_more_pairs_is_that_of_the_treatment_with_the_fewest(is_reversed: bool) -> None:
    """Each pair takes 60 s. `on@rate=25%` has 7 of 16 pairs. The control does not count."""
    open_verdict = {"verdict": Verdict.TOO_FEW_PAIRS, "slowdown": None}
    rows = [
        result(pairs=12, **open_verdict),
        result(arm="on@rate=25%", pairs=7, **open_verdict),
        result(arm="spin", role="control", pairs=5, verdict=Verdict.CONTROL),
    ]
    step = next_step(
        rows[::-1] if is_reversed else rows, _header_with_cap(16), commands(), {rows[0].case: 60}
    )
    assert "--pairs 16`, about 9 min 00 s" in step


@pytest.mark.parametrize("left", [1.02, 0.98])
def test_a_carry_over_is_noted_and_makes_no_effect(left: float) -> None:
    """Writes have no effect, but `off` and `aa` right after them take `left` times as long."""
    remote = {"origin": "a-1", "transport": "InfiniBand"}
    case = Case(
        name="x",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 1.0, "aa": 1.0},
        noise=0.002,
        pair_noise=0.0,
        **remote,
    )
    sound = samples(case, pairs=24)
    changed = [
        replace(run, fom=run.fom * left) if last.arm == "on" and run.arm != "on" else run
        for last, run in zip(sound[:1] + sound, sound, strict=False)
    ]
    rows = [_by_arm(runs)["on"] for runs in (sound, changed)]
    assert rows[0].carry_over.low < 1 < rows[0].carry_over.high
    assert rows[1].carry_over.value == pytest.approx(left, rel=0.002)
    noted = [[note for note in row.notes if note.startswith("carry-over")] for row in rows]
    assert noted[0] == []
    (note,) = noted[1]
    assert f" {left}" in note
    assert remedy_of(note).startswith("set `rest: 2s`")
    # Without the rule on carry-over, `on` would be faster than its baselines, or slower.
    assert rows[1].slowdown.high < 1 if left > 1 else rows[1].slowdown.low > 1
    assert [row.verdict for row in rows] == ["no effect", "no effect"]


def test_a_note_tells_that_writes_widen_the_scatter() -> None:
    """Every second run with writes takes 10 % longer, the others as long as without writes."""
    remote = {"origin": "a-1", "transport": "InfiniBand"}
    case = Case(
        name="x",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 1.0, "aa": 1.0},
        noise=0.01,
        pair_noise=0.0,
        **remote,
    )
    alike = samples(case, pairs=24)
    wider = [
        replace(run, fom=run.fom * 1.1) if run.arm == "on" and run.pair % 2 else run
        for run in alike
    ]
    alike_row, wider_row = (_by_arm(runs)["on"] for runs in (alike, wider))
    assert not [note for note in alike_row.notes if "scatter" in note]
    (note,) = (note for note in wider_row.notes if "scatter" in note)
    # Two levels 9.5 % apart have a standard deviation of 4.8 %, beside noise of 1 %.
    times = float(note.split(" times")[0].rpartition(" ")[2])
    assert 3.5 < times < 7
    assert remedy_of(note).startswith("look at each run")


def test_notes_name_emulation_allocations_and_width() -> None:
    rule = StoppingRule(pairs_floor=6, pairs_cap=8, precision=1e-6)
    on = _results(samples(STREAM, blocks=2, pairs=4), rule)[0]
    assert (
        on.verdict == "slower under emulated writes"
    )  # the precision matters only for 'no effect'
    words = ("synthetic", "emulation", "2 measured, 3 needed", "8 pairs (at most 8); 0.0 %")
    assert all(word in note for note, word in zip(on.notes, words, strict=True))
    uncapped = _results(samples(STREAM, blocks=2, pairs=4), replace(rule, pairs_cap=None))[0]
    assert "after 8 pairs; 0.0 %" in uncapped.notes[-1]


def test_a_remote_origin_needs_no_control() -> None:
    remote = replace(STREAM, effects={"on": 1.35, "aa": 1.0}, origin="a-1", transport="InfiniBand")
    on = _results(samples(remote))[0]
    assert (on.verdict, on.control) == ("slower under RDMA writes", None)
    assert (on.p.above_control, on.interval) == (None, (on.slowdown.low, on.slowdown.high))
    note = "the interval does not cover the next allocation (1 measured, 3 needed)"
    assert on.notes == ["synthetic", note]
    local = replace(remote, origin=STREAM.origin)
    assert _results(samples(local))[0].verdict == "control missing"


def test_the_repeated_baseline_counts_as_a_baseline() -> None:
    """`off` takes 10 s, `aa` takes 9.6 s and 10.4 s in turn, `on` takes 12 s.

    If only `off` is the baseline, the slowdown is exactly 1.2.
    """
    case = Case(
        name="x",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 1.2, "aa": 1.0},
        noise=0.0,
        pair_noise=0.0,
    )
    in_turn = (9.6, 10.4)
    runs = changed(samples(case, pairs=8), lambda s: replace(s, fom=in_turn[s.pair % 2]), "aa")
    row = _by_arm(runs)["on"]
    # Baselines of the pairs are the geometric means of 10 and 9.6, and of 10 and 10.4.
    low, high = 12 / (10 * 10.4) ** 0.5, 12 / (10 * 9.6) ** 0.5
    assert row.slowdown.low <= low < high <= row.slowdown.high
    row = _by_arm(changed(runs, lambda s: reject(s, "no_fom", "no Loop time"), "aa"))["on"]
    assert (row.pairs, row.slowdown.low) == (8, pytest.approx(1.2))
    assert row.verdict == "baseline not repeated"


def test_the_control_is_judged_within_pairs() -> None:
    """Pairs differ by up to 20 %, and in each pair `on` is 2 % slower than `spin`.

    So the intervals of both overlap, although `on` is slower in every pair.
    """
    case = replace(FAR, effects={"on": 1.1, "spin": 1.08, "aa": 1.0}, noise=0.001)
    runs = samples(case, pairs=10)
    slow = changed(runs, lambda s: replace(s, fom=s.fom * (1 + s.pair / 50)), "on", "spin")
    row = _by_arm(slow)["on"]
    assert row.slowdown.low < row.control.high
    assert row.over_control.value == pytest.approx(1.1 / 1.08, abs=0.002)
    assert row.verdict == "slower under emulated writes"
    assert _by_arm(_with_scaled_times(slow, on=1 / 1.02))["on"].verdict == "not above the control"


def repeated(sound: list[Sample], arm: str, factor: float) -> list[Sample]:
    """Return the runs, with a rejected first attempt before each run of `arm`.

    A first attempt took `factor` times as long as the accepted run.
    """
    runs = []
    for run in sound:
        if run.arm == arm and run.fom:
            slow = replace(run, fom=run.fom * factor)
            again = replace(run, key=run.key + "1", attempt=1)
            runs += [reject(slow, "rejected", "disturbed"), again]
        else:
            runs.append(run)
    return runs


@pytest.mark.parametrize(
    ("arm", "factor", "words"),
    [
        # First attempts under writes had a slowdown of 1.5, accepted runs one of 1.2.
        ("on", 1.25, ["on is 1.5 instead of 1.2", "control's is 1.5 instead of 1.2"]),
        # First attempts of the control had a slowdown of 1.3, accepted runs none.
        ("spin", 1.3, ["control's is 0.9231 instead of 1.2"]),
        ("on", 1.0, []),
    ],
)
def test_first_attempts_that_differ_give_a_warning(
    arm: str, factor: float, words: list[str]
) -> None:
    """All first attempts of an arm were rejected, so half of its runs were rejected."""
    case = Case(
        name="x",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 1.2, "aa": 1.0, "spin": 1.0},
        noise=0.0,
        pair_noise=0.3,
    )
    sound = samples(case, pairs=8)
    rows = _by_arm(repeated(sound, arm, factor))
    warnings = [note for note in rows["on"].notes if "warning" in note]
    assert len(warnings) == len(words) + 1
    assert all(word in warning for word, warning in zip(words, warnings, strict=False))
    assert f"50 % of the runs of {arm} were rejected" in warnings[-1]
    assert rows["on"].slowdown.value == pytest.approx(1.2)
    assert not any("warning" in note for row in _results(sound) for note in row.notes)


@pytest.mark.parametrize(("widths", "noted"), [(0.4, False), (0.6, True)])
def test_first_attempts_give_a_warning_beyond_half_the_width_of_the_interval(
    widths: float, noted: bool
) -> None:
    sound = samples(
        Case(
            name="x",
            unit="s",
            better="lower",
            base=10.0,
            effects={"on": 1.2, "aa": 1.0},
            noise=0.02,
        ),
        pairs=8,
    )
    used = _by_arm(sound)["on"].slowdown
    factor = 1 + widths * (used.high - used.low) / used.value
    notes = _by_arm(repeated(sound, "on", factor))["on"].notes
    assert any("first attempt" in note for note in notes) == noted


# Blocks.


def test_blocks_of_different_lengths_give_the_same_effects_as_of_one_length() -> None:
    """Runs of the second block take twice as long.

    A pair is within one block, so effects do not change. Medians are over all blocks.
    """
    case = Case(
        name="x",
        unit="s",
        better="lower",
        base=10.0,
        effects={"on": 1.2, "spin": 1.1, "aa": 1.0},
        noise=0.02,
    )
    runs = samples(case, blocks=2, pairs=6)
    longer = [replace(s, fom=s.fom * (2 if s.block else 1)) for s in runs if s.fom]
    one, two = _by_arm(runs)["on"], _by_arm(longer)["on"]
    for name in ("slowdown", "mean", "over_control", "hit"):
        estimates = [getattr(row, name) for row in (one, two)]
        ends = [(estimate.low, estimate.value, estimate.high) for estimate in estimates]
        assert ends[1] == pytest.approx(ends[0]), name
    assert (two.verdict, two.p, two.noise_floor) == (one.verdict, one.p, one.noise_floor)
    assert two.off_median > 1.2 * one.off_median


def test_from_three_allocations_on_the_next_one_is_covered() -> None:
    spread = replace(LAMMPS, block_noise=0.02)
    row = _results(samples(spread, blocks=3, pairs=4))[0]
    assert row.next.low < row.slowdown.low < row.slowdown.high < row.next.high
    assert row.interval == row.next
    assert not any("next allocation" in note for note in row.notes)


def test_allocations_that_agree_by_chance_do_not_narrow_the_next_one() -> None:
    """Each allocation has the same three ratios about 1.05, so the centre of each is 1.05."""
    case = replace(LAMMPS, effects={"on": 1.05, "aa": 1.0}, noise=0.0)
    ratios = [0.9, 1.0, 1.1]
    runs = [
        replace(sample, fom=sample.fom * (ratios[sample.pair % 3] if sample.arm == "on" else 1.0))
        for sample in samples(case, blocks=3, pairs=3)
        if sample.fom
    ]
    row = _by_arm(runs)["on"]
    assert row.slowdown.low < 1.05 < row.slowdown.high
    assert (row.next.low, row.next.high) == (row.slowdown.low, row.slowdown.high)


# The stopping rule, and texts and figures of a result.


def test_the_stopping_rule_comes_from_the_header() -> None:
    rule = StoppingRule.from_header(
        header(pairs_floor=10, pairs_cap=40, precision=0.05, margin=0.01)
    )
    assert rule == StoppingRule(10, 40, 0.05, 0.01)
    assert [rule.depends_on_verdicts(pairs) for pairs in (9, 10, 39, 40)] == [
        False,
        True,
        True,
        False,
    ]
    assert StoppingRule().depends_on_verdicts(10**6)
    cases = {"stream": ["off", "on", "on@rate=25%", "aa"], "lammps": ["off", "on", "spin"]}
    rule = StoppingRule.from_header(header(asked=Requirements(cases, min_share=0.5, retries=2)))
    assert rule.treatments == {(case, name) for case, names in cases.items() for name in names}


@pytest.mark.parametrize(
    ("verdict", "half", "done"),
    [
        (Verdict.CONTENTION, 0.04, True),
        (Verdict.NO_EFFECT, 0.0625, True),
        (Verdict.CONTENTION, 0.07, False),
        (Verdict.CONTENTION, None, False),
        (Verdict.INCONCLUSIVE, 0.04, False),
        (Verdict.NOT_ABOVE_CONTROL, 0.04, False),
    ],
)
def test_a_case_is_done_if_it_is_decided_and_as_precise_as_requested(
    verdict: Verdict, half: float | None, done: bool
) -> None:
    slowdown = Estimate(1.0, 1 - half, 1 + half) if half else None
    row = result(verdict=verdict, slowdown=slowdown)
    assert StoppingRule(precision=0.0625).is_done(row) == done
    assert StoppingRule().is_done(row) == (not verdict.needs_pairs)


def test_verdict_texts_and_reported_figures_of_a_row() -> None:
    texts = [
        result(verdict=verdict, margin=0.005, emulated=emulated).verdict_text
        for verdict in (Verdict.NO_EFFECT, Verdict.SPEED_UP, Verdict.CONTENTION)
        for emulated in (False, True)
    ]
    none = "no effect: typical run within 0.5 %"
    assert texts == [
        none,
        f"{none}, under emulated writes",
        "speed-up",
        "speed-up, under emulated writes",
        "memory contention",
        "memory contention",
    ]
    row = result(
        off_median=2.0,
        on_median=1.9,
        rejected=4,
        writer_rate_b_s=5e9,
        slowdown=Estimate(1.5, 1.4, 1.7),
        mean=Estimate(1.6, 1.1, 1.9),
    )
    assert reported_figures(row) == {
        # `typical_on` is the median of the runs, not 1.5 times 2 s. With a mean of 1.6, work of 100
        # node-hours takes 160.
        "typical_off": (2.0, "s"),
        "typical_on": (1.9, "s"),
        "extra_node_hours_on": (pytest.approx(60.0), "per 100"),
        "slowdown_on": (1.5, "x"),
        "slowdown_on_low": (1.4, "x"),
        "slowdown_on_high": (1.7, "x"),
        "writers_rate_on": (5e9, "B/s"),
        "rejected_on": (4, "runs"),
    }
