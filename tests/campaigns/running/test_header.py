"""Which sessions add to one run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from analysis.checkout import ROOT
from campaigns.planning.prepare import Request, prepare
from campaigns.running.header import digest


@pytest.fixture(scope="module")
def asked() -> Request:
    return prepare(ROOT / "campaigns/quick.yaml", "localhost")


def digest_of(asked: Request, host: str = "n1") -> str:
    return digest(asked.campaign, asked.machine, host)


def test_what_is_as_by_default_may_be_spelled_or_not(asked):
    """So a version that brings an option goes on with the runs of one that did not have it."""
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
