"""Tests of third-party checks whose own functions read the output of each run of a block.

The outputs were written by hand. Further tests read the units and the directions of figures that
checks use.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reframe.core.exceptions import ReframeError

from records import chain
from records.block_plan import UNREAD_FILE
from records.units import si_factor
from reframe_tests import third_party
from reframe_tests.third_party import better_direction
from tests.conductor.made_sample import SAMPLE
from tests.reframe_tests.third_party.checks import (
    accepts_all,
    by_its_options,
    constant,
    fails_as_expected,
    from_a_file,
    late_victim,
    mixin_first,
    old_victim,
    reads_the_error_output,
    victim,
    with_path,
)
from tests.schema_6 import as_schema_6

#: The sample of a run whose figure of merit the check has not read yet.
UNREAD_SAMPLE = replace(
    SAMPLE, case="case", workload="case", fom=None, fom_unit="", fom_better="lower"
)


def read(check: Any, tmp_path: Path, *outputs: str, errors: str = "") -> list[dict[str, Any]]:
    """Return the samples of a block whose runs printed `outputs`.

    An empty output stands for a rejected run. The block was killed while it wrote its last line, so
    this incomplete line is no run.
    """
    check.start_conductor()
    logs = tmp_path / "run/logs/case/0"
    logs.mkdir(parents=True)
    with (logs / UNREAD_FILE).open("w") as unread:
        for pair, output in enumerate(outputs):
            key, outcome = f"case/0/{pair}/off/0", "accepted" if output else "rejected"
            sample = replace(UNREAD_SAMPLE, key=key, pair=pair, outcome=outcome)
            print(json.dumps(sample.as_dict()), file=unread)
            (logs / f"{pair}-off-0.out").write_text(output)
            (logs / f"{pair}-off-0.err").write_text(errors)
        unread.write(json.dumps(UNREAD_SAMPLE.as_dict())[:40])
    third_party.move_unread_samples(check.output_reader, tmp_path / "run", "case", logs)
    assert not (logs / UNREAD_FILE).exists()
    text = (tmp_path / "run/samples/case.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


GOOD = "step 2.5\ncopy 40\nall is well\n"


def test_each_run_is_read_from_its_own_output(reframe, tmp_path):
    others = ["step 4\ncopy 20\nall is well\n", GOOD]
    without = ["step 2\n", "all is well\n"]
    without += [f"step {figure}\nall is well\n" for figure in ("0", "-1", "inf", "nan")]
    first, second, third, wrong, empty, *bad = read(
        reframe(victim), tmp_path, GOOD, *others, *without
    )
    assert (first["fom"], first["fom_unit"], first["fom_better"]) == (0.0025, "s", "lower")
    assert [sample["fom"] for sample in (second, third)] == [0.004, 0.0025]
    (note,) = first["notes"]
    assert "step of check victim, lower is better (by its unit alone); the first of 2" in note
    assert wrong["reason"].startswith("sanity: pattern 'all is well' not found")
    assert empty["reason"].startswith("step: ")
    assert {(s["outcome"], s["fom"]) for s in (wrong, empty, *bad)} == {("no_fom", None)}


@pytest.mark.parametrize("moved", [0, 1, 2])
def test_a_killed_reading_can_be_repeated(reframe, tmp_path, monkeypatch, moved):
    """The reading is killed after it has compressed an output and before it writes the sample."""
    check, link, killed = reframe(victim), chain.chained_line, iter([True] * moved + [False])

    def chained(*records):
        if not next(killed, True):
            raise KeyboardInterrupt
        return link(*records)

    monkeypatch.setattr("records.chain.chained_line", chained)
    outputs = [GOOD, GOOD.replace("2.5", "4"), GOOD.replace("2.5", "7")]
    with pytest.raises(KeyboardInterrupt):
        read(check, tmp_path, *outputs)
    samples = tmp_path / "run/samples/case.jsonl"
    assert moved == (len(samples.read_text().splitlines()) if moved else 0)
    logs = tmp_path / "run/logs/case/0"
    assert (logs / f"{moved}-off-0.out.gz").exists()
    third_party.move_unread_samples(check.output_reader, tmp_path / "run", "case", logs)
    again = [json.loads(line) for line in samples.read_text().splitlines()]
    assert [sample["fom"] for sample in again] == pytest.approx([0.0025, 0.004, 0.007])
    assert not list(logs.glob("*.out"))


def test_an_unread_run_of_schema_6_becomes_a_sample_of_the_current_schema(reframe, tmp_path):
    check = reframe(victim)
    check.start_conductor()
    logs = tmp_path / "run/logs/case/0"
    logs.mkdir(parents=True)
    (logs / UNREAD_FILE).write_text(json.dumps(as_schema_6(UNREAD_SAMPLE.as_dict())) + "\n")
    (logs / "0-off-0.out").write_text(GOOD)
    (logs / "0-off-0.err").touch()
    third_party.move_unread_samples(check.output_reader, tmp_path / "run", "case", logs)
    sample = json.loads((tmp_path / "run/samples/case.jsonl").read_text())
    assert (sample["schema"], sample["outcome"], sample["fom"]) == (7, "accepted", 0.0025)


def test_a_rejected_run_stays_rejected_and_has_the_unit_of_its_case(reframe, tmp_path):
    rejected, kept = read(reframe(victim, figure="copy"), tmp_path, "", GOOD)
    assert (rejected["outcome"], rejected["fom"]) == ("rejected", None)
    for sample in (rejected, kept):
        assert (sample["fom_unit"], sample["fom_better"]) == ("B/s", "higher")


@pytest.mark.parametrize(
    ("cls", "foms"),
    [
        (with_path, [0.0025, 0.005]),  # the check names the output by its path
        (late_victim, [2.5e-6, 5e-6]),  # a hook that reads at once runs for each output
        (accepts_all, [0.0025, 0.005]),
        (mixin_first, [0.0025, 0.005]),
        (reads_the_error_output, [None, None]),
    ],
)
def test_each_check_reads_the_outputs_of_all_runs(reframe, tmp_path, cls, foms):
    outputs = [GOOD, GOOD.replace("2.5", "5")]
    samples = read(reframe(cls), tmp_path, *outputs, errors="warning")
    assert [sample["fom"] for sample in samples] == pytest.approx(foms)
    unproven = [note for note in samples[0]["notes"] if "answers are not verified" in note]
    assert bool(unproven) == (cls in (accepts_all, reads_the_error_output))


def test_functions_see_the_options_that_the_check_has_set(reframe, tmp_path):
    check = reframe(by_its_options)
    (sample,) = read(check, tmp_path, GOOD)
    assert sample["fom"] == 0.0025
    # After the reading, the check has the options of the block again.
    assert check.executable_opts[-1].endswith("plan.json")


def test_patterns_of_hooks_and_units_of_references_hold_for_each_run(reframe, tmp_path):
    first, second = read(reframe(old_victim), tmp_path, GOOD, "step 3\n")
    assert (first["fom"], first["fom_unit"], first["fom_better"]) == (2.5e9, "flop/s", "higher")
    assert "by the check's reference" in first["notes"][0]
    assert second["reason"].startswith("sanity: ")


def test_a_figure_that_does_not_come_from_the_output_is_refused(reframe, tmp_path):
    # A constant is refused before the block runs.
    with pytest.raises(ReframeError, match="step does not come from the standard output"):
        reframe(constant).start_conductor()
    check = reframe(from_a_file)
    check.start_conductor()
    # The last run has left this file.
    Path(check.stagedir, "result.txt").write_text("step 7\n")
    check.start_conductor = lambda: None
    (sample,) = read(check, tmp_path, GOOD)
    assert (sample["outcome"], sample["fom"]) == ("no_fom", None)
    assert "step does not come from the standard output of a run" in sample["reason"]


@pytest.mark.parametrize("cls", [victim, old_victim, late_victim, fails_as_expected])
def test_the_stages_of_reframe_itself_do_not_call_the_functions_of_the_check(reframe, cls):
    check = reframe(cls)
    outputs = check.job.stdout, check.job.stderr
    check.start_conductor()
    assert (check.job.stdout, check.job.stderr) == outputs
    assert not hasattr(check, "sanity_patterns")
    check.is_dry_run = lambda: True
    # ReFrame refuses a check with two kinds of patterns, and would read the output at once.
    check.sanity()
    check.performance()
    assert check.perf_variables == {}
    assert check.__rfm_xfail_sanity__() == (False, "")


@pytest.mark.parametrize(
    ("bounds", "requested", "unit", "better"),
    [
        ((-0.1, None), "", "s", "higher"),
        ((None, 0.1), "", "x/s", "lower"),
        ((-0.1, 0.1), "", "s", "lower"),
        ((None, None), "", "x/s", "higher"),
        ((None, 0.1), "higher", "x", "higher"),
        ((None, None), "lower", "x", "lower"),
        ((-0.1, 0.1), "", "furlongs", None),
    ],
)
def test_the_direction_comes_from_the_request_else_the_reference_else_the_unit(
    bounds, requested, unit, better
):
    chosen = better_direction(requested, *bounds, unit)
    assert (chosen and chosen[0]) == better


@pytest.mark.parametrize(
    ("unit", "factor", "si_unit"),
    [
        ("us", 1e-6, "s"),
        ("seconds", 1, "s"),
        ("usec", 1e-6, "s"),
        ("MB/s", 1e6, "B/s"),
        ("MBytes/sec", 1e6, "B/s"),
        ("GiB/s", 2**30, "B/s"),
        ("Gbit/s", 1e9 / 8, "B/s"),
        ("byte", 1, "B"),
        ("Gflops/seconds", 1e9, "flop/s"),
        ("GFLOPS/s", 1e9, "flop/s"),
        ("GFLOPS", 1, "GFLOPS"),
        ("timesteps/s", 1, "timesteps/s"),
        ("ns/day", 1, "ns/day"),
        ("Flops/byte", 1, "Flops/B"),
    ],
)
def test_units_of_checks_are_converted_to_si_units(unit, factor, si_unit):
    assert si_factor(unit) == (factor, si_unit)
