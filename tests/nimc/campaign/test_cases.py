"""From entries and factors to cases, and what is refused on the way."""

from pathlib import Path

import pytest

from nimc.campaign.cases import treatments
from records.campaign import Entry
from tests.nimc.campaign.campaign_files import faults, load
from tests.nimc.campaign.made_request import made_machine

#: Origin and target share a host.
HERE = made_machine("same_host", injector="ucx")


def cases(tmp_path: Path, text: str) -> list[Entry]:
    return load(tmp_path, text, HERE).cases


def names(case: Entry, *arms: str) -> list[str]:
    return [treatment.name for treatment in treatments(arms, case)]


def text(entry: str = "check: stream", more: str = "") -> str:
    return f"name: c\nworkloads:\n  - {{{entry}}}\n{more}"


@pytest.mark.parametrize("more", ["", "factors: {rate: [0, 25%, full]}\n"])
def test_the_control_is_run_only_on_a_shared_host(tmp_path, more):
    campaign = text(more=more)
    assert load(tmp_path, campaign, HERE).arms == ["off", "on", "spin", "aa"]
    assert load(tmp_path, campaign, made_machine("same_job")).arms == ["off", "on", "aa"]
    # Arms that the campaign names are kept.
    with_arms = text(more=f"arms: [off, on]\n{more}")
    assert load(tmp_path, with_arms, HERE).arms == ["off", "on"]


def test_factors_of_the_table_and_of_the_check_change_within_a_block(tmp_path):
    more = "factors: {rate: [0, 25%, full], reserved_cores: [0, 1]}\n"
    (case,) = cases(tmp_path, text("check: stream", more))
    assert (case.name, case.case_levels) == ("stream", {})
    assert case.factors == {"rate": [0, "25%", "full"], "reserved_cores": [0, 1]}
    (melt,) = cases(tmp_path, text("check: lammps, factors: {steps: [10, 20]}"))
    assert names(melt, "off", "on") == ["off", "on", "off@steps=20", "on@steps=20"]


def test_other_factors_make_cases(tmp_path):
    entry = "check: stream, set: {llc_multiple: 2}, factors: {iterations: [10, 20], rate: [full]}"
    stream_cases = cases(tmp_path, text(entry))
    assert [case.name for case in stream_cases] == ["stream@iterations=10", "stream@iterations=20"]
    assert stream_cases[1].set == {"llc_multiple": 2, "iterations": 20}
    assert stream_cases[1].case_levels == {"iterations": 20}
    assert stream_cases[1].factors == {"rate": ["full"]}
    # Names of several stay names of files.
    entry = "check: stream, factors: {iterations: [10], llc_multiple: [a/b]}"
    (case,) = cases(tmp_path, text(entry))
    assert case.name == "stream@iterations=10,llc_multiple=a_b"


def test_an_entrys_levels_take_the_place_of_the_campaigns(tmp_path):
    entry = "check: stream, factors: {reserved_cores: [2]}"
    (case,) = cases(tmp_path, text(entry, "factors: {rate: [full], reserved_cores: [0, 1]}\n"))
    assert case.factors == {"rate": ["full"], "reserved_cores": [2]}


BOTH, FEW = ["off", "on@rate=25%", "on"], ["off", "on@rate=25%"]


@pytest.mark.parametrize(
    ("cells", "ten", "twenty"),
    [
        # Cells of levels that make cases leave out cases; those of others, treatments.
        ("exclude: [{iterations: 10}]", None, BOTH),
        ("exclude: [{iterations: 10, rate: full}]", FEW, BOTH),
        ("only: [{iterations: 20}]", None, BOTH),
        ("only: [{iterations: 20, rate: 25%}]", None, FEW),
        ("only: [{rate: 25%}]", FEW, FEW),
        ("only: [{iterations: 20, rate: 25%}, {iterations: 20, rate: full}]", None, BOTH),
        ("only: [{iterations: 20}, {rate: 25%}]", FEW, BOTH),
    ],
)
def test_exclude_and_only(tmp_path, cells, ten, twenty):
    more = f"factors: {{iterations: [10, 20], rate: [25%, full]}}\n{cells}\n"
    named = {case.name: names(case, "off", "on") for case in cases(tmp_path, text(more=more))}
    assert named.pop("stream@iterations=10", None) == ten
    assert named == {"stream@iterations=20": twenty}


