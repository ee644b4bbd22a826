"""What a new header says was asked is no fault; an edit of any part of it is one."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from analysis.samples.asked import judge_asked
from analysis.samples.faults import Faults
from nimc.base.checkout import ROOT
from nimc.base.errors import InputError
from nimc.campaign.prepare import prepare
from nimc.records.run import RunHeader
from nimc.run.folder import new_header

CAMPAIGNS = sorted(path.stem for path in (ROOT / "campaigns").glob("*.yaml"))
MACHINES = ["localhost", "example_slurm"]


def header_of(campaign: str, machine: str, **options: Any) -> RunHeader:
    """The header of a new run, as it is read from its file."""
    header = new_header(prepare(ROOT / f"campaigns/{campaign}.yaml", machine, **options))
    return TypeAdapter(RunHeader).validate_python(json.loads(json.dumps(header.as_dict())))


@pytest.fixture(scope="module")
def quick() -> RunHeader:
    return header_of("quick", "localhost")


def faults_of(header: RunHeader) -> list[str]:
    """What every command that reads the run finds."""
    faults = Faults()
    judge_asked(Path("r"), header, [], faults)
    return faults.lines


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_every_campaign_of_the_project_is_derived_as_it_was_asked(
    campaign: str, machine: str
) -> None:
    try:
        header = header_of(campaign, machine)
    except InputError:
        pytest.skip("this machine cannot run it")
    assert faults_of(header) == []


def test_options_of_the_command_line_are_no_faults() -> None:
    one = header_of("quick", "localhost", only=["lammps"])
    assert list(one.asked.cases) == ["lammps"]
    assert faults_of(one) == []
    pinned = header_of("single_node", "example_slurm", nodelist="n7")
    assert pinned.resolved
    assert pinned.resolved["nodelist"] == "n7"
    assert faults_of(pinned) == []


def test_an_earlier_version_kept_less(quick: RunHeader) -> None:
    assert faults_of(replace(quick, resolved=None)) == []


def with_margin(header: RunHeader) -> RunHeader:
    return replace(header, margin=0.3, campaign_text=header.campaign_text + "margin: 0.3\n")


def with_proof(header: RunHeader) -> RunHeader:
    site = header.facts["site"]
    proof = {**site["proof"], "min_share": 0.9}
    return replace(header, facts={**header.facts, "site": {**site, "proof": proof}})


def resolved_too(header: RunHeader) -> RunHeader:
    """The margin wherever it stands; the digest would give another seed."""
    assert header.resolved
    campaign = {**header.resolved["campaign"], "margin": 0.3}
    return replace(with_margin(header), resolved={**header.resolved, "campaign": campaign})


def without_arm(header: RunHeader) -> RunHeader:
    text = header.campaign_text.replace("arms: [off, on, spin, aa]", "arms: [off, on, aa]")
    cases = {case: ["off", "on", "aa"] for case in header.asked.cases}
    return replace(header, campaign_text=text, asked=replace(header.asked, cases=cases))


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (with_margin, "margin: 0.3 found; allowed: 0.02, by resolved"),
        (resolved_too, "digest: "),
        (with_proof, "facts.site.proof.min_share: 0.9 found; allowed: 0.2"),
        (without_arm, "asked.cases.stream: "),
        (lambda head: replace(head, digest="0" * 64), "digest: "),
        (lambda head: replace(head, asked=replace(head.asked, cases={})), "asked.cases: "),
        (lambda head: replace(head, campaign_text="name: ["), "invalid YAML"),
    ],
)
def test_an_edit_of_the_header_is_contradicted(
    quick: RunHeader, edit: Callable[[RunHeader], RunHeader], words: str
) -> None:
    assert any(words in line for line in faults_of(edit(quick)))
