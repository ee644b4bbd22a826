"""What each run's output says, by the check's own functions; figures were written by hand.

Units and directions of figures, as checks write them.
"""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from reframe.core.exceptions import ReframeError

from nimc.node.conductor import UNREAD
from reframe_tests import foreign
from reframe_tests.foreign import direction, si, suffixed
from tests.nimc.node.test_store import SAMPLE
from tests.reframe_tests.foreign.checks import (
    accepts_all,
    by_its_options,
    constant,
    fails_as_expected,
    from_a_file,
    late_victim,
    old_victim,
    reads_the_error_output,
    victim,
    with_path,
)

#: A run whose figure of merit the check has yet to read.
UNREAD_SAMPLE = replace(
    SAMPLE, case="case", workload="case", fom=None, fom_unit="", fom_better="lower"
)


def read(check: Any, tmp_path: Path, *outputs: str, errors: str = "") -> list[dict[str, Any]]:
    """Samples of a block whose runs printed `outputs`; an empty one stands for a rejected run."""
    check.put_conductor()
    check.take_patterns()
    logs = tmp_path / "run/logs/case/0"
    logs.mkdir(parents=True)
    with (logs / UNREAD).open("w") as unread:
        for pair, output in enumerate(outputs):
            sample = replace(UNREAD_SAMPLE, pair=pair, outcome="kept" if output else "rejected")
            print(json.dumps(sample.as_dict()), file=unread)
            (logs / f"{pair}-off-0.out").write_text(output)
            (logs / f"{pair}-off-0.err").write_text(errors)
    foreign.read_block(check._own, tmp_path / "run", "case", logs)
    assert not (logs / UNREAD).exists()
    text = (tmp_path / "run/samples/case.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


GOOD = "step 2.5\ncopy 40\nall is well\n"


def test_each_run_is_read_from_its_own_output(reframe, tmp_path):
    other = "step 4\ncopy 20\nall is well\n"
    first, second = read(reframe(victim), tmp_path, GOOD, other)
    assert (first["fom"], first["fom_unit"], first["fom_better"]) == (0.0025, "s", "lower")
    assert second["fom"] == 0.004
    assert first["fom_extra"] == {"copy_b_s": 40e6}
    assert second["fom_extra"] == {"copy_b_s": 20e6}
    (note,) = first["notes"]
    assert "step of check victim, lower is better (by its unit alone); the first of 2" in note


def test_another_figure_that_is_no_number_is_left_out(reframe, tmp_path):
    first, second = read(reframe(victim), tmp_path, GOOD, GOOD.replace("40", "nan"))
    assert first["fom_extra"] == {"copy_b_s": 40e6}
    assert (second["fom"], second["fom_extra"]) == (0.0025, {})


def test_a_part_of_a_line_is_no_run(reframe, tmp_path):
    check = reframe(victim)
    check.put_conductor()
    check.take_patterns()
    logs = tmp_path / "run/logs/case/0"
    logs.mkdir(parents=True)
    whole = json.dumps(replace(UNREAD_SAMPLE, outcome="rejected").as_dict())
    (logs / UNREAD).write_text(f"{whole}\n{whole[:40]}")
    foreign.read_block(check._own, tmp_path / "run", "case", logs)
    assert (tmp_path / "run/samples/case.jsonl").read_text().count("\n") == 1


def test_a_run_that_fails_the_sanity_of_the_check_has_no_figure(reframe, tmp_path):
    good, wrong, without = read(reframe(victim), tmp_path, GOOD, "step 2\n", "all is well\n")
    assert good["outcome"] == "kept"
    assert (wrong["outcome"], wrong["fom"]) == ("no_fom", None)
    assert wrong["reason"].startswith("sanity: pattern 'all is well' not found")
    assert (without["outcome"], without["fom"]) == ("no_fom", None)
    assert without["reason"].startswith("step: ")


@pytest.mark.parametrize("figure", ["0", "-1", "inf", "nan"])
def test_a_figure_that_is_no_positive_number_is_none(reframe, tmp_path, figure):
    (sample,) = read(reframe(victim), tmp_path, f"step {figure}\nall is well\n")
    assert (sample["outcome"], sample["fom"]) == ("no_fom", None)


def test_a_rejected_run_stays_so_and_has_the_unit_of_its_case(reframe, tmp_path):
    rejected, kept = read(reframe(victim, figure="copy"), tmp_path, "", GOOD)
    assert (rejected["outcome"], rejected["fom"]) == ("rejected", None)
    for sample in (rejected, kept):
        assert (sample["fom_unit"], sample["fom_better"]) == ("B/s", "higher")


@pytest.mark.parametrize(
    ("cls", "foms"),
    [
        (with_path, [0.0025]),  # the output is named by the stage folder
        (late_victim, [2.5e-6, 5e-6]),  # hooks that evaluate at once run for each output
    ],
)
def test_each_output_is_found(reframe, tmp_path, cls, foms):
    outputs = [GOOD, GOOD.replace("2.5", "5")][: len(foms)]
    samples = read(reframe(cls), tmp_path, *outputs)
    assert [each["fom"] for each in samples] == pytest.approx(foms)


def test_functions_see_the_program_and_its_options_as_the_check_has_them(reframe, tmp_path):
    check = reframe(by_its_options)
    (sample,) = read(check, tmp_path, GOOD)
    assert sample["fom"] == 0.0025
    assert check.executable_opts[-1].endswith("plan.json")  # that of the block again


def test_a_check_may_read_the_error_output(reframe, tmp_path):
    (sample,) = read(reframe(reads_the_error_output), tmp_path, GOOD, errors="warning")
    assert sample["outcome"] == "no_fom"


def test_patterns_and_units_of_hooks_and_references_are_taken_for_each_run(reframe, tmp_path):
    first, second = read(reframe(old_victim), tmp_path, GOOD, "step 3\n")
    assert (first["fom"], first["fom_unit"], first["fom_better"]) == (2.5e9, "flop/s", "higher")
    assert "by the check's reference" in first["notes"][0]
    assert second["reason"].startswith("sanity: ")


def test_a_figure_that_is_a_constant_is_refused_before_anything_runs(reframe):
    with pytest.raises(ReframeError, match="step does not come from the standard output"):
        reframe(constant).put_conductor()


def test_a_figure_of_a_file_is_none_of_any_run(reframe, tmp_path):
    check = reframe(from_a_file)
    check.put_conductor()
    Path(check.stagedir, "result.txt").write_text("step 7\n")  # left by the last run
    check._own.prove = lambda: None
    check.put_conductor = lambda: None
    (sample,) = read(check, tmp_path, GOOD)
    assert (sample["outcome"], sample["fom"]) == ("no_fom", None)
    assert "step does not come from the standard output of a run" in sample["reason"]


def test_a_sanity_that_accepts_an_empty_output_stands_beside_the_figure(reframe, tmp_path):
    (sample,) = read(reframe(accepts_all), tmp_path, GOOD)
    assert sample["fom"] == 0.0025
    assert any("answers are not proven right" in note for note in sample["notes"])


@pytest.mark.parametrize("cls", [victim, old_victim, late_victim, fails_as_expected])
def test_reframes_own_stages_leave_the_functions_of_the_check_alone(reframe, cls):
    check = reframe(cls)
    outputs = check.job.stdout, check.job.stderr
    check.put_conductor()
    assert (check.job.stdout, check.job.stderr) == outputs
    assert not hasattr(check, "sanity_patterns")
    check.is_dry_run = lambda: True
    check.sanity()  # refuses two kinds of patterns, and would evaluate those of the output at once
    check.performance()
    assert check.perf_variables == {}
    assert check.__rfm_xfail_sanity__() == (False, "")


@pytest.mark.parametrize(
    ("reference", "asked", "unit", "better"),
    [
        ((10, -0.1, None, "s"), "", "s", "higher"),
        ((10, None, 0.1, "x/s"), "", "x/s", "lower"),
        ((10, -0.1, 0.1, "s"), "", "s", "lower"),
        ((0, None, None, "x/s"), "", "x/s", "higher"),
        ((10, None, 0.1, "x"), "higher", "x", "higher"),
        (None, "lower", "x", "lower"),
    ],
)
def test_direction_is_as_asked_then_by_reference_then_by_unit(reference, asked, unit, better):
    assert direction(reference, asked, unit)[0] == better


def test_nothing_says_the_direction_of_an_unknown_unit():
    with pytest.raises(ValueError, match=r"^$"):
        direction((10, -0.1, 0.1, None), "", "furlongs")


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
def test_units_as_checks_write_them(unit, factor, si_unit):
    assert si(unit) == (factor, si_unit)


def test_names_end_in_their_unit_once():
    assert suffixed("copy", "B/s") == "copy_b_s"
    assert suffixed("time_s", "s") == "time_s"
    assert suffixed("perf", "timesteps/s") == "perf"
