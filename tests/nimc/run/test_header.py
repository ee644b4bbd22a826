"""Which sessions add to one run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nimc.base.checkout import ROOT
from nimc.campaign.cases import expand
from nimc.campaign.checks import checks_in
from nimc.campaign.load import load_campaign
from nimc.campaign.prepare import Request, prepare
from nimc.machine.site import Machine
from nimc.run.folder import digest, requirements_of

NIGHT = """\
name: night
title: Words for people
workloads:
  - {check: stream, case: small, set: {iterations: 10, array_most: 64MiB}, expect: 2s}
  - {check: lammps, set: {steps: 150, warmups: 2}}
arms: [off, on, spin, aa]
pairs: {floor: 6, cap: 12, precision: 0.05, block: 3}
injector: {name: perftest, message: 64KiB, rate: 500MB/s}
verify: {min_share: 0.25, retries: 3}
run_timeout: 2min
seed: 7
"""
SWEEP = """\
name: night
workloads:
  - {check: membench, case: s, sweep: {cores: all}, set: {duration_s: 3}}
arms: [off, on]
"""
SITE = {
    "name": "box",
    "description": "a cluster",
    "origins": {"policy": "hetjob", "nodes": 1},
    "injector": "perftest",
    "facts": {"cores": 4, "sockets": 2, "numa_nodes": 2, "llc": "70MiB", "memory": "64GiB"},
}


@pytest.mark.parametrize(
    ("text", "recorded"),
    [
        (NIGHT, "e846723d901a8cc83ac08ba105f4eb370887bcc56347d77b73c2291ee46cb326"),
        (SWEEP, "1300d3fc06f7c28bbe0c32d58a4a7eb605e1a7ffbfdc30a936f4b15956640fc3"),
    ],
)
def test_runs_that_began_before_there_were_factors_are_resumed(tmp_path, text, recorded):
    """Digests as commit 9b5889b made them, before campaigns had factors."""
    path = tmp_path / "c.yaml"
    path.write_text(text)
    machine = Machine.model_validate(SITE)
    checks = checks_in(ROOT / "reframe_tests")
    loaded = expand(load_campaign(path, checks, machine), checks, machine)
    assert digest(loaded, machine, "n1") == recorded


@pytest.mark.parametrize(
    "factors", ["{rate: [0, 50%, full]}", "{rate: [25%, full]}", "{reserved_cores: [0, 1]}"]
)
def test_other_levels_make_another_run(tmp_path, factors):
    digests = set()
    for text in (f"factors: {factors}", "factors: {rate: [0, full]}", "exclude: [{arm: aa}]"):
        path = tmp_path / "c.yaml"
        path.write_text(f"name: c\nworkloads: [check: stream]\narms: [off, on, aa]\n{text}\n")
        digests.add(digest_of(prepare(path, "localhost")))
    assert len(digests) == 3


@pytest.fixture(scope="module")
def asked() -> Request:
    return prepare(ROOT / "campaigns/quick.yaml", "localhost")


def digest_of(asked: Request, host: str = "n1") -> str:
    return digest(asked.campaign, asked.machine, host)


def test_what_is_as_by_default_may_be_spelled_or_not(asked):
    """A version that adds an option resumes the runs of one that did not have it."""
    machine, campaign = asked.machine, asked.campaign
    bare = machine.model_validate({"origins": {"policy": "same_host"}, **_needed(machine)})
    spelled = machine.model_validate(
        {"origins": {"policy": "same_host", "access": [], "nodes": 1}, "nic": None}
        | _needed(machine)
    )
    assert digest(campaign, bare, "n1") == digest(campaign, spelled, "n1")


def _needed(machine):
    return {"name": machine.name, "description": machine.description, "injector": machine.injector}


def test_what_shapes_samples_makes_another_run(asked):
    first = digest_of(asked)
    campaign, machine = asked.campaign, asked.machine
    assert digest_of(asked, host="n2") != first
    for other in (
        replace(asked, campaign=campaign.model_copy(update={"seed": campaign.seed + 1})),
        replace(asked, machine=machine.model_copy(update={"reference_tolerance": 0.2})),
        replace(asked, machine=machine.with_origins(2)),
    ):
        assert digest_of(other) != first


def test_texts_for_people_do_not(asked):
    campaign = asked.campaign.model_copy(update={"title": "another", "description": "text"})
    assert digest_of(replace(asked, campaign=campaign)) == digest_of(asked)


def test_the_header_says_what_is_asked_of_each_case(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(
        "name: c\nworkloads: [check: stream, {check: lammps, factors: {rate: [0, 50%, full]}}]\n"
        "arms: [off, on, aa]\nverify: {min_share: 0.25, retries: 3}\n"
    )
    request = prepare(path, "localhost")
    asked = requirements_of(request.campaign, request.machine)
    assert asked.cases == {"stream": ["off", "on", "aa"], "lammps": LAMMPS}
    assert (asked.min_share, asked.retries, asked.optional) == (0.25, 3, [])
    path.write_text("name: c\nworkloads: [check: stream]\narms: [off, on]\n")
    silent = prepare(path, "localhost")
    assert requirements_of(silent.campaign, silent.machine).min_share == 0.2  # site/localhost.yaml


#: By hand: level 0 of `rate` is the baseline; names leave out the full rate.
LAMMPS = ["off", "on@rate=50%", "on", "aa"]


def test_cases_between_the_ends_of_a_sweep_of_few_cores_are_optional(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text(SWEEP.replace("cores: all", "cores: few"))
    machine = Machine.model_validate(SITE)  # two cores a socket, one of them for the ends
    machine = machine.model_copy(update={"facts": machine.facts.model_copy(update={"cores": 8})})
    checks = checks_in(ROOT / "reframe_tests")
    loaded = expand(load_campaign(path, checks, machine), checks, machine)
    asked = requirements_of(loaded, machine)
    ends = {f"s@n{n}-c{node}-m{node}" for n in (1, 4) for node in (0, 1)}
    assert ends < set(asked.cases)
    assert set(asked.optional) == set(asked.cases) - ends
    assert set(map(tuple, asked.cases.values())) == {("off", "on")}
