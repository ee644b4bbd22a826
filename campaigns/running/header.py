"""The header of a new run: campaign, machine and software versions."""

from __future__ import annotations

import hashlib
import json
import time
from typing import Any

from analysis.checkout import commit
from analysis.run import Asked, RunHeader
from campaigns.planning import sweep
from campaigns.planning.prepare import Request
from campaigns.request.cases import treatments
from campaigns.request.schema import Campaign
from injection.machine import host, versions
from injection.machine.machine import Machine

#: Packages whose versions are recorded.
_SOFTWARE = ("nimc", "reframe-hpc", *versions.WHEELS)


def new_header(asked: Request) -> RunHeader:
    """The header of a run that starts now; the name of its folder may still change."""
    started_s = time.time()
    here = host.detect().as_dict()
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(started_s))
    campaign = asked.campaign
    return RunHeader(
        run=f"{campaign.name}-{asked.site.machine}-{stamp}",
        campaign=campaign.name,
        machine=asked.site.machine,
        started_s=started_s,
        finished_s=None,
        digest=digest(campaign, asked.machine, here["hostname"], asked.site.nodelist),
        campaign_text=asked.text,
        pairs_floor=campaign.pairs.floor,
        pairs_cap=campaign.pairs.most,
        precision=campaign.pairs.precision,
        facts={"host": here, "site": asked.machine.model_dump(mode="json")},
        versions=versions.package_versions(_SOFTWARE),
        commit=commit(),
        margin=campaign.margin,
        asked=asked_of(campaign, asked.machine),
    )


def asked_of(campaign: Campaign, machine: Machine) -> Asked:
    """What is asked of every run of a campaign whose cases and sweeps are expanded."""
    cases = campaign.cases
    return Asked(
        cases={
            case.name: [each.name for each in treatments(campaign.arms, case)] for case in cases
        },
        min_share=campaign.verify.min_share or machine.proof.min_share,
        retries=campaign.verify.retries,
        optional=[case.name for case in cases if sweep.is_optional(case, cases)],
    )


def digest(campaign: Campaign, machine: Machine, hostname: str, nodelist: str | None = None) -> str:
    """SHA-256 of all that must be the same for a run to be resumed.

    Title, description and `expect` are not included, nor are defaults: a new option of a later
    version does not prevent resuming. The host's name is included if the machine is this host.
    """
    asked = campaign.model_dump(
        mode="json",
        exclude_defaults=True,
        exclude={"title": True, "description": True, "workloads": {"__all__": {"expect"}}},
    )
    site = machine.model_dump(mode="json", exclude_defaults=True)
    what: dict[str, Any] = {"campaign": asked, "machine": site}
    if machine.origins.policy == "same_host":
        what["hostname"] = hostname
    if nodelist is not None:
        what["nodelist"] = nodelist
    return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()
