"""Entries and factors of a campaign become cases, and invalid ones are refused.

A case is a workload with one level of each factor that changes between cases. Other factors change
within a case: each combination of their levels with an arm is a treatment.
"""

from pathlib import Path

import pytest

from nimc.campaign.cases import treatments
from records.campaign import Entry
from tests.messages import assert_message
from tests.nimc.campaign.campaign_files import faults, load
from tests.nimc.campaign.made_request import made_machine

SHARED_HOST = made_machine("same_host", injector="ucx")


def campaign_text(entry: str = "check: stream", further_keys: str = "") -> str:
    """Return the text of a campaign of one entry; its further keys begin in line 4."""
    return f"name: c\nworkloads:\n  - {{{entry}}}\n{further_keys}\n"


def cases(tmp_path: Path, campaign: str) -> list[Entry]:
    """Return the cases of a campaign's text on a shared host."""
    return load(tmp_path, campaign, SHARED_HOST).cases


def treatment_names(case: Entry) -> list[str]:
    """Return the treatments of a case for the arms `off` and `on`."""
    return [treatment.name for treatment in treatments(["off", "on"], case)]


@pytest.mark.parametrize("factors", ["", "factors: {rate: [0, 25%, full]}\n"])
def test_the_control_is_run_only_on_a_shared_host(tmp_path, factors):
    campaign = campaign_text(further_keys=factors)
    assert load(tmp_path, campaign, SHARED_HOST).arms == ["off", "on", "spin", "aa"]
    assert load(tmp_path, campaign, made_machine("same_job")).arms == ["off", "on", "aa"]


def test_arms_that_a_campaign_names_are_the_only_ones(tmp_path):
    campaign = campaign_text(further_keys="arms: [off, on]")
    assert load(tmp_path, campaign, SHARED_HOST).arms == ["off", "on"]


def test_factors_of_treatments_change_within_a_block(tmp_path):
    factors = "factors: {rate: [0, 25%, full], reserved_cores: [0, 1]}"
    (case,) = cases(tmp_path, campaign_text(further_keys=factors))
    assert (case.name, case.case_levels) == ("stream", {})
    assert case.factors == {"rate": [0, "25%", "full"], "reserved_cores": [0, 1]}


def test_a_variable_that_its_check_allows_to_change_makes_treatments(tmp_path):
    """The variable is `steps` of LAMMPS."""
    (case,) = cases(tmp_path, campaign_text("check: lammps, factors: {steps: [10, 20]}"))
    assert treatment_names(case) == ["off", "on", "off@steps=20", "on@steps=20"]


def test_other_factors_make_cases(tmp_path):
    entry = "check: stream, set: {llc_multiple: 2}, factors: {iterations: [10, 20], rate: [full]}"
    stream_cases = cases(tmp_path, campaign_text(entry))
    assert [case.name for case in stream_cases] == ["stream@iterations=10", "stream@iterations=20"]
    assert stream_cases[1].set == {"llc_multiple": 2, "iterations": 20}
    assert stream_cases[1].case_levels == {"iterations": 20}
    assert stream_cases[1].factors == {"rate": ["full"]}


def test_a_case_name_with_several_levels_is_the_name_of_a_file(tmp_path):
    entry = "check: stream, factors: {iterations: [10], llc_multiple: [a/b]}"
    (case,) = cases(tmp_path, campaign_text(entry))
    assert case.name == "stream@iterations=10,llc_multiple=a_b"


def test_levels_of_an_entry_replace_those_of_the_campaign(tmp_path):
    entry = "check: stream, factors: {reserved_cores: [2]}"
    factors = "factors: {rate: [full], reserved_cores: [0, 1]}"
    (case,) = cases(tmp_path, campaign_text(entry, factors))
    assert case.factors == {"rate": ["full"], "reserved_cores": [2]}


ALL_RATES, LOWER_RATE = ["off", "on@rate=25%", "on"], ["off", "on@rate=25%"]