@pytest.mark.parametrize(
    ("entry", "more", "fault"),
    [
        ("", "factors: {rat: [0, full]}", "4: factors.rat: unknown factor 'rat' of 'stream', did"),
        ("", "factors:\n  rate: [0, 25%,\n    120%]", "6: factors.rate: 120% found; allowed: 0"),
        (", factors: {rate: [fast]}", "", "3: workloads[0].factors.rate: fast found; allowed: 0, "),
        (", set: {direction: read}", "factors: {direction: [write, read]}", "4: factors.direction:"
         " cannot be combined with workloads[0].set.direction; allowed"),
        ("", "factors: {rate: [25%, full]}\ninjector: {rate: 1GB/s}", "4: factors.rate: cannot be"
         " combined with injector.rate; allowed: one of"),
        ("", "factors: {rate: [0, full]}\nexclude: [{rat: 0}]", "5: exclude[0].rat: unknown factor"
         " 'rat', did you mean 'rate'?; allowed: arm,"),
        ("", "factors: {rate: [0, full]}\nonly: [{rate: 25%}]", "5: only[0].rate: 25% found;"
         " allowed: 0, full"),
        ("", "factors: {rate: [0, full]}\narms: [off, on]\nexclude: [{arm: spin}]",
         "6: exclude[0].arm: spin found; allowed: off, on"),
        ("", "factors: {rate: [0]}", "3: workloads[0]: stream: exclude, only: no treatment that"),
        ("", "arms: [off, aa]\nexclude: [{arm: aa}]",
         "3: workloads[0]: stream: exclude, only: no treatment is left; allowed"),
        ("", "arms: [off, aa]\nonly: [{arm: off}]",
         "3: workloads[0]: stream: exclude, only: no treatment is left; allowed"),
        (", factors: {iterations: [1, 2]}, exclude: [{iterations: 1}]",
         "exclude: [{iterations: 2}]",
         "3: workloads[0]: exclude and only leave no case; allowed: at least one"),
        (", set: {warmups: many}", "arms: [off, on]", "3: workloads[0].set.warmups: unknown vari"),
        (", set: {direction: up}", "arms: [off, on]",
         "3: workloads[0].set.direction: up found; allowed: write, read, both"),
        *(
            ("", f"factors: {{{key}: [{level}]}}\ninjector: {{{own}: {level}}}",
             f"4: factors.{key}: cannot be combined with injector.{own}; allowed: one of")
            for key, own, level in (("message", "message", "64KiB"), ("injector", "name", "ucx"))
        ),
        # A figure that depends on the number of cores.
        ("lammps", "factors: {reserved_cores: [0, 1]}",
         "4: factors.reserved_cores: of 'lammps', figures of"),
        # 80 characters, `@iterations=`, `,llc_multiple=` and both levels behind them.
        (f", case: {'a' * 80}, factors: {{iterations: [{'x' * 40}], llc_multiple: [{'x' * 40}]}}",
         "arms: [off, on]", f"3: workloads[0].case: '{'a' * 40}...' has {80 + 12 + 40 + 14 + 40}"
         " characters; allowed: at most 160"),
    ],
)  # fmt: skip
def test_faults_are_reported_with_their_line(tmp_path, entry, more, fault):
    check = entry if entry.isalpha() else f"stream{entry}"
    (line,) = faults(tmp_path, text(f"check: {check}", f"{more}\n"))
    assert line.startswith(f"c.yaml:{fault}")
