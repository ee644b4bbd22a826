"""Campaign files: defaults, quantities, and reports of faults, which name line and field."""

import pytest

from tests.messages import assert_message
from tests.nimc.campaign.campaign_files import faults, load

SMALL = """\
name: small
workloads:
  - check: stream
arms: [off, on]
"""


def test_defaults_are_the_documented_ones(tmp_path):
    campaign = load(tmp_path, SMALL)
    assert campaign.arms == ["off", "on"]
    assert campaign.workloads[0].name == "stream"
    assert (campaign.pairs.floor, campaign.pairs.maximum) == (8, 24)
    assert campaign.pairs.precision is None
    assert (campaign.verify.min_share, campaign.verify.retries) == (None, 2)
    assert campaign.run_timeout == 3600.0


def test_quantities_become_si(tmp_path):
    text = SMALL.replace("check: stream", "{check: lammps, case: melt, expect: 2min}")
    campaign = load(tmp_path, f"{text}run_timeout: 1.5h\npairs: {{floor: 6, precision: 2%}}\n")
    assert (campaign.workloads[0].expect, campaign.run_timeout) == (120.0, 5400.0)
    assert campaign.pairs.precision == 0.02


@pytest.mark.parametrize(
    ("line_5", "field", "values", "allowed"),
    [
        ("sed: 1", "sed", ["'sed'", "'seed'"], "arms, "),
        ("pairs: {floor: 5}", "pairs.floor", ["5"], "a whole number from 6"),
        ("pairs: {floor: 10, cap: 8}", "pairs.cap", ["8", "pairs.floor"], "at least 'floor'"),
        ("pairs: {precision: 1}", "pairs.precision", ["1"], "between 0 and 1"),
        ("run_timeout: 30", "run_timeout", ["'30'"], "30s"),
        ("run_timeout: 0s", "run_timeout", ["'0s'"], "30s"),
        ("verify: {retries: '3'}", "verify.retries", ["'3'"], "a whole number"),
        ("verify: 3", "verify", ["3"], "a mapping"),
        ("seed: true", "seed", ["true"], "a whole number from 0"),
        ("injector: {message: 64}", "injector.message", ["'64'"], "64KiB"),
        ("injector: {rate: 500MB}", "injector.rate", ["'500MB'"], "500MB/s"),
        ("injector: {name: verbs}", "injector.name", ["'verbs'"], "perftest"),
        # If the name is that of an injector's program, this injector is suggested.
        ("injector: {name: ib_write_bw}", "injector.name", ["'ib_write_bw'", "'perftest'"], "auto"),
        ("injector: {name: perftst}", "injector.name", ["'perftst'", "'perftest'"], "auto"),
    ],
)
def test_a_fault_is_reported_with_its_line_and_what_is_allowed(
    tmp_path, line_5, field, values, allowed
):
    (line,) = faults(tmp_path, f"{SMALL}{line_5}\n")
    assert_message(line, f"c.yaml:5: {field}", *values, allowed=allowed)


def test_a_duplicate_key_is_reported_with_both_lines(tmp_path):
    (line,) = faults(tmp_path, f"{SMALL}name: other\n")
    assert_message(line, "c.yaml:5", "'name'", "line 1")


@pytest.mark.parametrize(
    ("old", "new", "location", "values", "allowed"),
    [
        ("off, on", "on, spin", "4: arms", ["'off'"], "off"),
        ("off, on", "off", "4: arms", ["'off'"], "off"),
        ("off, on", "off, on, on", "4: arms", ["'on'"], "off"),
        ("off, on", "off, onn", "4: arms", ["'onn'"], "spin"),
        ("name: small", "name: ../up", "1: name", ["'../up'"], "letters, digits"),
        ("\n  - check: stream", " []", "2: workloads", ["a list"], "'check'"),
    ],
)
def test_invalid_arms_names_and_workloads_are_refused(
    tmp_path, old, new, location, values, allowed
):
    (line,) = faults(tmp_path, SMALL.replace(old, new))
    assert_message(line, f"c.yaml:{location}", *values, allowed=allowed)


@pytest.mark.parametrize("text", ["", "- a\n", "word\n", "3\n", "~\n"])
def test_a_file_that_is_no_mapping_is_refused_with_the_keys_of_a_campaign(tmp_path, text):
    (line,) = faults(tmp_path, text)
    assert_message(line, "c.yaml:1", "name, title")


FOUR_FAULTS = """\
name: small
arms: [off, on]
workloads:
  - check: stream
    set: {iteration: 3}
  - check: straem
  - check: stream
  - {check: lammps, case: stream, set: {steps: 5}}
"""


def test_all_faults_are_reported_at_once(tmp_path):
    variable, check, second_case, third_case = faults(tmp_path, FOUR_FAULTS)
    names = "'iteration'", "'iterations'"
    assert_message(variable, "c.yaml:5: workloads[0].set.iteration", *names)
    assert_message(check, "c.yaml:6: workloads[1].check", "'straem'", "'stream'")
    assert_message(second_case, "c.yaml:7: workloads[2].case", "'stream'")
    assert_message(third_case, "c.yaml:8: workloads[3].case", "'stream'")


def test_many_faults_are_cut_short(tmp_path):
    """After ten faults, a line says how many more there are."""
    for fault_count, remaining in ((30, "20 more errors"), (11, "1 more error")):
        keys = "".join(f"x{number}: 1\n" for number in range(fault_count))
        lines = faults(tmp_path, f"{SMALL}{keys}")
        assert len(lines) == 11
        assert lines[-1] == f"c.yaml: {remaining}"