@pytest.mark.parametrize(
    ("cells", "ten_iterations", "twenty_iterations"),
    [
        # A cell that names only levels that make cases leaves out cases. Other cells leave out
        # treatments.
        ("exclude: [{iterations: 10}]", None, ALL_RATES),
        ("exclude: [{iterations: 10, rate: full}]", LOWER_RATE, ALL_RATES),
        ("only: [{iterations: 20}]", None, ALL_RATES),
        ("only: [{iterations: 20, rate: 25%}]", None, LOWER_RATE),
        ("only: [{rate: 25%}]", LOWER_RATE, LOWER_RATE),
        (
            "only: [{iterations: 20, rate: 25%}, {iterations: 20, rate: full}]",
            None,
            ALL_RATES,
        ),
        ("only: [{iterations: 20}, {rate: 25%}]", LOWER_RATE, ALL_RATES),
    ],
)
def test_cells_leave_out_cases_or_treatments(tmp_path, cells, ten_iterations, twenty_iterations):
    """The parameters are the treatments of each case; None means that the case is left out."""
    factors = "factors: {iterations: [10, 20], rate: [25%, full]}"
    campaign = campaign_text(further_keys=f"{factors}\n{cells}")
    treatments_by_case = {case.name: treatment_names(case) for case in cases(tmp_path, campaign)}
    assert treatments_by_case.pop("stream@iterations=10", None) == ten_iterations
    assert treatments_by_case == {"stream@iterations=20": twenty_iterations}


NO_TREATMENT = "3: workloads[0]: stream: exclude, only"


@pytest.mark.parametrize(
    ("entry", "further_keys", "location", "values", "allowed"),
    [
        ("", "factors: {rat: [0, full]}", "4: factors.rat", ["'rat'", "'stream'", "'rate'"], ""),
        ("", "factors:\n  rate: [0, 25%,\n    120%]", "6: factors.rate", ["120%"], "0"),
        (", factors: {rate: [fast]}", "", "3: workloads[0].factors.rate", ["fast"], "0"),
        (", set: {direction: read}", "factors: {direction: [write, read]}", "4: factors.direction",
         ["workloads[0].set.direction"], ""),
        ("", "factors: {rate: [25%, full]}\ninjector: {rate: 1GB/s}", "4: factors.rate",
         ["injector.rate"], ""),
        ("", "factors: {message: [64KiB]}\ninjector: {message: 64KiB}", "4: factors.message",
         ["injector.message"], ""),
        ("", "factors: {injector: [ucx]}\ninjector: {name: ucx}", "4: factors.injector",
         ["injector.name"], ""),
        ("", "factors: {rate: [0, full]}\nexclude: [{rat: 0}]", "5: exclude[0].rat",
         ["'rat'", "'rate'"], "arm, "),
        ("", "factors: {rate: [0, full]}\nonly: [{rate: 25%}]", "5: only[0].rate", ["25%"],
         "0, full"),
        ("", "factors: {rate: [0, full]}\narms: [off, on]\nexclude: [{arm: spin}]",
         "6: exclude[0].arm", ["spin"], "off, on"),
        ("", "exclude: [{arm: daly}]", "4: exclude[0].arm", ["daly"], "off, on, spin, aa"),
        ("", "factors: {rate: [0]}", NO_TREATMENT, [], "at least one"),
        ("", "arms: [off, aa]\nexclude: [{arm: aa}]", NO_TREATMENT, [], "some of them"),
        ("", "arms: [off, aa]\nonly: [{arm: off}]", NO_TREATMENT, [], "some of them"),
        (", factors: {iterations: [1, 2]}, exclude: [{iterations: 1}]",
         "exclude: [{iterations: 2}]", "3: workloads[0]", ["exclude", "only"], "at least one"),
        (", set: {warmups: many}", "", "3: workloads[0].set.warmups", ["'warmups'"], "iterations"),
        (", set: {direction: up}", "", "3: workloads[0].set.direction", ["up"],
         "write, read, both"),
        # The name has 80 characters, `@iterations=`, `,llc_multiple=` and both levels of 40.
        (f", case: {'a' * 80}, factors: {{iterations: [{'x' * 40}], llc_multiple: [{'x' * 40}]}}",
         "", "3: workloads[0].case", [f"'{'a' * 40}...'", f"{80 + 12 + 40 + 14 + 40}"], "160"),
    ],
)  # fmt: skip
def test_a_fault_is_reported_with_its_line(
    tmp_path, entry, further_keys, location, values, allowed
):
    """`entry`: further keys of the entry of STREAM."""
    (line,) = faults(tmp_path, campaign_text(f"check: stream{entry}", further_keys))
    assert_message(line, f"c.yaml:{location}", *values, allowed=allowed)


def test_figures_that_depend_on_the_number_of_cores_are_not_compared(tmp_path):
    factors = "factors: {reserved_cores: [0, 1]}"
    (line,) = faults(tmp_path, campaign_text("check: lammps", factors))
    assert_message(line, "c.yaml:4: factors.reserved_cores", "'lammps'")
